/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The send ring over many laps, full and emptied, and what it refuses.
 */
#include <cerrno>
#include <cstring>
#include <deque>
#include <random>

#include "ibverbs_private.hpp"
#include "rings.hpp"

namespace sirdma::test
{

namespace
{

struct Posted {
	uint64_t wr_id;
	uint32_t length;
};

uint32_t total(const std::vector<ibv_sge> &sges)
{
	uint32_t sum = 0;

	for (const auto &sge : sges)
		sum += sge.length;
	return sum;
}

} // namespace

TEST(SendQueue, KeepsOrderAndPolarityOverManyLaps)
{
	std::mt19937 random(20);
	TestQp qp({.sq_quanta = 512});
	TestCq cq;
	std::deque<Posted> posted;
	uint64_t wr_id = 0;

	for (int step = 0; step < 20000; ++step) {
		auto sges = make_sges(random() % (SIRDMA_MAX_SGE + 1));

		if (random() % 2) {
			const int err = post(*qp, make_send(sges, wr_id));

			if (!err)
				posted.push_back({wr_id++, total(sges)});
			else
				ASSERT_EQ(err, ENOMEM);
		} else if (auto seen = qp.sends.next_request()) {
			ASSERT_FALSE(posted.empty());

			const auto done = complete(qp, cq, *seen);

			ASSERT_TRUE(done);
			EXPECT_EQ(done->wr_id, posted.front().wr_id);
			EXPECT_EQ(done->byte_len, posted.front().length);
			posted.pop_front();
		} else {
			EXPECT_TRUE(posted.empty());
		}
	}
	EXPECT_GT(wr_id, 5000u);
}

TEST(SendQueue, NopsFillAChunkThatIsTooShort)
{
	TestQp qp;
	auto small = make_sges(1);
	auto large = make_sges(SIRDMA_MAX_SGE); /* 7 quanta */

	ASSERT_EQ(post(*qp, make_send(small)), 0);
	ASSERT_EQ(post(*qp, make_send(small)), 0);
	ASSERT_EQ(post(*qp, make_send(large)), 0);

	EXPECT_EQ(qp.sends.next()->op, SIRDMA_OP_SEND);
	EXPECT_EQ(qp.sends.next()->op, SIRDMA_OP_SEND);
	for (int i = 2; i < SIRDMA_SQ_CHUNK_QUANTA; ++i)
		EXPECT_EQ(qp.sends.next()->op, SIRDMA_OP_NOP);
	auto seen = qp.sends.next();
	ASSERT_TRUE(seen);
	EXPECT_EQ(seen->position, uint32_t{SIRDMA_SQ_CHUNK_QUANTA});
	EXPECT_EQ(seen->quanta, 7u);
}

/* A request begins only where the last one posted there does, whatever was there before. */
TEST(SendQueue, ADeviceCannotCompleteTheMiddleOfARequest)
{
	TestQp qp;
	sirdma_sq &sq = qp->send.queue();
	auto small = make_sges(1);
	auto large = make_sges(5); /* 3 quanta */
	__u64 wr_id = 0;
	__u32 length = 0;
	const auto only_the_first = [&](const char *when) {
		SCOPED_TRACE(when);
		ASSERT_EQ(post(*qp, make_send(large, 7)), 0);
		for (__u32 position : {1u, 2u, 3u, 100u})
			EXPECT_FALSE(sirdma_sq_complete(&sq, position, &wr_id, &length))
				<< position;
		EXPECT_EQ(sq.tail, 0u);
		EXPECT_TRUE(sirdma_sq_complete(&sq, 0, &wr_id, &length));
		EXPECT_EQ(wr_id, 7u);
		EXPECT_EQ(sq.tail, sq.head);
		sirdma_sq_reset(&sq);
	};

	for (int i = 0; i < 3; ++i)
		ASSERT_EQ(post(*qp, make_send(small)), 0);
	sirdma_sq_reset(&sq);
	only_the_first("after a reset");

	for (int i = 0; i < 3; ++i) {
		sirdma_send send{};

		send.opcode = SIRDMA_WR_SEND;
		ASSERT_EQ(sirdma_sq_take(&sq, &send), 0);
	}
	sirdma_sq_rewind(&sq);
	only_the_first("after requests that were not published");
}

/* As many requests as create_qp promised fit whatever their sizes. */
TEST(SendQueue, PromisedDepthFitsAnyMix)
{
	for (uint32_t shift = 0; shift <= 3; ++shift) {
		const uint32_t max_sge = shift == 0 ? 0 : (2u << shift) - 2;
		const uint32_t wrs = (1024u - SIRDMA_SQ_RSVD_QUANTA) >> shift;

		for (uint32_t seed = 0; seed < 50; ++seed) {
			std::mt19937 random(seed);
			TestQp qp({.sq_quanta = 1024, .max_send_sge = SIRDMA_MAX_SGE});

			for (uint32_t i = 0; i < wrs; ++i) {
				auto sges = make_sges(std::min<uint32_t>(random() % (max_sge + 1),
									 SIRDMA_MAX_SGE));
				ASSERT_EQ(post(*qp, make_send(sges)), 0)
					<< "shift " << shift << " seed " << seed << " wr " << i;
			}
		}
	}
}

/* The same in the smallest rings, which lie in a pool, and wherever in a chunk the head is. */
TEST(SendQueue, PromisedDepthFitsSmallRings)
{
	for (uint32_t shift = 0; shift <= 3; ++shift) {
		const uint32_t max_sge = shift == 0 ? 0 : (2u << shift) - 2;
		const uint32_t quanta = sirdma_sq_pool_quanta(1, shift, SIRDMA_MIN_WQ_QUANTA, 1024);
		const uint32_t wrs = sirdma_sq_wrs(quanta, shift);

		ASSERT_GE(wrs, 1u);
		for (uint32_t seed = 0; seed < 200; ++seed) {
			std::mt19937 random(seed);
			TestQp qp({.sq_quanta = quanta, .max_send_sge = SIRDMA_MAX_SGE});
			TestCq cq;
			auto none = make_sges(0);

			for (uint32_t i = 0; i < seed; ++i) {
				ASSERT_EQ(post(*qp, make_send(none)), 0);
				ASSERT_TRUE(complete(qp, cq, *qp.sends.next_request()));
			}
			for (uint32_t i = 0; i < wrs; ++i) {
				auto sges = make_sges(std::min<uint32_t>(random() % (max_sge + 1),
									 SIRDMA_MAX_SGE));
				ASSERT_EQ(post(*qp, make_send(sges)), 0)
					<< "shift " << shift << " seed " << seed << " wr " << i;
			}
		}
	}
}

TEST(SendQueue, FullRingIsEnomemAndKeepsWhatWasPosted)
{
	TestQp qp({.sq_quanta = 512});
	auto sges = make_sges(1);
	uint32_t taken = 0;

	while (post(*qp, make_send(sges, taken)) == 0)
		++taken;
	EXPECT_EQ(taken, 512u - SIRDMA_SQ_RSVD_QUANTA + 1);
	EXPECT_EQ(post(*qp, make_send(sges)), ENOMEM);
	for (uint32_t i = 0; i < taken; ++i)
		ASSERT_TRUE(qp.sends.next());
	EXPECT_FALSE(qp.sends.next());
}

TEST(SendQueue, CompletionOfASignaledRequestFreesTheUnsignaledBeforeIt)
{
	TestQp qp({.sq_quanta = 512});
	TestCq cq;
	auto sges = make_sges(3);
	const auto free = [&] { return sirdma_sq_free(&qp->send.queue()); };
	const uint32_t before = free();

	for (int i = 0; i < 20; ++i)
		ASSERT_EQ(post(*qp, make_send(sges, 1, IBV_WR_SEND, 0)), 0);
	ASSERT_EQ(post(*qp, make_send(sges, 2)), 0);
	EXPECT_LT(free(), before);

	SeenWqe last;
	while (auto seen = qp.sends.next_request())
		last = *seen;
	EXPECT_TRUE(last.signaled);

	const auto done = complete(qp, cq, last);
	ASSERT_TRUE(done);
	EXPECT_EQ(done->wr_id, 2u);
	EXPECT_EQ(free(), before);
	EXPECT_FALSE(complete(qp, cq, last)) << "the same CQE twice";
}

TEST(SendQueue, AtomicsCarryTheirOperands)
{
	TestQp qp({.max_send_sge = 2, .max_inline = 16});
	TestCq cq;
	std::vector<ibv_sge> result = {{.addr = 0x7000, .length = 64, .lkey = 0x55}};
	ibv_send_wr swap = make_send(result, 1, IBV_WR_ATOMIC_CMP_AND_SWP);
	ibv_send_wr add = make_send(result, 2, IBV_WR_ATOMIC_FETCH_AND_ADD);

	swap.wr.atomic = {.remote_addr = 0x9000, .compare_add = 11, .swap = 22, .rkey = 0x66};
	add.wr.atomic = {.remote_addr = 0x9008, .compare_add = 33, .swap = 44, .rkey = 0x66};
	ASSERT_EQ(post(*qp, swap), 0);
	ASSERT_EQ(post(*qp, add), 0);

	const auto first = qp.sends.next_request();
	ASSERT_TRUE(first);
	EXPECT_EQ(first->op, SIRDMA_OP_CMP_SWAP);
	EXPECT_EQ(first->remote, 0x9000u);
	EXPECT_EQ(first->key, 0x66u);
	EXPECT_EQ(first->swap_add, 22u);
	EXPECT_EQ(first->compare, 11u);
	EXPECT_EQ(first->sges[0].addr, 0x7000u);
	EXPECT_EQ(first->sges[0].lkey, 0x55u);
	const auto second = qp.sends.next_request();
	ASSERT_TRUE(second);
	EXPECT_EQ(second->op, SIRDMA_OP_FETCH_ADD);
	EXPECT_EQ(second->swap_add, 33u);
	EXPECT_EQ(second->compare, 0u);
	/* The device says nothing of the length: eight bytes, whatever room there is. */
	const auto done = complete(qp, cq, *first);
	ASSERT_TRUE(done);
	EXPECT_EQ(done->opcode, IBV_WC_COMP_SWAP);
	EXPECT_EQ(done->byte_len, 8u);

	std::vector<ibv_sge> small = make_sges(1, 7), two = make_sges(2, 8), none;
	for (auto *sges : {&small, &two, &none})
		EXPECT_EQ(post(*qp, make_send(*sges, 1, IBV_WR_ATOMIC_FETCH_AND_ADD)), EINVAL);
	EXPECT_EQ(post(*qp, make_send(result, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_INLINE)),
		  EINVAL);
}

TEST(SendQueue, AtomicWritesAreEightBytes)
{
	TestQp qp({.max_send_sge = 2, .max_inline = 0});
	TestCq cq;
	const uint64_t value = 0x1122334455667788;
	std::vector<ibv_sge> one = {{.addr = 0x7000, .length = 8, .lkey = 0x55}};
	std::vector<ibv_sge> here = {
		{.addr = reinterpret_cast<uintptr_t>(&value), .length = 8, .lkey = 0}};
	std::vector<ibv_sge> halves(2, {.addr = 0x7000, .length = 4, .lkey = 0x55});
	const auto write = [](std::vector<ibv_sge> &sges, unsigned flags = 0) {
		ibv_send_wr wr = make_send(sges, 1, IBV_WR_ATOMIC_WRITE, flags);

		wr.wr.rdma = {.remote_addr = 0x9000, .rkey = 0x66};
		return wr;
	};

	ASSERT_EQ(post(*qp, write(one)), 0);
	/* Inline data of an ATOMIC WRITE needs no room that the queue pair was made with. */
	ASSERT_EQ(post(*qp, write(here, IBV_SEND_INLINE)), 0);
	ASSERT_EQ(post(*qp, write(halves)), 0);

	const auto first = qp.sends.next_request();
	ASSERT_TRUE(first);
	EXPECT_EQ(first->op, SIRDMA_OP_ATOMIC_WRITE);
	EXPECT_EQ(first->quanta, 1u);
	EXPECT_EQ(first->remote, 0x9000u);
	EXPECT_EQ(first->key, 0x66u);
	ASSERT_EQ(first->sges.size(), 1u);
	EXPECT_EQ(first->sges[0].addr, 0x7000u);
	EXPECT_EQ(first->sges[0].lkey, 0x55u);
	const auto second = qp.sends.next_request();
	ASSERT_TRUE(second && second->inline_data);
	EXPECT_EQ(second->quanta, 1u);
	ASSERT_EQ(second->inline_data->size(), 8u);
	EXPECT_FALSE(memcmp(second->inline_data->data(), &value, 8));
	const auto third = qp.sends.next_request();
	ASSERT_TRUE(third);
	EXPECT_EQ(third->sges.size(), 2u);
	const auto done = complete(qp, cq, *first);
	ASSERT_TRUE(done);
	EXPECT_EQ(done->opcode, IBV_WC_ATOMIC_WRITE);
	EXPECT_EQ(done->byte_len, 8u);

	std::vector<ibv_sge> none, small = make_sges(1, 4), large = make_sges(2, 8);
	for (auto *sges : {&none, &small, &large}) {
		EXPECT_EQ(post(*qp, write(*sges)), EINVAL);
		EXPECT_EQ(post(*qp, write(*sges, IBV_SEND_INLINE)), EINVAL);
	}
	TestQp lacking({.lacks = SIRDMA_SEND_OP_PLACEMENT});
	EXPECT_EQ(post(*lacking, write(one)), EOPNOTSUPP);
	TestQp unreliable({.qp_type = SIRDMA_SEND_ON_UC});
	EXPECT_EQ(post(*unreliable, write(one)), EINVAL);
}

TEST(SendQueue, FlushesSayWhatTheyAskFor)
{
	TestQp qp;
	TestCq cq;
	const sirdma_flush flush = {.length = 0xffffffff,
				    .placement = SIRDMA_FLUSH_TO_GLOBAL,
				    .level = SIRDMA_FLUSH_REGION};
	sirdma_send work{};

	work.wr_id = 3;
	work.opcode = SIRDMA_WR_FLUSH;
	work.flags = SIRDMA_SEND_SIGNALED;
	work.remote_addr = 0x9000;
	work.key = 0x66;
	work.flush = &flush;
	EXPECT_TRUE(sirdma_flush_ok(&flush));
	qp->send.start();
	ASSERT_EQ(qp->send.take(work), 0);
	ASSERT_EQ(qp->send.complete(), 0);

	const auto seen = qp.sends.next_request();
	ASSERT_TRUE(seen);
	EXPECT_EQ(seen->op, SIRDMA_OP_FLUSH);
	EXPECT_EQ(seen->quanta, 1u);
	EXPECT_EQ(seen->remote, 0x9000u);
	EXPECT_EQ(seen->key, 0x66u);
	EXPECT_EQ(seen->length, 0xffffffffu);
	EXPECT_EQ(seen->placement, SIRDMA_FLUSH_TO_GLOBAL);
	EXPECT_EQ(seen->level, SIRDMA_FLUSH_REGION);
	const auto done = complete(qp, cq, *seen);
	ASSERT_TRUE(done);
	EXPECT_EQ(int{done->opcode}, int{SIRDMA_WC_FLUSH});
	EXPECT_EQ(done->byte_len, 0u);

	const sirdma_flush wrong[] = {
		{.length = 1ull << 32, .placement = 1, .level = 0},
		{.length = 8, .placement = 0, .level = 0},
		{.length = 8, .placement = 4, .level = 0},
		{.length = 8, .placement = 1, .level = 2},
	};
	for (const sirdma_flush &one : wrong)
		EXPECT_FALSE(sirdma_flush_ok(&one));
	/* ibv_post_send() cannot say what is to be flushed. */
	auto sges = make_sges(1, 8);
	EXPECT_EQ(post(*qp, make_send(sges, 1, static_cast<ibv_wr_opcode>(SIRDMA_WR_FLUSH))),
		  EINVAL);
}

TEST(SendQueue, AtomicsOfADeviceThatHasNone)
{
	TestQp qp({.lacks = SIRDMA_SEND_OP_ATOMIC});
	auto sges = make_sges(1, 8);

	EXPECT_EQ(post(*qp, make_send(sges, 1, IBV_WR_ATOMIC_FETCH_AND_ADD)), EOPNOTSUPP);
	EXPECT_EQ(post(*qp, make_send(sges, 1, IBV_WR_RDMA_READ)), 0);
}

TEST(SendQueue, WritesInvalidations)
{
	TestQp qp({.max_send_sge = 2, .max_inline = 16});
	auto sges = make_sges(2);
	ibv_send_wr local = make_send(sges, 1, IBV_WR_LOCAL_INV);
	ibv_send_wr send = make_send(sges, 2, IBV_WR_SEND_WITH_INV);
	ibv_send_wr solicited = make_send(sges, 3, IBV_WR_SEND_WITH_INV, IBV_SEND_SOLICITED);

	local.invalidate_rkey = 0x1234;
	/* Of a list that it does not use nothing is read. */
	local.sg_list = nullptr;
	local.num_sge = 77;
	send.invalidate_rkey = 0x5678;
	solicited.invalidate_rkey = 0x9abc;
	for (const ibv_send_wr *wr : {&local, &send, &solicited})
		ASSERT_EQ(post(*qp, *wr), 0);

	const auto first = qp.sends.next_request();
	ASSERT_TRUE(first);
	EXPECT_EQ(first->op, SIRDMA_OP_LOCAL_INV);
	EXPECT_EQ(first->key, 0x1234u);
	EXPECT_TRUE(first->signaled);
	const auto second = qp.sends.next_request();
	ASSERT_TRUE(second);
	EXPECT_EQ(second->op, SIRDMA_OP_SEND_INV);
	EXPECT_EQ(second->key, 0x5678u);
	EXPECT_EQ(second->sges.size(), 2u);
	const auto third = qp.sends.next_request();
	ASSERT_TRUE(third);
	EXPECT_EQ(third->op, SIRDMA_OP_SEND_SOL_INV);
	EXPECT_EQ(third->key, 0x9abcu);
}

class Binds : public testing::Test {
protected:
	Binds()
	{
		region_.mr.lkey = 0x4321;
		region_.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
		window_.rkey = 0x5600;
		window_.type = IBV_MW_TYPE_2;
		bind_ = make_send(none_, 1, IBV_WR_BIND_MW);
		bind_.bind_mw.mw = &window_;
		bind_.bind_mw.rkey = 0x99aabbcc;
		bind_.bind_mw.bind_info = {.mr = &region_.mr,
					   .addr = 0x123456789abcdef,
					   .length = 0xfedcba9876543,
					   .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	}

	ibv_mw_bind_info &info() { return bind_.bind_mw.bind_info; }

	std::vector<ibv_sge> none_;
	verbs_mr region_{};
	ibv_mw window_{};
	ibv_send_wr bind_;
};

TEST_F(Binds, EveryFieldIsInTheWqe)
{
	TestQp qp({.sq_quanta = 512});
	TestCq cq;

	/* Two laps: what earlier requests left in the ring does not matter. */
	for (int i = 0; i < 1100; ++i) {
		ASSERT_EQ(post(*qp, bind_), 0);
		const auto seen = qp.sends.next_request();
		ASSERT_TRUE(seen);
		EXPECT_EQ(seen->op, SIRDMA_OP_BIND_MW);
		EXPECT_TRUE(seen->signaled);
		EXPECT_EQ(seen->key, 0x56ccu) << "the window's index and the key asked for";
		EXPECT_EQ(seen->region, 0x4321u);
		EXPECT_EQ(seen->remote, 0x123456789abcdefu);
		EXPECT_EQ(seen->length, 0xfedcba9876543u);
		EXPECT_EQ(seen->rights, uint32_t{SIRDMA_ACCESS_REMOTE_READ});
		EXPECT_FALSE(seen->type1 || seen->zero_based || seen->read_fence);
		const auto done = complete(qp, cq, *seen);
		ASSERT_TRUE(done);
		EXPECT_EQ(done->opcode, IBV_WC_BIND_MW);
	}
	info().mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
				 IBV_ACCESS_ZERO_BASED;
	bind_.send_flags |= IBV_SEND_FENCE | IBV_SEND_INLINE;
	ASSERT_EQ(post(*qp, bind_), 0);
	const auto zero = qp.sends.next_request();
	ASSERT_TRUE(zero);
	EXPECT_EQ(zero->rights, uint32_t{SIRDMA_ACCESS_REMOTE_WRITE | SIRDMA_ACCESS_REMOTE_ATOMIC});
	EXPECT_TRUE(zero->zero_based && zero->read_fence);
	window_.type = IBV_MW_TYPE_1;
	info() = {};
	ASSERT_EQ(post(*qp, bind_), 0);
	const auto unbind = qp.sends.next_request();
	ASSERT_TRUE(unbind);
	EXPECT_TRUE(unbind->type1);
	EXPECT_EQ(unbind->length | unbind->region | unbind->rights | unbind->remote, 0u);
}

TEST_F(Binds, WhatNoDeviceDoesIsRefused)
{
	TestQp qp;
	const auto with = [&](auto change) {
		const ibv_send_wr good = bind_;

		change();
		EXPECT_EQ(post(*qp, bind_), EINVAL);
		bind_ = good;
		region_.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
		window_.type = IBV_MW_TYPE_2;
	};

	with([&] { info().mr = nullptr; });
	with([&] { info().mr = nullptr, info().length = 0; });
	with([&] { info().mr = nullptr, info().addr = 0; });
	with([&] { info().mw_access_flags |= 1 << 30; });
	with([&] { region_.access |= IBV_ACCESS_ZERO_BASED; });
	with([&] {
		window_.type = IBV_MW_TYPE_1;
		info().mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	});
	TestQp datagrams({.qp_type = SIRDMA_SEND_ON_UD});
	EXPECT_EQ(post(*datagrams, bind_), EINVAL);
	EXPECT_FALSE(qp.sends.next());
	/* It means nothing to a window. */
	info().mw_access_flags |= IBV_ACCESS_LOCAL_WRITE;
	TestQp unreliable({.qp_type = SIRDMA_SEND_ON_UC});
	EXPECT_EQ(post(*unreliable, bind_), 0);
}

/*
 * The numbers by which kernel consumers ask for READ with invalidate and fast registration are not an application's, nor are
 * those of the kernel's own API.
 */
TEST(SendQueue, OperationsOfTheKernelAreRefused)
{
	TestQp qp({.lacks = SIRDMA_SEND_OP_KERNEL});
	auto sges = make_sges(1);
	ibv_send_wr wr = make_send(sges);
	const unsigned ours[] = {SIRDMA_WR_READ_INV, SIRDMA_WR_FAST_REG};
	const unsigned kernels[] = {0x20, 0x21}; /* IB_WR_REG_MR, IB_WR_REG_MR_INTEGRITY */

	for (const unsigned opcode : ours) {
		memcpy(&wr.opcode, &opcode, sizeof(opcode));
		EXPECT_EQ(post(*qp, wr), EOPNOTSUPP);
	}
	for (const unsigned opcode : kernels) {
		memcpy(&wr.opcode, &opcode, sizeof(opcode));
		EXPECT_EQ(post(*qp, wr), EINVAL);
	}
	EXPECT_FALSE(qp.sends.next());
}

TEST(SendQueue, RefusesWhatItCannotExpress)
{
	TestQp qp({.max_send_sge = 2, .max_inline = 16});
	auto three = make_sges(3);
	auto one = make_sges(1);

	EXPECT_EQ(post(*qp, make_send(three)), EINVAL);
	for (const unsigned opcode : {10u, 77u, ~0u}) {
		ibv_send_wr unknown = make_send(one);

		memcpy(&unknown.opcode, &opcode, sizeof(opcode));
		EXPECT_EQ(post(*qp, unknown), EINVAL) << opcode;
	}
	EXPECT_EQ(post(*qp, make_send(one, 1, IBV_WR_BIND_MW)), EINVAL); /* of no window */

	std::vector<uint8_t> bytes(17);
	std::vector<ibv_sge> data = {
		{.addr = reinterpret_cast<uintptr_t>(bytes.data()), .length = 17, .lkey = 0}};
	EXPECT_EQ(post(*qp, make_send(data, 1, IBV_WR_SEND, IBV_SEND_INLINE)), EINVAL);
	data[0].length = 16;
	EXPECT_EQ(post(*qp, make_send(data, 1, IBV_WR_RDMA_READ, IBV_SEND_INLINE)), EINVAL);

	std::vector<ibv_sge> huge = make_sges(1, 0x80000000u);
	EXPECT_EQ(post(*qp, make_send(huge)), EINVAL);
	std::vector<ibv_sge> sum = make_sges(2, 0x40000000u);
	EXPECT_EQ(post(*qp, make_send(sum)), EINVAL);

	/* The list is not looked at. */
	ibv_send_wr many = make_send(one);
	many.sg_list = nullptr;
	many.num_sge = 3;
	EXPECT_EQ(post(*qp, many), EINVAL);

	ibv_send_wr negative = make_send(one);
	negative.num_sge = -1;
	EXPECT_EQ(post(*qp, negative), EINVAL);

	EXPECT_FALSE(qp.sends.next());
}

TEST(SendQueue, BadRequestInAListLeavesTheEarlierOnesPostedAndRung)
{
	TestQp qp;
	auto sges = make_sges(1);
	ibv_send_wr third = make_send(sges, 3);
	ibv_send_wr second = make_send(sges, 2, IBV_WR_BIND_MW);
	ibv_send_wr first = make_send(sges, 1);
	const ibv_send_wr *bad = nullptr;

	first.next = &second;
	second.next = &third;
	qp.shadow.need_kick = htole64(1);
	EXPECT_EQ(qp->send.post(&first, &bad), EINVAL);
	EXPECT_EQ(bad, &second);
	EXPECT_TRUE(qp.sends.next());
	EXPECT_FALSE(qp.sends.next());
	EXPECT_FALSE(qp.take_kick().empty());
}

TEST(SendQueue, KicksASleepingDeviceOnceAList)
{
	TestQp qp;
	auto sges = make_sges(1);
	ibv_send_wr second = make_send(sges, 2);
	ibv_send_wr first = make_send(sges, 1);
	const ibv_send_wr *bad = nullptr;

	first.next = &second;
	EXPECT_EQ(qp->send.post(&first, &bad), 0);
	EXPECT_TRUE(qp.take_kick().empty());

	qp.shadow.need_kick = htole64(1);
	EXPECT_EQ(qp->send.post(&first, &bad), 0);

	auto bytes = qp.take_kick();
	ASSERT_EQ(bytes.size(), sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_post_send));
	ib_uverbs_cmd_hdr hdr;
	ib_uverbs_post_send cmd;
	memcpy(&hdr, bytes.data(), sizeof(hdr));
	memcpy(&cmd, bytes.data() + sizeof(hdr), sizeof(cmd));
	EXPECT_EQ(hdr.command, static_cast<uint32_t>(IB_USER_VERBS_CMD_POST_SEND));
	EXPECT_EQ(hdr.in_words * 4, static_cast<int>(bytes.size()));
	EXPECT_EQ(hdr.out_words, 1);
	EXPECT_NE(cmd.response, 0u);
	EXPECT_EQ(cmd.qp_handle, 0x55u);
	EXPECT_EQ(cmd.wr_count, 0u);
	EXPECT_EQ(cmd.sge_count, 0u);
	EXPECT_EQ(cmd.wqe_size, sizeof(ib_uverbs_send_wr));
	EXPECT_TRUE(qp.take_kick().empty());
	EXPECT_EQ(qp.page.wqe_alloc, 0u) << "posters of a device that is kicked share no page";
}

/* The other devices read the ring when they are told. */
TEST(SendQueue, RingsADeviceThatIsNotKicked)
{
	TestQp qp({.kicked = false});
	auto sges = make_sges(1);

	ASSERT_EQ(post(*qp, make_send(sges)), 0);
	EXPECT_EQ(le32toh(qp.page.wqe_alloc), 0x123u);
	qp.page.wqe_alloc = 0;
	EXPECT_NE(post(*qp, make_send(sges, 1, IBV_WR_BIND_MW)), 0);
	EXPECT_EQ(qp.page.wqe_alloc, 0u);
	EXPECT_TRUE(qp.take_kick().empty());
}

TEST(SendQueue, NothingTakenIsNothingRung)
{
	TestQp qp;
	auto sges = make_sges(1);

	qp.shadow.need_kick = htole64(1);
	EXPECT_NE(post(*qp, make_send(sges, 1, IBV_WR_BIND_MW)), 0);
	EXPECT_TRUE(qp.take_kick().empty());
	EXPECT_EQ(qp.page.wqe_alloc, 0u);
}

TEST(SendQueue, StartsOverAfterReset)
{
	TestQp qp({.sq_quanta = 512});
	TestCq cq;
	auto sges = make_sges(1);

	/* Into the second lap, so that the polarity must go back too. */
	for (int i = 0; i < 600; ++i) {
		ASSERT_EQ(post(*qp, make_send(sges)), 0);
		ASSERT_TRUE(complete(qp, cq, *qp.sends.next()));
	}
	qp->reset();
	qp.sends.reset();
	EXPECT_FALSE(qp.sends.next());
	ASSERT_EQ(post(*qp, make_send(sges, 5)), 0);
	auto seen = qp.sends.next();
	ASSERT_TRUE(seen);
	EXPECT_EQ(seen->position, 0u);
}

} // namespace sirdma::test
