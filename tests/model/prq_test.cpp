// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Page requests: the device asks its driver for memory that a page list lacks, tells it of accesses that fail, and says
// when what an entry named is used no more.
#include "transport.hpp"

#include <atomic>
#include <thread>

extern "C" {
#include "model/qp.h"
#include "model/qp_cmd.h"
#include "sirdma/prq.h"
}

using namespace sirdma::test;

namespace
{

constexpr u64 ms = 1'000'000, page = 4096;
constexpr u64 cookie = 0x1122334455667788;
constexpr u32 pd = 1; // of all queue pairs and regions
constexpr u32 length =
	4 * page; // of messages, one request of a READ; page 2 is the one that is taken

struct Request {
	u32 list, qpn;
	u64 block;
	u32 count;
	bool failed;
	u64 gen, waited;
};

// The driver's side of a node's queue.
class Prq {
public:
	Prq(Node &node, u32 entries) : node_(node), entries_(entries)
	{
		ring_ = node.host.alloc(entries * sizeof(sirdma_page_request));
	}
	u32 create(u64 size, u64 addr)
	{
		sirdma_cqp_prq cmd{};

		cmd.size = size;
		cmd.ctx = cookie;
		cmd.addr = addr;
		cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_CREATE_PRQ);
		return node_.drv.exec(cmd);
	}
	u32 create() { return create(entries_, ring_.pa); }
	u32 destroy()
	{
		sirdma_cqp_prq cmd{};

		cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_DESTROY_PRQ);
		return node_.drv.exec(cmd);
	}
	std::optional<Request> next(bool ack = true)
	{
		const auto &e = static_cast<sirdma_page_request *>(ring_.va)[cons_];
		const u64 blocks = __atomic_load_n(&e.blocks, __ATOMIC_ACQUIRE), list = e.list;

		if (!!(blocks & SIRDMA_PRQ_VALID) != polarity_)
			return std::nullopt;
		if (++cons_ == entries_) {
			cons_ = 0;
			polarity_ = !polarity_;
		}
		if (ack)
			this->ack(1);
		return Request{
			.list = static_cast<u32>(SIRDMA_GET(SIRDMA_PRQ_PBLE, list)),
			.qpn = static_cast<u32>(SIRDMA_GET(SIRDMA_PRQ_QPN, list)),
			.block = SIRDMA_GET(SIRDMA_PRQ_BLOCK, blocks) |
				 SIRDMA_GET(SIRDMA_PRQ_BLOCK_HI, blocks) << 32,
			.count = static_cast<u32>(SIRDMA_GET(SIRDMA_PRQ_COUNT, blocks)),
			.failed = !!(blocks & SIRDMA_PRQ_FAILED),
			.gen = SIRDMA_GET(SIRDMA_PRQ_GEN, list),
			.waited = SIRDMA_GET(SIRDMA_PRQ_WAITED, list),
		};
	}
	void ack(u32 count) { node_.host.write32(SIRDMA_REG_PRQACK, count); }

private:
	Node &node_;
	u32 entries_, cons_ = 0;
	bool polarity_ = true;
	sirdma_dma_mem ring_;
};

