/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Multicast groups of processes of one host. */
#include <fcntl.h>
#include <fstream>
#include <net/if.h>
#include <poll.h>

#include <sirdma/roce.h>

#include "child.hpp"
#include "in_process.hpp"
#include "ud.hpp"

namespace sirdma::twin::test
{

namespace
{

constexpr uint32_t to_all = 0xffffff;
constexpr uint32_t rounds = 48;

/* The group of this process, or of its parent @pid: no other test has it. */
ibv_gid group_of(pid_t pid = getpid())
{
	const uint32_t number = static_cast<uint32_t>(pid);
	ibv_gid gid{};

	gid.raw[10] = gid.raw[11] = 0xff;
	gid.raw[12] = 239;
	gid.raw[13] = static_cast<uint8_t>(number >> 16);
	gid.raw[14] = static_cast<uint8_t>(number >> 8);
	gid.raw[15] = static_cast<uint8_t>(number);
	return gid;
}

IpAddress address_of(const ibv_gid &gid)
{
	sirdma_ip ip;

	memcpy(ip.b, gid.raw, sizeof(ip.b));
	return IpAddress(ip);
}

int attach(const Ud &ud, const ibv_gid &group = group_of())
{
	return ibv_attach_mcast(ud.qp, &group, 0);
}

int detach(const Ud &ud, const ibv_gid &group = group_of())
{
	return ibv_detach_mcast(ud.qp, &group, 0);
}

void send(Ud &from, uint32_t count)
{
	from.send(std::vector<uint32_t>(count, to_all));
}

/* Sockets of this host that have the group. */
unsigned sockets(const ibv_gid &group)
{
	const in_addr addr = address_of(group).v4();
	char text[16];
	std::ifstream file("/proc/net/udp");
	std::string line;
	unsigned n = 0;

	snprintf(text, sizeof(text), "%08X:%04X", addr.s_addr, SIRDMA_ROCE_UDP_PORT);
	while (std::getline(file, line))
		n += line.find(text) != std::string::npos;
	return n;
}

bool await_stat(Node &node, sirdma_stat id, u64 at_least)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);

	while (node.device->nic->stat(id) < at_least)
		if (std::chrono::steady_clock::now() > end)
			return false;
	return true;
}

/* Sends bytes of its own choice to groups. */
class Stranger {
public:
	Stranger() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))
	{
		const ip_mreqn by = {.imr_multiaddr = {},
				     .imr_address = {htonl(INADDR_LOOPBACK)},
				     .imr_ifindex = static_cast<int>(if_nametoindex("lo"))};

		EXPECT_EQ(setsockopt(fd_.get(), IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by)), 0);
	}

	void send(const ibv_gid &group, const std::vector<uint8_t> &bytes) const
	{
		sockaddr_storage to;
		const socklen_t len = address_of(group).to_socket(SIRDMA_ROCE_UDP_PORT, to);

		EXPECT_EQ(sendto(fd_.get(), bytes.data(), bytes.size(), 0,
				 reinterpret_cast<sockaddr *>(&to), len),
			  static_cast<ssize_t>(bytes.size()))
			<< strerror(errno);
	}

private:
	const Fd fd_;
};

} // namespace

