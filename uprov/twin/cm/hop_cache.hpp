/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How often the agent asks the kernel for neighbours. Each question is some system calls under the
 * agent's lock, and thousands of IDs may wait for neighbours that are not there.
 */
#pragma once

#include <algorithm>
#include <span>

#include "cm/host.hpp"

namespace sirdma::twin::cm
{

class HopCache {
public:
	/*
	 * An answer is used for this long, and in this time there are at most questions_max
	 * questions; the first one of an ID, which its rdma_resolve_addr() asks, is not among them.
	 * One takes 30 us (2,000 calls of check_next_hop() for a neighbour that does not answer,
	 * on a busy 2.x GHz core), so that the lock is held for 2 ms, and a fifth of a processor is used. A
	 * neighbour on a LAN answers in less than 1 ms.
	 */
	static constexpr u64 period_ns = 10'000'000;
	static constexpr unsigned questions_max = 64;

	/* Before the questions that are asked at @now, under one hold of the lock */
	void begin(u64 now) noexcept
	{
		if (now < period_end())
			return;
		began_ = now;
		count_ = 0;
	}

	/* @err: Host::next_hop(). False: there were too many questions, ask again in the next period. */
	bool find(Host &host, const Port &port, const IpAddress &dst, int &err) noexcept
	{
		const std::span known(answers_, count_);
		const auto same = std::find_if(known.begin(), known.end(), [&](const Answer &a) {
			return a.port == &port && a.dst == dst;
		});

		if (same != known.end()) {
			err = same->err;
			return true;
		}
		if (count_ == questions_max)
			return false;
		err = host.next_hop(port, dst);
		answers_[count_++] = {&port, dst, err};
		return true;
	}

	/* From when on there are new answers */
	u64 period_end() const noexcept { return began_ + period_ns; }
	void clear() noexcept { count_ = 0; }

private:
	struct Answer {
		const Port *port = nullptr;
		IpAddress dst;
		int err = 0;
	};

	Answer answers_[questions_max];
	unsigned count_ = 0;
	u64 began_ = 0; /* when the period began */
};

} // namespace sirdma::twin::cm
