/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The provider's rings with the real device model at the other end: two nodes on
 * a fabric that loses, reorders and duplicates.
 */
#include <array>
#include <deque>
#include <memory>
#include <random>
#include <unistd.h>

#include "../model/transport.hpp"

#include "completion_queue.hpp"
#include "queue_pair.hpp"

namespace sirdma::test
{

namespace
{

constexpr uint32_t max_sge = 6;

/* The provider's queues over the memory of a device QP, with their address as its context. */
class Endpoint {
public:
	Endpoint(Node &node, const QpOptions &options)
		: qp(node, options), slots_(options.sq_quanta),
		  wr_ids_(options.rq_wqes << options.rq_stride_shift),
		  queues({.sq = {static_cast<sirdma_wqe *>(qp.sq.va), options.sq_quanta},
			  .rq = {static_cast<sirdma_wqe *>(qp.rq.va),
				 options.rq_wqes << options.rq_stride_shift},
			  .send_slots = slots_,
			  .recv_wr_ids = wr_ids_,
			  .recv_shift = options.rq_stride_shift,
			  .shadow = qp.area()},
			 {.max_sge = max_sge,
			  .max_read_sge = max_sge,
			  .max_inline = SIRDMA_MAX_INLINE,
			  .signal_all = false},
			 max_sge, true),
		  cq({static_cast<sirdma_cqe *>(qp.scq.ring.va), qp.scq.entries}, qp.scq.area(),
		     true)
	{
		EXPECT_EQ(pipe(pipe_.data()), 0);
		queues.attach(nullptr, qp.id);
		queues.send.doorbell.kick_by_command(pipe_[1], qp.id);
		queues.set_state(IBV_QPS_RTS);

		/* Again, with a context of ours and one CQ for both queues. */
		EXPECT_EQ(qp.destroy(), SIRDMA_CQP_OK);
		sirdma_cqp_qp cmd{};
		qp.context()->compl_ctx = reinterpret_cast<uintptr_t>(&queues);
		qp.context()->recv_cq = qp.scq.id;
		cmd.ctx_addr = qp.ctx.pa;
		cmd.hdr = qp_cmd_hdr(SIRDMA_CQP_CREATE_QP, qp.id);
		EXPECT_EQ(node.drv.exec(cmd), SIRDMA_CQP_OK);
	}

	~Endpoint()
	{
		EXPECT_EQ(qp.destroy(), SIRDMA_CQP_OK);
		close(pipe_[0]);
		close(pipe_[1]);
	}

	int send(ibv_send_wr &wr)
	{
		const ibv_send_wr *bad = nullptr;
		const int err = queues.send.post(&wr, &bad);

		pass_on_kick();
		return err;
	}

	int recv(uint64_t wr_id, std::vector<ibv_sge> sges)
	{
		ibv_recv_wr wr{};
		const ibv_recv_wr *bad = nullptr;

		wr.wr_id = wr_id;
		wr.sg_list = sges.data();
		wr.num_sge = static_cast<int>(sges.size());
		const int err = queues.recv.post(&wr, &bad);
		pass_on_kick();
		return err;
	}

	/* What the kernel does with a kick. */
	void pass_on_kick()
	{
		fd_set set;
		timeval none{};
		std::array<char, 256> bytes;

		FD_ZERO(&set);
		FD_SET(pipe_[0], &set);
		if (select(pipe_[0] + 1, &set, nullptr, nullptr, &none) == 1 &&
		    read(pipe_[0], bytes.data(), bytes.size()) > 0) {
			++kicks;
			qp.node.host.kick(qp.id);
		}
	}

	std::optional<ibv_wc> poll()
	{
		ibv_wc wc;

		return cq.poll(1, &wc) == 1 ? std::optional(wc) : std::nullopt;
	}

	Qp qp;

private:
	std::vector<SendSlot> slots_;
	std::vector<__u64> wr_ids_;
	std::array<int, 2> pipe_{};

public:
	QueuePair queues;
	CompletionQueue cq;
	unsigned kicks = 0;
};

class OverModel : public Transport {
protected:
	OverModel() : Transport(11) {}

	void connect(const QpOptions &options = {})
	{
		left = std::make_unique<Endpoint>(a, options);
		right = std::make_unique<Endpoint>(b, options);
		left->qp.to_init();
		right->qp.to_init();
		left->qp.to_rtr(b, right->qp.id, options.b_psn);
		right->qp.to_rtr(a, left->qp.id, options.a_psn);
		left->qp.to_rts(options.a_psn);
		right->qp.to_rts(options.b_psn);
	}