class PageRequests : public Transport {
protected:
	PageRequests() : at_a(a, 16), at_b(b, 16) {}
	void SetUp() override
	{
		ASSERT_EQ(at_a.create(), SIRDMA_CQP_OK);
		ASSERT_EQ(at_b.create(), SIRDMA_CQP_OK);
	}
	static void set(Node &node, size_t block, u64 mark)
	{
		node.drv.write_pble(node.mr.first_pble + static_cast<u32>(block),
				    mark ? mark : node.mem->blocks()[block]);
	}
	// The mark that answers the latest requests of the queue pair
	u64 error_of(const Qp &qp)
	{
		snic_qp *at = snic_qp_get(qp.node.host.dev(), qp.id);
		const u64 gen = at->asks.gen;

		snic_qp_put(at);
		return SIRDMA_PBLE_ERROR | SIRDMA_PREP(SIRDMA_PBLE_ERROR_QPN, qp.id) |
		       SIRDMA_PREP(SIRDMA_PBLE_ERROR_GEN, gen);
	}
	Wr wr(u8 op, u32 len)
	{
		Wr wr{.op = op, .sges = {a.sge(0, len)}};

		if (op != SIRDMA_OP_SEND) {
			wr.remote = b.va();
			wr.rkey = b.mr.stag();
		}
		return wr;
	}
	void expect_request(Prq &prq, const Node &node, const Qp &qp, u32 block, u32 count,
			    bool failed = false)
	{
		const auto got = prq.next();

		ASSERT_TRUE(got);
		EXPECT_EQ(got->list, node.mr.first_pble);
		EXPECT_EQ(got->qpn, qp.id);
		EXPECT_EQ(got->block, block);
		EXPECT_EQ(got->count, count);
		EXPECT_EQ(got->failed, failed);
		EXPECT_NE(got->gen, 0u);
	}
	// Requests for the memory that the queue pair has made since then come first.
	void expect_failure(Prq &prq, const Qp &qp, u64 block)
	{
		auto got = prq.next();

		while (got && !got->failed)
			got = prq.next();
		ASSERT_TRUE(got);
		EXPECT_EQ(got->qpn, qp.id);
		EXPECT_EQ(got->block, block);
	}
	// The number of requests that the device makes in so many seconds
	u32 wait_absent(u32 seconds)
	{
		u32 asked = 0;

		for (u32 s = 0; s < seconds; s++) {
			settle(1000 * ms);
			while (at_a.next())
				asked++;
		}
		return asked;
	}
	Prq at_a, at_b;
};

// A region of all addresses of the peer. The tests name its addresses as they like, and give them b's memory.
class SparseRequests : public PageRequests {
protected:
	static constexpr u32 per_table = SIRDMA_PBLE_PER_LEAF;
	// The last page but one of what the list can name: all levels of the tree count.
	static constexpr u64 far_page = (1ull << SIRDMA_PBL_SPARSE_BITS) - 2;

	void SetUp() override
	{
		PageRequests::SetUp();
		mr.idx = 9;
		mr.access |= SIRDMA_ACCESS_BIND_WINDOW;
		mr.level = SIRDMA_PBL_LEVEL_SPARSE;
		mr.first_pble = table();
		ASSERT_EQ(b.drv.reg_mr(mr), SIRDMA_CQP_OK);
	}
	u32 table()
	{
		const u32 first = b.drv.alloc_pbles(per_table, per_table);

		for (u32 i = 0; i < per_table; i++)
			b.drv.write_pble(first + i, SIRDMA_PBLE_ABSENT);
		return first;
	}
	// Index of the entry for page @page in @table, @level levels above the leaves.
	static u32 entry(u32 table, u64 page, u32 level)
	{
		return table + static_cast<u32>((page >> 9 * level) % per_table);
	}
	// Make the tables above @page, and return its leaf.
	u32 grow(u64 page)
	{
		u32 at = mr.first_pble;

		for (u32 level = 3; level; level--) {
			const u32 next = table();

			b.drv.write_pble(entry(at, page, level), next);
			at = next;
		}
		return at;
	}
	void put(u32 leaf, u64 page, size_t block)
	{
		b.drv.write_pble(entry(leaf, page, 0), b.mem->blocks()[block]);
	}
	Wr far(u8 op, u64 at_page, u32 len)
	{
		return {.op = op,
			.sges = {a.sge(0, len)},
			.remote = at_page * page,
			.rkey = mr.stag()};
	}
	// The first request since then; later ones are repetitions.
	void expect_asked(const Qp &qp, u64 block, u32 count)
	{
		const auto got = at_b.next();

		ASSERT_TRUE(got);
		EXPECT_EQ(got->list, mr.first_pble);
		EXPECT_EQ(got->qpn, qp.id);
		EXPECT_EQ(got->block, block);
		EXPECT_EQ(got->count, count);
		EXPECT_FALSE(got->failed);
		while (at_b.next())
			;
	}
	// The peer tries again.
	void again(Link &l)
	{
		while (at_b.next())
			;
		l.b.kick(true);
		settle(100 * ms);
	}
	MrParams mr;
};

} // namespace

