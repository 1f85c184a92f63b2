/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A process that gives up root after it has opened its device, and processes of root. */
#include <poll.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "child.hpp"

namespace sirdma::twin::test
{

namespace
{

constexpr uid_t some_user = 54321;
int reports[2]; /* a pipe: what children report */

void report(char what)
{
	if (write(reports[1], &what, 1) != 1)
		_exit(1);
}

char reported()
{
	pollfd p = {.fd = reports[0], .events = POLLIN, .revents = 0};
	char what = 0;

	return ::poll(&p, 1, 60000) == 1 && read(p.fd, &what, 1) == 1 ? what : 0;
}

void give_up_root(Node &, const Address &)
{
	if (setresuid(some_user, some_user, some_user))
		_exit(1);
	report('u');
}

void give_up_root_and_send(Node &node, const Address &peer)
{
	give_up_root(node, peer);
	write_and_read(node, peer);
	report(::testing::Test::HasFailure() ? 'f' : 's');
}

class GaveUpRoot : public ::testing::Test {
protected:
	void SetUp() override
	{
		if (getuid() != 0)
			GTEST_SKIP() << "takes root";
		ASSERT_EQ(pipe(reports), 0);
	}
	void TearDown() override
	{
		for (const int fd : reports)
			close(fd);
	}
	static void connect(Node &node, Child &child)
	{
		node.connect(child.address());
		child.connect(node.address());
		EXPECT_EQ(reported(), 'u');
	}

	const Config here = at(own_address(0), LinkKind::automatic);
	/* Root's process sends by shared memory, or not at all. */
	const Config there = at(own_address(1), LinkKind::shm);
};

} // namespace

TEST_F(GaveUpRoot, GetsPacketsOfAProcessOfRoot)
{
	Child child(here, give_up_root);
	Node node(there);

	connect(node, child);
	write_and_read(node, child.address());
}

TEST_F(GaveUpRoot, SendsPacketsToAProcessOfRoot)
{
	Child child(here, give_up_root_and_send);
	Node node(there);

	connect(node, child);
	EXPECT_EQ(reported(), 's');
	write_and_read(node, child.address());
}

/* The first has the port, and hands over what comes for the second. */
TEST_F(GaveUpRoot, SharesItsAddressWithAProcessThatDidThat)
{
	Child owner(here, give_up_root), member(here, give_up_root);
	Node node(at(own_address(1), LinkKind::udp)), other(at(own_address(1), LinkKind::udp));

	connect(other, owner);
	connect(node, member);
	write_and_read(node, member.address());
	write_and_read(other, owner.address());
}

/* The same if root's process has the port. */
TEST_F(GaveUpRoot, SharesItsAddressWithAProcessOfRoot)
{
	Child owner(here), member(here, give_up_root);
	Node node(at(own_address(1), LinkKind::udp));

	connect(node, member);
	write_and_read(node, member.address());
}

} // namespace sirdma::twin::test