class TwinMulticast : public ::testing::TestWithParam<LinkKind> {
protected:
	static Config at_address(unsigned which) { return at(own_address(which), GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(All, TwinMulticast, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

/* In order, so a second copy of one would be taken for the next one. */
TEST_P(TwinMulticast, EachDeviceOfAHostGetsOneCopy)
{
	Node first(at_address(0)), second(at_address(0)), third(at_address(1));
	Node source(at_address(1));
	Ud a(first), b(second), c(third), from(source);

	source.fill(3);
	from.aim(group_of());
	for (Ud *ud : {&a, &b, &c}) {
		ud->post_recvs(rounds);
		ASSERT_EQ(attach(*ud), 0);
	}
	EXPECT_EQ(sockets(group_of()), 3u);
	for (uint32_t n : {1u, 7u, 40u}) {
		send(from, n);
		for (Ud *ud : {&a, &b, &c})
			for (uint32_t i = 0; i < n && !HasFailure(); ++i)
				ud->expect(i, from);
	}
	for (Ud *ud : {&a, &b, &c})
		EXPECT_EQ(detach(*ud), 0);
	EXPECT_EQ(sockets(group_of()), 0u);
}

TEST_P(TwinMulticast, ASenderThatIsAMemberGetsOneCopy)
{
	Node node(at_address(0)), other(at_address(1));
	Ud ud(node), witness(other);
	unsigned received = 0, sent = 0;

	ud.aim(group_of());
	ud.post_recvs(2 * rounds);
	witness.post_recvs(rounds);
	ASSERT_EQ(attach(ud), 0);
	ASSERT_EQ(attach(witness), 0);
	for (uint32_t n = 0; n < rounds; ++n) {
		ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(node.buffer.data()),
			       .length = ud_size,
			       .lkey = node.mr->lkey};
		ibv_send_wr wr{}, *bad;

		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm_data = htonl(n);
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.ud = {.ah = ud.ah, .remote_qpn = to_all, .remote_qkey = ud_qkey};
		ASSERT_EQ(ibv_post_send(ud.qp, &wr, &bad), 0);
		for (int i = 0; i < 2; ++i) {
			const ibv_wc wc = node.poll();

			ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
			if (wc.opcode == IBV_WC_SEND) {
				++sent;
				continue;
			}
			EXPECT_EQ(ntohl(wc.imm_data), n);
			EXPECT_EQ(wc.src_qp, ud.qp->qp_num);
			++received;
		}
		EXPECT_EQ(ntohl(other.poll().imm_data), n);
	}
	EXPECT_EQ(sent, rounds);
	EXPECT_EQ(received, rounds);
	EXPECT_EQ(detach(ud), 0);
	EXPECT_EQ(detach(witness), 0);
}

/* It says by a WRITE that it is a member. The helper alone receives: the child then sleeps. */
TEST_P(TwinMulticast, AnotherProcessGetsACopy)
{
	Child child(at_address(0), [](Node &node, const Address &peer) {
		Ud ud(node);
		int bad = attach(ud, group_of(getppid()));

		ud.post_recvs(2);
		node.buffer[0] = 1;
		node.post(IBV_WR_RDMA_WRITE, 0, 1, &peer);
		/* The copy may overtake the acknowledgement, which comes by another link. */
		for (int i = 0; i < 2; i++) {
			const ibv_wc wc = node.poll();

			bad |= wc.status ||
			       (wc.opcode == IBV_WC_RECV && wc.byte_len != grh_size + ud_size);
		}
		node.buffer[0] = bad ? 3 : 2;
		node.post(IBV_WR_RDMA_WRITE, 0, 1, &peer);
		bad |= node.poll().status;
		pause();
	});
	Node node(at_address(1));
	Ud from(node);
	const auto await = [&](uint8_t value) {
		const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
		volatile uint8_t &byte = node.buffer[0];
		ibv_wc wc;

		while (byte < value && std::chrono::steady_clock::now() < end)
			ibv_poll_cq(node.cq, 1, &wc);
		return byte == value;
	};

	node.buffer[0] = 0;
	node.connect(child.address());
	child.connect(node.address());
	from.aim(group_of());
	ASSERT_TRUE(await(1));
	send(from, 1);
	EXPECT_TRUE(await(2));
}

TEST_P(TwinMulticast, AttachesOnceForEachLid)
{
	Node node(at_address(0));
	Ud ud(node);
	const ibv_gid group = group_of();

	EXPECT_EQ(attach(ud), 0);
	EXPECT_EQ(attach(ud), 0);
	EXPECT_EQ(ibv_attach_mcast(ud.qp, &group, 1), 0) << "as the kernel tells them apart";
	EXPECT_EQ(detach(ud), 0);
	EXPECT_EQ(detach(ud), EINVAL);
	EXPECT_EQ(sockets(group), 1u);
	EXPECT_EQ(ibv_destroy_qp(ud.qp), EBUSY);
	EXPECT_EQ(ibv_detach_mcast(ud.qp, &group, 1), 0);
	EXPECT_EQ(sockets(group), 0u);
}

/* In a process of its own, as the library does not free what the program does not destroy. */
TEST_P(TwinMulticast, AnAttachmentGoesWithItsContext)
{
	const ibv_gid group = group_of();
	const Config config = at_address(0);
	const pid_t child = fork();
	int status = -1;

	if (!child) {
		Node node(config);
		auto *ud = new Ud(node);
		const bool attached = !attach(*ud, group) && sockets(group) == 1;

		_exit(attached && !ibv_close_device(node.context) && !sockets(group) ? 0 : 1);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

TEST_P(TwinMulticast, AChildHasNothingOfItsParentsGroups)
{
	Node node(at_address(0));
	Ud ud(node);
	int ends[2], status = -1;
	char c;

	ASSERT_EQ(attach(ud), 0);
	ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);

	const pid_t child = fork();

	if (!child) {
		int code = attach(ud) == ENODEV && detach(ud) == 0 ? 0 : 1;

		/* Until the parent has looked */
		close(ends[1]);
		code |= read(ends[0], &c, 1) ? 2 : 0;
		_exit(code);
	}
	EXPECT_EQ(detach(ud), 0);

	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);

	/* The child closes its copy of the socket as it begins. */
	while (sockets(group_of()) && std::chrono::steady_clock::now() < end) {}
	EXPECT_EQ(sockets(group_of()), 0u);
	close(ends[1]);
	close(ends[0]);
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

TEST_P(TwinMulticast, WhatIsNotForAGroupIsCountedAndDropped)
{
	Node node(at_address(0)), source(at_address(1));
	Ud ud(node), from(source);
	const Stranger stranger;
	std::vector<uint8_t> bytes(sizeof(sirdma_bth) + sizeof(sirdma_deth) + ud_size + 4);

	from.aim(group_of());
	ud.post_recvs(2);
	ASSERT_EQ(attach(ud), 0);
	/* Numbers of a queue pair, and of the management queue pair */
	from.send({ud.qp->qp_num, SIRDMA_GSI_QPN});
	EXPECT_TRUE(await_stat(node, SIRDMA_STAT_RX_BAD_GID, 2));
	stranger.send(group_of(), {1, 2, 3});
	EXPECT_TRUE(await_stat(node, SIRDMA_STAT_RX_BAD_LENGTH, 1));
	bytes[0] = SIRDMA_BTH_UD | SIRDMA_BTH_SEND_ONLY;
	bytes[5] = bytes[6] = bytes[7] = 0xff;
	stranger.send(group_of(), bytes);
	EXPECT_TRUE(await_stat(node, SIRDMA_STAT_RX_BAD_ICRC, 1));
	send(from, 1);
	ud.expect(0, from);
	EXPECT_EQ(node.device->nic->stat(SIRDMA_STAT_RX_NO_GROUP), 0u);
	EXPECT_EQ(detach(ud), 0);
}

TEST_P(TwinMulticast, RefusesGroupsOfTheOtherIpVersion)
{
	Node node(at_address(0));
	Ud ud(node);
	ibv_gid group{};

	group.raw[0] = 0xff;
	group.raw[1] = 0x15;
	group.raw[15] = 9;
	EXPECT_EQ(attach(ud, group), EHOSTUNREACH);
	EXPECT_EQ(detach(ud, group), EINVAL);
}

/* The socket of another program, which does not share it */
TEST_P(TwinMulticast, AGroupThatSomebodyElseHasIsRefused)
{
	Node node(at_address(0));
	Ud ud(node);
	sockaddr_storage sa;
	const socklen_t len = address_of(group_of()).to_socket(SIRDMA_ROCE_UDP_PORT, sa);
	Fd other(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));

	ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr *>(&sa), len), 0);
	EXPECT_EQ(attach(ud), EADDRINUSE);
	other.reset();
	EXPECT_EQ(attach(ud), 0);
	EXPECT_EQ(detach(ud), 0);
}

/* In a network namespace: datagrams to one group, sent by each of two netdevs. */
void hear_two_netdevs()
{
	static constexpr const char *make = "ip link add v0 type veth peer name v1 && ip link add "
					    "w0 type veth peer name w1 && "
					    "for d in v0 v1 w0 w1; do ip link set $d up || exit; "
					    "done && "
					    "ip addr add fd78::1/64 dev v0 nodad && ip addr add "
					    "fd79::1/64 dev w0 nodad";
	ibv_gid group{};
	sockaddr_storage to;

	ASSERT_EQ(system(make), 0);
	group.raw[0] = 0xff;
	group.raw[1] = 0x15;
	group.raw[15] = 9;

	const socklen_t len = address_of(group).to_socket(SIRDMA_ROCE_UDP_PORT, to);
	const char *const names[] = {"v0", "w0"};
	std::unique_ptr<UdpReceiver> members[2];
	const Fd sender(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));

