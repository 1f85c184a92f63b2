/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * twin_many CONTEXTS EXECS PROGRAM [ARGS...]: a process with many contexts on each of its
 * devices, each with a queue pair, and each of these connected to another one. Between writes it
 * forks a child that just exits, and one that becomes PROGRAM, which must succeed; and at last
 * it becomes itself again, EXECS times.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <infiniband/verbs.h>

namespace
{

constexpr size_t slot = 4096;

[[noreturn]] void die(const char *what)
{
	std::perror(what);
	std::exit(1);
}

void check(bool ok, const char *what)
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
		: context(ibv_open_device(device)), memory(static_cast<char *>(calloc(2, slot)))
	{
		check(context && memory, "ibv_open_device");
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

/* From each to its peer: the first one's is the last. */
void write_all(std::vector<End> &ends, unsigned value)
{
	for (size_t i = 0; i < ends.size(); ++i)
		ends[i].write(ends[ends.size() - 1 - i], static_cast<int>(value + i));
}

/* A child that ends at once, with all a program does at its end, or becomes @program. */
void child(char **program)
{
	int status = -1;
	const pid_t pid = fork();

	check(pid >= 0, "fork");
	if (!pid && !program)
		std::exit(0);
	if (!pid) {
		execvp(*program, program);
		die(*program);
	}
	check(waitpid(pid, &status, 0) == pid && status == 0, "the child");
}

} // namespace

int main(int argc, char **argv)
{
	check(argc > 3, "usage");

	const size_t contexts = std::strtoul(argv[1], nullptr, 10);
	const unsigned long execs = std::strtoul(argv[2], nullptr, 10);
	std::vector<End> ends;
	int devices = 0;
	ibv_device **list = ibv_get_device_list(&devices);

	check(list && devices, "no devices");
	for (int d = 0; d < devices; ++d)
		for (size_t i = 0; i < contexts; ++i)
			ends.emplace_back(list[d]);
	ibv_free_device_list(list);
	for (size_t i = 0; i < ends.size(); ++i)
		ends[i].connect(ends[ends.size() - 1 - i]);
	write_all(ends, 1);
	child(nullptr);
	write_all(ends, 2);
	child(argv + 3);
	write_all(ends, 3);
	std::printf("%d devices, %zu contexts\n", devices, ends.size());
	if (!execs)
		return 0;
	std::fflush(stdout);

	std::string fewer = std::to_string(execs - 1);

	argv[2] = fewer.data();
	execv("/proc/self/exe", argv);
	die("exec");
}
