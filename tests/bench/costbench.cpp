/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Calls of the provider, for tests/bench/instructions to count their instructions. The commands go
 * to a fake driver, and this program is the device.
 *
 *	costbench --list
 *	costbench CASE COUNT [threads]
 *
 * The call of a case is in its function measured(), which contains nothing else; what comes before,
 * and the device, are not counted. With "threads" the process has a second thread, so that locks are
 * taken by atomic instructions.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <semaphore>
#include <thread>
#include <unistd.h>

#include "../provider/fake_device.hpp"
#include "../provider/fake_ibverbs.hpp"
#include "qp.hpp"
#include "verbs.hpp"

namespace sirdma::test
{

namespace
{

constexpr int list_len = 16;
constexpr uint32_t data_len = 8; /* bytes of each request */
constexpr uint32_t inline_len = 64; /* bytes of the request with much inline data */

[[noreturn]] void die(const char *what)
{
	fprintf(stderr, "costbench: %s\n", what);
	exit(1);
}

void *checked(void *object, const char *what)
{
	if (!object)
		die(what);
	return object;
}

/* A device with a CQ, an RC and a UD queue pair in RTS. */
struct World {
	World()
	{
		fake_driver().reset();
		fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
		if (fd < 0 || ftruncate(fd, 4096))
			die("no file");
		verbs_sysfs_dev found{};
		found.driver_id = SIRDMA_DRIVER_ID;
		device = fake_driver().ops->alloc_device(&found);
		context = open_device(&device->device, fd, kernel_commands);
		checked(context, "no context");
		context->ops.post_send = post_send;
		context->ops.post_recv = post_recv;
		context->ops.poll_cq = poll_cq;
		context->ops.req_notify_cq = req_notify_cq;
		pd = alloc_pd(context);
		ibv_cq_init_attr_ex attr{.cqe = 255, .wc_flags = IBV_WC_STANDARD_FLAGS};
		cq_ex = create_cq_ex(context, &attr);
		checked(cq_ex, "no CQ");
		cq = ibv_cq_ex_to_cq(cq_ex);
		cq->context = context;
		auto *ring = reinterpret_cast<sirdma_cqe *>(fake_driver().cq_request.user_cq_buf);
		shadow = reinterpret_cast<sirdma_cq_shadow *>(
			fake_driver().cq_request.user_shadow_area);
		writer = std::make_unique<CompletionWriter>(
			std::span(ring, static_cast<size_t>(fake_driver().cq_size)), *shadow);
		ibv_ah_attr to{};
		ah = create_ah(pd, &to);
		checked(ah, "no address handle");
		ah->pd = pd;
		rc = make_qp(IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
						 IBV_QP_EX_WITH_RDMA_READ |
						 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
		ud = make_qp(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	}

	~World()
	{
		destroy_qp(rc);
		destroy_qp(ud);
		destroy_ah(ah);
		destroy_cq(cq);
		dealloc_pd(pd);
		free_context(context);
		fake_driver().ops->uninit_device(device);
		close(fd);
	}

	ibv_qp *make_qp(ibv_qp_type type, uint64_t send_ops)
	{
		ibv_qp_init_attr_ex attr{};

		attr.send_cq = attr.recv_cq = cq;
		attr.qp_type = type;
		attr.cap = {.max_send_wr = 128,
			    .max_recv_wr = 128,
			    .max_send_sge = 2,
			    .max_recv_sge = 1,
			    .max_inline_data = inline_len};
		attr.pd = pd;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = send_ops;
		ibv_qp *qp = create_qp_ex(context, &attr);
		checked(qp, "no queue pair");
		qp->context = context;
		Qp::of(qp).queues().set_state(IBV_QPS_RTS);
		return qp;
	}

	/* The device did all requests, none of which is signaled. */
	static void drain(ibv_qp *qp)
	{
		sirdma_sq &sq = Qp::of(qp).queues().send.queue();
		sirdma_rq &rq = Qp::of(qp).queues().recv.queue();

		sirdma_store32(&sq.tail, sq.head);
		sirdma_store32(&rq.tail, rq.head);
	}

	/* The device completes the request that is posted next. */
	void complete_next(bool send)
	{
		QueuePair &queues = Qp::of(rc).queues();
		CqeSpec spec;

		spec.compl_ctx = reinterpret_cast<uintptr_t>(&queues);
		spec.send = send;
		spec.length = send ? 0 : 64;
		if (send) {
			spec.position = queues.send.queue().head & (queues.send.queue().size - 1);
			spec.op = SIRDMA_OP_WRITE;
			post_one();
		} else {
			const sirdma_rq &rq = queues.recv.queue();

			spec.position = rq.head & (rq.size - 1);
			spec.op = 0x04; /* SEND */
			receive_one();
		}
		writer->write(spec);
	}

	void post_one()
	{
		ibv_send_wr *bad;
		ibv_send_wr wr = write_request();

		if (ibv_post_send(rc, &wr, &bad))
			die("post");
	}

	void receive_one()
	{
		ibv_recv_wr wr{}, *bad;

		wr.sg_list = &sge;
		wr.num_sge = 1;
		if (ibv_post_recv(rc, &wr, &bad))
			die("post of a receive");
	}

	ibv_send_wr write_request()
	{
		ibv_send_wr wr{};

		wr.wr_id = 1;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.rdma = {.remote_addr = 0x2000, .rkey = 7};
		return wr;
	}

	int fd = -1;
	verbs_device *device = nullptr;
	ibv_context *context = nullptr;
	ibv_pd *pd = nullptr;
	ibv_cq_ex *cq_ex = nullptr;
	ibv_cq *cq = nullptr; /* the same */
	ibv_ah *ah = nullptr;
	ibv_qp *rc = nullptr;
	ibv_qp *ud = nullptr;
	std::unique_ptr<CompletionWriter> writer;
	sirdma_cq_shadow *shadow = nullptr;
	uint8_t bytes[inline_len]{};
	ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(bytes), .length = data_len, .lkey = 5};
};

struct Case {
	explicit Case(World &of) : world(of) {}
	virtual ~Case() = default;
	virtual void before() {}
	/* Returns what the call returns; the caller expects wanted. */
	virtual int measured() = 0;
	virtual void after()
	{
		World::drain(world.rc);
		World::drain(world.ud);
	}