TEST_F(PageRequests, ResponderAsksForAllThatAWriteNeeds)
{
	auto l = link();

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	const auto event = b.drv.next_aeqe();
	ASSERT_TRUE(event);
	EXPECT_EQ(event->code, u32{SIRDMA_AE_PAGE_REQUEST});
	EXPECT_EQ(event->event_ctx, cookie);
	EXPECT_FALSE(at_a.next());
	set(b, 2, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(a.data(), b.data(), length), 0);
}

TEST_F(PageRequests, ResponderAsksForTheRestOfAReceiveBuffer)
{
	auto l = link();

	set(b, 1, SIRDMA_PBLE_ABSENT);
	l->b.recv({b.sge(0, 8 * page)});
	l->a.post(wr(SIRDMA_OP_SEND, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 1, 7);
	set(b, 1, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(wait_recv(l->b).len, length);
}

TEST_F(PageRequests, ReadIsAnsweredAtOnceWhenTheDriverRings)
{
	auto l = link();

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	set(b, 2, 0);
	l->b.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(), length), 0);
}

TEST_F(PageRequests, ReadWhoseFirstByteIsAbsentNamesItsWholeLength)
{
	auto l = link();

	set(b, 0, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_READ, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 0, 4);
	EXPECT_GE(b.stat(SIRDMA_STAT_RNR_NAK_SENT), 1u);
	set(b, 0, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

TEST_F(PageRequests, RequesterAsksForItsOwnMemoryAndContinuesWhenTheDriverRings)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(a, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		settle(ms / 10);
		expect_request(at_a, a, l->a, 2, 2);
		set(a, 2, 0);
		l->a.kick(true);
		expect_ok(wait(l->a, true, ms), op);
		while (at_a.next())
			;
	}
}

// The device waits for a slow driver, as one has whose memory is on a file server, and asks about once a second.
TEST_F(PageRequests, OwnMemoryMayComeLate)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(a, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		const u32 asked = wait_absent(300);
		EXPECT_GT(asked, 280u);
		EXPECT_LT(asked, 310u);
		l->a.kick(true);
		EXPECT_LT(wait_absent(2), 5u) << "a kick does not begin again with short waits";
		EXPECT_FALSE(l->a.poll(true));
		set(a, 2, 0);
		expect_ok(wait_send(l->a), op);
	}
}

TEST_F(PageRequests, ALongWaitEndsWithItsQueuePairOrItsQueue)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(a, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		wait_absent(100);
		l->a.error();
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		EXPECT_EQ(wait_absent(5), 0u);
	}
	auto l = link();
	l->a.post(wr(SIRDMA_OP_READ, length));
	wait_absent(100);
	ASSERT_EQ(at_a.destroy(), SIRDMA_CQP_OK);
	expect_error(wait(l->a, true, 2000 * ms), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
}

// Responses that are dropped because memory is absent are answers. What else is lost takes no retry from them.
TEST_F(PageRequests, AnswersToAWaitingReadTakeNoRetry)
{
	auto l = link({.retry_cnt = 1});

	fabric.faults().reorder = 0.3; // responses of one READ arrive when it was repeated
	set(a, 2, SIRDMA_PBLE_ABSENT);
	for (u32 n = 0; n < 4; n++)
		l->a.post(wr(SIRDMA_OP_READ, length));
	for (u32 n = 0; n < 3000; n++) {
		settle(1000); // responses are on their way for longer
		l->a.kick(true);
		while (at_a.next())
			;
	}
	EXPECT_FALSE(l->a.poll(true));
	fabric.faults() = {};
	set(a, 2, 0);
	l->a.kick(true);
	for (u32 n = 0; n < 4; n++)
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
}

TEST_F(PageRequests, AtomicAsksForOneBlock)
{
	auto l = link();

	set(b, 0, SIRDMA_PBLE_ABSENT);
	l->a.post({.op = SIRDMA_OP_FETCH_ADD,
		   .sges = {a.sge(0, 8)},
		   .remote = b.va(),
		   .rkey = b.mr.stag(),
		   .swap_add = 1});
	settle(ms / 10);
	expect_request(at_b, b, l->b, 0, 1);
	set(b, 0, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
}

TEST_F(PageRequests, MemoryThatIsNotThereFailsTheAccess)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(b, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		settle(ms / 10);
		expect_request(at_b, b, l->b, 2, 2);
		set(b, 2, error_of(l->b));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
		EXPECT_EQ(l->b.state(), SIRDMA_QPS_ERR);
		expect_failure(at_b, l->b, 2);
		// The responder's own event names an access violation.
		bool violation = false;
		while (const auto event = b.drv.next_aeqe())
			violation |= event->code == SIRDMA_AE_AMP_BOUNDS_VIOLATION;
		EXPECT_TRUE(violation);
		set(b, 2, 0);
		while (at_b.next())
			;
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_HMC_FAULTS), 0u);
	EXPECT_GE(b.stat(SIRDMA_STAT_PAGE_ERRORS), 2u);
}

