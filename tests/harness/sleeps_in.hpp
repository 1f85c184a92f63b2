/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <sys/syscall.h>
#include <sys/types.h>

namespace sirdma::test
{

/* Does the thread of this process sleep in a futex of @object? */
template <typename Object> bool sleeps_in(pid_t thread, const Object &object)
{
	std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/syscall");
	long call;
	uintptr_t addr;
	const auto first = reinterpret_cast<uintptr_t>(&object);

	return file >> call >> std::hex >> addr && call == SYS_futex && addr >= first &&
	       addr < first + sizeof(object);
}

} // namespace sirdma::test