	World &world;
	int wanted = 0;
	int calls = 1; /* a list counts as so many */
};

/* ibv_post_send() of @count equal requests, of @length bytes each. */
struct PostSend : Case {
	PostSend(World &of, ibv_wr_opcode opcode, unsigned flags = 0, int count = 1,
		 uint32_t length = data_len, ibv_qp *to = nullptr)
		: Case(of), qp(to ? to : of.rc)
	{
		calls = count;
		of.sge.length = length;
		for (int i = 0; i < count; ++i) {
			list[i] = of.write_request();
			list[i].opcode = opcode;
			list[i].send_flags |= flags;
			list[i].next = i + 1 < count ? &list[i + 1] : nullptr;
			if (to)
				list[i].wr.ud = {.ah = of.ah, .remote_qpn = 3, .remote_qkey = 4};
		}
	}

	[[gnu::noinline]] int measured() override
	{
		ibv_send_wr *bad;

		return ibv_post_send(qp, list, &bad);
	}

	ibv_qp *const qp;
	ibv_send_wr list[list_len]{};
};

struct WrCase : Case {
	explicit WrCase(World &of, ibv_qp *qp = nullptr)
		: Case(of), ex(ibv_qp_to_qp_ex(qp ? qp : of.rc))
	{
		ex->wr_flags = IBV_SEND_SIGNALED;
		ex->wr_id = 1;
	}

	ibv_qp_ex *const ex;
};

struct WrWrite : WrCase {
	using WrCase::WrCase;

	[[gnu::noinline]] int measured() override
	{
		ibv_wr_start(ex);
		ibv_wr_rdma_write(ex, 7, 0x2000);
		ibv_wr_set_sge(ex, 5, 0x1000, data_len);
		return ibv_wr_complete(ex);
	}
};

struct WrSend : WrCase {
	using WrCase::WrCase;

	[[gnu::noinline]] int measured() override
	{
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, 5, 0x1000, data_len);
		return ibv_wr_complete(ex);
	}
};

struct WrWriteImm : WrCase {
	using WrCase::WrCase;

	[[gnu::noinline]] int measured() override
	{
		ibv_wr_start(ex);
		ibv_wr_rdma_write_imm(ex, 7, 0x2000, 9);
		ibv_wr_set_sge(ex, 5, 0x1000, data_len);
		return ibv_wr_complete(ex);
	}
};

struct WrInline : WrCase {
	WrInline(World &of, size_t bytes) : WrCase(of), length(bytes) {}

	[[gnu::noinline]] int measured() override
	{
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_set_inline_data(ex, world.bytes, length);
		return ibv_wr_complete(ex);
	}

	const size_t length;
};

struct WrDatagram : WrCase {
	explicit WrDatagram(World &of) : WrCase(of, of.ud) {}

	[[gnu::noinline]] int measured() override
	{
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_set_ud_addr(ex, world.ah, 3, 4);
		ibv_wr_set_sge(ex, 5, 0x1000, data_len);
		return ibv_wr_complete(ex);
	}
};

struct WrList : WrCase {
	explicit WrList(World &of) : WrCase(of) { calls = list_len; }

	[[gnu::noinline]] int measured() override
	{
		ibv_wr_start(ex);
		for (int i = 0; i < list_len; ++i) {
			ibv_wr_rdma_write(ex, 7, 0x2000);
			ibv_wr_set_sge(ex, 5, 0x1000, data_len);
		}
		return ibv_wr_complete(ex);
	}
};

struct PostRecv : Case {
	explicit PostRecv(World &of) : Case(of)
	{
		wr.sg_list = &of.sge;
		wr.num_sge = 1;
	}

	[[gnu::noinline]] int measured() override
	{
		ibv_recv_wr *bad;

		return ibv_post_recv(world.rc, &wr, &bad);
	}

	ibv_recv_wr wr{};
};

/* ibv_poll_cq() of so many completions. */
struct Poll : Case {
	Poll(World &of, int count, bool send = true) : Case(of), send_(send)
	{
		wanted = count;
		calls = count ? count : 1;
	}