TEST_F(PageRequests, OwnMemoryThatIsNotThereFailsTheRequest)
{
	for (u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		auto l = link();

		set(a, 2, SIRDMA_PBLE_ABSENT);
		l->a.post(wr(op, length));
		settle(ms / 10);
		expect_request(at_a, a, l->a, 2, 2);
		set(a, 2, error_of(l->a));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
		expect_failure(at_a, l->a, 2);
		set(a, 2, 0);
		while (at_a.next())
			;
	}
}

TEST_F(PageRequests, ReceiveBufferThatIsNotThereFailsTheReceive)
{
	auto l = link();

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->b.recv({b.sge(0, length)});
	l->a.post(wr(SIRDMA_OP_SEND, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	set(b, 2, error_of(l->b));
	expect_error(wait_recv(l->b), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_OP, SIRDMA_VENDOR_REM_OP);
}

// The driver found no memory for one queue pair; another one came later, and there may be memory by then.
TEST_F(PageRequests, TheErrorOfAnotherQueuePairIsAbsentMemory)
{
	auto other = link(), l = link();

	set(b, 2, error_of(other->b));
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	set(a, 2, error_of(other->a));
	set(b, 2, 0);
	settle(ms / 10);
	set(a, 2, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(a.stat(SIRDMA_STAT_PAGE_ERRORS) + b.stat(SIRDMA_STAT_PAGE_ERRORS), 0u);
	EXPECT_EQ(other->b.state(), SIRDMA_QPS_RTS);
}

// A mark that the queue pair did not wait for answered somebody who had its number before, or itself before its reset.
TEST_F(PageRequests, TheErrorOfAnEarlierTimeIsAbsentMemory)
{
	auto l = link();

	set(b, 2, error_of(l->b));
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	set(b, 2, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(b.stat(SIRDMA_STAT_PAGE_ERRORS), 0u);
}

// The driver answers a request when the queue pair was reset already, and asks for other memory by then.
TEST_F(PageRequests, TheErrorOfBeforeAResetIsAbsentMemory)
{
	auto l = link();

	set(b, 2, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 2, 2);
	const u64 mark = error_of(l->b);
	for (Qp *qp : {&l->a, &l->b}) {
		ASSERT_EQ(qp->modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
		qp->empty_rings();
	}
	while (at_b.next())
		;
	l->connect();
	set(b, 1, SIRDMA_PBLE_ABSENT);
	set(b, 2, mark);
	l->a.post(wr(SIRDMA_OP_WRITE, length));
	settle(ms / 10);
	expect_request(at_b, b, l->b, 1, 3);
	EXPECT_NE(error_of(l->b), mark);
	set(b, 1, 0);
	settle(1000 * ms);
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(l->b.state(), SIRDMA_QPS_RTS);
	set(b, 2, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(b.stat(SIRDMA_STAT_PAGE_ERRORS), 0u);
}

// A request tells the driver for how long its queue pair has sent and received nothing new.
TEST_F(PageRequests, SayForHowLongTheQueuePairWaits)
{
	constexpr u64 unit = 1ull << SIRDMA_PRQ_WAITED_SHIFT;
	auto l = link({.rnr_retry = 7});

	for (const u8 op : {SIRDMA_OP_WRITE, SIRDMA_OP_READ}) {
		for (const bool own : {false, true}) {
			SCOPED_TRACE(testing::Message() << "op " << int{op} << ", own " << own);
			Node &node = own ? a : b;
			Prq &prq = own ? at_a : at_b;
			u64 waited = 0;

			// Block 0: the responder to a READ that has begun would not wait for so long.
			set(node, 0, SIRDMA_PBLE_ABSENT);
			set(node, 3, SIRDMA_PBLE_ABSENT);
			l->a.post(wr(op, length));
			settle(ms / 10);
			const auto first = prq.next();
			ASSERT_TRUE(first);
			EXPECT_EQ(first->block, 0u);
			EXPECT_EQ(first->waited, 0u);
			for (u32 n = 0; n < 20; n++) {
				while (const auto got = prq.next()) {
					EXPECT_GE(got->waited, std::max<u64>(waited, 1));
					EXPECT_LE(got->waited, n + 1);
					waited = got->waited;
				}
				settle(unit);
			}
			EXPECT_EQ(waited, 15u);
			// With the memory there is progress, as far as the next block.
			while (prq.next())
				;
			set(node, 0, 0);
			std::optional<Request> next;
			ASSERT_TRUE(fabric.run_until(
				[&] { return (next = prq.next()).has_value(); }, 2 * unit));
			EXPECT_EQ(next->block, 3u);
			EXPECT_EQ(next->waited, 0u);
			set(node, 3, 0);
			expect_ok(wait_send(l->a), op);
			while (prq.next())
				;
		}
	}
}

// The queue pair that waits asks again each time that it tries.
TEST_F(PageRequests, RequestsThatFindNoRoomAreMadeAgain)
{
	auto l = link();
	u32 seen = 0;

	set(a, 0, SIRDMA_PBLE_ABSENT);
	l->a.post(wr(SIRDMA_OP_WRITE, page));
	settle(20000 * ms); // some 30 tries
	EXPECT_EQ(a.stat(SIRDMA_STAT_PAGE_REQUESTS), 16u);
	EXPECT_GT(a.stat(SIRDMA_STAT_PAGE_REQUESTS_LOST), 0u);
	EXPECT_TRUE(silent(l->a));
	while (at_a.next(false))
		seen++;
	EXPECT_EQ(seen, 16u);
	at_a.ack(16);
	l->a.kick(true);
	expect_request(at_a, a, l->a, 0, 1);
	EXPECT_FALSE(at_a.next());
	set(a, 0, 0);
	l->a.kick(true);
	expect_ok(wait(l->a, true, ms), SIRDMA_OP_WRITE);
}

TEST_F(PageRequests, CommandsCheckTheQueue)
{
	Prq other(a, 16);

	EXPECT_EQ(other.create(), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(at_a.destroy(), SIRDMA_CQP_OK);
	EXPECT_EQ(at_a.destroy(), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(other.create(3, page), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(other.create(16, 8), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(other.create(), SIRDMA_CQP_OK);
}

TEST_F(PageRequests, ResetEndsTheQueue)
{
	a.host.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	EXPECT_EQ(snic_reg_read(a.host.dev(), SIRDMA_REG_STATUS), SIRDMA_STATUS_READY);
	EXPECT_EQ(a.host.dev()->prq.entries, 0u);
}

// A data path that found an entry before it was written may still use the memory.
TEST_F(PageRequests, SyncWaitsForTheUsersOfAnEntry)
{
	auto l = link();
	snic_qp *qp = snic_qp_get(b.host.dev(), l->b.id);
	std::atomic<bool> synced{false};

	ASSERT_NE(qp, nullptr);
	port_lock(&qp->lock);
	set(b, 2, SIRDMA_PBLE_ABSENT);
	std::thread driver([&] {
		b.host.write32(SIRDMA_REG_PBLESYNC, pd);
		synced = true;
	});
	for (int i = 0; i < 1000; i++) {
		std::this_thread::yield();
		ASSERT_FALSE(synced);
	}
	port_unlock(&qp->lock);
	snic_qp_put(qp);
	driver.join();
	EXPECT_TRUE(synced);
}

TEST_F(PageRequests, SyncWaitsForNoOtherProtectionDomain)
{
	auto l = link();
	snic_qp *qp = snic_qp_get(b.host.dev(), l->b.id);

	ASSERT_NE(qp, nullptr);
	port_lock(&qp->lock);
	b.host.write32(SIRDMA_REG_PBLESYNC, pd + 1);
	port_unlock(&qp->lock);
	snic_qp_put(qp);
}

// A reset destroys all queue pairs. It takes none out of the sight of a driver that takes memory back.
TEST_F(PageRequests, SyncWaitsForTheUsersOfAnEntryDuringAReset)
{
	auto l = link();
	snic_dev *dev = b.host.dev();
	snic_qp *qp = snic_qp_get(dev, l->b.id);
	std::atomic<bool> synced{false};
	const auto is_there = [&] {
		u32 id = l->b.id;
		return snic_table_seek(&dev->qps, &id) && id == l->b.id;
	};

	ASSERT_NE(qp, nullptr);
	port_lock(&qp->lock);
	std::thread reset([&] { snic_qp_destroy_all(dev); });
	for (int i = 0; i < 1000 && is_there(); i++)
		std::this_thread::yield();
	std::thread driver([&] {
		b.host.write32(SIRDMA_REG_PBLESYNC, pd);
		synced = true;
	});
	for (int i = 0; i < 1000 && !synced; i++)
		std::this_thread::yield();
	EXPECT_FALSE(synced);
	port_unlock(&qp->lock);
	snic_qp_put(qp);
	driver.join();
	reset.join();
	EXPECT_EQ(l->b.destroy(), SIRDMA_CQP_NO_OBJECT);
}

// The device asks with whatever levels of tables there are, and finds the page once all of them are.
TEST_F(SparseRequests, AsksUntilTheTablesReachThePage)
{
	auto l = link({.rnr_retry = 7});
	u32 at = mr.first_pble;

	l->a.post(far(SIRDMA_OP_WRITE, far_page, 2 * page));
	settle(ms / 10);
	for (u32 level = 3; level; level--) {
		expect_asked(l->b, far_page, 2);
		const u32 next = table();
		b.drv.write_pble(entry(at, far_page, level), next);
		at = next;
		again(*l);
	}
	expect_asked(l->b, far_page, 2);
	put(at, far_page, 4);
	again(*l);
	expect_asked(l->b, far_page + 1, 1);
	put(at, far_page + 1, 2);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(a.data(), b.data(4 * page), page), 0);
	EXPECT_EQ(memcmp(a.data(page), b.data(2 * page), page), 0);
	b.mem->fill(77);
	l->a.post(far(SIRDMA_OP_READ, far_page, 2 * page));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(), b.data(4 * page), page), 0);
	EXPECT_EQ(memcmp(a.data(page), b.data(2 * page), page), 0);
	EXPECT_EQ(b.stat(SIRDMA_STAT_HMC_FAULTS), 0u);
}

TEST_F(SparseRequests, MarkAtAnyLevelFailsTheAccess)
{
	for (u32 level = 0; level < 4; level++) {
		auto l = link();
		u32 at = mr.first_pble;

		for (u32 above = 3; above > level; above--) {
			const u32 next = table();
			b.drv.write_pble(entry(at, far_page, above), next);
			at = next;
		}
		l->a.post(far(SIRDMA_OP_WRITE, far_page, page));
		settle(ms / 10);
		expect_asked(l->b, far_page, 1);
		b.drv.write_pble(entry(at, far_page, level), error_of(l->b));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_REM_ACCESS, SIRDMA_VENDOR_REM_ACCESS);
		expect_failure(at_b, l->b, far_page);
		b.drv.write_pble(entry(mr.first_pble, far_page, 3), SIRDMA_PBLE_ABSENT);
	}
	EXPECT_EQ(b.stat(SIRDMA_STAT_HMC_FAULTS), 0u);
}

TEST_F(SparseRequests, MarkOfAnotherQueuePairIsNone)
{
	auto l = link(), other = link();

	b.drv.write_pble(entry(mr.first_pble, far_page, 3), error_of(other->b));
	l->a.post(far(SIRDMA_OP_WRITE, far_page, page));
	settle(ms / 10);
	expect_asked(l->b, far_page, 1);
	put(grow(far_page), far_page, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

TEST_F(SparseRequests, EndsWhereTheListEnds)
{
	const u64 end = SIRDMA_PBL_SPARSE_BYTES;

	put(grow(far_page), far_page + 1, 0);
	served(*link(), SIRDMA_OP_WRITE, mr.stag(), end - 10, 10);
	denied(SIRDMA_OP_WRITE, mr.stag(), end - 10, 11);
	denied(SIRDMA_OP_WRITE, mr.stag(), end, 1);
	denied(SIRDMA_OP_WRITE, mr.stag(), ~0ull - 5, 3);
}

// A table is one page of HMC space. Whatever else an entry says is an error of the driver, and harms nobody else.
TEST_F(SparseRequests, TablesThatAreNoneAreFaults)
{
	const u64 bad[] = {mr.first_pble + 4, 1ull << 28, 0xfffffffffffffe00,
			   SIRDMA_CQP_FIRST_PBLE & ~511ull};

	for (u64 entry_value : bad) {
		const u64 faults = b.stat(SIRDMA_STAT_HMC_FAULTS);
		auto l = link();

		b.drv.write_pble(entry(mr.first_pble, far_page, 3), entry_value);
		l->a.post(far(SIRDMA_OP_WRITE, far_page, page));
		EXPECT_TRUE(wait_send(l->a).error);
		EXPECT_GT(b.stat(SIRDMA_STAT_HMC_FAULTS), faults) << std::hex << entry_value;
	}
	// A tree that names itself ends nevertheless: the walk has four steps.
	const u64 self = (1ull << SIRDMA_PBL_SPARSE_BITS) - 1;
	b.drv.write_pble(entry(mr.first_pble, self, 3), mr.first_pble);
	auto l = link();
	l->a.post(far(SIRDMA_OP_WRITE, self, 8));
	settle(ms / 10);
	EXPECT_TRUE(l->a.poll(true) || at_b.next());
}

TEST_F(SparseRequests, MayHaveWindowsFarFromItsBeginning)
{
	const u64 at = (far_page - 1) * page + 100;
	const u32 leaf = grow(far_page);
	u32 idx = 30;

	put(leaf, far_page - 1, 1);
	put(leaf, far_page, 2);
	for (int zero_based : {0, 1}) {
		auto l = link();
		const sirdma_bind bind = {.addr = at,
					  .length = page,
					  .window = idx << 8 | 7,
					  .region = mr.stag(),
					  .rights = SIRDMA_ACCESS_REMOTE_WRITE,
					  .type1 = !zero_based,
					  .zero_based = zero_based};
		const u64 first = zero_based ? 0 : at;

		ASSERT_EQ(b.drv.alloc_mw(idx, !zero_based), SIRDMA_CQP_OK);
		l->b.post({.op = SIRDMA_OP_BIND_MW, .bind = bind});
		expect_ok(wait_send(l->b), SIRDMA_OP_BIND_MW);
		a.mem->fill(idx++);
		served(*l, SIRDMA_OP_WRITE, bind.window, first, page);
		EXPECT_EQ(memcmp(a.data(), b.data(page + 100), page), 0);
		// A window asks for blocks of the region's list.
		b.drv.write_pble(entry(leaf, far_page, 0), SIRDMA_PBLE_ABSENT);
		l->a.post({.op = SIRDMA_OP_WRITE,
			   .sges = {a.sge(0, page)},
			   .remote = first,
			   .rkey = bind.window});
		settle(ms / 10);
		expect_asked(l->b, far_page, 1);
		put(leaf, far_page, 2);
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
		denied(*l, SIRDMA_OP_WRITE, bind.window, first + 1, page);
	}
}

TEST_F(SparseRequests, RegistrationNamesNoPartOfIt)
{
	const auto status = [&](auto change) {
		MrParams p = mr;

		p.idx = 10;
		change(p);
		return b.drv.reg_mr(p);
	};

	EXPECT_EQ(status([](auto &p) { p.len = 4096; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.va = 4096; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.zero_based = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.all_memory = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.may_fault = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.block_shift = 21; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.replace = true; }), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(status([](auto &p) { p.first_pble++; }), SIRDMA_CQP_BAD_ADDRESS);
	EXPECT_EQ(status([](auto &p) { p.first_pble = 0xffffe00; }), SIRDMA_CQP_BAD_ADDRESS);
	// Nor is it replaced by another one.
	MrParams other = b.mr;
	other.idx = mr.idx;
	other.key = mr.key;
	other.replace = true;
	EXPECT_EQ(b.drv.reg_mr(other), SIRDMA_CQP_BAD_STATE);
	EXPECT_EQ(b.drv.dealloc_stag(mr.stag()), SIRDMA_CQP_OK);
}
