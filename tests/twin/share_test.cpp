/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Processes that share an address: numbers, the port, and the death of who has it. */
#include <csignal>
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node.hpp"

namespace sirdma::twin::test
{

namespace
{

size_t open_files()
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(dir))
		++n;
	closedir(dir);
	return n;
}

/* A process with a node that serves by its helper alone. */
class Child {
public:
	explicit Child(const Config &config)
	{
		int ends[2];

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		pid_ = fork();
		if (!pid_) {
			close(ends[0]);
			serve(ends[1], config);
		}
		close(ends[1]);
		fd_ = ends[0];
		EXPECT_EQ(read(fd_, &address_, sizeof(address_)), ssize_t(sizeof(address_)));
	}

	~Child()
	{
		kill();
		close(fd_);
	}

	void connect(const Address &to)
	{
		char done;

		ASSERT_EQ(write(fd_, &to, sizeof(to)), ssize_t(sizeof(to)));
		ASSERT_EQ(read(fd_, &done, 1), 1);
	}

	void kill()
	{
		if (pid_ > 0) {
			::kill(pid_, SIGKILL);
			waitpid(pid_, nullptr, 0);
		}
		pid_ = -1;
	}

	const Address &address() const { return address_; }

private:
	[[noreturn]] static void serve(int fd, const Config &config)
	{
		Node node(config);
		const Address mine = node.address();
		Address peer;

		node.fill(33);
		if (write(fd, &mine, sizeof(mine)) < 0)
			_exit(1);
		while (read(fd, &peer, sizeof(peer)) == ssize_t(sizeof(peer))) {
			node.connect(peer);
			if (write(fd, "", 1) != 1)
				_exit(1);
		}
		_exit(0);
	}

	pid_t pid_;
	int fd_;
	Address address_{};
};

Config at(const char *addr, LinkKind link)
{
	Config config;

	EXPECT_TRUE(IpAddress::parse(addr, config.addr));
	config.link = link;
	return config;
}

void write_and_read(Node &node, const Address &to)
{
	node.fill(5);
	ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, 100000, &to), 0);
	ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
	ASSERT_EQ(node.post(IBV_WR_RDMA_READ, 200000, 100000, &to), 0);
	ASSERT_EQ(node.poll().status, IBV_WC_SUCCESS);
	EXPECT_EQ(memcmp(node.buffer.data(), node.buffer.data() + 200000, 100000), 0);
}

} // namespace

class TwinShare : public ::testing::TestWithParam<LinkKind> {};

INSTANTIATE_TEST_SUITE_P(All, TwinShare, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

TEST_P(TwinShare, OneAddressAmongProcesses)
{
	const Config config = at("127.64.250.10", GetParam());
	Child owner(config), second(config), third(config);
	Node a(at("127.64.250.11", GetParam())), b(at("127.64.250.11", GetParam()));

	EXPECT_NE(slot_of(owner.address().qpn), slot_of(second.address().qpn));
	EXPECT_NE(slot_of(second.address().qpn), slot_of(third.address().qpn));
	a.connect(second.address());
	second.connect(a.address());
	b.connect(third.address());
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

TEST_P(TwinShare, KilledPeersLeaveNothingBehind)
{
	const Config config = at("127.64.250.20", GetParam());
	Config own = config;
	size_t files = 0;

	ASSERT_TRUE(IpAddress::parse("127.64.250.21", own.addr));
	for (int i = 0; i < 8; ++i) {
		Node node(own);
		Child peer(config);

		node.connect(peer.address(), 14, 3);
		peer.connect(node.address());
		write_and_read(node, peer.address());
		peer.kill();
		ASSERT_EQ(node.post(IBV_WR_RDMA_WRITE, 0, 4096, &peer.address()), 0);
		EXPECT_EQ(node.poll().status, IBV_WC_RETRY_EXC_ERR);
		if (i == 1)
			files = open_files();
		if (i > 1) {
			EXPECT_LE(open_files(), files);
		}
	}
}

/* A child of a process with a device must not keep its address or its peers. */
TEST_P(TwinShare, AForkedChildHoldsNothing)
{
	const Config config = at("127.64.250.30", GetParam());
	int hold[2];

	ASSERT_EQ(pipe(hold), 0);

	const pid_t parent = fork();

	if (!parent) {
		Node node(config);

		if (!fork()) {
			char c;

			/* Lives on until the test is done. */
			close(hold[1]);
			_exit(static_cast<int>(read(hold[0], &c, 1)));
		}
		kill(getpid(), SIGKILL);
	}
	waitpid(parent, nullptr, 0);
	close(hold[0]);
	{
		Node node(config);

		EXPECT_EQ(slot_of(node.qp->qp_num), 0u);
		EXPECT_TRUE(UdpReceiver::create(config.addr) == nullptr && errno == EADDRINUSE)
			<< "the port is the new one's";
	}
	close(hold[1]);
}

} // namespace sirdma::twin::test
