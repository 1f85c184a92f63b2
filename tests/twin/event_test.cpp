/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion channels and asynchronous events, through files as with the kernel. */
#include <cerrno>
#include <dlfcn.h>
#include <functional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "../harness/forbid_syscall.hpp"
#include "../harness/sleeps_in.hpp"
#include "node.hpp"

namespace sirdma::twin::test
{

namespace
{

bool readable(int fd, int timeout_ms)
{
	pollfd p = {.fd = fd, .events = POLLIN, .revents = 0};

	return ::poll(&p, 1, timeout_ms) == 1;
}

thread_local unsigned yields;
thread_local void (*on_yield)() = [] {}; /* sched_yield() calls it before it yields */
/* The next read() of this thread calls it after it has read. */
thread_local std::function<void()> *after_read = nullptr;

} // namespace

/* In place of the C library's functions */
extern "C" int sched_yield() noexcept
{
	++yields;
	on_yield();
	return static_cast<int>(syscall(SYS_sched_yield));
}

extern "C" ssize_t read(int fd, void *bytes, size_t len)
{
	static const auto next = reinterpret_cast<decltype(&read)>(dlsym(RTLD_NEXT, "read"));
	const ssize_t result = next(fd, bytes, len);

	if (after_read)
		(*std::exchange(after_read, nullptr))();
	return result;
}

TEST(TwinEvents, WakeASleeperThatDoesNotPoll)
{
	Node a(Config{}, true), b(Config{}, true);

	a.connect(b.address());
	b.connect(a.address());
	for (int i = 0; i < 20; ++i) {
		ibv_cq *cq;
		void *cookie;
		ibv_wc wc;

		ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
		ASSERT_EQ(b.post_recv(0, 64), 0);
		ASSERT_FALSE(readable(b.channel->fd, 0));
		ASSERT_EQ(a.post(IBV_WR_SEND, 0, 64), 0);
		ASSERT_TRUE(readable(b.channel->fd, 10000));
		ASSERT_EQ(ibv_get_cq_event(b.channel, &cq, &cookie), 0);
		EXPECT_EQ(cq, b.cq);
		ibv_ack_cq_events(cq, 1);
		ASSERT_EQ(ibv_poll_cq(b.cq, 1, &wc), 1);
		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(a.poll().status, IBV_WC_SUCCESS);
	}
}

/* On a busy machine a yield takes a time slice of another process, so each message would take some. */
TEST(TwinEvents, SleepersDoNotYieldWhenTheyLookForMore)
{
	Node a(Config{}, true), b(Config{}, true);
	ibv_wc wc;

	a.connect(b.address());
	b.connect(a.address());
	for (int i = 0; i < 200; ++i)
		ASSERT_EQ(ibv_poll_cq(b.cq, 1, &wc), 0);
	ASSERT_GT(yields, 0u) << "a process that only polls yields";
	for (int i = 0; i < 100; ++i) {
		ibv_cq *cq;
		void *cookie;

		ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
		ASSERT_EQ(b.post_recv(0, 64), 0);
		ASSERT_EQ(a.post(IBV_WR_SEND, 0, 64), 0);
		ASSERT_TRUE(readable(b.channel->fd, 10000));
		ASSERT_EQ(ibv_get_cq_event(b.channel, &cq, &cookie), 0);
		ibv_ack_cq_events(cq, 1);
		ASSERT_EQ(ibv_poll_cq(b.cq, 1, &wc), 1);
		yields = 0;
		ASSERT_EQ(ibv_poll_cq(b.cq, 1, &wc), 0);
		ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
		ASSERT_EQ(ibv_poll_cq(b.cq, 1, &wc), 0);
		EXPECT_EQ(yields, 0u) << "message " << i;
		EXPECT_EQ(a.poll().status, IBV_WC_SUCCESS);
	}
}

/*
 * libfabric destroys a queue pair if a poll finds no completion and it then reads the event that the peer has disconnected. So a
 * poll must not have missed a message that came before the event, or it is lost.
 */
class TwinLastMessage : public ::testing::Test {
protected:
	TwinLastMessage()
	{
		a.connect(b.address());
		b.connect(a.address());
		/* The first message comes by the helper, which accepts the connection. */
		exchange();
	}
	~TwinLastMessage() override
	{
		on_yield = [] {};
	}