	void before() override
	{
		for (int i = 0; i < wanted; ++i)
			world.complete_next(send_);
	}

	[[gnu::noinline]] int measured() override { return ibv_poll_cq(world.cq, calls, wcs_); }

	void after() override {}

private:
	const bool send_;
	ibv_wc wcs_[list_len];
};

/* The same by the extended poll, which reads what an application mostly does. */
struct PollEx : Poll {
	using Poll::Poll;

	[[gnu::noinline]] int measured() override
	{
		ibv_cq_ex *const cq = world.cq_ex;
		ibv_poll_cq_attr attr{};
		int polled = 0;

		for (int err = ibv_start_poll(cq, &attr); !err; err = ibv_next_poll(cq)) {
			sum_ += cq->wr_id + ibv_wc_read_opcode(cq) + ibv_wc_read_byte_len(cq);
			++polled;
		}
		if (polled)
			ibv_end_poll(cq);
		return polled;
	}

private:
	uint64_t sum_ = 0;
};

/* A request for an event, where none is outstanding. */
struct Arm : Case {
	/* @noted: a poll has found the queue empty. */
	Arm(World &of, bool noted) : Case(of), noted_(noted) {}

	void before() override
	{
		ibv_wc wc;

		world.shadow->arm = 0;
		if (noted_ && ibv_poll_cq(world.cq, 1, &wc))
			die("a completion");
	}

	[[gnu::noinline]] int measured() override { return ibv_req_notify_cq(world.cq, 0); }

	void after() override {}

private:
	const bool noted_;
};

/* An empty poll of a queue that is to raise an event. */
struct PollArmed : Poll {
	explicit PollArmed(World &of) : Poll(of, 0) {}

	void before() override { ibv_req_notify_cq(world.cq, 0); }
};

struct Named {
	const char *name;
	std::unique_ptr<Case> (*make)(World &world);
};

template <typename T, auto... args> std::unique_ptr<Case> make(World &world)
{
	return std::make_unique<T>(world, args...);
}

std::unique_ptr<Case> make_datagram(World &world)
{
	return std::make_unique<PostSend>(world, IBV_WR_SEND, 0, 1, data_len, world.ud);
}

constexpr Named cases[] = {
	{"post_send_write", make<PostSend, IBV_WR_RDMA_WRITE>},
	{"post_send_send", make<PostSend, IBV_WR_SEND>},
	{"post_send_write_imm", make<PostSend, IBV_WR_RDMA_WRITE_WITH_IMM>},
	{"post_send_inline", make<PostSend, IBV_WR_SEND, unsigned{IBV_SEND_INLINE}>},
	{"post_send_inline_64",
	 make<PostSend, IBV_WR_SEND, unsigned{IBV_SEND_INLINE}, 1, inline_len>},
	{"post_send_datagram", make_datagram},
	{"post_send_list", make<PostSend, IBV_WR_RDMA_WRITE, 0u, list_len>},
	{"wr_write", make<WrWrite>},
	{"wr_send", make<WrSend>},
	{"wr_write_imm", make<WrWriteImm>},
	{"wr_inline", make<WrInline, data_len>},
	{"wr_inline_64", make<WrInline, inline_len>},
	{"wr_datagram", make<WrDatagram>},
	{"wr_list", make<WrList>},
	{"post_recv", make<PostRecv>},
	{"poll_empty", make<Poll, 0>},
	{"poll_send", make<Poll, 1>},
	{"poll_recv", make<Poll, 1, false>},
	{"poll_list", make<Poll, list_len>},
	{"poll_recv_list", make<Poll, list_len, false>},
	{"poll_ex_empty", make<PollEx, 0>},
	{"poll_ex_send", make<PollEx, 1>},
	{"poll_ex_recv", make<PollEx, 1, false>},
	{"poll_ex_list", make<PollEx, list_len>},
	{"poll_armed", make<PollArmed>},
	{"arm", make<Arm, false>},
	{"arm_after_empty", make<Arm, true>},
};

const Named *find(const char *name)
{
	for (const Named &one : cases)
		if (!strcmp(one.name, name))
			return &one;
	die("no such case; see --list");
}

/* Prints how many calls each measured() stands for. */
void run(const Named &named, long count)
{
	World world;
	const std::unique_ptr<Case> one = named.make(world);

	for (long i = 0; i < count; ++i) {
		one->before();
		if (one->measured() != one->wanted)
			die("a call fails");
		one->after();
	}
	printf("%d\n", one->calls);
}

} // namespace

} // namespace sirdma::test

int main(int argc, char **argv)
{
	using namespace sirdma::test;

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (const Named &one : cases)
			puts(one.name);
		return 0;
	}
	if (argc < 3)
		die("usage: costbench --list | CASE COUNT [threads]");

	std::binary_semaphore end{0};
	std::thread other;

	if (argc > 3)
		other = std::thread([&] { end.acquire(); });
	run(*find(argv[1]), atol(argv[2]));
	end.release();
	if (other.joinable())
		other.join();
	return 0;
}
