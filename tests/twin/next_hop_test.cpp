/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which addresses a host can send to. Each test has a network of its own, where nobody answers. */
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <thread>

#include "in_process.hpp"
#include "next_hop.hpp"

namespace sirdma::twin::test
{

namespace
{

IpAddress address(const char *text)
{
	IpAddress addr;

	EXPECT_TRUE(IpAddress::parse(text, addr)) << text;
	return addr;
}

int checked(const char *from, const char *to)
{
	return check_next_hop(address(from), address(to));
}

void command(const char *text)
{
	ASSERT_EQ(system(text), 0) << text;
}

/* The netdev v0, 10.7.0.1 and fd77::1, with neighbours 10.7.0.2 and fd77::2 that are known */
void make_link()
{
	command("ip link add v0 type veth peer name v1 && ip link set v0 up && "
		"ip link set v1 up && ip link set lo up");
	command("ip addr add 10.7.0.1/24 dev v0 && ip addr add fd77::1/64 dev v0 nodad");
	command("for n in 10.7.0.2 fd77::2; do ip neigh add $n dev v0 "
		"lladdr 02:00:00:00:00:02 nud permanent || exit; done");
}

#define IN_NETWORK_NAMESPACE(body) \
	do { \
		if (!in_network_namespace(body)) \
			GTEST_SKIP() << "no network namespace"; \
	} while (0)

} // namespace

TEST(NextHop, IsTheDestinationItself)
{
	IN_NETWORK_NAMESPACE([] {
		make_link();
		EXPECT_EQ(checked("10.7.0.1", "10.7.0.2"), 0);
		EXPECT_EQ(checked("fd77::1", "fd77::2"), 0);
		EXPECT_EQ(checked("10.7.0.1", "10.7.0.3"), EAGAIN);
		EXPECT_EQ(checked("10.7.0.1", "10.7.0.3"), EAGAIN) << "asked, and no answer";
		EXPECT_EQ(checked("fd77::1", "fd77::3"), EAGAIN);
	});
}

TEST(NextHop, OfTheHostItselfIsNobody)
{
	IN_NETWORK_NAMESPACE([] {
		make_link();
		EXPECT_EQ(checked("10.7.0.1", "10.7.0.1"), 0);
		EXPECT_EQ(checked("fd77::1", "fd77::1"), 0);
		EXPECT_EQ(checked("127.0.0.5", "127.0.0.6"), 0);
		EXPECT_EQ(checked("127.0.0.5", "10.7.0.2"), ENETUNREACH);
		EXPECT_EQ(checked("10.7.0.9", "10.7.0.2"), EADDRNOTAVAIL);
	});
}

TEST(NextHop, IsTheRouter)
{
	IN_NETWORK_NAMESPACE([] {
		make_link();
		command("ip route add 10.50.0.0/16 via 10.7.0.2 && "
			"ip route add 10.51.0.0/16 via 10.7.0.3 && "
			"ip route add unreachable 10.52.0.0/16 && "
			"ip route add fd50::/16 via fd77::2 && ip route add fd51::/16 via fd77::3");
		EXPECT_EQ(checked("10.7.0.1", "10.50.0.9"), 0);
		EXPECT_EQ(checked("10.7.0.1", "10.51.0.9"), EAGAIN);
		EXPECT_EQ(checked("10.7.0.1", "10.52.0.9"), EHOSTUNREACH);
		EXPECT_EQ(checked("10.7.0.1", "10.53.0.9"), ENETUNREACH);
		EXPECT_EQ(checked("fd77::1", "fd50::9"), 0);
		EXPECT_EQ(checked("fd77::1", "fd51::9"), EAGAIN);
	});
}

/* Networks whose links have no IPv4 addresses have their IPv4 routes so. */
TEST(NextHop, MayBeARouterOfTheOtherFamily)
{
	IN_NETWORK_NAMESPACE([] {
		make_link();
		command("ip route add 10.50.0.0/16 via inet6 fd77::2 dev v0 && "
			"ip route add 10.51.0.0/16 via inet6 fd77::3 dev v0");
		EXPECT_EQ(checked("10.7.0.1", "10.50.0.9"), 0);
		EXPECT_EQ(checked("10.7.0.1", "10.51.0.9"), EAGAIN);
	});
}

TEST(NextHop, IsNotAskedForWhereArpIsOff)
{
	IN_NETWORK_NAMESPACE([] {
		make_link();
		command("ip link set v0 arp off");
		EXPECT_EQ(checked("10.7.0.1", "10.7.0.3"), 0);
		EXPECT_EQ(checked("fd77::1", "fd77::3"), 0);
	});
}

/* VPNs are such links. The kernel's table of neighbours has no entry of an IPv4 address there. */
TEST(NextHop, IsNotAskedForOnAPointToPointLink)
{
	const Fd tunnel(open("/dev/net/tun", O_RDWR | O_CLOEXEC));

	if (!tunnel)
		GTEST_SKIP() << "no tunnels";
	IN_NETWORK_NAMESPACE([] {
		/* The link is up while the file of its other end is open. */
		const Fd end(open("/dev/net/tun", O_RDWR | O_CLOEXEC));
		ifreq request{};

		strcpy(request.ifr_name, "t0");
		request.ifr_flags = IFF_TUN | IFF_NO_PI;
		ASSERT_EQ(ioctl(end.get(), TUNSETIFF, &request), 0) << strerror(errno);
		command("ip addr add 10.9.0.1 peer 10.9.0.2 dev t0 && "
			"ip addr add fd79::1/64 dev t0 nodad && ip link set t0 up");
		EXPECT_EQ(checked("10.9.0.1", "10.9.0.2"), 0);
		EXPECT_EQ(checked("fd79::1", "fd79::2"), 0);
		command("ip link set t0 arp on");
		EXPECT_EQ(checked("10.9.0.1", "10.9.0.2"), 0);
	});
}

TEST(NextHop, IsAwaited)
{
	IN_NETWORK_NAMESPACE([] {
		make_link();
		EXPECT_EQ(checked("10.7.0.1", "10.7.0.4"), EAGAIN);

		std::thread answer([] {
			command("ip neigh replace 10.7.0.4 dev v0 lladdr 02:00:00:00:00:04 "
				"nud permanent");
		});

		EXPECT_EQ(await_next_hop(address("10.7.0.1"), address("10.7.0.4")), 0);
		answer.join();
		EXPECT_EQ(await_next_hop(address("10.7.0.1"), address("10.7.0.3")), ETIMEDOUT);
	});
}

/* The kernel repeats a request after a second: the neighbour answers the second one. */
TEST(NextHop, MayLoseARequest)
{
	IN_NETWORK_NAMESPACE([] {
		make_link();
		std::thread answer([] {
			std::this_thread::sleep_for(std::chrono::milliseconds(1200));
			command("ip neigh replace 10.7.0.4 dev v0 lladdr 02:00:00:00:00:04 "
				"nud permanent");
		});

		EXPECT_EQ(await_next_hop(address("10.7.0.1"), address("10.7.0.4")), 0);
		answer.join();
	});
}

TEST(NextHop, IsAwaitedWhileTheNetdevIsDown)
{
	IN_NETWORK_NAMESPACE([] {
		make_link();
		command("ip link set v0 down");
		EXPECT_EQ(checked("10.7.0.1", "10.7.0.2"), EAGAIN);
		EXPECT_EQ(await_next_hop(address("10.7.0.1"), address("10.7.0.2")), ENETUNREACH);

		std::thread answer([] {
			command("ip link set v0 up && ip neigh replace 10.7.0.2 dev v0 "
				"lladdr 02:00:00:00:00:02 nud permanent");
		});

		EXPECT_EQ(await_next_hop(address("10.7.0.1"), address("10.7.0.2")), 0);
		answer.join();
		/* No link will change that. */
		EXPECT_EQ(checked("10.7.0.1", "10.8.0.1"), ENETUNREACH);
	});
}

} // namespace sirdma::twin::test