	void exchange()
	{
		ASSERT_EQ(b.post_recv(0, 64), 0);
		ASSERT_EQ(a.post(IBV_WR_SEND, 0, 64), 0);
		ASSERT_EQ(b.poll().status, IBV_WC_SUCCESS);
		ASSERT_EQ(a.poll().status, IBV_WC_SUCCESS);
	}
	static Config config()
	{
		Config config;

		config.link = LinkKind::shm;
		return config;
	}

	static constexpr int rounds = 20;
	Node a{config()}, b{config()};
};

TEST_F(TwinLastMessage, IsFoundIfItComesWhileAPollYields)
{
	static Node *sender; /* on_yield has it post one message, and clears this */

	on_yield = [] {
		Node *from = std::exchange(sender, nullptr);

		if (from) {
			EXPECT_EQ(from->post(IBV_WR_SEND, 0, 64), 0);
		}
	};
	for (int round = 0; round < rounds; ++round) {
		int found = 0;
		ibv_wc wc;

		ASSERT_EQ(b.post_recv(0, 64), 0);
		sender = &a;
		for (int i = 0; i < 1000 && sender; ++i)
			found = ibv_poll_cq(b.cq, 1, &wc);
		ASSERT_EQ(std::exchange(sender, nullptr), nullptr) << "no poll has yielded";
		EXPECT_EQ(found, 1) << "round " << round;
		if (!found)
			b.poll();
		ASSERT_EQ(a.poll().status, IBV_WC_SUCCESS);
	}
}

/* Of neighbours that are idle each poll looks at one. */
TEST_F(TwinLastMessage, IsFoundBehindTheEventThatItsSenderHasDisconnected)
{
	constexpr int idle = 8;
	std::vector<std::unique_ptr<Node>> others;
	ibv_wc wc;

	for (int i = 0; i < idle; ++i) {
		Node &other = *others.emplace_back(std::make_unique<Node>(config()));

		other.connect(b.address(), 8, 1);
		ASSERT_EQ(other.post(IBV_WR_SEND, 0, 0),
			  0); /* it makes a neighbour, and is refused */
		other.poll();
	}
	for (int round = 0; round < rounds; ++round) {
		for (int i = 0; i < 1000; ++i)
			ASSERT_EQ(ibv_poll_cq(b.cq, 1, &wc), 0);
		ASSERT_EQ(b.post_recv(0, 64), 0);
		ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0); /* its next polls do not yield */
		ASSERT_EQ(a.post(IBV_WR_SEND, 0, 64), 0);
		b.device->nic->cm_port()->note_end();
		EXPECT_EQ(ibv_poll_cq(b.cq, 1, &wc), 1) << "round " << round;
		ASSERT_EQ(a.poll().status, IBV_WC_SUCCESS);
		if (HasFailure())
			break;
	}
}

TEST(TwinEvents, AreTakenBackWithTheirQueue)
{
	Node a(Config{}, true), b;

	a.connect(b.address());
	b.connect(a.address());
	ASSERT_EQ(ibv_req_notify_cq(a.cq, 0), 0);
	ASSERT_EQ(b.post_recv(0, 64), 0);
	ASSERT_EQ(a.post(IBV_WR_SEND, 0, 64), 0);
	ASSERT_TRUE(readable(a.channel->fd, 10000));
	/* Never read: destruction of the queue must not wait for an acknowledgement. */
}

/* A queue pair in error completes what is posted at once. */
static void fail(ibv_qp *qp)
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	ASSERT_EQ(ibv_modify_qp(qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					IBV_QP_ACCESS_FLAGS),
		  0);
	attr.qp_state = IBV_QPS_ERR;
	ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static void complete_one(ibv_qp *qp)
{
	ibv_recv_wr wr{}, *bad;

	ASSERT_EQ(ibv_req_notify_cq(qp->recv_cq, 0), 0);
	ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
}

/* May another socket put bytes into the file @fd, if that is a socket? */
static bool is_open_to_others(int fd)
{
	const int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sockaddr_un name{};
	socklen_t len = sizeof(name);
	const bool sent = !getsockname(fd, reinterpret_cast<sockaddr *>(&name), &len) &&
			  sendto(other, "forged", 6, 0, reinterpret_cast<sockaddr *>(&name), len) >=
				  0;

	close(other);
	return sent;
}

