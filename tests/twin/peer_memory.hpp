/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What tests need in which one process writes to the memory of another. */
#pragma once

#include <cstdio>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>

#include <gtest/gtest.h>

#include "fd.hpp"
#include "guarded_copy.hpp"

namespace sirdma::twin::test
{

/* The memory of a process, as an initiator opens it. Systems may forbid that. */
inline Fd open_memory_of(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return Fd(open(path, O_RDWR | O_CLOEXEC));
}

/* An object that this process has in common with its children. */
template <typename T> class WithChildren {
public:
	WithChildren()
		: object_(new (mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0)) T())
	{
	}
	~WithChildren() { munmap(object_, sizeof(T)); }
	WithChildren(const WithChildren &) = delete;
	WithChildren &operator=(const WithChildren &) = delete;

	T &operator*() const { return *object_; }
	T *operator->() const { return object_; }

private:
	T *const object_;
};

class GuardedCopies : public ::testing::Test {
protected:
	void SetUp() override
	{
		if (!can_guard_copies())
			GTEST_SKIP() << "no restartable sequences";
	}
};

} // namespace sirdma::twin::test
