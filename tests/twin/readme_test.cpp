/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The README's example of libsirdma as it stands there; what it leaves out is post(). */
#include <vector>

#include <gtest/gtest.h>
#include <sirdma/twin.h>

namespace
{

struct Side {
	Side(ibv_context *of, const sirdma::FabricDevice &device)
		: context(of), gid(device.gid()), memory(4096)
	{
		ibv_qp_init_attr init{};

		pd = ibv_alloc_pd(context);
		init.send_cq = init.recv_cq = cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
		init.qp_type = IBV_QPT_RC;
		init.cap = {.max_send_wr = 4,
			    .max_recv_wr = 4,
			    .max_send_sge = 1,
			    .max_recv_sge = 1,
			    .max_inline_data = 0};
		init.sq_sig_all = 1;
		mr = ibv_reg_mr(pd, memory.data(), memory.size(),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		qp = ibv_create_qp(pd, &init);
	}

	~Side()
	{
		ibv_destroy_qp(qp);
		ibv_destroy_cq(cq);
		ibv_dereg_mr(mr);
		ibv_dealloc_pd(pd);
		ibv_close_device(context);
	}

	void connect(const Side &to)
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		ASSERT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS),
			  0);
		attr.qp_state = IBV_QPS_RTR;
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = to.qp->qp_num;
		attr.min_rnr_timer = 12;
		attr.ah_attr.is_global = 1;
		/* No hop limit: it is the route's. */
		attr.ah_attr.grh.dgid = to.gid;
		attr.ah_attr.port_num = 1;
		ASSERT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			  0);
		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = 10;
		attr.retry_cnt = 7;
		ASSERT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC),
			  0);
	}

	ibv_context *context;
	ibv_gid gid;
	std::vector<char> memory;
	ibv_pd *pd;
	ibv_cq *cq;
	ibv_mr *mr;
	ibv_qp *qp;
};

/* One write from @a, open as @context, to @b; the connection ends with the returned objects. */
std::pair<std::unique_ptr<Side>, std::unique_ptr<Side>>
post(sirdma::FabricDevice &a, sirdma::FabricDevice &b, ibv_context *context)
{
	auto from = std::make_unique<Side>(context, a);
	auto to = std::make_unique<Side>(ibv_open_device(b.verbs()), b);
	ibv_sge sge = {.addr = reinterpret_cast<uint64_t>(from->memory.data()),
		       .length = 64,
		       .lkey = from->mr->lkey};
	ibv_send_wr wr{}, *bad;

	from->connect(*to);
	to->connect(*from);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(to->memory.data());
	wr.wr.rdma.rkey = to->mr->rkey;
	EXPECT_EQ(ibv_post_send(from->qp, &wr, &bad), 0);
	return {std::move(from), std::move(to)};
}

} // namespace

TEST(Readme, ItsExampleOfTheLibraryHolds)
{
#include "readme_example.inc"
}
