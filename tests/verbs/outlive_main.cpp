// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A program whose device goes away under it. It holds an object of each kind, has a thread in each blocking call, and writes to
// itself all the time. It must be told by IBV_EVENT_DEVICE_FATAL, every thread must come back, every command must fail with EIO,
// and posts and polls must stay harmless.
//   verbs_outlive -d DEVICE     prints "ready" once messages arrive, "outlived" at the end; exit status 0 if all was as it must be
#include "device.hpp"
#include "kick.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <getopt.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace verbs
{

namespace
{

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::atomic<int> failures{0};
bool gone = false;
// libibverbs reports that nothing is left to destroy, unless the application asks it to hide that.
bool hidden = false;

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "verbs_outlive: %s: %s\n", what, std::strerror(errno));
	_exit(1);
}

void expect(const char *what, int got, int wanted)
{
	if (got == wanted)
		return;
	std::fprintf(stderr, "verbs_outlive: %s gives %d (%s) instead of %d\n", what, got,
		     std::strerror(got), wanted);
	failures++;
}

} // namespace

void report_destroy_failure(const char *what, int rc) noexcept
{
	// The channel is busy, because libibverbs keeps a CQ whose destruction failed.
	if (gone && !hidden && rc == EBUSY)
		return;
	expect(what, rc > 0 ? rc : errno, gone && !hidden ? EIO : 0);
}

namespace
{

// Objects of each kind, on one device.
struct Holder {
	static constexpr size_t length = 1 << 20;
	static constexpr uint32_t depth = 16;

	Device device;
	Mapping memory = Mapping::anonymous(length);
	Pd pd;
	Mr mr;
	Channel channel;
	Cq cq; // of the traffic
	Cq armed; // no completion ever comes
	Srq srq;
	Qp rc;
	Qp ud;
	Ah ah;
	Mw mw;

	explicit Holder(Device &&opened) : device(std::move(opened))
	{
		ibv_context *const context = device.context.get();
		pd.reset(ibv_alloc_pd(context));
		channel.reset(ibv_create_comp_channel(context));
		if (!pd || !channel || !memory)
			die("set-up");
		const Link link;
		mr.reset(ibv_reg_mr(pd.get(), memory.data(), length, link.access));
		cq.reset(ibv_create_cq(context, 4 * depth, nullptr, nullptr, 0));
		armed.reset(ibv_create_cq(context, 1, nullptr, channel.get(), 0));
		ibv_srq_init_attr shared = {
			.srq_context = nullptr,
			.attr = {.max_wr = depth, .max_sge = 1, .srq_limit = 0}};
		srq.reset(ibv_create_srq(pd.get(), &shared));
		if (!mr || !cq || !armed || !srq || ibv_req_notify_cq(armed.get(), 0))
			die("objects");
		rc = create(IBV_QPT_RC);
		ud = create(IBV_QPT_UD);
		const Address self{.qpn = rc->qp_num, .psn = 0, .gid = device.gid};
		if ((errno = to_init(rc.get(), device, link)) ||
		    (errno = to_rtr(rc.get(), device, self, link)) ||
		    (errno = to_rts(rc.get(), 0, link)))
			die("connect");
		ibv_ah_attr to = rtr_attr(device, self, link).ah_attr;
		ah.reset(ibv_create_ah(pd.get(), &to));
		mw.reset(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2));
		if (!ah || !mw)
			die("address handle or memory window");
	}

	// The result of ibv_post_send: a WRITE of the first half of the memory to the second.
	int write()
	{
		ibv_sge sge = {memory.address(), 4096, mr->lkey};
		ibv_send_wr wr = {}, *bad = nullptr;

		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.rdma.remote_addr = memory.address(length / 2);
		wr.wr.rdma.rkey = mr->rkey;
		return ibv_post_send(rc.get(), &wr, &bad);
	}

	// Poll, and post as many again; counts the messages that arrived.
	uint64_t turn()
	{
		ibv_wc wc[depth];
		uint64_t arrived = 0;
		const int n = ibv_poll_cq(cq.get(), depth, wc);

		if (n < 0)
			die("poll");
		for (int i = 0; i < n; i++) {
			if (wc[i].status == IBV_WC_SUCCESS)
				arrived++;
			else if (wc[i].status != IBV_WC_WR_FLUSH_ERR)
				expect("completion", static_cast<int>(wc[i].status),
				       IBV_WC_SUCCESS);
			write();
		}
		return arrived;
	}

private:
	Qp create(ibv_qp_type type)
	{
		ibv_qp_init_attr init = {};

		init.qp_type = type;
		init.send_cq = init.recv_cq = cq.get();
		init.srq = srq.get();
		init.cap.max_send_wr = depth;
		init.cap.max_send_sge = 1;
		Qp qp(ibv_create_qp(pd.get(), &init));
		if (!qp)
			die("queue pair");
		return qp;
	}
};

