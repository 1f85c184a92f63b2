/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Two processes: the child serves, the parent uses and at last kills it. */
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "node.hpp"
#include "qp.hpp"

namespace sirdma::twin::test
{

namespace
{

void trade(int fd, const Address &mine, Address &theirs)
{
	ASSERT_EQ(write(fd, &mine, sizeof(mine)), ssize_t(sizeof(mine)));
	ASSERT_EQ(read(fd, &theirs, sizeof(theirs)), ssize_t(sizeof(theirs)));
}

/* A process that sleeps: only its helper thread serves. */
[[noreturn]] void serve(int fd)
{
	Node node;
	Address peer;
	char go = 1;

	node.fill(33);
	trade(fd, node.address(), peer);
	node.connect(peer);
	if (write(fd, &go, 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* Ways to make a child; of the second one the C library knows nothing. */
pid_t by_fork()
{
	return fork();
}

pid_t by_clone()
{
	return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
}

/* The first process of a new process namespace; later children of ours are in it as well. */
pid_t by_fork_as_init()
{
	return unshare(CLONE_NEWPID) ? -1 : fork();
}

pid_t by_clone_as_init()
{
	return static_cast<pid_t>(
		syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, nullptr, nullptr, nullptr, 0));
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool children_share_locks = true;
#else
constexpr bool children_share_locks = false;
#endif

/*
 * The sanitizer's allocator takes no care of fork(): what a thread has locked there at that
 * moment stays locked in the child. So all others sleep first, or have gone on for so long
 * that they spin for the test and allocate nothing.
 */
void await_sleepers()
{
	/* Its name in /proc, which may be of another process namespace. */
	const std::string self = std::filesystem::read_symlink("/proc/thread-self").filename();
	bool awake = children_share_locks;

	for (int i = 0; awake && i < 100; ++i) {
		awake = false;
		for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
			std::ifstream file(task.path() / "stat");
			const std::string stat{std::istreambuf_iterator<char>(file), {}};
			const size_t name_end = stat.rfind(')');

			if (task.path().filename() != self && name_end != stat.npos)
				awake |= stat.compare(name_end, 3, ") S") != 0;
		}
		if (awake)
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
}

/* The exit status of a child made by @how that runs @body; 256 when it was killed, -1 when there is none. */
template <typename Body> int in_child(pid_t (*how)(), Body body)
{
	int status = -1;

	await_sleepers();

	const pid_t child = how();

	if (!child) {
		alarm(60);
		body();
		_exit(::testing::Test::HasFailure());
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

/* All that a child may do with its parent's objects does nothing, and waits for nothing. */
void touch(std::unique_ptr<Node> node, const Address &to)
{
	ibv_wc wc;

	EXPECT_FALSE(ibv_alloc_pd(node->context));
	EXPECT_EQ(errno, ENODEV);
	EXPECT_EQ(ibv_poll_cq(node->cq, 1, &wc), 0);
	EXPECT_EQ(ibv_req_notify_cq(node->cq, 0), 0);
	EXPECT_EQ(node->post(IBV_WR_RDMA_WRITE, 0, 8, &to), 0);
	EXPECT_EQ(node->post_recv(0, 8), 0);
	/* The device is of the process, and so never destroyed in a child. */
	(void)node->device.release();
	/* Memory that was registered may be missing, and so must not be freed. */
	(void)new std::vector<uint8_t>(std::move(node->buffer));
	node.reset();
}

/* Give @node an extended CQ and QP in place of its own. */
void extend(Node &node)
{
	ibv_cq_init_attr_ex cq{};
	ibv_qp_init_attr_ex qp{};

	ASSERT_EQ(ibv_destroy_qp(node.qp), 0);
	ASSERT_EQ(ibv_destroy_cq(node.cq), 0);
	cq.cqe = 2 * Node::depth;
	node.cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(node.context, &cq));
	qp.send_cq = qp.recv_cq = node.cq;
	qp.qp_type = IBV_QPT_RC;
	qp.cap = {.max_send_wr = Node::depth,
		  .max_recv_wr = Node::depth,
		  .max_send_sge = 1,
		  .max_recv_sge = 1,
		  .max_inline_data = 0};
	qp.sq_sig_all = 1;
	qp.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	qp.pd = node.pd;
	qp.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	node.qp = ibv_create_qp_ex(node.context, &qp);
	ASSERT_TRUE(node.cq && node.qp);
}

/* One write between two nodes, the first of which uses @device. */
void open_anew(Device &device)
{
	Node own{std::unique_ptr<Device>(&device)}, peer;
	const Address to = peer.address();

	own.connect(to, 15);
	peer.connect(own.address(), 15);
	own.fill(1);
	ASSERT_EQ(own.post(IBV_WR_RDMA_WRITE, 0, 70000, &to, 0), 0);
	EXPECT_EQ(own.poll().status, IBV_WC_SUCCESS);
	EXPECT_EQ(memcmp(own.buffer.data(), peer.buffer.data(), 70000), 0);
}

} // namespace

/*
 * ibv_fork_init() takes registered memory away from children, but not the rings: an address that
 * is free in a child may become memory of its own, which ends with the parent's ring.
 */
TEST(TwinProcesses, LeaveTheirRingsToChildrenOfAForkSafeProgram)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	/* The library forgets neither that it was told nor that it was too late. */
	const int status = in_child(by_fork, [] {
		if (ibv_fork_init())
			_exit(77);
		auto node = std::make_unique<Node>();
		Node peer;
		const Address to = peer.address();

		node->connect(to, 15);
		peer.connect(node->address(), 15);
		EXPECT_EQ(in_child(by_fork,
				   [&] {
					   void *ring = Qp::of(node->qp).queues().send.queue().ring;

					   EXPECT_EQ(msync(ring, hw_page_size, MS_ASYNC), 0);
					   touch(std::move(node), to);
				   }),
			  0);
		(void)node->device.release();
		(void)peer.device.release();
	});

	if (status == 77)
		GTEST_SKIP() << "memory was registered before";
	EXPECT_EQ(status, 0);
}

TEST(TwinProcesses, ServeEachOtherUntilOneIsKilled)
{
	int ends[2];

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);

	const pid_t child = fork();

	ASSERT_GE(child, 0);
	if (!child) {
		close(ends[0]);
		serve(ends[1]);
	}
	close(ends[1]);

	Node node;
	Node expected;
	Address peer;
	char go;

	trade(ends[0], node.address(), peer);
	node.connect(peer, 12, 3);
	ASSERT_EQ(read(ends[0], &go, 1), 1);

	ASSERT_EQ(node.post(IBV_WR_RDMA_READ, 0, 600000, &peer), 0);
	EXPECT_EQ(node.poll().status, IBV_WC_SUCCESS);
	expected.fill(33);
	EXPECT_EQ(memcmp(node.buffer.data(), expected.buffer.data(), 600000), 0);

	kill(child, SIGKILL);
	waitpid(child, nullptr, 0);
	ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, 4096, &peer), 0);
	EXPECT_EQ(node.poll().status, IBV_WC_RETRY_EXC_ERR);
	close(ends[0]);
}

/*
 * What a forked child does with its parent's objects, as the destructors of a program that ends
 * do, is lost: it reaches neither the wire nor the parent.
 */
TEST(TwinProcesses, LoseWhatAForkedChildDoesWithTheirObjects)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	for (const LinkKind link : {LinkKind::udp, LinkKind::shm}) {
		Config config;

		config.link = link;

		auto a = std::make_unique<Node>(config);
		Node b(config);
		const Address to = b.address();
		int status = -1;

		a->connect(to, 15);
		b.connect(a->address(), 15);
		a->fill(3);
		b.fill(4);
		ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 0, 70000, &to, 0), 0);
		ASSERT_EQ(a->poll().status, IBV_WC_SUCCESS);

		const pid_t child = fork();

		ASSERT_GE(child, 0);
		if (!child) {
			ibv_wc wc;

			/* A file in the place of one the device had. */
			const int other = memfd_create("other", 0);

			a->fill(9);
			bool lost = !a->post(IBV_WR_RDMA_WRITE, 0, 70000, &to, 0) &&
				    !a->post_recv(0, 10);

			for (int i = 0; i < 100000 && lost; ++i)
				lost = ibv_poll_cq(a->cq, 1, &wc) == 0;
			lost &= !ibv_req_notify_cq(a->cq, 0);
			/* The device is of the process, and so never destroyed in a child. */
			(void)a->device.release();
			a.reset();
			_exit(!(lost && lseek(other, 0, SEEK_END) == 0) || HasFailure());
		}
		waitpid(child, &status, 0);
		EXPECT_EQ(status, 0);
		EXPECT_EQ(memcmp(a->buffer.data(), b.buffer.data(), 70000), 0) << "the child wrote";

		a->fill(5);
		ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 0, 70000, &to, 0), 0);
		EXPECT_EQ(a->poll().status, IBV_WC_SUCCESS);
		EXPECT_EQ(memcmp(a->buffer.data(), b.buffer.data(), 70000), 0);
		ASSERT_EQ(a->post_recv(0, 64), 0);
		ASSERT_EQ(b.post(IBV_WR_SEND, 100, 64), 0);
		EXPECT_EQ(a->poll().status, IBV_WC_SUCCESS);
		EXPECT_EQ(b.poll().status, IBV_WC_SUCCESS);
	}
}

