/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How often a connection manager asks the kernel for neighbours. */
#include "cm_world.hpp"

namespace sirdma::twin::cm
{

namespace
{

using namespace test;

class CmHops : public Cm {
protected:
	/* An ID that waits for 127.1.x.y */
	u32 waiting(u32 n, u32 timeout_ms = 3'600'000)
	{
		const u32 id = client.create();
		in_addr to = {.s_addr = htobe32(0x7f010000 + n)};

		EXPECT_EQ(client.resolve(id, IpAddress(to), timeout_ms), 0);
		return id;
	}
	/* How many queries there were in 100 ms, and at most in one call of expire() */
	std::pair<unsigned, unsigned> queries()
	{
		unsigned all = 0, most = 0;

		for (int ms = 0; ms < 100; ++ms) {
			client.next_hops_asked = 0;
			pass(second / 1000);
			all += client.next_hops_asked;
			most = std::max(most, client.next_hops_asked);
		}
		return {all, most};
	}
	/* Events of this type, of which there are no others */
	unsigned events(u32 type)
	{
		unsigned n = 0;

		for (; client.has_event(); ++n)
			EXPECT_EQ(client.event().event, type);
		return n;
	}
};

TEST_F(CmHops, ThousandsOfIdsAskForOneNeighbourOnce)
{
	constexpr unsigned ids = 5000;

	client.next_hop_error = EAGAIN;
	for (unsigned i = 0; i < ids; ++i)
		waiting(1);
	pass(second / 10);

	const auto [all, most] = queries();

	EXPECT_EQ(most, 1u);
	EXPECT_LE(all, 10u) << "one in 10 ms";
	EXPECT_GT(all, 0u);
	client.next_hop_error = 0;
	pass(second / 10);
	EXPECT_EQ(events(RDMA_CM_EVENT_ADDR_RESOLVED), ids) << "an ID is forgotten";
}

TEST_F(CmHops, ThousandsOfNeighboursAreAskedForAFewAtATime)
{
	constexpr unsigned ids = 3000;

	client.next_hop_error = EAGAIN;
	for (unsigned i = 0; i < ids; ++i)
		waiting(i);

	const auto [all, most] = queries();

	EXPECT_LE(most, HopCache::queries_max);
	EXPECT_LE(all, 11 * HopCache::queries_max);
	EXPECT_GT(all, 5 * HopCache::queries_max);
	/* Nobody waits for ever: as many periods as there are batches of neighbours, and the longest wait. */
	client.next_hop_error = 0;
	for (unsigned ms = 0; ms < 10 * (ids / HopCache::queries_max + 2) + 80; ++ms)
		pass(second / 1000);
	EXPECT_EQ(events(RDMA_CM_EVENT_ADDR_RESOLVED), ids);
	EXPECT_EQ(client.agent.holdings().timers, 0u);
}

/* IDs that ask for the first time are not behind those that ask again and again. */
TEST_F(CmHops, EachNeighbourHasItsTurn)
{
	constexpr unsigned ids = 1000;

	client.next_hop_error = EAGAIN;
	for (unsigned i = 0; i < ids; ++i)
		waiting(i);
	for (unsigned ms = 0; ms < 2 * 10 * ids / HopCache::queries_max; ++ms)
		pass(second / 1000);
	for (unsigned i = 0; i < ids; ++i)
		EXPECT_GT(client.asked_for[i], 1u) << "only by its own command: " << i;
}

/* Also of IDs behind many others that wait for their turn to ask. */
TEST_F(CmHops, TimeoutsDoNotWaitForOtherNeighbours)
{
	constexpr unsigned others = 3000, ids = 3000, timeout = 100;

	client.next_hop_error = EAGAIN;
	for (unsigned i = 0; i < others; ++i)
		waiting(i);
	for (unsigned i = 0; i < ids; ++i)
		waiting(others + i, timeout);
	for (unsigned ms = 0; ms < timeout - 1; ++ms)
		pass(second / 1000);
	EXPECT_FALSE(client.has_event());
	pass(second / 1000);
	EXPECT_EQ(events(RDMA_CM_EVENT_ADDR_ERROR), ids);
	EXPECT_EQ(client.agent.holdings().ids, others + ids);
	client.next_hop_error = 0;
	for (unsigned ms = 0; ms < 10 * (others / HopCache::queries_max + 2) + 80; ++ms)
		pass(second / 1000);
	EXPECT_EQ(events(RDMA_CM_EVENT_ADDR_RESOLVED), others);
	EXPECT_EQ(client.agent.holdings().timers, 0u);
}

/* Where a query takes long, the agent's thread leaves the lock and the processor to others all the same. */
TEST_F(CmHops, SlowQueriesAreFewerAtATime)
{
	constexpr unsigned ids = 3000;
	const u64 slow = second / 1000 / 2;
	u64 most = 0, busy = 0;

	client.next_hop_error = EAGAIN;
	for (unsigned i = 0; i < ids; ++i)
		waiting(i);
	pass(second / 10);
	client.next_hop_ns = slow;

	const u64 began = now;

	for (int i = 0; i < 100; ++i) {
		now = std::max(now, client.agent.next_due());

		const u64 before = now;

		client.agent.expire();
		most = std::max(most, now - before);
		busy += now - before;
	}
	EXPECT_LT(most, HopCache::busy_max_ns + slow);
	EXPECT_LT(busy, (now - began) / 4);
	EXPECT_GT(busy, (now - began) / 10);
}

} // namespace

} // namespace sirdma::twin::cm
