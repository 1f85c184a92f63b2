/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Processes that share an address: numbers, traffic, and what is left when one of them ends. */
#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.hpp"

namespace sirdma::twin::test
{

namespace
{

/* 0.13 s, 8 times: on a busy machine a sleeping peer may wait for a processor. */
constexpr uint8_t patient = 15;

constexpr int answered_messages = 20;

} // namespace

class TwinShare : public ::testing::TestWithParam<LinkKind> {};

INSTANTIATE_TEST_SUITE_P(All, TwinShare, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

TEST_P(TwinShare, OneAddressAmongProcesses)
{
	const Config config = at(own_address(0), GetParam());
	Child owner(config), second(config), third(config);
	Node a(at(own_address(1), GetParam())), b(at(own_address(1), GetParam()));

	EXPECT_NE(slot_of(owner.address().qpn), slot_of(second.address().qpn));
	EXPECT_NE(slot_of(second.address().qpn), slot_of(third.address().qpn));
	a.connect(second.address(), patient);
	second.connect(a.address());
	b.connect(third.address(), patient);
	third.connect(b.address());
	write_and_read(a, second.address());
	write_and_read(b, third.address());

	/* The owner dies: the port has another one, and connections go on. */
	owner.kill();
	write_and_read(a, second.address());
	write_and_read(b, third.address());
	second.kill();
	write_and_read(b, third.address());
}

/* As many processes as an address has queue pair numbers for, and not one more. */
TEST(TwinSlots, AThousandProcessesAndThatIsIt)
{
	const IpAddress addr = own_address(0);
	rlimit files{};
	std::vector<Fd> names;

	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = std::min<rlim_t>(files.rlim_max, num_slots + 100);
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_cur < num_slots + 100)
		GTEST_SKIP() << "takes " << num_slots + 100 << " files";
	for (u32 slot = 0; slot + 1 < num_slots; ++slot) {
		names.push_back(rendezvous_listen(addr, slot));
		ASSERT_TRUE(names.back());
	}
	{
		Node last(at(addr, LinkKind::shm)), other(at(own_address(1), LinkKind::shm));

		EXPECT_EQ(slot_of(last.qp->qp_num), num_slots - 1);
		last.connect(other.address(), patient);
		other.connect(last.address(), patient);
		write_and_read(last, other.address());
		write_and_read(other, last.address());
		EXPECT_FALSE(Device::create(at(addr, LinkKind::shm)));
		EXPECT_EQ(errno, EADDRNOTAVAIL);
	}
	for (u32 slot = 0; slot < num_slots; ++slot) {
		EXPECT_EQ(slot_of(first_qpn_of(slot)), slot);
		EXPECT_EQ(slot_of(first_qpn_of(slot + 1) - 1), slot);
	}
	EXPECT_GE(slot_of(num_qpns), num_slots);
}

TEST_P(TwinShare, KilledPeersLeaveNothingBehind)
{
	const Config config = at(own_address(0), GetParam());
	const Config own = at(own_address(1), GetParam());
	size_t files = 0;

	for (int i = 0; i < 5; ++i) {
		Child peer(config);
		Node node(own);

		node.connect(peer.address(), patient);
		peer.connect(node.address());
		write_and_read(node, peer.address());
		peer.kill();
		ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, 4096, &peer.address()), 0);
		EXPECT_EQ(node.poll().status, IBV_WC_RETRY_EXC_ERR);
		if (i == 1)
			files = open_files();
		if (i > 1) {
			EXPECT_TRUE(no_more_files_than(files));
		}
	}
}

/* What a poll reported is acknowledged, although the process that polled is no more, unless it has answered messages before. */
TEST_P(TwinShare, AcknowledgesBeforeItEnds)
{
	for (int i = 0; i < 10; ++i) {
		Child peer(at(own_address(0), GetParam()), [](Node &to, const Address &) {
			EXPECT_EQ(to.post_recv(0, 4096), 0);
			to.poll();
			_exit(0);
		});
		Node node(at(own_address(1), GetParam()));

		node.connect(peer.address(), 14, 7);
		peer.connect(node.address());
		/* It has polled for long enough to be left alone with that. */
		usleep(4000);
		ASSERT_EQ(node.post(IBV_WR_SEND, 0, 4096), 0);
		ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS) << i;
	}
}