/* Whatever the parent's threads were doing when it forked. */
TEST(TwinProcesses, EndWithTheirParentsObjectsWhileItIsBusy)
{
	if (children_share_locks)
		GTEST_SKIP() << "a busy thread may hold a lock of the sanitizer's allocator";
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	const std::function<void(Node &, const Address &)> works[] = {
		[](Node &node, const Address &) {
			if (ibv_mr *mr = ibv_reg_mr(node.pd, node.buffer.data(), 4096,
						    IBV_ACCESS_LOCAL_WRITE))
				ibv_dereg_mr(mr);
		},
		[](Node &node, const Address &) {
			ibv_wc wc;

			ibv_poll_cq(node.cq, 1, &wc);
		},
		[](Node &node, const Address &to) {
			node.post(IBV_WR_RDMA_WRITE, 0, 8, &to);
			node.poll();
		},
		[](Node &node, const Address &) { node.post_recv(0, 8); },
	};

	for (const auto &work : works) {
		auto node = std::make_unique<Node>();
		Node peer;
		const Address to = peer.address();
		std::atomic<bool> stop{false};

		node->connect(to, 15);
		peer.connect(node->address(), 15);

		std::thread busy([&] {
			while (!stop)
				work(*node, to);
		});

		for (int i = 0; i < 100 && !HasFailure(); ++i) {
			EXPECT_EQ(in_child(by_fork, [&] { touch(std::move(node), to); }), 0)
				<< "child " << i << " during work " << &work - works;
		}
		stop = true;
		busy.join();
	}
}