// Threads that sleep in the kernel until the device goes away.
class Waiters {
public:
	explicit Waiters(const Holder &holder)
		: events_([this, &holder] { wait_for_fatal(holder.device.context.get()); }),
		  completions_([this, &holder] { wait_for_completion(holder.channel.get()); })
	{
	}
	bool told() const { return told_; }
	// Both threads have returned from their calls.
	bool are_back() const { return back_ == 2; }
	void join()
	{
		events_.join();
		completions_.join();
	}

private:
	// It is the last event of a device: the kernel lets a further call wait for ever.
	void wait_for_fatal(ibv_context *context)
	{
		ibv_async_event event = {};

		do {
			if (ibv_get_async_event(context, &event))
				die("get_async_event");
			ibv_ack_async_event(&event);
		} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
		told_ = true;
		back_++;
	}
	void wait_for_completion(ibv_comp_channel *channel)
	{
		ibv_cq *cq = nullptr;
		void *context = nullptr;

		if (!ibv_get_cq_event(channel, &cq, &context))
			expect("a completion event came", 1, 0);
		else
			expect("errno of get_cq_event", errno, EIO);
		back_++;
	}

	std::atomic<bool> told_{false};
	std::atomic<int> back_{0};
	std::thread events_;
	std::thread completions_;
};

template <typename Object> int error_of(Object *object)
{
	return object ? 0 : errno;
}

// Every command fails. What the calls below would make is not freed: there is nothing.
void commands_fail(Holder &holder)
{
	ibv_context *const context = holder.device.context.get();
	const Link link;
	ibv_device_attr device = {};
	ibv_port_attr port = {};
	ibv_qp_attr qp = {};
	ibv_qp_init_attr init = {};
	ibv_srq_attr srq = {};

	expect("alloc_pd", error_of(ibv_alloc_pd(context)), EIO);
	expect("create_cq", error_of(ibv_create_cq(context, 4, nullptr, nullptr, 0)), EIO);
	expect("create_comp_channel", error_of(ibv_create_comp_channel(context)), EIO);
	expect("reg_mr",
	       error_of(ibv_reg_mr(holder.pd.get(), holder.memory.data(), 4096, link.access)), EIO);
	init.qp_type = IBV_QPT_RC;
	init.send_cq = init.recv_cq = holder.cq.get();
	init.cap.max_send_wr = init.cap.max_recv_wr = 1;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	expect("create_qp", error_of(ibv_create_qp(holder.pd.get(), &init)), EIO);
	expect("query_port", ibv_query_port(context, 1, &port), EIO);
	expect("query_qp", ibv_query_qp(holder.rc.get(), &qp, IBV_QP_STATE, &init), EIO);
	expect("modify_qp", to_state(holder.rc.get(), IBV_QPS_ERR), EIO);
	expect("query_srq", ibv_query_srq(holder.srq.get(), &srq), EIO);
	expect("query_device", ibv_query_device(context, &device), EIO);
	expect("kick", kick(context->cmd_fd, holder.rc->qp_num), EIO);
}

int run(const std::string &name)
{
	std::optional<Device> device = Device::open(name, {});
	if (!device)
		return 1;
	Holder holder(std::move(*device));
	Waiters waiters(holder);
	const auto limit = Clock::now() + 45s;
	uint64_t arrived = 0;

	for (uint32_t i = 0; i < Holder::depth; i++)
		if ((errno = holder.write()))
			die("post");
	bool said = false;
	while (!waiters.told() && Clock::now() < limit) {
		arrived += holder.turn();
		if (arrived >= 100 && !said) {
			said = true;
			std::puts("ready");
			std::fflush(stdout);
		}
	}
	expect("DEVICE_FATAL", waiters.told(), true);
	while (!waiters.are_back() && Clock::now() < limit)
		holder.turn();
	expect("threads that are back", waiters.are_back(), true);
	if (failures)
		_exit(1); // a thread may still be in its call
	waiters.join();
	gone = true;
	for (uint32_t i = 0; i < Holder::depth; i++)
		holder.turn(); // completions from before
	// Whether the ring has room or not, a post must not crash, and no message arrives any more.
	for (uint32_t i = 0; i < 4 * Holder::depth; i++) {
		holder.write();
		expect("messages of a dead device", static_cast<int>(holder.turn()), 0);
	}
	static_cast<void>(ibv_req_notify_cq(holder.cq.get(), 0));
	commands_fail(holder);
	return 0;
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	std::string device;
	for (int opt; (opt = getopt(argc, argv, "d:")) != -1;)
		if (opt == 'd')
			device = optarg;
	if (device.empty() || optind != argc) {
		std::fputs("verbs_outlive -d DEVICE\n", stderr);
		return 2;
	}
	verbs::hidden = std::getenv("RDMAV_ALLOW_DISASSOC_DESTROY");
	if (const int status = verbs::run(device))
		return status;
	if (verbs::failures)
		return 1;
	std::puts("outlived");
}