/*
 * Messages are answered, but for the last one; its sender has its acknowledgement all the same. What is posted is prepared, so that
 * it soon follows the poll (AnswerHabit).
 */
void answer_all_but_the_last(Node &to, const Address &)
{
	ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(to.buffer.data()),
		       .length = 64,
		       .lkey = to.mr->lkey};
	ibv_send_wr answer{}, *bad;
	ibv_wc wc{};
	int err = 0;

	answer.opcode = IBV_WR_SEND;
	answer.sg_list = &sge;
	answer.num_sge = 1;
	for (int i = 0; i < answered_messages; ++i) {
		ASSERT_EQ(to.post_recv(0, 64), 0);
		while (!ibv_poll_cq(to.cq, 1, &wc))
			;
		err = ibv_post_send(to.qp, &answer, &bad);
		ASSERT_EQ(err, 0);
		ASSERT_EQ(wc.opcode, IBV_WC_RECV);
		ASSERT_EQ(to.poll().opcode, IBV_WC_SEND);
	}
	ASSERT_EQ(to.post_recv(0, 64), 0);
	while (!ibv_poll_cq(to.cq, 1, &wc))
		;
}

/* Send messages and receive answers, then a message that is not answered. */
void send_and_await_answers(Node &node)
{
	bool sent, received;

	for (int i = 0; i < answered_messages; ++i) {
		ASSERT_EQ(node.post_recv(0, 64), 0);
		ASSERT_EQ(node.post(IBV_WR_SEND, 0, 64), 0);
		for (sent = received = false; !sent || !received;) {
			const ibv_wc wc = node.poll();

			ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << i;
			(wc.opcode == IBV_WC_RECV ? received : sent) = true;
		}
	}
	ASSERT_EQ(node.post(IBV_WR_SEND, 0, 64), 0);
	EXPECT_EQ(node.poll().status, IBV_WC_SUCCESS);
}

/* The helper would do it, too, if it looked before the process is gone. So try several times. */
TEST_P(TwinShare, AcknowledgesWhatIsNotAnsweredBeforeItExits)
{
	for (int i = 0; i < 10; ++i) {
		Child peer(at(own_address(0), GetParam()), [](Node &to, const Address &from) {
			count_at_exit(*to.device);
			answer_all_but_the_last(to, from);
			exit(0);
		});
		Node node(at(own_address(1), GetParam()));

		node.connect(peer.address(), patient);
		peer.connect(node.address());
		ASSERT_NO_FATAL_FAILURE(send_and_await_answers(node)) << i;
	}
}

TEST_P(TwinShare, AcknowledgesWhatIsNotAnsweredWhileItSleeps)
{
	Child peer(at(own_address(0), GetParam()), answer_all_but_the_last);
	Node node(at(own_address(1), GetParam()));

	/* The acknowledgement does not come by a repetition. */
	node.connect(peer.address(), 0);
	peer.connect(node.address());
	send_and_await_answers(node);
}

/* A child of a process with a device must not keep its address or its peers. */
TEST_P(TwinShare, AForkedChildHoldsNothing)
{
	const Config config = at(own_address(0), GetParam());
	int hold[2], ready[2];
	char c = 0;

	ASSERT_EQ(pipe(hold), 0);
	ASSERT_EQ(pipe(ready), 0);

	const pid_t parent = fork();

	if (!parent) {
		Node node(config);

		if (!fork()) {
			/* Lives on until the test is done. */
			close(hold[1]);
			if (write(ready[1], &c, 1) != 1)
				_exit(1);
			_exit(static_cast<int>(read(hold[0], &c, 1)));
		}
		if (read(ready[0], &c, 1) != 1)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	waitpid(parent, nullptr, 0);
	close(hold[0]);
	close(ready[0]);
	close(ready[1]);
	{
		Node node(config);

		EXPECT_EQ(slot_of(node.qp->qp_num), 0u);
		EXPECT_TRUE(UdpReceiver::create(config.addr) == nullptr && errno == EADDRINUSE)
			<< "the port is the new one's";
	}
	close(hold[1]);
}

} // namespace sirdma::twin::test