/* A thread that the child has not holds a CQ and a send queue from one call to another. */
TEST(TwinProcesses, WaitForNoThreadOfTheirParent)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	for (const auto how : {by_fork, by_clone}) {
		auto node = std::make_unique<Node>();
		Node peer;
		const Address to = peer.address();
		std::atomic<bool> held{false}, stop{false};

		extend(*node);
		node->connect(to, 15);
		peer.connect(node->address(), 15);
		ASSERT_EQ(node->post(IBV_WR_RDMA_WRITE, 0, 8, &to), 0);

		ibv_cq_ex *cq = reinterpret_cast<ibv_cq_ex *>(node->cq);
		ibv_qp_ex *qp = ibv_qp_to_qp_ex(node->qp);
		ibv_poll_cq_attr attr{};

		std::thread holder([&] {
			ibv_poll_cq_attr none{};

			while (ibv_start_poll(cq, &none))
				;
			ibv_wr_start(qp);
			held = true;
			while (!stop)
				sched_yield();
			ibv_wr_abort(qp);
			ibv_end_poll(cq);
		});

		while (!held)
			sched_yield();
		EXPECT_EQ(in_child(how,
				   [&] {
					   EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT);
					   ibv_wr_start(qp);
					   ibv_wr_rdma_write(qp, to.rkey, to.buffer);
					   ibv_wr_set_sge(
						   qp, node->mr->lkey,
						   reinterpret_cast<uintptr_t>(node->buffer.data()),
						   8);
					   EXPECT_EQ(ibv_wr_complete(qp), 0);
					   ibv_wr_start(qp);
					   ibv_wr_abort(qp);
					   touch(std::move(node), to);
				   }),
			  0);
		stop = true;
		holder.join();
		ASSERT_EQ(node->post(IBV_WR_RDMA_WRITE, 0, 8, &to), 0);
		EXPECT_EQ(node->poll().status, IBV_WC_SUCCESS);
	}
}

