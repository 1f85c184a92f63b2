// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fork.hpp"

#include <atomic>
#include <pthread.h>

namespace sirdma
{

namespace
{

std::atomic<unsigned> depth;

} // namespace

int count_forks() noexcept
{
	static const int err = pthread_atfork(nullptr, nullptr, [] { ++depth; });

	return err;
}

unsigned fork_depth() noexcept
{
	return depth.load(std::memory_order_relaxed);
}

} // namespace sirdma
