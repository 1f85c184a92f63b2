/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A queue pair for datagrams. */
#pragma once

#include <arpa/inet.h>

#include "node.hpp"

namespace sirdma::twin::test
{

inline constexpr uint32_t ud_qkey = 0x1234, ud_size = 500, grh_size = 40;

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
		attr.qkey = ud_qkey;
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
	void aim(const ibv_gid &gid, uint8_t traffic_class = 0)
	{
		ibv_ah_attr attr{};

		attr.is_global = 1;
		attr.port_num = 1;
		attr.grh.dgid = gid;
		attr.grh.traffic_class = traffic_class;
		ah = ibv_create_ah(node_.pd, &attr);
		ASSERT_TRUE(ah) << strerror(errno);
	}

	/* Datagram @n, byte n of the buffer on, to queue pair qpns[n]. */
	void post(const std::vector<uint32_t> &qpns)
	{
		std::vector<ibv_send_wr> wrs(qpns.size());
		std::vector<ibv_sge> sges(qpns.size());
		ibv_send_wr *bad;

		for (size_t n = 0; n < qpns.size(); ++n) {
			sges[n] = {.addr = reinterpret_cast<uintptr_t>(node_.buffer.data() + n),
				   .length = ud_size,
				   .lkey = node_.mr->lkey};
			wrs[n].wr_id = n;
			wrs[n].opcode = IBV_WR_SEND_WITH_IMM;
			wrs[n].imm_data = htonl(static_cast<uint32_t>(n));
			wrs[n].sg_list = &sges[n];
			wrs[n].num_sge = 1;
			wrs[n].wr.ud = {.ah = ah, .remote_qpn = qpns[n], .remote_qkey = ud_qkey};
			wrs[n].next = n + 1 < qpns.size() ? &wrs[n + 1] : nullptr;
		}
		ASSERT_EQ(ibv_post_send(qp, wrs.data(), &bad), 0);
	}

	/* The same, and all are completed. */
	void send(const std::vector<uint32_t> &qpns)
	{
		ASSERT_NO_FATAL_FAILURE(post(qpns));
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
				       .length = grh_size + ud_size,
				       .lkey = node_.mr->lkey};
			ibv_recv_wr wr{}, *bad;

			wr.wr_id = n;
			wr.sg_list = &sge;
			wr.num_sge = 1;
			ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
		}
	}

	/* The GRH of the receive that was posted first. */
	const uint8_t *first_grh() { return place(0); }

	/* The next receive is datagram @n of @from, which lies in @sent. */
	void expect(uint32_t n, const Ud &from)
	{
		const ibv_wc wc = node_.poll();

		ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.src_qp, from.qp->qp_num);
		EXPECT_EQ(wc.byte_len, grh_size + ud_size);
		EXPECT_EQ(ntohl(wc.imm_data), n);
		EXPECT_EQ(memcmp(place(static_cast<uint32_t>(wc.wr_id)) + grh_size,
				 from.node_.buffer.data() + n, ud_size),
			  0);
	}

	ibv_qp *qp = nullptr;
	ibv_ah *ah = nullptr;

private:
	uint8_t *place(uint32_t n)
	{
		return node_.buffer.data() + Node::buffer_size / 2 + n * (grh_size + ud_size);
	}

	Node &node_;
};

} // namespace sirdma::twin::test
