/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One end of a connection over a twin of its own, used through libibverbs alone. */
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "device.hpp"
#include "nic.hpp"

namespace sirdma::twin::test
{

/* What the other end needs to know. */
struct Address {
	ibv_gid gid;
	uint32_t qpn;
	uint64_t buffer;
	uint32_t rkey;
};

class Node {
public:
	static constexpr size_t buffer_size = 1 << 20;
	static constexpr int depth = 64;

	explicit Node(const Config &config = {}, bool events = false)
		: Node(Device::create(config), events)
	{
	}

	explicit Node(std::unique_ptr<Device> of, bool events = false)
		: device(std::move(of)), buffer(buffer_size)
	{
		context = ibv_open_device(device->verbs());
		pd = ibv_alloc_pd(context);
		if (events)
			channel = create_comp_channel(context);
		cq = ibv_create_cq(context, 2 * depth, nullptr, channel, 0);
		mr = register_buffer();

		qp = create_qp();
		EXPECT_TRUE(context && pd && cq && mr && qp) << strerror(errno);
	}

	~Node()
	{
		EXPECT_EQ(ibv_destroy_qp(qp), 0);
		EXPECT_EQ(ibv_destroy_cq(cq), 0);
		EXPECT_EQ(ibv_dereg_mr(mr), 0);
		EXPECT_EQ(ibv_dealloc_pd(pd), 0);
		if (channel) {
			EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
		}
		EXPECT_EQ(ibv_close_device(context), 0);
	}

	/* Another one like it, for tests of several. */
	ibv_qp *create_qp() const
	{
		ibv_qp_init_attr init{};

		init.send_cq = init.recv_cq = cq;
		init.qp_type = IBV_QPT_RC;
		init.cap = {.max_send_wr = depth,
			    .max_recv_wr = depth,
			    .max_send_sge = 2,
			    .max_recv_sge = 2,
			    .max_inline_data = 64};
		init.sq_sig_all = 1;
		return ibv_create_qp(pd, &init);
	}

	/* The buffer, for all that a peer may do. */
	ibv_mr *register_buffer()
	{
		return ibv_reg_mr(pd, buffer.data(), buffer.size(),
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	}

	Address address() const
	{
		return {.gid = device->driver->gid(),
			.qpn = qp->qp_num,
			.buffer = reinterpret_cast<uintptr_t>(buffer.data()),
			.rkey = mr->rkey};
	}

	/* To RTS. @timeout as in ibv_qp_attr. */
	void connect(const Address &to, uint8_t timeout = 12, uint8_t retries = 7)
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_ATOMIC;
		ASSERT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS),
			  0);
		attr.qp_state = IBV_QPS_RTR;
		attr.path_mtu = IBV_MTU_4096;
		attr.dest_qp_num = to.qpn;
		attr.max_dest_rd_atomic = answers;
		attr.min_rnr_timer = 1;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = to.gid;
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.grh.traffic_class = traffic_class;
		attr.ah_attr.port_num = 1;
		ASSERT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			  0);
		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = timeout;
		attr.retry_cnt = retries;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 4;
		ASSERT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC),
			  0);
	}

	int post(ibv_wr_opcode opcode, size_t offset, uint32_t length, const Address *to = nullptr,
		 size_t remote_offset = 0)
	{
		ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(buffer.data() + offset),
			       .length = length,
			       .lkey = mr->lkey};
		ibv_send_wr wr{}, *bad;

		wr.opcode = opcode;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		if (to) {
			wr.wr.rdma.remote_addr = to->buffer + remote_offset;
			wr.wr.rdma.rkey = to->rkey;
		}
		return ibv_post_send(qp, &wr, &bad);
	}

	/* The result comes to @offset. */
	int post_atomic(ibv_wr_opcode opcode, size_t offset, const Address &to,
			size_t remote_offset, uint64_t compare_add, uint64_t swap = 0)
	{
		ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(buffer.data() + offset),
			       .length = sizeof(uint64_t),
			       .lkey = mr->lkey};
		ibv_send_wr wr{}, *bad;

		wr.opcode = opcode;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.atomic = {.remote_addr = to.buffer + remote_offset,
				.compare_add = compare_add,
				.swap = swap,
				.rkey = to.rkey};
		return ibv_post_send(qp, &wr, &bad);
	}

	int post_recv(size_t offset, uint32_t length)
	{
		ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(buffer.data() + offset),
			       .length = length,
			       .lkey = mr->lkey};
		ibv_recv_wr wr{}, *bad;

		wr.sg_list = &sge;
		wr.num_sge = 1;
		return ibv_post_recv(qp, &wr, &bad);
	}

	/* The next completion; a status of GENERAL_ERR when none came in time. */
	ibv_wc poll(std::chrono::seconds limit = std::chrono::seconds(20))
	{
		const auto end = std::chrono::steady_clock::now() + limit;
		ibv_wc wc{};

		while (ibv_poll_cq(cq, 1, &wc) == 0) {
			if (std::chrono::steady_clock::now() > end) {
				ADD_FAILURE() << "no completion";
				wc.status = IBV_WC_GENERAL_ERR;
				break;
			}
		}
		return wc;
	}

	void fill(uint8_t seed)
	{
		for (size_t i = 0; i < buffer.size(); ++i)
			buffer[i] = static_cast<uint8_t>(seed + i * 7 + i / 251);
	}

	std::unique_ptr<Device> device;
	std::vector<uint8_t> buffer;
	ibv_context *context = nullptr;
	ibv_pd *pd = nullptr;
	ibv_comp_channel *channel = nullptr;
	ibv_cq *cq = nullptr;
	ibv_mr *mr = nullptr;
	ibv_qp *qp = nullptr;
	uint8_t traffic_class = 0; /* for connect() */
	uint8_t answers = 4; /* max_dest_rd_atomic, for connect() */
};

/* Write to @to, read it again and compare. */
inline void write_and_read(Node &node, const Address &to)
{
	node.fill(5);
	ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, 100000, &to), 0);
	ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
	ASSERT_EQ(node.post(IBV_WR_RDMA_READ, 200000, 100000, &to), 0);
	ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
	EXPECT_EQ(memcmp(node.buffer.data(), node.buffer.data() + 200000, 100000), 0);
}

} // namespace sirdma::twin::test