	ibv_wc wait(Endpoint &end)
	{
		std::optional<ibv_wc> wc;

		if (!fabric.run_until([&] { return (wc = end.poll()).has_value(); },
				      10'000'000'000ull)) {
			ADD_FAILURE() << "no completion on QP " << end.qp.id;
			return {};
		}
		return *wc;
	}

	/* [off, off + length) of @node, cut into up to @pieces fragments. */
	std::vector<ibv_sge> cut(Node &node, size_t off, uint32_t length, uint32_t pieces)
	{
		std::vector<ibv_sge> sges;

		while (pieces--) {
			const uint32_t n = pieces ? length / (pieces + 1) : length;

			sges.push_back({.addr = node.va(off), .length = n, .lkey = node.mr.stag()});
			off += n;
			length -= n;
		}
		return sges;
	}

	static void scribble(Node &node, size_t off, uint32_t length, std::mt19937 &random)
	{
		for (uint32_t i = 0; i < length; ++i)
			node.data(off)[i] = static_cast<u8>(random());
	}

	ibv_send_wr request(std::vector<ibv_sge> &sges, uint64_t wr_id, ibv_wr_opcode opcode,
			    size_t remote_off = 0)
	{
		ibv_send_wr wr{};

		wr.wr_id = wr_id;
		wr.sg_list = sges.data();
		wr.num_sge = static_cast<int>(sges.size());
		wr.opcode = opcode;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.rdma.remote_addr = b.va(remote_off);
		wr.wr.rdma.rkey = b.mr.stag();
		wr.imm_data = htobe32(static_cast<uint32_t>(wr_id));
		return wr;
	}

	std::unique_ptr<Endpoint> left, right;
};

constexpr std::array opcodes = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
				IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};

bool consumes_receive(ibv_wr_opcode opcode)
{
	return opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ;
}

ibv_wc_opcode sent_as(ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

} // namespace

/* Many laps of both rings, every operation and shape, data compared, on a bad link. */
TEST_F(OverModel, DataAndOrderSurviveALossyLink)
{
	std::mt19937 random(5);

	connect();
	fabric.faults().loss = 0.01;
	fabric.faults().reorder = 0.02;
	fabric.faults().duplicate = 0.01;
	for (uint64_t i = 0; i < 1500; ++i) {
		const ibv_wr_opcode opcode = opcodes[random() % opcodes.size()];
		const bool inl = random() % 3 == 0 && opcode != IBV_WR_RDMA_READ;
		const uint32_t length = random() % (inl ? SIRDMA_MAX_INLINE + 1u : 6000u);
		const size_t from = random() % 4096;
		const size_t to = 2'000'000 + random() % 4096;
		auto sges = cut(a, from, length, 1 + random() % max_sge);
		ibv_send_wr wr = request(sges, i, opcode, to);

		SCOPED_TRACE(testing::Message() << "request " << i << " opcode " << opcode
						<< " length " << length << " inline " << inl);
		wr.send_flags |= inl ? IBV_SEND_INLINE : 0;
		scribble(a, from, length, random);
		scribble(b, to, length, random);
		if (consumes_receive(opcode)) {
			ASSERT_EQ(right->recv(1000000 + i,
					      cut(b, to, 8000, 1 + random() % max_sge)),
				  0);
		}
		ASSERT_EQ(left->send(wr), 0);

		const ibv_wc sent = wait(*left);
		ASSERT_EQ(sent.status, IBV_WC_SUCCESS);
		ASSERT_EQ(sent.wr_id, i);
		ASSERT_EQ(sent.opcode, sent_as(opcode));
		if (consumes_receive(opcode)) {
			const ibv_wc got = wait(*right);
			const bool imm = opcode != IBV_WR_SEND;

			ASSERT_EQ(got.status, IBV_WC_SUCCESS);
			ASSERT_EQ(got.wr_id, 1000000 + i);
			ASSERT_EQ(got.byte_len, length);
			ASSERT_EQ(got.opcode, opcode == IBV_WR_RDMA_WRITE_WITH_IMM ?
						      IBV_WC_RECV_RDMA_WITH_IMM :
						      IBV_WC_RECV);
			ASSERT_EQ(got.wc_flags & IBV_WC_WITH_IMM, imm ? IBV_WC_WITH_IMM : 0);
			ASSERT_EQ(got.imm_data, imm ? htobe32(static_cast<uint32_t>(i)) : 0);
		}
		ASSERT_EQ(memcmp(a.data(from), b.data(to), length), 0);
	}
	EXPECT_FALSE(left->poll());
	EXPECT_FALSE(right->poll());
}

/* As many in flight as the ring takes; one signal in eight frees the rest. */
TEST_F(OverModel, FullRingMakesProgress)
{
	constexpr uint64_t count = 3000;
	uint64_t posted = 0;
	uint64_t expected = 7;

	connect();
	a.mem->fill(1);
	while (expected < count) {
		auto sges = cut(a, 0, 512, 1 + posted % max_sge);
		ibv_send_wr wr = request(sges, posted, IBV_WR_RDMA_WRITE);

		wr.send_flags = posted % 8 == 7 ? IBV_SEND_SIGNALED : 0;
		if (posted < count && left->send(wr) == 0) {
			++posted;
			continue;
		}
		const ibv_wc wc = wait(*left);
		ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
		ASSERT_EQ(wc.wr_id, expected);
		expected += 8;
	}
	EXPECT_EQ(memcmp(a.data(), b.data(), 512), 0);
	EXPECT_GT(left->kicks, 0u);
}

TEST_F(OverModel, ErrorStateFlushesWhatWasPostedAndWhatComesLater)
{
	connect();
	for (uint64_t i = 0; i < 5; ++i)
		ASSERT_EQ(left->recv(i, cut(a, 0, 100, 1)), 0);
	left->qp.error();
	for (uint64_t i = 0; i < 5; ++i) {
		const ibv_wc wc = wait(*left);

		EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		EXPECT_EQ(wc.vendor_err, unsigned{SIRDMA_VENDOR_FLUSH});
		EXPECT_EQ(wc.wr_id, i);
	}

	/* Mixed sizes, so that padding NOPs are flushed over too. */
	for (uint64_t i = 0; i < 20; ++i) {
		auto sges = cut(a, 0, 600, 1 + i % max_sge);
		ibv_send_wr wr = request(sges, 100 + i, IBV_WR_SEND);

		wr.send_flags = 0;
		ASSERT_EQ(left->send(wr), 0);
		const ibv_wc wc = wait(*left);
		ASSERT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		ASSERT_EQ(wc.wr_id, 100 + i);

		ASSERT_EQ(left->recv(200 + i, cut(a, 0, 100, 2)), 0);
		const ibv_wc late = wait(*left);
		ASSERT_EQ(late.status, IBV_WC_WR_FLUSH_ERR);
		ASSERT_EQ(late.wr_id, 200 + i);
	}
	EXPECT_FALSE(left->poll());
}

TEST_F(OverModel, RemoteAccessErrorNamesItsRequestAndFlushesTheRest)
{
	auto sges = cut(a, 0, 100, 1);

	connect();
	ibv_send_wr good = request(sges, 1, IBV_WR_RDMA_WRITE);
	ibv_send_wr bad = request(sges, 2, IBV_WR_RDMA_WRITE);
	ibv_send_wr behind = request(sges, 3, IBV_WR_RDMA_WRITE);

	good.next = &bad;
	bad.next = &behind;
	bad.wr.rdma.rkey ^= 0x100;
	ASSERT_EQ(left->send(good), 0);
	EXPECT_EQ(wait(*left).status, IBV_WC_SUCCESS);
	const ibv_wc failed = wait(*left);
	EXPECT_EQ(failed.status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(failed.vendor_err, unsigned{SIRDMA_VENDOR_REM_ACCESS});
	EXPECT_EQ(failed.wr_id, 2u);
	const ibv_wc flushed = wait(*left);
	EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(flushed.wr_id, 3u);
}

TEST_F(OverModel, SilentPeerIsRetryExceeded)
{
	QpOptions options;
	auto sges = cut(a, 0, 100, 1);

	options.retry_cnt = 2;
	connect(options);
	fabric.set_filter([](TestHost &, Packet &) { return Fabric::Verdict::drop; });
	ibv_send_wr wr = request(sges, 9, IBV_WR_SEND);
	ASSERT_EQ(left->send(wr), 0);
	const ibv_wc wc = wait(*left);
	EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
	EXPECT_EQ(wc.vendor_err, unsigned{SIRDMA_VENDOR_RETRY_EXC});
}

} // namespace sirdma::test
