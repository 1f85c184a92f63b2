// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What process_mrelease(2) may take of a process that ends: it frees memory as the OOM killer's reaper does, which does not wait
// for devices.
#include "odp.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbs
{
namespace
{

using odp::on_demand;
using odp::page;

constexpr size_t length = 64 * page;

// The part of the child: registers memory and touches it, and if @used, lets the device have it. Returns its exit status if it fails.
int hold_a_region(const Device &of, bool used)
{
	auto own = Device::open(of.name, {});
	if (!own)
		return 2;
	const Pd pd(ibv_alloc_pd(own->context.get()));
	const Mapping memory = Mapping::anonymous(length);
	if (!pd || !memory)
		return 3;
	// khugepaged would take the pages from the device to make a huge one. It fails on kernels without huge pages.
	madvise(memory.data(), length, MADV_NOHUGEPAGE);
	// A registration enters the pages that are there.
	const Mr mr(ibv_reg_mr(pd.get(), memory.data(), length, on_demand));
	if (!mr)
		return 4;
	std::memset(memory.data(), 1, length);
	ibv_sge all = {.addr = reinterpret_cast<uintptr_t>(memory.data()),
		       .length = length,
		       .lkey = mr->lkey};
	if (used && ibv_advise_mr(pd.get(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				  IBV_ADVISE_MR_FLAG_FLUSH, &all, 1))
		return 5;
	ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
	raise(SIGSTOP);
	return 6;
}

class OnDemandReaper : public odp::OnDemand {
protected:
	void SetUp() override
	{
		OnDemand::SetUp();
		if (!IsSkipped() && options().unpinned)
			GTEST_SKIP() << "the device is a part of the process";
	}

	void TearDown() override
	{
		if (child_ > 0) {
			kill(child_, SIGKILL);
			ptrace(PTRACE_CONT, child_, nullptr, nullptr);
			waitpid(child_, nullptr, 0);
		}
		OnDemand::TearDown();
	}

	// Starts the child, and ends it as far as the moment before it gives its memory back.
	void kill_a_child(bool used)
	{
		int status = 0;

		child_ = fork();
		ASSERT_GE(child_, 0);
		if (!child_)
			_exit(hold_a_region(device(), used));
		ASSERT_EQ(waitpid(child_, &status, 0), child_);
		ASSERT_TRUE(WIFSTOPPED(status)) << status;
		ASSERT_EQ(ptrace(PTRACE_SETOPTIONS, child_, nullptr, PTRACE_O_TRACEEXIT), 0);
		ASSERT_EQ(kill(child_, SIGKILL), 0);
		ASSERT_EQ(waitpid(child_, &status, 0), child_);
		ASSERT_EQ(status >> 8, SIGTRAP | PTRACE_EVENT_EXIT << 8);
	}

	// 0, or an errno
	int release_memory() const
	{
		const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, child_, 0));
		const long rc = syscall(SYS_process_mrelease, pidfd, 0);
		const int err = rc ? errno : 0;

		close(pidfd);
		return err;
	}

	pid_t child_ = -1;
};

TEST_F(OnDemandReaper, GetsMemoryThatTheDeviceDoesNotUse)
{
	kill_a_child(false);
	ASSERT_FALSE(HasFatalFailure());
	EXPECT_EQ(release_memory(), 0);
}

TEST_F(OnDemandReaper, DoesNotGetMemoryThatTheDeviceUses)
{
	kill_a_child(true);
	ASSERT_FALSE(HasFatalFailure());
	EXPECT_EQ(release_memory(), EAGAIN);
}

} // namespace
} // namespace verbs