/* A parent's device is not its child's: opened there, it is one of the child's own. */
TEST(TwinProcesses, GiveAForkedChildADeviceOfItsOwn)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	Node parent;
	int ends[2];

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);

	const pid_t child = fork();

	ASSERT_GE(child, 0);
	if (!child) {
		Node node(std::move(parent.device));
		Address peer;
		char go = 1;

		trade(ends[1], node.address(), peer);
		node.connect(peer, 15);
		node.fill(77);
		if (write(ends[1], &go, 1) != 1 || read(ends[1], &go, 1) != 1)
			_exit(1);
		/* The process ends as it is: the parent's objects are not ours to destroy. */
		_exit(node.post(IBV_WR_RDMA_WRITE, 0, 5000, &peer) ||
		      node.poll().status != IBV_WC_SUCCESS);
	}
	close(ends[1]);

	Node expected;
	Address peer;
	char go = 1;
	int status = -1;

	trade(ends[0], parent.address(), peer);
	parent.connect(peer, 15);
	ASSERT_EQ(read(ends[0], &go, 1), 1);
	ASSERT_EQ(write(ends[0], &go, 1), 1);
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	expected.fill(77);
	EXPECT_EQ(memcmp(parent.buffer.data(), expected.buffer.data(), 5000), 0);
	close(ends[0]);
}

/* What a child destroys of its parent's does not destroy what it made itself under the same numbers. */
TEST(TwinProcesses, TellAChildsObjectsFromItsParents)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	for (const auto how : {by_fork, by_clone}) {
		auto parent = std::make_unique<Node>();

		const int status = in_child(how, [&] {
			Node own{std::move(parent->device)}, peer;
			const Address to = peer.address();
			ibv_qp_attr attr{};
			ibv_qp_init_attr init{};
			ibv_wc wc;

			EXPECT_EQ(own.cq->handle, parent->cq->handle) << "a test of nothing";
			EXPECT_FALSE(ibv_alloc_pd(parent->context));
			EXPECT_EQ(errno, ENODEV);
			EXPECT_EQ(ibv_query_qp(parent->qp, &attr, IBV_QP_STATE, &init), ENODEV);
			EXPECT_EQ(ibv_req_notify_cq(parent->cq, 0), 0);
			EXPECT_EQ(ibv_poll_cq(parent->cq, 1, &wc), 0);
			parent.reset();
			own.connect(to, 15);
			peer.connect(own.address(), 15);
			ASSERT_EQ(own.post(IBV_WR_RDMA_WRITE, 0, 70000, &to, 0), 0);
			EXPECT_EQ(own.poll().status, IBV_WC_SUCCESS);
		});

		EXPECT_EQ(status, 0);
	}
}

/* The parent and its child may have the same process id, each in a namespace of its own. */
TEST(TwinProcesses, TellAChildWithTheirPid)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	const int status = in_child(by_fork, [] {
		const int outer = in_child(by_fork_as_init, [] {
			for (const auto how : {by_clone_as_init, by_fork_as_init}) {
				Node parent;

				EXPECT_EQ(getpid(), 1);
				const int inner = in_child(how, [&] {
					EXPECT_EQ(getpid(), 1);
					EXPECT_FALSE(ibv_alloc_pd(parent.context));
					EXPECT_EQ(errno, ENODEV);
					open_anew(*parent.device.release());
				});

				EXPECT_EQ(inner, 0);
			}
		});

		_exit(outer < 0 ? 77 : outer != 0);
	});

	if (status == 77)
		GTEST_SKIP() << "no process namespaces: " << strerror(EPERM);
	EXPECT_EQ(status, 0);
}

/* A child of a process whose helper is just taking in a message. */
TEST(TwinProcesses, LeaveCompletionsToAChildThatPolls)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	Node a, b;
	const Address to = b.address();

	a.connect(to, 15);
	b.connect(a.address(), 15);
	for (int i = 0; i < 200; ++i) {
		ASSERT_EQ(b.post_recv(0, 64), 0);
		ASSERT_EQ(a.post(IBV_WR_SEND, 0, 64), 0);
		const int status = in_child(i % 2 ? by_fork : by_clone, [&] {
			ibv_wc wc;

			for (int polls = 0; polls < 1000; ++polls)
				ibv_poll_cq(b.cq, 1, &wc);
			a.post(IBV_WR_SEND, 0, 64);
			b.post_recv(0, 64);
		});

		ASSERT_EQ(status, 0) << i;
		ASSERT_EQ(b.poll().status, IBV_WC_SUCCESS);
		ASSERT_EQ(a.poll().status, IBV_WC_SUCCESS);
	}
}

