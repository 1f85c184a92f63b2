/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Each allocation of each verb fails once, and so do threads: an errno, and nothing that stays. */
#include <cerrno>
#include <cstdlib>
#include <new>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.hpp"
#include "neighbours.hpp"
#include "packet_counts.hpp"

namespace
{

thread_local long allocations_left = -1; /* of this thread; -1: any number */

bool fail_now()
{
	return allocations_left >= 0 && allocations_left-- == 0;
}

} // namespace

[[gnu::noinline]] void *operator new(size_t size)
{
	void *p = fail_now() ? nullptr : malloc(size ? size : 1);

	if (!p)
		throw std::bad_alloc();
	return p;
}

/* Sanitizers' own would not call ours. */
[[gnu::noinline]] void *operator new(size_t size, const std::nothrow_t &) noexcept
{
	return fail_now() ? nullptr : malloc(size ? size : 1);
}

[[gnu::noinline]] void operator delete(void *p, const std::nothrow_t &) noexcept
{
	free(p);
}

[[gnu::noinline]] void operator delete(void *p) noexcept
{
	free(p);
}

[[gnu::noinline]] void operator delete(void *p, size_t) noexcept
{
	free(p);
}

namespace sirdma::twin::test
{

namespace
{

/* @attempt with the first, second, ... allocation failing, until none does; null or false: with ENOMEM. */
template <typename Attempt> void fail_each(const char *what, Attempt attempt)
{
	port_alloc_fail = [](size_t) { return fail_now(); };
	for (long i = 0;; ++i) {
		ASSERT_LT(i, 10000) << what;
		errno = 0;
		allocations_left = i;

		const bool ok = attempt();
		const bool reached = allocations_left < 0;
		const int err = errno;

		allocations_left = -1;
		if (ok && !reached)
			break;
		if (!ok) {
			EXPECT_EQ(err, ENOMEM) << what << ", allocation " << i;
		}
	}
	port_alloc_fail = nullptr;
}

} // namespace

TEST(TwinMemory, AFailedAllocationIsAnErrno)
{
	Node node, peer;
	ibv_device *device = node.device->verbs();
	ibv_qp_init_attr init{};

	init.send_cq = init.recv_cq = node.cq;
	init.qp_type = IBV_QPT_RC;
	init.cap = {.max_send_wr = 4,
		    .max_recv_wr = 4,
		    .max_send_sge = 1,
		    .max_recv_sge = 1,
		    .max_inline_data = 0};
	fail_each("start", [] {
		const auto fresh = [] {
			try {
				return std::make_unique<Device>(Config{}, 1);
			} catch (const std::bad_alloc &) {
				errno = ENOMEM;
				return std::unique_ptr<Device>();
			}
		}();

		if (!fresh)
			return false;
		const int err = fresh->start();

		errno = err;
		return !err;
	});

	const size_t files = open_files();

	fail_each("open", [device] {
		ibv_context *context = ibv_open_device(device);

		return context && !ibv_close_device(context);
	});
	fail_each("pd", [&node] {
		ibv_pd *pd = ibv_alloc_pd(node.context);

		return pd && !ibv_dealloc_pd(pd);
	});
	fail_each("mr", [&node] {
		ibv_mr *mr = ibv_reg_mr(node.pd, node.buffer.data(), 4096, 0);

		return mr && !ibv_dereg_mr(mr);
	});
	fail_each("cq", [&node] {
		ibv_comp_channel *channel = create_comp_channel(node.context);
		ibv_cq *cq = ibv_create_cq(node.context, 4, nullptr, channel, 0);
		const int err = errno;
		const bool ok = cq && !ibv_destroy_cq(cq);

		EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
		errno = err;
		return ok;
	});
	fail_each("qp", [&] {
		ibv_qp *qp = ibv_create_qp(node.pd, &init);

		return qp && !ibv_destroy_qp(qp);
	});
	EXPECT_TRUE(no_more_files_than(files));

	/* All of it still works. */
	const Address to = peer.address();

	node.connect(to, 15);
	peer.connect(node.address(), 15);
	allocations_left = 0; /* the connection is the helper's then */
	ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, 70000, &to, 0), 0);
	EXPECT_EQ(node.poll().status, IBV_WC_SUCCESS);
	allocations_left = -1;
	EXPECT_EQ(memcmp(node.buffer.data(), peer.buffer.data(), 70000), 0);
}

/* The helper has no memory to take its connection among those it reads. */
TEST(TwinMemory, ANeighbourLeavesWithWhatItSentTaken)
{
	const auto n = Neighbours::create(own_address(0));
	auto other = Neighbours::create(own_address(0));
	uint8_t bytes[32] = {};
	Counts sink;

	ASSERT_TRUE(n && other);
	ASSERT_TRUE(n->forward(other->slot(), {}, bytes, sizeof(bytes), 0, false));
	for (int i = 0; i < 3; ++i)
		other->serve(sink);
	ASSERT_TRUE(other->forward(n->slot(), {}, bytes, sizeof(bytes), 0, false));
	other.reset();
	port_alloc_fail = [](size_t) { return allocations_left == 0; };
	for (int i = 0; i < 3; ++i) {
		allocations_left = 0;
		n->serve(sink);
	}
	allocations_left = -1;
	port_alloc_fail = nullptr;
	EXPECT_EQ(sink.seen, 1);
	EXPECT_EQ(n->receive(sink), 0u);
	EXPECT_TRUE(n->fall_asleep());
}

TEST(TwinMemory, AThreadThatCannotBeIsAnErrno)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	const pid_t child = fork();
	int status = -1;

	if (!child) {
		const rlimit none = {.rlim_cur = 1, .rlim_max = 1};

		alarm(20);
		/* Nobody's limit counts for root. */
		if (setgid(12345) || setuid(12345) || setrlimit(RLIMIT_NPROC, &none))
			_exit(77);
		errno = 0;

		const auto device = Device::create(Config{});

		_exit(device ? 2 : errno != EAGAIN);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		GTEST_SKIP() << "needs root";
	EXPECT_EQ(status, 0);
}

} // namespace sirdma::twin::test
