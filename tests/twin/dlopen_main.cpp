/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program as NCCL is one: libibverbs by dlopen and its functions by dlsym, so that
 * nothing preloaded takes their place. A queue pair connected to itself sends messages,
 * and each is slept for in a completion channel. 77: it finds no devices.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <poll.h>

#include <infiniband/verbs.h>

#undef ibv_reg_mr
#undef ibv_query_port

namespace
{

constexpr int exit_skipped = 77;
constexpr unsigned messages = 50;

[[noreturn]] void die(const char *what, int status = 1)
{
	std::perror(what);
	std::exit(status);
}

void check(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

void *find(const char *name)
{
	static void *const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, name) : nullptr;

	if (!symbol) {
		std::fprintf(stderr, "%s: %s\n", name, dlerror());
		std::exit(1);
	}
	return symbol;
}

#define VERB(name) reinterpret_cast<decltype(&::name)>(find(#name))

ibv_context *open_first()
{
	int count = 0;
	ibv_device **list = VERB(ibv_get_device_list)(&count);

	if (!list || !count)
		die("no devices", exit_skipped);

	ibv_context *context = VERB(ibv_open_device)(list[0]);

	check(context, "ibv_open_device");
	VERB(ibv_free_device_list)(list);
	return context;
}

void connect_to_itself(ibv_context *context, ibv_qp *qp)
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	check(!VERB(ibv_modify_qp)(qp, &attr,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS),
	      "INIT");
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = qp->qp_num;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 1;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.hop_limit = 64;
	attr.ah_attr.port_num = 1;
	check(!VERB(ibv_query_gid)(context, 1, 0, &attr.ah_attr.grh.dgid), "ibv_query_gid");
	check(!VERB(ibv_modify_qp)(qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER),
	      "RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 15;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	check(!VERB(ibv_modify_qp)(qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC),
	      "RTS");
}

/* Sleep for an event of @cq, as often as it takes for @want completions. */
void await(ibv_comp_channel *channel, ibv_cq *cq, int want)
{
	while (want) {
		pollfd file = {.fd = channel->fd, .events = POLLIN, .revents = 0};
		ibv_cq *told = nullptr;
		void *cookie = nullptr;
		ibv_wc wc{};

		check(poll(&file, 1, 20000) == 1, "no event");
		check(!VERB(ibv_get_cq_event)(channel, &told, &cookie), "ibv_get_cq_event");
		check(told == cq && cookie == channel, "the event is of another queue");
		VERB(ibv_ack_cq_events)(cq, 1);
		check(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		for (; ibv_poll_cq(cq, 1, &wc) == 1; --want)
			check(wc.status == IBV_WC_SUCCESS, "completion");
	}
}

void send_to_itself(ibv_comp_channel *channel, ibv_cq *cq, ibv_qp *qp, ibv_mr *mr, char *memory)
{
	for (unsigned i = 0; i < messages; ++i) {
		ibv_sge from = {.addr = reinterpret_cast<uint64_t>(memory),
				.length = 100,
				.lkey = mr->lkey};
		ibv_sge to = {.addr = from.addr + 1000, .length = 100, .lkey = mr->lkey};
		ibv_recv_wr recv{}, *bad_recv;
		ibv_send_wr send{}, *bad_send;

		std::memset(memory, static_cast<int>(i + 1), 100);
		recv.sg_list = &to;
		recv.num_sge = 1;
		send.sg_list = &from;
		send.num_sge = 1;
		send.opcode = IBV_WR_SEND;
		send.send_flags = IBV_SEND_SIGNALED;
		check(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		check(!ibv_post_recv(qp, &recv, &bad_recv), "ibv_post_recv");
		check(!ibv_post_send(qp, &send, &bad_send), "ibv_post_send");
		await(channel, cq, 2);
		check(!std::memcmp(memory, memory + 1000, 100), "the data");
	}
}

} // namespace

int main()
{
	static char memory[4096];
	ibv_context *context = open_first();
	ibv_pd *pd = VERB(ibv_alloc_pd)(context);
	ibv_mr *mr = pd ? VERB(ibv_reg_mr)(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) :
			  nullptr;

	check(mr, "ibv_reg_mr");
	/* The numbers of closed ones come again. */
	for (int i = 0; i < 3; ++i) {
		ibv_comp_channel *channel = VERB(ibv_create_comp_channel)(context);
		ibv_cq *cq;
		ibv_qp *qp;

		check(channel, "ibv_create_comp_channel");
		cq = VERB(ibv_create_cq)(context, 16, channel, channel, 0);
		check(cq, "ibv_create_cq");
		check(VERB(ibv_destroy_comp_channel)(channel) != 0, "a channel in use was "
								    "destroyed");

		ibv_qp_init_attr init{};

		init.send_cq = init.recv_cq = cq;
		init.qp_type = IBV_QPT_RC;
		init.cap = {.max_send_wr = 4,
			    .max_recv_wr = 4,
			    .max_send_sge = 1,
			    .max_recv_sge = 1,
			    .max_inline_data = 0};
		qp = VERB(ibv_create_qp)(pd, &init);
		check(qp, "ibv_create_qp");
		connect_to_itself(context, qp);
		send_to_itself(channel, cq, qp, mr, memory);
		check(!VERB(ibv_destroy_qp)(qp), "ibv_destroy_qp");
		check(!VERB(ibv_destroy_cq)(cq), "ibv_destroy_cq");
		check(!VERB(ibv_destroy_comp_channel)(channel), "ibv_destroy_comp_channel");
	}
	check(!VERB(ibv_dereg_mr)(mr) && !VERB(ibv_dealloc_pd)(pd) &&
		      !VERB(ibv_close_device)(context),
	      "taking it all down");
	std::puts("ok");
	return 0;
}
