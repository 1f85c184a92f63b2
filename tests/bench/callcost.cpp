// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Calls of the data path on any RDMA device, for callgrind to count the instructions of its provider (scripts/bench instructions).
//   callcost DEVICE COUNT [threads]
// Prints a line for each case: its name, and for how many requests or completions the count stands, or "-" where the provider
// does not have the call. With "threads" the process has a second thread, so that the C library's and our provider's locks are
// taken by atomic instructions.
//
// The call of a case is in its function measured(), which contains nothing else. A case begins with count_begins() and ends with
// count_ends(): callgrind forgets what it counted before the first and writes a file after the second. What a call does seldom,
// as finding room in the ring, is in the mean.
//
// A queue pair is connected to itself. Each case begins with a few calls that are not counted, because they find the addresses of
// functions, and ends with the data and the completions checked, so that what is counted are calls that did what they should.
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>

// Lets a device work that has no processor of its own: tests/bench/fake_mlx5.cpp, where that is preloaded.
extern "C" [[gnu::weak]] void fake_device_progress();

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "callcost: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace
{

constexpr int list_len = 16;
constexpr uint32_t data_len = 8; // bytes of each request
constexpr uint32_t depth = 128; // of each queue
constexpr int warm_up = 4; // calls that are not counted
constexpr std::chrono::seconds patience(60); // for what the device does at once

[[noreturn]] void die(const std::string &what, int error = 0)
{
	std::fprintf(stderr, "callcost: %s%s%s\n", what.c_str(), error ? ": " : "",
		     error ? std::strerror(error) : "");
	_exit(1);
}

// Thrown when the provider does not have what a case needs.
struct Missing {};

template <typename T> T *made(T *object, const char *what)
{
	if (object)
		return object;
	if (errno == EOPNOTSUPP || errno == ENOSYS)
		throw Missing();
	die(what, errno);
}

// What queues are made for.
enum class Api {
	lists, // ibv_post_send() and ibv_poll_cq()
	wr, // ibv_wr_*()
	poll_ex, // ibv_start_poll()
};

// What the device reads and writes.
struct Memory {
	alignas(64) std::array<uint8_t, data_len> source;
	alignas(64) std::array<uint8_t, data_len> target; // of WRITEs
	alignas(64) std::array<std::array<uint8_t, data_len>, list_len> received;
	alignas(64) uint64_t flag; // what the last READ of a batch reads
	alignas(64) uint64_t flag_read;
};

// A queue pair that is connected to itself.
class World {
public:
	World(const Device &device, Api api)
		: pd_(made(ibv_alloc_pd(device.context.get()), "ibv_alloc_pd")),
		  mapping_(Mapping::anonymous(sizeof(Memory)))
	{
		const Link link{.mtu = device.port_attr.active_mtu};

		if (!mapping_)
			die("memory", errno);
		mr_.reset(made(ibv_reg_mr(pd_.get(), mapping_.data(), mapping_.size(), link.access),
			       "ibv_reg_mr"));
		make_cq(device, api, send_cq_, send_cq_ex);
		make_cq(device, api, recv_cq_, recv_cq_ex);
		make_qp(device, api);

		const Address self{qp_->qp_num, 0, device.gid};
		int err = to_init(qp(), device, link);

		if (!err)
			err = to_rtr(qp(), device, self, link);
		if (!err)
			err = to_rts(qp(), 0, link);
		if (err)
			die("ibv_modify_qp", err);
		sge = {reinterpret_cast<uintptr_t>(&memory().source), data_len, mr_->lkey};
	}

	ibv_qp *qp() const { return qp_.get(); }
	ibv_cq *send_cq() const { return send_cq_.get(); }
	ibv_cq *recv_cq() const { return recv_cq_.get(); }
	Memory &memory() const { return *reinterpret_cast<Memory *>(mapping_.data()); }
	uint32_t rkey() const { return mr_->rkey; }
	uint64_t target() const { return reinterpret_cast<uintptr_t>(&memory().target); }

	ibv_send_wr request(ibv_wr_opcode opcode)
	{
		ibv_send_wr wr = {};

		wr.wr_id = 1;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = opcode;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.rdma.remote_addr = target();
		wr.wr.rdma.rkey = rkey();
		return wr;
	}

	void post(ibv_send_wr &wr) const
	{
		ibv_send_wr *bad;

		if (const int err = ibv_post_send(qp(), &wr, &bad))
			die("ibv_post_send", err);
	}

	// The place of the receive that is posted next.
	ibv_sge receive_place()
	{
		const size_t place = receives_++ % list_len;

		memory().received[place] = {};
		return {reinterpret_cast<uintptr_t>(&memory().received[place]), data_len,
			mr_->lkey};
	}

	void post_receives(int count)
	{
		for (int i = 0; i < count; ++i) {
			ibv_sge place = receive_place();
			ibv_recv_wr wr = {}, *bad;

			wr.sg_list = &place;
			wr.num_sge = 1;
			if (const int err = ibv_post_recv(qp(), &wr, &bad))
				die("ibv_post_recv", err);
		}
	}

	void new_data()
	{
		++generation_;
		std::memcpy(&memory().source, &generation_, data_len);
	}

	// Waits until the completions of all requests are in their queues: the response of an RDMA READ acknowledges what was
	// posted before it, and requests complete in order.
	void settle()
	{
		std::atomic_ref<uint64_t> read(memory().flag_read);
		const auto end = std::chrono::steady_clock::now() + patience;
		ibv_sge place = {reinterpret_cast<uintptr_t>(&memory().flag_read), sizeof(uint64_t),
				 mr_->lkey};
		ibv_send_wr wr = request(IBV_WR_RDMA_READ);

		wr.sg_list = &place;
		wr.send_flags = 0;
		wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(&memory().flag);
		memory().flag++;
		post(wr);
		while (read.load() != memory().flag) {
			if (fake_device_progress)
				fake_device_progress();
			if (std::chrono::steady_clock::now() > end)
				die("the device does nothing");
		}
	}

	// Takes @count completions, which must be there.
	static void take(ibv_cq *cq, int count)
	{
		std::array<ibv_wc, list_len> wcs;

		if (!count)
			return;
		if (ibv_poll_cq(cq, count, wcs.data()) != count)
			die("completions are missing");
		check(wcs.data(), count);
	}

	static void check(const ibv_wc *wcs, int count)
	{
		for (int i = 0; i < count; ++i)
			if (wcs[i].status != IBV_WC_SUCCESS)
				die(ibv_wc_status_str(wcs[i].status));
	}

	void check_received(int count) const
	{
		for (int i = 0; i < count; ++i)
			if (memory().received[(receives_ - 1 - i) % list_len] != memory().source)
				die("wrong data is received");
	}

	void check_written() const
	{
		if (memory().target != memory().source)
			die("wrong data is written");
	}

private:
	void make_cq(const Device &device, Api api, Cq &cq, ibv_cq_ex *&cq_ex)
	{
		ibv_context *const context = device.context.get();
		ibv_cq_init_attr_ex attr = {};

		errno = 0;
		if (api != Api::poll_ex) {
			cq.reset(made(ibv_create_cq(context, depth, nullptr, nullptr, 0), "ibv_"
											  "create_"
											  "cq"));
			return;
		}
		attr.cqe = depth;
		attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
		cq_ex = made(ibv_create_cq_ex(context, &attr), "ibv_create_cq_ex");
		cq.reset(ibv_cq_ex_to_cq(cq_ex));
	}

	void make_qp(const Device &device, Api api)
	{
		ibv_qp_init_attr_ex attr = {};

		attr.send_cq = send_cq();
		attr.recv_cq = recv_cq();
		attr.qp_type = IBV_QPT_RC;
		attr.cap = {.max_send_wr = depth,
			    .max_recv_wr = depth,
			    .max_send_sge = 1,
			    .max_recv_sge = 1};
		attr.pd = pd_.get();
		attr.comp_mask = IBV_QP_INIT_ATTR_PD;
		errno = 0;
		if (api != Api::wr) {
			// The members are the same up to comp_mask.
			qp_.reset(made(ibv_create_qp(pd_.get(),
						     reinterpret_cast<ibv_qp_init_attr *>(&attr)),
				       "ibv_create_qp"));
			return;
		}
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
		qp_.reset(made(ibv_create_qp_ex(device.context.get(), &attr), "ibv_create_qp_ex"));
	}

	Pd pd_;
	Mapping mapping_;
	Mr mr_;
	Cq send_cq_, recv_cq_;
	Qp qp_;
	uint64_t generation_ = 0;
	size_t receives_ = 0;

public:
	ibv_sge sge; // the data of every request
	ibv_cq_ex *send_cq_ex = nullptr, *recv_cq_ex = nullptr;
};

struct Case {
	explicit Case(World &of) : world(of) {}
	virtual ~Case() = default;
	virtual void before() {}
	// Returns what the call returns; the caller expects @wanted.
	virtual int measured() = 0;
	virtual void after() {}

	World &world;
	int wanted = 0;
	int calls = 1; // a list counts as so many
};

// Posting of @count equal requests.
struct Posting : Case {
	Posting(World &of, bool send, int count) : Case(of), is_send(send) { calls = count; }

	void before() override
	{
		world.new_data();
		if (is_send)
			world.post_receives(calls);
	}

	void after() override
	{
		world.settle();
		world.take(world.send_cq(), calls);
		world.take(world.recv_cq(), is_send ? calls : 0);
		if (is_send)
			world.check_received(calls);
		else
			world.check_written();
	}

	const bool is_send;
};

// ibv_post_send()
struct PostSend : Posting {
	PostSend(World &of, ibv_wr_opcode opcode, int count = 1)
		: Posting(of, opcode == IBV_WR_SEND, count)
	{
		for (int i = 0; i < count; ++i) {
			list[i] = of.request(opcode);
			list[i].next = i + 1 < count ? &list[i + 1] : nullptr;
		}
	}

	[[gnu::noinline]] int measured() override
	{
		ibv_send_wr *bad;

		return ibv_post_send(world.qp(), list, &bad);
	}

	ibv_send_wr list[list_len] = {};
};

struct WrCase : Posting {
	WrCase(World &of, bool send, int count)
		: Posting(of, send, count), ex(ibv_qp_to_qp_ex(of.qp()))
	{
		ex->wr_flags = IBV_SEND_SIGNALED;
		ex->wr_id = 1;
	}

	ibv_qp_ex *const ex;
};

struct WrWrite : WrCase {
	explicit WrWrite(World &of) : WrCase(of, false, 1) {}

	[[gnu::noinline]] int measured() override
	{
		ibv_wr_start(ex);
		ibv_wr_rdma_write(ex, world.rkey(), world.target());
		ibv_wr_set_sge(ex, world.sge.lkey, world.sge.addr, data_len);
		return ibv_wr_complete(ex);
	}
};

template <int count> struct WrSend : WrCase {
	explicit WrSend(World &of) : WrCase(of, true, count) {}

	[[gnu::noinline]] int measured() override
	{
		ibv_wr_start(ex);
		for (int i = 0; i < count; ++i) {
			ibv_wr_send(ex);
			ibv_wr_set_sge(ex, world.sge.lkey, world.sge.addr, data_len);
		}
		return ibv_wr_complete(ex);
	}
};

struct PostRecv : Case {
	explicit PostRecv(World &of) : Case(of)
	{
		wr.sg_list = &place;
		wr.num_sge = 1;
	}

	void before() override { place = world.receive_place(); }

	[[gnu::noinline]] int measured() override
	{
		ibv_recv_wr *bad;

		return ibv_post_recv(world.qp(), &wr, &bad);
	}

	void after() override
	{
		ibv_send_wr send = world.request(IBV_WR_SEND);

		world.new_data();
		world.post(send);
		world.settle();
		world.take(world.send_cq(), 1);
		world.take(world.recv_cq(), 1);
		world.check_received(1);
	}

	ibv_sge place = {};
	ibv_recv_wr wr = {};
};

// ibv_poll_cq() of so many completions of a send queue or a receive queue.
struct Poll : Case {
	Poll(World &of, int count, bool send = true) : Case(of), is_send(send)
	{
		wanted = count;
		calls = count ? count : 1;
	}

	void before() override
	{
		ibv_send_wr wr = world.request(is_send ? IBV_WR_RDMA_WRITE : IBV_WR_SEND);

		if (!wanted)
			return;
		world.new_data();
		if (!is_send)
			world.post_receives(wanted);
		for (int i = 0; i < wanted; ++i)
			world.post(wr);
		world.settle();
	}

	[[gnu::noinline]] int measured() override
	{
		return ibv_poll_cq(is_send ? world.send_cq() : world.recv_cq(), calls, wcs.data());
	}

	void after() override
	{
		World::check(wcs.data(), wanted);
		check_data();
	}

	void check_data()
	{
		if (!wanted)
			return;
		if (is_send) {
			world.check_written();
		} else {
			world.take(world.send_cq(), wanted);
			world.check_received(wanted);
		}
	}

	const bool is_send;
	std::array<ibv_wc, list_len> wcs;
};

// The same by the extended poll, which reads what an application mostly does.
struct PollEx : Poll {
	using Poll::Poll;

	[[gnu::noinline]] int measured() override
	{
		ibv_cq_ex *const cq = is_send ? world.send_cq_ex : world.recv_cq_ex;
		ibv_poll_cq_attr attr = {};
		int polled = 0;

		for (int err = ibv_start_poll(cq, &attr); !err; err = ibv_next_poll(cq)) {
			bad |= cq->status;
			sum += cq->wr_id + ibv_wc_read_opcode(cq) + ibv_wc_read_byte_len(cq);
			++polled;
		}
		if (polled)
			ibv_end_poll(cq);
		return polled;
	}

	void after() override
	{
		if (bad)
			die("a completion with an error");
		check_data();
	}

	unsigned int bad = 0;
	uint64_t sum = 0;
};

struct Named {
	const char *name;
	Api api;
	std::unique_ptr<Case> (*make)(World &world);
};

template <typename T, auto... args> std::unique_ptr<Case> make(World &world)
{
	return std::make_unique<T>(world, args...);
}

constexpr Named cases[] = {
	{"post_send_send", Api::lists, make<PostSend, IBV_WR_SEND>},
	{"post_send_write", Api::lists, make<PostSend, IBV_WR_RDMA_WRITE>},
	{"post_send_list", Api::lists, make<PostSend, IBV_WR_SEND, list_len>},
	{"wr_send", Api::wr, make<WrSend<1>>},
	{"wr_write", Api::wr, make<WrWrite>},
	{"wr_list", Api::wr, make<WrSend<list_len>>},
	{"post_recv", Api::lists, make<PostRecv>},
	{"poll_empty", Api::lists, make<Poll, 0>},
	{"poll_send", Api::lists, make<Poll, 1>},
	{"poll_recv", Api::lists, make<Poll, 1, false>},
	{"poll_list", Api::lists, make<Poll, list_len>},
	{"poll_recv_list", Api::lists, make<Poll, list_len, false>},
	{"poll_ex_empty", Api::poll_ex, make<PollEx, 0>},
	{"poll_ex_send", Api::poll_ex, make<PollEx, 1>},
	{"poll_ex_recv", Api::poll_ex, make<PollEx, 1, false>},
	{"poll_ex_list", Api::poll_ex, make<PollEx, list_len>},
};

// Two functions that the compiler neither removes nor takes for one
[[gnu::noinline]] void count_begins()
{
	asm volatile("# begin");
}

[[gnu::noinline]] void count_ends()
{
	asm volatile("# end");
}

void call(Case &one)
{
	one.before();
	if (one.measured() != one.wanted)
		die("a call fails");
	one.after();
}

// Returns the number of requests or completions.
long run(const Device &device, const Named &named, long count)
{
	World world(device, named.api);
	const std::unique_ptr<Case> one = named.make(world);

	for (int i = 0; i < warm_up; ++i)
		call(*one);
	count_begins();
	for (long i = 0; i < count; ++i)
		call(*one);
	count_ends();
	return count * one->calls;
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	using namespace verbs;

	const long count = argc > 2 ? std::atol(argv[2]) : 0;
	std::binary_semaphore end{0};
	std::thread other;

	if (count <= 0)
		die("usage: callcost DEVICE COUNT [threads]");
	if (argc > 3)
		other = std::thread([&] { end.acquire(); });

	const auto device = Device::open(argv[1], {});

	if (!device)
		return 1; // Device::open has said why
	for (const Named &named : cases) {
		try {
			std::printf("%s %ld\n", named.name, run(*device, named, count));
		} catch (const Missing &) {
			std::printf("%s -\n", named.name);
		}
		std::fflush(stdout);
	}
	end.release();
	if (other.joinable())
		other.join();
	return 0;
}
