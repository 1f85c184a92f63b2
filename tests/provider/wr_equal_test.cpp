/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_wr_*() writes what ibv_post_send() writes, byte by byte, for each type of queue pair and each
 * operation that both have; and what it takes back, no device sees.
 */
#include <cstring>
#include <random>
#include <set>

#include "fake_device.hpp"
#include "lifecycle.hpp"
#include "qp.hpp"
#include "rings.hpp"

namespace sirdma::test
{

namespace
{

constexpr uint32_t max_sge = 6, max_inline = 90;
constexpr uint32_t dest_qpn = 0x123456, dest_qkey = 0x11111111, srqn = 0x654321;

struct Operation {
	ibv_wr_opcode opcode;
	uint64_t send_op;
	bool fragments; /* it has some, any number */
	bool inlines; /* and may be inline */
};

constexpr Operation connected[] = {
	{IBV_WR_SEND, IBV_QP_EX_WITH_SEND, true, true},
	{IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM, true, true},
	{IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, true, true},
	{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, true, true},
	{IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV, false, false},
	{IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW, false, false},
	/* Of reliable queue pairs: */
	{IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV, true, true},
	{IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, true, false},
	{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, false, false},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, false, false},
	{IBV_WR_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE, false, false},
};

std::span<const Operation> operations_of(ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UD:
		return std::span(connected).first(2);
	case IBV_QPT_UC:
		return std::span(connected).first(6);
	default:
		return connected;
	}
}

struct Request {
	const Operation *operation = nullptr;
	ibv_send_wr wr{};
	std::vector<ibv_sge> sges;
	bool is_inline = false;
	bool dest_first = false;
};

class WrEqual : public WithCq, public testing::WithParamInterface<ibv_qp_type> {
protected:
	void SetUp() override
	{
		WithCq::SetUp();
		ibv_ah_attr to{};
		ah = create_ah(pd, &to);
		ASSERT_TRUE(ah);
		ah->context = context_;
		ah->pd = pd;
		window_.rkey = 0x700;
		window_.type = IBV_MW_TYPE_2;
		region_.mr.lkey = 5;
		for (size_t i = 0; i < sizeof(bytes_); ++i)
			bytes_[i] = static_cast<uint8_t>(i * 7 + 1);
		posted = make();
		built = make();
		ASSERT_TRUE(posted && built);
		ex = &Qp::of(built).ex;
	}

	void TearDown() override
	{
		EXPECT_EQ(destroy_qp(posted), 0);
		EXPECT_EQ(destroy_qp(built), 0);
		EXPECT_EQ(destroy_ah(ah), 0);
		WithCq::TearDown();
	}

	ibv_qp *make()
	{
		ibv_qp_init_attr_ex attr{};

		attr.send_cq = cq;
		attr.recv_cq = GetParam() == IBV_QPT_XRC_SEND ? nullptr : cq;
		attr.qp_type = GetParam();
		attr.cap = {.max_send_wr = 64,
			    .max_recv_wr = 1,
			    .max_send_sge = max_sge,
			    .max_recv_sge = 1,
			    .max_inline_data = max_inline};
		attr.pd = pd;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		for (const Operation &operation : operations_of(GetParam()))
			attr.send_ops_flags |= operation.send_op;
		ibv_qp *qp = create_qp_ex(context_, &attr);

		if (qp)
			Qp::of(qp).queues().set_state(IBV_QPS_RTS);
		return qp;
	}

	uint32_t number(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

	/* Fragments, or pieces of the bytes, that @operation may have. */
	void add_data(Request &r)
	{
		const ibv_wr_opcode opcode = r.operation->opcode;

		r.is_inline = r.operation->inlines && number(2);
		if (r.is_inline || opcode == IBV_WR_ATOMIC_WRITE) {
			uint32_t left = opcode == IBV_WR_ATOMIC_WRITE ? 8 : number(max_inline + 1);

			for (uint32_t piece = 0; piece < 3; ++piece) {
				const uint32_t n = piece == 2 || opcode == IBV_WR_ATOMIC_WRITE ?
							   left :
							   number(left + 1);

				r.sges.push_back(
					{.addr = reinterpret_cast<uintptr_t>(bytes_) + number(100),
					 .length = n,
					 .lkey = 0});
				left -= n;
				if (!left)
					break;
			}
			r.is_inline = true;
		} else if (r.operation->fragments) {
			r.sges = make_sges(number(max_sge + 1));
		} else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			   opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			r.sges = make_sges(1, 8 + number(100));
		}
	}