namespace
{

/* @body in a thread that has port_cpu() @wanted, which is free. */
template <typename Body> void as_number(u32 wanted, const Body &body)
{
	if (port_cpu() == wanted)
		body();
	else
		std::thread([&] { as_number(wanted, body); }).join();
}

pthread_key_t round_key;
std::promise<void> cloned_ended;

/* All destructors of a thread run once before one runs a second time. */
void end_round(void *round)
{
	if (round == &round_key)
		pthread_setspecific(round_key, &cloned_ended);
	else
		cloned_ended.set_value();
}

} // namespace

/* Of two threads that share a port_cpu(), each writes into what the other sends. */
TEST(TwinProcesses, NumberTheThreadsOfAChildWhoeverComesFirst)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	Node parent;
	const u32 number = port_cpu();
	const int status = in_child(by_clone, [&] {
		std::promise<void> taken, done;
		std::thread first([&] {
			as_number(number, [&] {
				taken.set_value();
				done.get_future().wait();
			});
		});

		taken.get_future().wait();
		EXPECT_NE(port_cpu(), number);
		open_anew(*parent.device.release());
		done.set_value();
		first.join();
	});

	EXPECT_EQ(status, 0);
}

/* The number that the cloned thread had in the parent is not its own to return. */
TEST(TwinProcesses, LeaveNumbersAloneWhenTheClonedThreadEnds)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	int status = -1;

	ASSERT_EQ(pthread_key_create(&round_key, end_round), 0);
	std::thread([&status] {
		static std::promise<void> taken;
		static const u32 number = port_cpu();
		const pid_t child = by_clone();

		if (child) {
			waitpid(child, &status, 0);
			return;
		}
		alarm(60);
		pthread_setspecific(round_key, &round_key);
		std::thread([] {
			as_number(number, [] {
				taken.set_value();
				cloned_ended.get_future().wait();
				std::thread([] { EXPECT_NE(port_cpu(), number); }).join();
				_exit(HasFailure());
			});
		}).detach();
		taken.get_future().wait();
	}).join();
	EXPECT_EQ(status, 0);
	pthread_key_delete(round_key);
}

namespace
{

void start_devices()
{
	EXPECT_FALSE(process_devices().empty());
}

/* Children of a raw clone() do what a thread of the parent does all the time. */
void clone_beside(void (*body)())
{
	std::atomic<bool> stop{false};
	std::thread busy([&] {
		while (!stop)
			body();
	});

	for (int i = 0; i < 200; ++i) {
		const int status = in_child(by_clone, body);

		EXPECT_EQ(status, 0) << "child " << i;
		if (status)
			break;
	}
	stop = true;
	busy.join();
}

} // namespace

/* Nobody in a child returns the locks that a thread of its parent held. */
TEST(TwinProcesses, StartDevicesAndWarnWhateverTheirParentLocked)
{
	if (children_share_locks)
		GTEST_SKIP() << "a busy thread may hold a lock of the sanitizer's allocator";
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	start_devices();
	clone_beside(start_devices);
	ASSERT_FALSE(HasFailure());
	clone_beside([] { port_warn("a test of its lock"); });
}

TEST(TwinProcesses, StartEachDeviceOnceInAChildOfThreads)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	start_devices();
	for (int i = 0; i < 20; ++i) {
		const int status = in_child(by_clone, [] {
			std::atomic<int> here{0};
			const auto start = [&] {
				++here;
				while (here < 2)
					;
				return process_devices().front()->nic;
			};
			auto other = std::async(std::launch::async, start);

			const Adapter *mine = start();

			EXPECT_EQ(mine, other.get());
		});

		ASSERT_EQ(status, 0) << i;
	}
}

/* The child's files have numbers that were the parent's device's. */
TEST(TwinProcesses, StartADeviceInAChildThatClosedAllFiles)
{
#ifdef __SANITIZE_THREAD__
	GTEST_SKIP() << "its runtime lets no child of threads have threads";
#endif
	for (const auto how : {by_fork, by_clone}) {
		Node parent;
		const int status = in_child(how, [&] {
			ASSERT_EQ(syscall(SYS_close_range, 3, ~0u, 0), 0) << strerror(errno);
			open_anew(*parent.device.release());
		});

		EXPECT_EQ(status, 0);
	}
}

/* As a child does whose parent had counted it, and not yet noted that. */
TEST(TwinProcesses, EndWithADeviceThatWasCountedTwice)
{
	const int status = in_child(by_fork, [] {
		auto *device = new Device(Config{}, 1);

		count_at_exit(*device);
		count_at_exit(*device);
		exit(HasFailure());
	});

	EXPECT_EQ(status, 0);
}

} // namespace sirdma::twin::test
