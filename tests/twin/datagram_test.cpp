/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams of one queue pair to many processes. */
#include "child.hpp"

namespace sirdma::twin::test
{

namespace
{

constexpr uint32_t qkey = 0x1234, size = 500, grh = 40;

/* A datagram queue pair of a node, in RTS. Its receives go into the upper half of the buffer. */
class Ud {
public:
	explicit Ud(Node &node) : node_(node)
	{
		ibv_qp_init_attr init{};
		ibv_qp_attr attr{};

		init.send_cq = init.recv_cq = node.cq;
		init.qp_type = IBV_QPT_UD;
		init.cap = {.max_send_wr = Node::depth,
			    .max_recv_wr = Node::depth,
			    .max_send_sge = 1,
			    .max_recv_sge = 1,
			    .max_inline_data = 0};
		init.sq_sig_all = 1;
		qp = ibv_create_qp(node.pd, &init);
		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qkey = qkey;
		EXPECT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_QKEY),
			  0);
		attr.qp_state = IBV_QPS_RTR;
		EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
		attr.qp_state = IBV_QPS_RTS;
		EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	}

	~Ud()
	{
		EXPECT_EQ(ibv_destroy_qp(qp), 0);
		if (ah) {
			EXPECT_EQ(ibv_destroy_ah(ah), 0);
		}
	}

	Ud(const Ud &) = delete;
	Ud &operator=(const Ud &) = delete;

	/* The address that all its datagrams go to. */
	void aim(const ibv_gid &gid)
	{
		ibv_ah_attr attr{};

		attr.is_global = 1;
		attr.port_num = 1;
		attr.grh.dgid = gid;
		ah = ibv_create_ah(node_.pd, &attr);
		ASSERT_TRUE(ah) << strerror(errno);
	}

	/* Datagram @n, byte n of the buffer on, to queue pair qpns[n]. */
	void send(const std::vector<uint32_t> &qpns)
	{
		std::vector<ibv_send_wr> wrs(qpns.size());
		std::vector<ibv_sge> sges(qpns.size());
		ibv_send_wr *bad;

		for (size_t n = 0; n < qpns.size(); ++n) {
			sges[n] = {.addr = reinterpret_cast<uintptr_t>(node_.buffer.data() + n),
				   .length = size,
				   .lkey = node_.mr->lkey};
			wrs[n].wr_id = n;
			wrs[n].opcode = IBV_WR_SEND_WITH_IMM;
			wrs[n].imm_data = htonl(static_cast<uint32_t>(n));
			wrs[n].sg_list = &sges[n];
			wrs[n].num_sge = 1;
			wrs[n].wr.ud = {.ah = ah, .remote_qpn = qpns[n], .remote_qkey = qkey};
			wrs[n].next = n + 1 < qpns.size() ? &wrs[n + 1] : nullptr;
		}
		ASSERT_EQ(ibv_post_send(qp, wrs.data(), &bad), 0);
		for (size_t n = 0; n < qpns.size(); ++n) {
			const ibv_wc wc = node_.poll();

			ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.wr_id, n);
		}
	}

	void post_recvs(uint32_t count)
	{
		for (uint32_t n = 0; n < count; ++n) {
			ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(place(n)),
				       .length = grh + size,
				       .lkey = node_.mr->lkey};
			ibv_recv_wr wr{}, *bad;

			wr.wr_id = n;
			wr.sg_list = &sge;
			wr.num_sge = 1;
			ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
		}
	}

	/* The next receive is datagram @n of @from, which lies in @sent. */
	void expect(uint32_t n, const Ud &from)
	{
		const ibv_wc wc = node_.poll();

		ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.src_qp, from.qp->qp_num);
		EXPECT_EQ(wc.byte_len, grh + size);
		EXPECT_EQ(ntohl(wc.imm_data), n);
		EXPECT_EQ(memcmp(place(static_cast<uint32_t>(wc.wr_id)) + grh,
				 from.node_.buffer.data() + n, size),
			  0);
	}

	ibv_qp *qp = nullptr;
	ibv_ah *ah = nullptr;

private:
	uint8_t *place(uint32_t n)
	{
		return node_.buffer.data() + Node::buffer_size / 2 + n * (grh + size);
	}

	Node &node_;
};

} // namespace

class TwinDatagram : public ::testing::TestWithParam<LinkKind> {};

INSTANTIATE_TEST_SUITE_P(All, TwinDatagram, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

/* The first one to each of them makes the connection and is not lost. */
TEST_P(TwinDatagram, GoToEveryProcessOfAnAddress)
{
	constexpr uint32_t rounds = 16;
	const Config there = at(own_address(0), GetParam());
	Node first(there), second(there), third(there);
	Node source(at(own_address(1), GetParam()));
	Ud a(first), b(second), c(third), from(source);
	Ud *const to[] = {&a, &b, &b, &c};
	std::vector<uint32_t> qpns;

	EXPECT_NE(slot_of(a.qp->qp_num), slot_of(b.qp->qp_num));
	EXPECT_NE(slot_of(b.qp->qp_num), slot_of(c.qp->qp_num));
	source.fill(3);
	from.aim(first.address().gid);
	for (Ud *ud : {&a, &b, &c})
		ud->post_recvs(2 * rounds);
	for (uint32_t n = 0; n < rounds * std::size(to); ++n)
		qpns.push_back(to[n % std::size(to)]->qp->qp_num);
	from.send(qpns);
	for (uint32_t n = 0; n < qpns.size() && !HasFailure(); ++n)
		to[n % std::size(to)]->expect(n, from);
}

/* The poster does not wait for a process that is not there, nor do the others. */
TEST_P(TwinDatagram, ForNobodyAreLostAlone)
{
	Node there(at(own_address(0), GetParam())), source(at(own_address(1), GetParam()));
	Ud sink(there), from(source);
	const uint32_t nobody = first_qpn_of(slot_of(sink.qp->qp_num) + 1) + 5;

	source.fill(4);
	from.aim(there.address().gid);
	sink.post_recvs(3);
	from.send({nobody, sink.qp->qp_num, nobody, nobody, sink.qp->qp_num, nobody});
	sink.expect(1, from);
	sink.expect(4, from);
	if (GetParam() == LinkKind::shm) {
		EXPECT_EQ(source.device->nic->stat(SIRDMA_STAT_TX_DROPS), 4u);
	}
}

} // namespace sirdma::twin::test
