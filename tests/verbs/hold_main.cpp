// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Loads that ask the device for much work by few system calls. A trace of the kernel shows meanwhile for how long each of
// them, and each bottom half behind them, keeps the CPU.
//   flush   queue pairs with full receive queues go to the error state, all of them together
//   events  queue pairs in the error state, each with an armed completion queue: each receive is an event
//   lists   every queue pair posts one list of WRITEs; the peer may be the same device. The queue pairs are RC, or UC by -u:
//           these have no window, and complete a WRITE when it is sent
//   sqe     a full send queue goes to SQE by its first request, and back to RTS, which flushes the others
//   timers  each queue pair sends one WRITE to a queue pair that is gone, so that all their timers run at once
//   verbs_hold -d DEVICE [-p PEER-DEVICE] [-n QUEUE-PAIRS] [-w REQUESTS OF EACH] [-s BYTES] [-r ROUNDS] [-u] LOAD
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_hold: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace
{

struct Plan {
	std::string device, peer;
	uint32_t pairs = 1;
	uint32_t depth = 1;
	size_t bytes = 1 << 20;
	int rounds = 1;
	ibv_qp_type type = IBV_QPT_RC;
};

[[noreturn]] void die(const char *what, int error = errno)
{
	std::fprintf(stderr, "verbs_hold: %s: %s\n", what, std::strerror(error));
	std::exit(1);
}

// One device with what all queue pairs share.
struct Side {
	Device device;
	Pd pd;
	Channel channel;
	Cq cq;
	Mapping memory;
	Mr mr;

	Side(const std::string &name, const Plan &plan)
	{
		auto opened = Device::open(name, {});
		if (!opened)
			std::exit(1);
		device = std::move(*opened);
		pd.reset(ibv_alloc_pd(device.context.get()));
		cq.reset(ibv_create_cq(device.context.get(),
				       static_cast<int>(plan.pairs * plan.depth + 1), nullptr,
				       nullptr, 0));
		channel.reset(ibv_create_comp_channel(device.context.get()));
		memory = Mapping::anonymous(plan.bytes);
		if (!pd || !cq || !channel || !memory)
			die(name.c_str());
		mr.reset(ibv_reg_mr(pd.get(), memory.data(), plan.bytes, Link().access));
		if (!mr)
			die("ibv_reg_mr");
	}
	Qp make_qp(ibv_qp_type type, uint32_t sends, uint32_t receives = 1,
		   ibv_cq *own = nullptr) const
	{
		ibv_qp_init_attr init = {};
		init.qp_type = type;
		init.send_cq = init.recv_cq = own ? own : cq.get();
		init.cap.max_send_wr = sends;
		init.cap.max_recv_wr = receives;
		init.cap.max_send_sge = init.cap.max_recv_sge = 1;
		Qp qp(ibv_create_qp(pd.get(), &init));
		if (!qp)
			die("ibv_create_qp");
		if (const int rc = to_init(qp.get(), device, {}))
			die("to INIT", rc);
		return qp;
	}
	Address address(const Qp &qp) const { return {qp->qp_num, 0, device.gid}; }
};

void connect(const Side &side, const Qp &qp, const Address &remote, const Link &link = {})
{
	if (const int rc = to_rtr(qp.get(), side.device, remote, link))
		die("to RTR", rc);
	if (const int rc = to_rts(qp.get(), 0, link))
		die("to RTS", rc);
}

// Requests in a list, which one call posts; all of them write the same bytes to the same place.
class List {
public:
	List(const Side &near, const Side &far, uint32_t length, size_t bytes)
		: sge_{near.memory.address(), static_cast<uint32_t>(bytes), near.mr->lkey},
		  wrs_(length)
	{
		for (ibv_send_wr &wr : wrs_) {
			wr.next = &wr == &wrs_.back() ? nullptr : &wr + 1;
			wr.sg_list = &sge_;
			wr.num_sge = 1;
			wr.opcode = IBV_WR_RDMA_WRITE;
			wr.wr.rdma.remote_addr = far.memory.address();
			wr.wr.rdma.rkey = far.mr->rkey;
		}
		wrs_.back().send_flags = IBV_SEND_SIGNALED;
	}
	// The device refuses the first request, which names no region.
	void spoil_first()
	{
		bad_ = sge_;
		bad_.lkey = ~sge_.lkey;
		wrs_.front().sg_list = &bad_;
	}
	void post(const Qp &qp)
	{
		ibv_send_wr *bad = nullptr;

		if (const int rc = ibv_post_send(qp.get(), wrs_.data(), &bad))
			die("ibv_post_send", rc);
	}

private:
	ibv_sge sge_, bad_ = {};
	std::vector<ibv_send_wr> wrs_;
};

// Take @n completions, of @status each.
void take(const Side &side, uint64_t n, ibv_wc_status status)
{
	std::array<ibv_wc, 64> wcs;

	while (n) {
		const uint64_t most = std::min<uint64_t>(n, wcs.size());
		const int got = ibv_poll_cq(side.cq.get(), static_cast<int>(most), wcs.data());
		if (got < 0)
			die("ibv_poll_cq");
		if (!got)
			usleep(500);
		for (size_t i = 0; i < static_cast<size_t>(got); i++, n--) {
			if (wcs[i].status == status)
				continue;
			std::fprintf(stderr, "verbs_hold: %s instead of %s\n",
				     ibv_wc_status_str(wcs[i].status), ibv_wc_status_str(status));
			std::exit(1);
		}
	}
}

void post_recv(const Qp &qp)
{
	ibv_recv_wr wr = {}, *bad = nullptr;

	if (const int rc = ibv_post_recv(qp.get(), &wr, &bad))
		die("ibv_post_recv", rc);
}

void flush(const Plan &plan)
{
	const Side side(plan.device, plan);
	std::vector<Qp> qps;

	for (uint32_t i = 0; i < plan.pairs; i++) {
		qps.push_back(side.make_qp(IBV_QPT_RC, 1, plan.depth));
		for (uint32_t n = 0; n < plan.depth; n++)
			post_recv(qps.back());
	}
	for (const Qp &qp : qps)
		if (const int rc = to_state(qp.get(), IBV_QPS_ERR))
			die("to ERR", rc);
	take(side, uint64_t{plan.pairs} * plan.depth, IBV_WC_WR_FLUSH_ERR);
	std::printf("%u receive queues of %u flushed\n", plan.pairs, plan.depth);
}

void events(const Plan &plan)
{
	const Side side(plan.device, plan);
	std::vector<Cq> cqs;
	std::vector<Qp> qps;

	for (uint32_t i = 0; i < plan.pairs; i++) {
		cqs.emplace_back(ibv_create_cq(side.device.context.get(), 16, nullptr,
					       side.channel.get(), 0));
		if (!cqs.back())
			die("ibv_create_cq");
		qps.push_back(side.make_qp(IBV_QPT_RC, 1, 4, cqs.back().get()));
		if (const int rc = to_state(qps.back().get(), IBV_QPS_ERR))
			die("to ERR", rc);
	}
	for (int round = 0; round < plan.rounds; round++) {
		for (uint32_t i = 0; i < plan.pairs; i++) {
			ibv_wc wc;

			if (ibv_req_notify_cq(cqs[i].get(), 0))
				die("ibv_req_notify_cq");
			post_recv(qps[i]);
			while (ibv_poll_cq(cqs[i].get(), 1, &wc) > 0)
				;
		}
		for (uint32_t i = 0; i < plan.pairs; i++) {
			ibv_cq *cq;
			void *context;

			if (ibv_get_cq_event(side.channel.get(), &cq, &context))
				die("ibv_get_cq_event");
			ibv_ack_cq_events(cq, 1);
		}
	}
	std::printf("%u completion queues with an event each, %d rounds\n", plan.pairs,
		    plan.rounds);
}

void lists(const Plan &plan)
{
	const Side near(plan.device, plan), far(plan.peer, plan);
	std::vector<Qp> from, to;
	List list(near, far, plan.depth, plan.bytes);

	for (uint32_t i = 0; i < plan.pairs; i++) {
		from.push_back(near.make_qp(plan.type, plan.depth));
		to.push_back(far.make_qp(plan.type, 1));
		connect(near, from.back(), far.address(to.back()));
		connect(far, to.back(), near.address(from.back()));
	}
	for (int round = 0; round < plan.rounds; round++) {
		for (const Qp &qp : from)
			list.post(qp);
		take(near, plan.pairs, IBV_WC_SUCCESS);
	}
	std::printf("%u lists of %u WRITEs of %zu bytes, %d rounds\n", plan.pairs, plan.depth,
		    plan.bytes, plan.rounds);
}

void sqe(const Plan &plan)
{
	const Side near(plan.device, plan), far(plan.peer, plan);
	const Qp qp = near.make_qp(IBV_QPT_UC, plan.depth), to = far.make_qp(IBV_QPT_UC, 1);
	List list(near, far, plan.depth, 1);

	list.spoil_first();
	connect(near, qp, far.address(to));
	connect(far, to, near.address(qp));
	for (int round = 0; round < plan.rounds; round++) {
		list.post(qp);
		// A thread of low priority flushes as well, but does not run before this call does.
		if (const int rc = to_state(qp.get(), IBV_QPS_RTS))
			die("SQE to RTS", rc);
		take(near, 1, IBV_WC_LOC_PROT_ERR);
		take(near, plan.depth - 1, IBV_WC_WR_FLUSH_ERR);
	}
	std::printf("a send queue of %u requests, %d rounds\n", plan.depth, plan.rounds);
}

void timers(const Plan &plan)
{
	const Side near(plan.device, plan), far(plan.peer, plan);
	std::vector<Qp> qps;
	List list(near, far, 1, 1);
	Address gone;
	Link link;

	// All are posted before the first timer ends, and each is repeated once.
	link.timeout = 17; // 537 ms
	link.retry_cnt = 1;
	gone = far.address(far.make_qp(IBV_QPT_RC, 1));
	for (uint32_t i = 0; i < plan.pairs; i++) {
		qps.push_back(near.make_qp(IBV_QPT_RC, 1));
		connect(near, qps.back(), gone, link);
	}
	for (const Qp &qp : qps)
		list.post(qp);
	take(near, plan.pairs, IBV_WC_RETRY_EXC_ERR);
	std::printf("%u queue pairs without a peer\n", plan.pairs);
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	verbs::Plan plan;
	for (int opt; (opt = getopt(argc, argv, "d:p:n:w:s:r:u")) != -1;) {
		switch (opt) {
		case 'd':
			plan.device = optarg;
			break;
		case 'p':
			plan.peer = optarg;
			break;
		case 'n':
			plan.pairs = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0));
			break;
		case 'w':
			plan.depth = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0));
			break;
		case 's':
			plan.bytes = std::strtoul(optarg, nullptr, 0);
			break;
		case 'r':
			plan.rounds = std::atoi(optarg);
			break;
		case 'u':
			plan.type = IBV_QPT_UC;
			break;
		default:
			return 2;
		}
	}
	const struct {
		const char *name;
		void (*run)(const verbs::Plan &plan);
	} loads[] = {
		{"flush", verbs::flush}, {"events", verbs::events}, {"lists", verbs::lists},
		{"sqe", verbs::sqe},	 {"timers", verbs::timers},
	};
	const std::string what = optind < argc ? argv[optind] : "";
	if (plan.peer.empty())
		plan.peer = plan.device;
	if (!plan.device.empty() && plan.pairs && plan.depth && plan.bytes) {
		for (const auto &load : loads) {
			if (what != load.name)
				continue;
			load.run(plan);
			return 0;
		}
	}
	std::fputs("verbs_hold -d DEVICE [-p PEER-DEVICE] [-n QUEUE-PAIRS] [-w REQUESTS] "
		   "[-s BYTES] [-r ROUNDS] [-u] flush|events|lists|sqe|timers\n",
		   stderr);
	return 2;
}