	for (int i = 0; i < 2; i++) {
		members[i] =
			UdpReceiver::create_member(address_of(group), if_nametoindex(names[i]), 0);
		ASSERT_TRUE(members[i]) << strerror(errno);
	}
	for (char i = 0; i < 2; i++) {
		const int index = static_cast<int>(if_nametoindex(names[+i]));

		ASSERT_EQ(setsockopt(sender.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF, &index,
				     sizeof(index)),
			  0);
		ASSERT_EQ(sendto(sender.get(), &i, 1, 0, reinterpret_cast<sockaddr *>(&to), len), 1)
			<< strerror(errno);
	}
	for (char i = 0; i < 2; i++) {
		pollfd ready = {.fd = members[+i]->fd(), .events = POLLIN, .revents = 0};
		char got = 9;

		ASSERT_EQ(poll(&ready, 1, 20000), 1);
		EXPECT_EQ(recv(ready.fd, &got, 1, MSG_DONTWAIT), 1);
		EXPECT_EQ(got, i) << "sent by the other netdev";
		EXPECT_EQ(recv(ready.fd, &got, 1, MSG_DONTWAIT), -1) << "a second copy";
	}
}

TEST(TwinMulticastMember, HearsItsOwnNetdevOnly)
{
	if (!in_network_namespace(hear_two_netdevs))
		GTEST_SKIP() << "no right to make a network namespace";
}

} // namespace sirdma::twin::test