/* Linux before 5.8 (EOPNOTSUPP), or a sandbox. */
TEST(TwinEvents, AreTakenBackWhereReadsCannotBeToldNotToWait)
{
	for (const int error : {EOPNOTSUPP, ENOSYS, EPERM}) {
		const pid_t child = fork();
		int status = -1;

		ASSERT_GE(child, 0);
		if (!child) {
			alarm(20);
			if (!sirdma::test::forbid_syscall(SYS_preadv2, error))
				_exit(1);
			{
				Node node(Config{}, true);
				ibv_cq *cq;
				void *cookie;
				ibv_wc wc;

				EXPECT_FALSE(is_open_to_others(node.channel->fd));
				fail(node.qp);
				for (int i = 0; i < 3; ++i) {
					EXPECT_FALSE(readable(node.channel->fd, 0));
					complete_one(node.qp);
					EXPECT_TRUE(readable(node.channel->fd, 10000));
					EXPECT_EQ(ibv_get_cq_event(node.channel, &cq, &cookie), 0);
					EXPECT_EQ(cq, node.cq);
					ibv_ack_cq_events(cq, 1);
					EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
				}
				complete_one(node.qp);
				EXPECT_TRUE(readable(node.channel->fd, 10000));
				/* The destructor does not wait for an acknowledgement. */
			}
			_exit(::testing::Test::HasFailure() ? 2 : 0);
		}
		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0) << strerror(error);
	}
}

/*
 * ibv_get_cq_event() reads an event and then tells the device about it. Meanwhile another thread destroys
 * the queue of the event: it waits for the acknowledgement, and the device does not know the queue any more.
 */
TEST(TwinEvents, GoOnWhenAQueueIsDestroyedWhileItsEventIsRead)
{
	Node node(Config{}, true);
	ibv_cq *gone = ibv_create_cq(node.context, 16, nullptr, node.channel, 0), *cq;
	ibv_qp_init_attr init{};
	std::thread destroyer;
	std::atomic<pid_t> thread{0};
	int destroyed = -1;
	void *cookie;

	ASSERT_NE(gone, nullptr);
	init.send_cq = init.recv_cq = gone;
	init.qp_type = IBV_QPT_RC;
	init.cap = {.max_send_wr = 1,
		    .max_recv_wr = 1,
		    .max_send_sge = 1,
		    .max_recv_sge = 1,
		    .max_inline_data = 0};
	ibv_qp *qp = ibv_create_qp(node.pd, &init);
	ASSERT_NE(qp, nullptr);
	fail(qp);
	complete_one(qp);
	ASSERT_TRUE(readable(node.channel->fd, 10000));
	ASSERT_EQ(ibv_destroy_qp(qp), 0);
	fail(node.qp);

	std::function<void()> destroy = [&] {
		const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);

		destroyer = std::thread([&] {
			thread = static_cast<pid_t>(syscall(SYS_gettid));
			destroyed = ibv_destroy_cq(gone);
		});
		while (!thread || !sirdma::test::sleeps_in(thread, gone->cond)) {
			if (std::chrono::steady_clock::now() > end) {
				ADD_FAILURE() << "ibv_destroy_cq() does not wait";
				break;
			}
			std::this_thread::yield();
		}
	};

	after_read = &destroy;
	ASSERT_EQ(ibv_get_cq_event(node.channel, &cq, &cookie), 0);
	EXPECT_EQ(cq, gone);
	ASSERT_TRUE(destroyer.joinable()) << "the library reads events in another way";
	ibv_ack_cq_events(gone, 1);
	destroyer.join();
	EXPECT_EQ(destroyed, 0);

	complete_one(node.qp);
	ASSERT_TRUE(readable(node.channel->fd, 10000)) << "no more events come";
	ASSERT_EQ(ibv_get_cq_event(node.channel, &cq, &cookie), 0);
	EXPECT_EQ(cq, node.cq);
	ibv_ack_cq_events(cq, 1);
}

TEST(TwinEvents, ReportAnErrorOfTheResponder)
{
	Node a, b;
	Address wrong = b.address();
	ibv_async_event event;
	bool seen = false;

	a.connect(b.address());
	b.connect(a.address());
	wrong.rkey ^= 1;
	ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 0, 64, &wrong), 0);
	EXPECT_EQ(a.poll().status, IBV_WC_REM_ACCESS_ERR);
	while (!seen && readable(b.context->async_fd, 10000)) {
		ASSERT_EQ(ibv_get_async_event(b.context, &event), 0);
		EXPECT_EQ(event.element.qp, b.qp);
		seen = event.event_type == IBV_EVENT_QP_ACCESS_ERR;
		ibv_ack_async_event(&event);
	}
	EXPECT_TRUE(seen);
}

} // namespace sirdma::twin::test
