/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The device's access to memory on demand where the process is not as usual: in a child of the test each. */
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "../harness/forbid_syscall.hpp"
#include "process_memory.hpp"

namespace sirdma::twin::test
{

namespace
{

int status_of(pid_t child)
{
	int status = -1;

	EXPECT_EQ(waitpid(child, &status, 0), child);
	return status;
}

/* Does the main thread exist no more, except for its entry in the table of processes? */
bool main_thread_is_gone()
{
	std::ifstream file("/proc/self/task/" + std::to_string(getpid()) + "/stat");
	std::string line;

	return std::getline(file, line) && line.find(") Z ") != std::string::npos;
}

bool reads_and_writes(ProcessMemory &memory)
{
	port_dma *dma = &memory;
	u64 word = 5, got = 0;
	const u64 addr = reinterpret_cast<uintptr_t>(&word), seven = 7;

	return !port_dma_read(dma, addr, &got, sizeof(got)) && got == 5 &&
	       !port_dma_write(dma, addr, &seven, sizeof(seven)) && word == 7;
}

TEST(ProcessMemory, IsThereWhenTheMainThreadHasEnded)
{
	const pid_t child = fork();

	ASSERT_GE(child, 0);
	if (!child) {
		std::thread([] {
			ProcessMemory memory;

			for (int i = 0; i < 5000 && !main_thread_is_gone(); i++)
				usleep(1000);
			_exit(main_thread_is_gone() && reads_and_writes(memory) ? 0 : 1);
		}).detach();
		syscall(SYS_exit, 0); /* this thread alone */
	}
	EXPECT_EQ(status_of(child), 0);
}

TEST(ProcessMemory, AnAtomicThatASandboxForbidsIsAnError)
{
	if (!ProcessMemory::may_fault())
		GTEST_SKIP() << "no memory on demand here";

	const pid_t child = fork();

	ASSERT_GE(child, 0);
	if (!child) {
		ProcessMemory memory;
		port_dma *dma = &memory;
		u64 word = 5, before = 0;
		const u64 addr = reinterpret_cast<uintptr_t>(&word);

		if (port_dma_atomic(dma, addr, PORT_ATOMIC_ADD, 1, 0, &before) || word != 6)
			_exit(1);
		if (!sirdma::test::forbid_syscall(SYS_clone, EPERM))
			_exit(2);
		_exit(port_dma_atomic(dma, addr, PORT_ATOMIC_ADD, 1, 0, &before) == -EFAULT &&
				      word == 6 ?
			      0 :
			      3);
	}
	EXPECT_EQ(status_of(child), 0);
}

} // namespace

} // namespace sirdma::twin::test
