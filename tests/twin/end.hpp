/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One end of a connection, in a program that knows libibverbs alone. What fails ends it. */
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include <infiniband/verbs.h>

constexpr size_t slot = 4096;

[[noreturn]] inline void die(const char *what)
{
	std::perror(what);
	std::exit(1);
}

inline void check(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

struct End {
	ibv_context *context;
	ibv_pd *pd;
	ibv_cq *cq;
	ibv_mr *mr;
	ibv_qp *qp;
	ibv_gid gid;
	char *memory; /* a slot to write from, one that is written to */

	explicit End(ibv_device *device)
		: context(ibv_open_device(device)),
		  /* Pages of their own: under RDMAV_FORK_SAFE a child does not have them. */
		  memory(static_cast<char *>(mmap(nullptr, 2 * slot, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
	{
		check(context && memory != MAP_FAILED, "ibv_open_device");
		pd = ibv_alloc_pd(context);
		cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
		check(pd && cq, "ibv_create_cq");
		mr = ibv_reg_mr(pd, memory, 2 * slot,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

		ibv_qp_init_attr init{};

		init.send_cq = init.recv_cq = cq;
		init.qp_type = IBV_QPT_RC;
		init.sq_sig_all = 1;
		init.cap = {.max_send_wr = 2,
			    .max_recv_wr = 1,
			    .max_send_sge = 1,
			    .max_recv_sge = 1,
			    .max_inline_data = 0};
		qp = ibv_create_qp(pd, &init);
		check(mr && qp && !ibv_query_gid(context, 1, 0, &gid), "ibv_create_qp");
	}

	void connect(const End &to)
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		check(!ibv_modify_qp(qp, &attr,
				     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					     IBV_QP_ACCESS_FLAGS),
		      "INIT");
		attr.qp_state = IBV_QPS_RTR;
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = to.qp->qp_num;
		attr.max_dest_rd_atomic = 1;
		attr.min_rnr_timer = 1;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = to.gid;
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.port_num = 1;
		check(!ibv_modify_qp(qp, &attr,
				     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					     IBV_QP_MIN_RNR_TIMER),
		      "RTR");
		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = 16;
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 1;
		check(!ibv_modify_qp(qp, &attr,
				     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					     IBV_QP_MAX_QP_RD_ATOMIC),
		      "RTS");
	}

	void write(const End &to, int value)
	{
		ibv_sge sge = {.addr = reinterpret_cast<uint64_t>(memory),
			       .length = slot,
			       .lkey = mr->lkey};
		ibv_send_wr wr{}, *bad;
		ibv_wc wc{};

		std::memset(memory, value, slot);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(to.memory + slot);
		wr.wr.rdma.rkey = to.mr->rkey;
		check(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
		while (!ibv_poll_cq(cq, 1, &wc)) {}
		check(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		check(!std::memcmp(memory, to.memory + slot, slot), "the data");
	}
};
