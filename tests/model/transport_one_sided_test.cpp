// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Requests that the host executes in the memory of the peer: the queue pair is as usable as ever while the host is busy with one,
// may fail or be reset meanwhile, and asks once for each request.
#include <future>
#include <thread>

#include "transport.hpp"

using namespace sirdma::test;

namespace
{

constexpr u32 length = 64;

class OneSided : public Transport {
protected:
	// The host copies between the memory of the two nodes, as the peer would.
	bool copy(const snic_one_sided &request)
	{
		u8 *const at = b.data(request.va - b.va());

		u64 before;

		if (request.op >= SNIC_ONE_SIDED_FETCH_ADD) {
			memcpy(&before, at, sizeof(before));
			memcpy(request.data, &before, sizeof(before));

			const u64 after = request.op == SNIC_ONE_SIDED_FETCH_ADD ?
						  before + request.swap_add :
					  before == request.compare ? request.swap_add :
								      before;

			memcpy(at, &after, sizeof(after));
		} else if (request.op == SNIC_ONE_SIDED_WRITE)
			memcpy(at, request.data, request.len);
		else
			memcpy(request.data, at, request.len);
		return true;
	}
	Wr wr(u8 op, size_t from = 0, size_t to = 4096)
	{
		return {.op = op,
			.sges = {a.sge(from, length)},
			.remote = b.va(to),
			.rkey = b.mr.stag()};
	}
	u64 executed() { return a.stat(SIRDMA_STAT_ONE_SIDED); }
	u64 sent() { return a.stat(SIRDMA_STAT_TX_PKTS); }

	// Does a thread do @work while the host executes a request?
	template <typename Work> static bool finishes(Work work, std::thread &thread)
	{
		std::promise<void> promise;
		auto done = promise.get_future();

		thread = std::thread([work, promise = std::move(promise)]() mutable {
			work();
			promise.set_value();
		});
		return done.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
	}
};

} // namespace

// A host that might wait is called without locks.
class OneSidedWithEitherHost : public OneSided, public ::testing::WithParamInterface<bool> {
protected:
	OneSidedWithEitherHost() { a.host.one_sided_waits = GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Hosts, OneSidedWithEitherHost, ::testing::Bool(),
			 [](const auto &p) { return p.param ? "MayWait" : "DoNotWait"; });

TEST_P(OneSidedWithEitherHost, SendNothingIfTheHostExecutesThem)
{
	auto l = link();

	a.host.one_sided = [&](const snic_one_sided &request) { return copy(request); };
	l->a.post(wr(SIRDMA_OP_WRITE));
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(a.data(), b.data(4096), length), 0);
	l->a.post(wr(SIRDMA_OP_READ, 1000, 8192));
	expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	EXPECT_EQ(memcmp(a.data(1000), b.data(8192), length), 0);
	EXPECT_EQ(executed(), 2u);
	EXPECT_EQ(sent(), 0u);
	// Its PSNs are those of the next one.
	a.host.one_sided = nullptr;
	l->a.post(wr(SIRDMA_OP_WRITE, 2000));
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(a.data(2000), b.data(4096), length), 0);
}

// The host's note is its own, whether or not it executed the request.
TEST_P(OneSidedWithEitherHost, KeepTheHostsNote)
{
	auto l = link();
	std::vector<u64> notes;
	bool executes = false;

	a.host.one_sided = [&](const snic_one_sided &request) {
		notes.push_back(*request.note);
		*request.note = notes.size() * 100;
		return executes && copy(request);
	};
	// The host refuses the first one; the second one is sent without asking.
	for (unsigned i = 0; i < 2; ++i) {
		l->a.post(wr(SIRDMA_OP_WRITE));
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	}
	executes = true;
	for (unsigned i = 0; i < 3; ++i) {
		l->a.post(wr(SIRDMA_OP_READ, 100 * i));
		expect_ok(wait_send(l->a), SIRDMA_OP_READ);
	}
	EXPECT_EQ(notes, (std::vector<u64>{0, 100, 200, 300}));
	EXPECT_EQ(executed(), 3u);
}

