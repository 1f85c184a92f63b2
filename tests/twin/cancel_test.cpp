/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Threads that are cancelled, and threads that wait for one without a processor. */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "entry.hpp"
#include "lock.hpp"
#include "node.hpp"

namespace sirdma::twin::test
{

namespace
{

struct Work {
	std::function<void()> once;
	std::atomic<unsigned> times{0};
};

void *repeat(void *arg)
{
	Work &work = *static_cast<Work *>(arg);

	for (;;) {
		work.once();
		++work.times;
		pthread_testcancel();
	}
	return nullptr;
}

/* Many threads, each cancelled while it does @once again and again. */
void cancel(std::function<void()> once)
{
	for (int i = 0; i < 30; ++i) {
		Work work{.once = once};
		pthread_t thread;
		void *result = nullptr;

		ASSERT_EQ(pthread_create(&thread, nullptr, repeat, &work), 0);
		while (work.times < 2 + static_cast<unsigned>(i) % 3)
			sched_yield();
		pthread_cancel(thread);
		pthread_join(thread, &result);
		ASSERT_EQ(result, PTHREAD_CANCELED);
	}
}

bool is_socket(int fd, int domain, int type)
{
	int is_domain = 0, is_type = 0;
	socklen_t len = sizeof(int);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &is_domain, &len) &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &is_type, &len) && is_domain == domain &&
	       is_type == type;
}

/* Sockets of the kinds that a query of the interface opens. Helper threads open other files. */
long query_sockets()
{
	const std::filesystem::directory_iterator files("/proc/self/fd");

	return std::count_if(begin(files), end(files), [](const auto &file) {
		const int fd = std::stoi(file.path().filename());

		return is_socket(fd, AF_NETLINK, SOCK_RAW) || is_socket(fd, AF_UNIX, SOCK_DGRAM);
	});
}

std::atomic<bool> hold_child{false}, child_held{false}, let_child_go{false};

/* In a child, before anything there gets the child's number. */
void hold() noexcept
{
	child_held = hold_child.load();
	while (hold_child && !let_child_go)
		sched_yield();
}

} // namespace

class TwinCancel : public ::testing::TestWithParam<LinkKind> {
protected:
	TwinCancel()
	{
		config_.link = GetParam();
		a_ = std::make_unique<Node>(config_, true);
		b_ = std::make_unique<Node>(config_, true);
		a_->connect(b_->address(), 15);
		b_->connect(a_->address(), 15);
	}

	/* Nothing is locked, and what was there works. */
	~TwinCancel() override { write(); }

	void write()
	{
		const Address to = b_->address();

		EXPECT_EQ(a_->post(IBV_WR_RDMA_WRITE, 0, 100000, &to, 0), 0);
		EXPECT_EQ(a_->poll().status, IBV_WC_SUCCESS);
	}

	Config config_;
	std::unique_ptr<Node> a_, b_;
};

INSTANTIATE_TEST_SUITE_P(All, TwinCancel, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

TEST_P(TwinCancel, DataPaths)
{
	cancel([this] { write(); });
	cancel([this] {
		ibv_wc wc;

		ibv_poll_cq(b_->cq, 1, &wc);
	});
}

TEST_P(TwinCancel, Events)
{
	cancel([this] {
		EXPECT_EQ(ibv_req_notify_cq(a_->cq, 0), 0);
		write();
	});
}

TEST_P(TwinCancel, Commands)
{
	cancel([this] {
		ibv_mr *mr = ibv_reg_mr(a_->pd, a_->buffer.data(), 4096, IBV_ACCESS_LOCAL_WRITE);
		ibv_qp_attr attr{};

		EXPECT_TRUE(mr && !ibv_dereg_mr(mr));
		/* Says on stderr why it does not. */
		EXPECT_NE(ibv_modify_qp(a_->qp, &attr, IBV_QP_PORT), 0);
	});
	cancel([this] {
		Node node(config_);

		node.connect(b_->address());
	});
}

TEST_P(TwinCancel, QueriesOfTheGid)
{
	const long before = query_sockets();

	cancel([this] {
		ibv_gid_entry entry;

		EXPECT_EQ(sirdma_twin_entry()->query_gid_ex(a_->context, 1, 0, &entry, 0,
							    sizeof(entry)),
			  0);
	});
	EXPECT_EQ(query_sockets(), before);
}

/* The first thread of a child that uses the device makes the others wait. */
TEST(TwinCancelChild, TheFirstCall)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	int status = -1;

	port_on_fork(hold);
	hold_child = true;

	const pid_t child =
		static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));

	if (!child) {
		std::atomic<bool> waits{false}, cancelled{false}, done{false};

		alarm(20);
		std::thread first([] { port_process(); });

		while (!child_held)
			sched_yield();
		std::thread second([&] {
			waits = true;
			while (!cancelled)
				;
			port_process();
			done = true;
		});

		while (!waits)
			sched_yield();
		pthread_cancel(second.native_handle());
		cancelled = true;
		/* Long enough for it to begin to wait. */
		usleep(50000);
		let_child_go = true;
		first.join();
		second.join();
		_exit(!done);
	}
	hold_child = false;
	ASSERT_GT(child, 0);
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
}

/* How often a thread of this process left its CPU to sleep; -1: there is no such thread. */
long sleeps_of(pid_t thread)
{
	std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
	const std::string name = "voluntary_ctxt_switches:";
	std::string line;

	while (std::getline(status, line))
		if (line.starts_with(name))
			return std::stol(line.substr(name.size()));
	return -1;
}

TEST(Backoff, SleepsAfterALongWait)
{
	using clock = std::chrono::steady_clock;

	QueueLock lock(true);
	std::atomic<pid_t> waiter_id{0};
	std::atomic<long> before{-1};

	lock.lock();

	std::thread waiter([&] {
		before = sleeps_of(gettid());
		waiter_id = gettid();
		lock.lock();
		lock.unlock();
	});

	while (!waiter_id)
		sched_yield();

	/* One that never sleeps is found out by its count, which stays. */
	const auto end = clock::now() + std::chrono::seconds(30);

	while (sleeps_of(waiter_id) <= before && clock::now() < end)
		sched_yield();
	EXPECT_GT(sleeps_of(waiter_id), before) << "an ordinary thread would never run beside it "
						   "under SCHED_FIFO";
	lock.unlock();
	waiter.join();
}

} // namespace sirdma::twin::test