	void add_operands(Request &r)
	{
		ibv_send_wr &wr = r.wr;

		switch (wr.opcode) {
		case IBV_WR_ATOMIC_CMP_AND_SWP:
		case IBV_WR_ATOMIC_FETCH_AND_ADD:
			wr.wr.atomic = {.remote_addr = 0x9000u + number(1000),
					.compare_add = random_(),
					.swap = random_(),
					.rkey = number(~0u)};
			break;
		case IBV_WR_BIND_MW:
			wr.bind_mw = {.mw = &window_,
				      .rkey = number(256),
				      .bind_info = {.mr = &region_.mr,
						    .addr = random_(),
						    .length = random_(),
						    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
			break;
		case IBV_WR_LOCAL_INV:
		case IBV_WR_SEND_WITH_INV:
			wr.invalidate_rkey = number(~0u);
			break;
		case IBV_WR_RDMA_WRITE_WITH_IMM:
		case IBV_WR_SEND_WITH_IMM:
			wr.imm_data = number(~0u);
			[[fallthrough]];
		default:
			if (GetParam() == IBV_QPT_UD)
				wr.wr.ud = {
					.ah = ah, .remote_qpn = dest_qpn, .remote_qkey = dest_qkey};
			else if (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM)
				wr.wr.rdma = {.remote_addr = random_(), .rkey = number(~0u)};
		}
		wr.qp_type.xrc.remote_srqn = srqn;
	}

	Request random_request()
	{
		const auto operations = operations_of(GetParam());
		Request r;

		r.operation = &operations[number(static_cast<uint32_t>(operations.size()))];
		r.wr.opcode = r.operation->opcode;
		r.wr.wr_id = random_();
		r.wr.send_flags = number(8); /* FENCE, SIGNALED, SOLICITED */
		r.dest_first = number(2);
		add_data(r);
		add_operands(r);
		return r;
	}

	int post(std::vector<Request> &list)
	{
		ibv_send_wr *bad = nullptr;

		for (size_t i = 0; i < list.size(); ++i) {
			ibv_send_wr &wr = list[i].wr;

			wr.sg_list = list[i].sges.data();
			wr.num_sge = static_cast<int>(list[i].sges.size());
			wr.next = i + 1 < list.size() ? &list[i + 1].wr : nullptr;
			if (list[i].is_inline)
				wr.send_flags |= IBV_SEND_INLINE;
		}
		return post_send(posted, &list[0].wr, &bad);
	}

	void begin(const Request &r)
	{
		const auto &rdma = r.wr.wr.rdma;
		const auto &atomic = r.wr.wr.atomic;

		ex->wr_id = r.wr.wr_id;
		ex->wr_flags = r.wr.send_flags & ~unsigned{IBV_SEND_INLINE};
		switch (r.wr.opcode) {
		case IBV_WR_SEND:
			return ibv_wr_send(ex);
		case IBV_WR_SEND_WITH_IMM:
			return ibv_wr_send_imm(ex, r.wr.imm_data);
		case IBV_WR_SEND_WITH_INV:
			return ibv_wr_send_inv(ex, r.wr.invalidate_rkey);
		case IBV_WR_LOCAL_INV:
			return ibv_wr_local_inv(ex, r.wr.invalidate_rkey);
		case IBV_WR_BIND_MW:
			return ibv_wr_bind_mw(ex, r.wr.bind_mw.mw, r.wr.bind_mw.rkey,
					      &r.wr.bind_mw.bind_info);
		case IBV_WR_RDMA_WRITE:
			return ibv_wr_rdma_write(ex, rdma.rkey, rdma.remote_addr);
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			return ibv_wr_rdma_write_imm(ex, rdma.rkey, rdma.remote_addr,
						     r.wr.imm_data);
		case IBV_WR_RDMA_READ:
			return ibv_wr_rdma_read(ex, rdma.rkey, rdma.remote_addr);
		case IBV_WR_ATOMIC_CMP_AND_SWP:
			return ibv_wr_atomic_cmp_swp(ex, atomic.rkey, atomic.remote_addr,
						     atomic.compare_add, atomic.swap);
		case IBV_WR_ATOMIC_FETCH_AND_ADD:
			return ibv_wr_atomic_fetch_add(ex, atomic.rkey, atomic.remote_addr,
						       atomic.compare_add);
		case IBV_WR_ATOMIC_WRITE:
			return ibv_wr_atomic_write(ex, rdma.rkey, rdma.remote_addr,
						   reinterpret_cast<const void *>(r.sges[0].addr));
		default:
			FAIL() << r.wr.opcode;
		}
	}

	void set_dest(const Request &r)
	{
		if (GetParam() == IBV_QPT_UD)
			ibv_wr_set_ud_addr(ex, ah, dest_qpn, dest_qkey);
		else if (GetParam() == IBV_QPT_XRC_SEND && r.wr.opcode != IBV_WR_LOCAL_INV &&
			 r.wr.opcode != IBV_WR_BIND_MW)
			ibv_wr_set_xrc_srqn(ex, srqn);
	}

	/* By one of the calls that can say it. */
	void set_data(Request &r)
	{
		std::vector<ibv_data_buf> bufs;

		if (r.wr.opcode == IBV_WR_ATOMIC_WRITE)
			return;
		for (const ibv_sge &sge : r.sges)
			bufs.push_back(
				{.addr = reinterpret_cast<void *>(sge.addr), .length = sge.length});
		if (r.is_inline && r.sges.size() == 1)
			ibv_wr_set_inline_data(ex, bufs[0].addr, bufs[0].length);
		else if (r.is_inline)
			ibv_wr_set_inline_data_list(ex, bufs.size(), bufs.data());
		else if (r.sges.size() == 1 && number(4))
			ibv_wr_set_sge(ex, r.sges[0].lkey, r.sges[0].addr, r.sges[0].length);
		else if (!r.sges.empty() || number(2))
			ibv_wr_set_sge_list(ex, r.sges.size(), r.sges.data());
	}

	void describe(Request &r)
	{
		begin(r);
		if (r.dest_first)
			set_dest(r);
		set_data(r);
		if (!r.dest_first)
			set_dest(r);
	}

	static sirdma_sq &sq(ibv_qp *qp) { return Qp::of(qp).queues().send.queue(); }

	/* The device did all of it. */
	static void drain(ibv_qp *qp) { sirdma_store32(&sq(qp).tail, sq(qp).head); }

	std::vector<Request> random_list()
	{
		std::vector<Request> list(1 + number(5));

		for (Request &r : list)
			r = random_request();
		return list;
	}

	ibv_ah *ah = nullptr;
	ibv_qp *posted = nullptr;
	ibv_qp *built = nullptr;
	ibv_qp_ex *ex = nullptr;

private:
	std::mt19937_64 random_{7};
	uint8_t bytes_[256];
	verbs_mr region_{};
	ibv_mw window_{};
};

} // namespace

/* Many laps, so that each request meets each place in a chunk, and NOPs before it. */
TEST_P(WrEqual, BothApisWriteTheSameBytes)
{
	const size_t size = sq(posted).size;
	std::set<ibv_wr_opcode> seen;

	ASSERT_EQ(size, sq(built).size);
	for (int round = 0; round < 4000; ++round) {
		std::vector<Request> list = random_list();

		ASSERT_EQ(post(list), 0) << round;
		ibv_wr_start(ex);
		for (Request &r : list) {
			seen.insert(r.wr.opcode);
			describe(r);
		}
		ASSERT_EQ(ibv_wr_complete(ex), 0) << round;
		ASSERT_EQ(sq(posted).head, sq(built).head) << round;
		ASSERT_EQ(memcmp(sq(posted).ring, sq(built).ring, size * sizeof(sirdma_wqe)), 0)
			<< round;
		for (uint32_t i = sq(posted).tail; i != sq(posted).head;) {
			const sirdma_sq_slot &a = *sirdma_sq_slot_at(&sq(posted), i);
			const sirdma_sq_slot &b = *sirdma_sq_slot_at(&sq(built), i);

			ASSERT_EQ(a.wr_id, b.wr_id);
			ASSERT_EQ(a.length, b.length);
			ASSERT_EQ(a.end, b.end);
			i = a.end;
		}
		drain(posted);
		drain(built);
	}
	EXPECT_EQ(seen.size(), operations_of(GetParam()).size());
	EXPECT_GT(sq(posted).head, 10 * size);
}

/* The list ends anywhere, by abort() or by a request that is refused. */
TEST_P(WrEqual, ListsThatAreTakenBackLeaveNothing)
{
	const sirdma_sq &queue = sq(built);
	SendRingReader reader({queue.ring, queue.size}, GetParam() == IBV_QPT_XRC_SEND);
	const auto too_many = make_sges(max_sge + 1);

	for (int round = 0; round < 4000; ++round) {
		std::vector<Request> list = random_list();
		const bool abort = number(2), whole = number(2);

		ibv_wr_start(ex);
		for (Request &r : list)
			describe(r);
		if (!whole) { /* one more, some of its parts missing */
			Request r = random_request();

			begin(r);
			if (number(2))
				set_data(r);
			else
				set_dest(r);
		}
		if (!abort) {
			ibv_wr_send(ex);
			ibv_wr_set_sge_list(ex, too_many.size(), too_many.data());
			ibv_wr_send(ex);
			EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
		} else {
			ibv_wr_abort(ex);
		}
		ASSERT_FALSE(reader.next()) << round;

		/* Others in their place. */
		std::vector<Request> good = random_list();

		ibv_wr_start(ex);
		for (Request &r : good)
			describe(r);
		ASSERT_EQ(ibv_wr_complete(ex), 0) << round;

		size_t count = 0;

		while (reader.next_request())
			++count;
		ASSERT_EQ(count, good.size()) << round;
		drain(built);
	}
}

INSTANTIATE_TEST_SUITE_P(Types, WrEqual,
			 testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND),
			 [](const auto &info) -> std::string {
				 switch (info.param) {
				 case IBV_QPT_RC:
					 return "RC";
				 case IBV_QPT_UC:
					 return "UC";
				 case IBV_QPT_UD:
					 return "UD";
				 default:
					 return "XRC";
				 }
			 });

} // namespace sirdma::test