// If the value cannot be placed the peer executes the atomic.
TEST_F(OneSided, ExecuteAtomicsWithoutWaiting)
{
	auto l = link();
	MrParams region = a.mr;
	unsigned asked = 0;
	const auto post = [&](u8 op, u64 swap_add, u64 compare) {
		Wr request = wr(op);

		request.sges[0] = {a.va(), SIRDMA_ATOMIC_LEN, region.stag()};
		request.swap_add = swap_add;
		request.compare = compare;
		l->a.post(request);
	};
	u64 value;

	region.idx = 9;
	ASSERT_EQ(a.drv.reg_mr(region), SIRDMA_CQP_OK);
	memset(b.data(4096), 0, sizeof(value));
	a.host.one_sided_waits = false;
	a.host.one_sided = [&](const snic_one_sided &request) {
		++asked;
		return copy(request);
	};
	post(SIRDMA_OP_FETCH_ADD, 5, 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	post(SIRDMA_OP_CMP_SWAP, 9, 5);
	expect_ok(wait_send(l->a), SIRDMA_OP_CMP_SWAP);
	memcpy(&value, a.data(), sizeof(value));
	EXPECT_EQ(value, 5u);
	EXPECT_EQ(asked, 2u);
	EXPECT_EQ(sent(), 0u);
	ASSERT_EQ(a.drv.dealloc_stag(region.stag()), SIRDMA_CQP_OK);
	post(SIRDMA_OP_FETCH_ADD, 1, 0);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	EXPECT_EQ(asked, 2u);
	memcpy(&value, b.data(4096), sizeof(value));
	EXPECT_EQ(value, 10u) << "executed once, by the peer";
}

// By the host or by the peer, also if the value cannot be placed.
TEST_F(OneSided, ExecuteAtomicsOnce)
{
	auto l = link();
	MrParams region = a.mr;
	unsigned asked = 0;
	const auto at = [](const u8 *p) {
		u64 value;

		memcpy(&value, p, sizeof(value));
		return value;
	};
	const auto atomic = [&](u8 op, u64 swap_add, u64 compare = 0) {
		Wr request = wr(op);

		request.sges[0].len = SIRDMA_ATOMIC_LEN;
		request.swap_add = swap_add;
		request.compare = compare;
		return request;
	};
	const u64 start = at(b.data(4096));

	region.idx = 9;
	ASSERT_EQ(a.drv.reg_mr(region), SIRDMA_CQP_OK);
	a.host.one_sided = [&](const snic_one_sided &request) {
		++asked;
		return copy(request);
	};
	l->a.post(atomic(SIRDMA_OP_FETCH_ADD, 5));
	expect_ok(wait_send(l->a), SIRDMA_OP_FETCH_ADD);
	EXPECT_EQ(at(a.data()), start);
	l->a.post(atomic(SIRDMA_OP_CMP_SWAP, 9, start + 5));
	expect_ok(wait_send(l->a), SIRDMA_OP_CMP_SWAP);
	EXPECT_EQ(at(a.data()), start + 5);
	l->a.post(atomic(SIRDMA_OP_CMP_SWAP, 10, 8));
	expect_ok(wait_send(l->a), SIRDMA_OP_CMP_SWAP);
	EXPECT_EQ(at(a.data()), 9u);
	EXPECT_EQ(at(b.data(4096)), 9u);
	EXPECT_EQ(asked, 3u);
	EXPECT_EQ(sent(), 0u);

	// The region of the value ends while the host is busy.
	a.host.one_sided = [&](const snic_one_sided &request) {
		++asked;
		EXPECT_EQ(a.drv.dealloc_stag(region.stag()), SIRDMA_CQP_OK);
		return copy(request);
	};

	Wr lost = atomic(SIRDMA_OP_FETCH_ADD, 1);

	lost.sges[0].stag = region.stag();
	l->a.post(lost);
	expect_error(wait_send(l->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	EXPECT_EQ(at(b.data(4096)), 10u);
	EXPECT_EQ(asked, 4u);
	EXPECT_EQ(sent(), 0u);
	EXPECT_EQ(executed(), 3u);

	// It is gone before: the request is one of the peer's, as ever.
	auto other = link();

	other->a.post(lost);
	expect_error(wait_send(other->a), SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	EXPECT_EQ(at(b.data(4096)), 11u);
	EXPECT_EQ(asked, 4u);
}

// The host may wait for a page of the peer's memory: whoever else uses the queue pair or the local region does not.
TEST_F(OneSided, HoldNothingUpWhileTheHostExecutesThem)
{
	auto l = link(), other = link();
	MrParams region = a.mr;
	std::thread thread;
	unsigned asked = 0;
	bool finished = true;

	region.idx = 9;
	ASSERT_EQ(a.drv.reg_mr(region), SIRDMA_CQP_OK);
	l->b.recv({b.sge(20000, length)});
	const auto meanwhile = [&] {
		// A request of the peer with more answers than are sent at once, the next request, which
		// waits, a command, and the region's end.
		l->b.post({.op = SIRDMA_OP_READ,
			   .sges = {b.sge(1 << 20, 1 << 20)},
			   .remote = a.va(),
			   .rkey = a.mr.stag()});
		EXPECT_FALSE(wait_send(l->b).error);
		l->a.post({.op = SIRDMA_OP_SEND, .sges = {a.sge(500, length)}});
		a.host.kick(l->a.id);
		EXPECT_EQ(l->a.state(), SIRDMA_QPS_RTS);
		EXPECT_EQ(a.drv.dealloc_stag(region.stag()), SIRDMA_CQP_OK);
		other->b.recv({b.sge(30000, length)});
		other->a.post({.op = SIRDMA_OP_SEND, .sges = {a.sge(500, length)}});
		expect_ok(wait_send(other->a), SIRDMA_OP_SEND);
		EXPECT_TRUE(silent(l->a));
	};

	a.host.one_sided = [&](const snic_one_sided &request) {
		if (!asked++)
			finished = finishes(meanwhile, thread);
		return copy(request);
	};

	Wr first = wr(SIRDMA_OP_WRITE);

	first.sges[0].stag = region.stag();
	l->a.post(first);
	thread.join();
	EXPECT_TRUE(finished) << "a lock, or a reference to the region, is held";
	EXPECT_EQ(b.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u) << "the answers waited for the host";
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(memcmp(a.data(), b.data(4096), length), 0);
	expect_ok(wait_send(l->a), SIRDMA_OP_SEND);
	EXPECT_EQ(wait_recv(l->b).len, length);
	EXPECT_EQ(memcmp(a.data(500), b.data(20000), length), 0);
	EXPECT_EQ(asked, 1u);
}

// A command would hold up those after it.
TEST_F(OneSided, AreSentIfACommandBeginsThem)
{
	auto l = link();

	a.host.one_sided = [&](const snic_one_sided &) {
		ADD_FAILURE() << "the command waits for the host";
		return false;
	};
	ASSERT_EQ(l->a.modify(SIRDMA_QPS_SQD, 0), SIRDMA_CQP_OK);
	l->a.post(wr(SIRDMA_OP_WRITE));
	EXPECT_TRUE(silent(l->a));
	ASSERT_EQ(l->a.modify(SIRDMA_QPS_RTS, 0), SIRDMA_CQP_OK);
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
}

// An acknowledgement timer that was armed for an earlier request fires while the host is busy.
TEST_F(OneSided, WaitForTheHostWithoutADeadline)
{
	auto l = link();
	unsigned asked = 0;

	// Without the host the first one is refused, and the second one sent unasked.
	for (unsigned i = 0; i < 2; ++i) {
		l->a.post(wr(SIRDMA_OP_WRITE));
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	}
	a.host.one_sided = [&](const snic_one_sided &request) {
		++asked;
		settle(100'000'000);
		a.host.kick(l->a.id);
		EXPECT_TRUE(silent(l->a));
		return copy(request);
	};
	l->a.post(wr(SIRDMA_OP_WRITE, 300));
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(asked, 1u);
	EXPECT_EQ(executed(), 1u);
	EXPECT_EQ(a.stat(SIRDMA_STAT_ACK_TIMEOUTS), 0u);
}

TEST_F(OneSided, AreFlushedIfTheQueuePairFailsMeanwhile)
{
	for (const bool done : {true, false}) {
		auto l = link();

		a.host.one_sided = [&](const snic_one_sided &) {
			l->a.error();
			return done;
		};
		l->a.post(wr(SIRDMA_OP_READ));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
		settle();
		EXPECT_TRUE(silent(l->a)) << "it has completed already";
		// Later requests are flushed as well, so the device is told of them.
		l->a.post(wr(SIRDMA_OP_WRITE));
		expect_error(wait_send(l->a), SIRDMA_FLUSH_GENERAL, SIRDMA_VENDOR_FLUSH);
	}
	EXPECT_EQ(executed(), 0u);
}

// The queue pair is connected anew and executes another request, while the thread of the former one is still in the host.
TEST_F(OneSided, DoNotEndTheRequestsOfALaterConnection)
{
	auto l = link();
	std::promise<void> enter, leave;
	unsigned asked = 0;
	u64 notes[3] = {};
	std::thread second;

	a.host.one_sided = [&](const snic_one_sided &request) {
		const unsigned n = asked++;

		notes[n] = *request.note;
		*request.note = 77;
		if (n == 0) {
			for (Qp *qp : {&l->a, &l->b}) {
				EXPECT_EQ(qp->modify(SIRDMA_QPS_RESET, 0), SIRDMA_CQP_OK);
				qp->empty_rings();
			}
			l->connect();
			second = std::thread([&] { l->a.post(wr(SIRDMA_OP_WRITE, 600)); });
			enter.get_future().wait();
		} else if (n == 1) {
			enter.set_value();
			leave.get_future().wait();
		}
		return copy(request);
	};
	l->a.post(wr(SIRDMA_OP_WRITE));
	EXPECT_TRUE(silent(l->a));
	EXPECT_EQ(executed(), 0u) << "the first request was none of this connection";
	leave.set_value();
	second.join();
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(executed(), 1u);
	EXPECT_EQ(memcmp(a.data(600), b.data(4096), length), 0);
	l->a.post(wr(SIRDMA_OP_WRITE, 700));
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(asked, 3u);
	EXPECT_EQ(notes[0], 0u);
	EXPECT_EQ(notes[1], 0u) << "the note is that of the former connection";
	EXPECT_EQ(notes[2], 77u);
	settle();
	EXPECT_TRUE(silent(l->a));
}

/*
 * After a refusal the host may rely on it that the peer has executed the request before it is asked again. The payload is missing
 * when the request is to be sent, twice.
 */
TEST_F(OneSided, AskOnceForEachRequest)
{
	auto l = link();
	UserMemory mem(a.host.dma(), 1 << 16, 12, true);
	MrParams mr;
	unsigned asked = 0;

	mr.idx = 9;
	mr.va = mem.va();
	mr.len = mem.size();
	mr.may_fault = true;
	a.drv.describe(mr, mem, 0);
	ASSERT_EQ(a.drv.reg_mr(mr), SIRDMA_CQP_OK);
	mem.fill(5);
	a.host.one_sided = [&](const snic_one_sided &) {
		if (!asked++)
			a.host.dma().be_busy(2);
		return false;
	};

	Wr wr = this->wr(SIRDMA_OP_WRITE);

	wr.sges[0] = {mr.va, length, mr.stag()};
	l->a.post(wr);
	EXPECT_EQ(asked, 1u);
	a.host.kick(l->a.id);
	a.host.kick(l->a.id);
	EXPECT_EQ(asked, 1u) << "the peer has not executed it yet";
	expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	EXPECT_EQ(asked, 1u);
	EXPECT_EQ(memcmp(mem.data(), b.data(4096), length), 0);
	for (unsigned i = 0; i < 4; ++i) {
		l->a.post(this->wr(SIRDMA_OP_WRITE, 100 * i));
		expect_ok(wait_send(l->a), SIRDMA_OP_WRITE);
	}
	EXPECT_GT(asked, 1u);
}
