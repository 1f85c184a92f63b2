/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Limit how often the agent asks the kernel for neighbours. Each query takes some system calls
 * under the agent's lock, and thousands of IDs may wait for neighbours that are absent.
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
	 * The agent uses an answer for one period, and makes at most queries_max queries in a
	 * period. The first query of an ID, which its rdma_resolve_addr() makes, is not among them.
	 * A query takes 30 us (2,000 calls of check_next_hop() for a neighbour that does not
	 * answer, on a busy 2.x GHz core), so the agent holds the lock for 2 ms in a period and
	 * uses a fifth of a processor. A neighbour on a LAN answers in less than 1 ms.
	 */
	static constexpr u64 period_ns = 10'000'000;
	static constexpr unsigned queries_max = 64;
	/*
	 * Where a query takes longer (a sanitizer, a large table of neighbours, an emulated
	 * processor), no other query begins once the queries of a period have taken this time. The
	 * time of queries is not a part of the period, so the lock is free for period_ns between
	 * two periods of queries.
	 */
	static constexpr u64 busy_max_ns = 2'000'000;

	/*
	 * Start a new period if the last one is over at @now. The agent calls this before find(),
	 * once per hold of the lock.
	 */
	void begin(u64 now) noexcept
	{
		if (now < period_end())
			return;
		began_ = now;
		busy_ns_ = 0;
		count_ = 0;
	}

	/*
	 * @err gets the result of Host::next_hop(). Returns false if there were too many queries:
	 * try again in the next period.
	 */
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
		if (count_ == queries_max || busy_ns_ >= busy_max_ns)
			return false;

		const u64 began = host.now_ns();

		err = host.next_hop(port, dst);
		busy_ns_ += host.now_ns() - began;
		answers_[count_++] = {&port, dst, err};
		return true;
	}

	/* The time from which on there are new answers */
	u64 period_end() const noexcept { return began_ + busy_ns_ + period_ns; }
	void clear() noexcept { count_ = 0; }

private:
	struct Answer {
		const Port *port = nullptr;
		IpAddress dst;
		int err = 0;
	};

	Answer answers_[queries_max];
	unsigned count_ = 0;
	u64 began_ = 0; /* time when the period began */
	u64 busy_ns_ = 0; /* time that the queries of the period have taken */
};

} // namespace sirdma::twin::cm
