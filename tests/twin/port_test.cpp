/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams of other RoCEv2 senders, made by hand, on their way from the port into the device. */
#include <algorithm>
#include <endian.h>
#include <poll.h>

#include "icrc.hpp"
#include "nic.hpp"
#include "node.hpp"
#include "own_address.hpp"

namespace sirdma::twin::test
{

namespace
{

/* A sender whose IP header nobody sees: it may have numbered its packets as it likes. */
class Sender {
public:
	Sender(const IpAddress &from, const IpAddress &to, uint32_t qpn)
		: fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), qpn_(qpn)
	{
		sockaddr_storage sa;

		EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr *>(&sa), from.to_socket(0, sa)),
			  0);
		EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr *>(&sa),
				  to.to_socket(SIRDMA_ROCE_UDP_PORT, sa)),
			  0);

		socklen_t len = sizeof(sa);

		EXPECT_EQ(getsockname(fd_.get(), reinterpret_cast<sockaddr *>(&sa), &len), 0);
		path_ = {.src = from,
			 .dst = to,
			 .sport = ntohs(reinterpret_cast<sockaddr_in &>(sa).sin_port),
			 .dport = SIRDMA_ROCE_UDP_PORT};
	}

	/* A SEND with identification @id; @damage is what its last byte of payload is wrong by. */
	void send(uint16_t id, uint8_t damage = 0)
	{
		uint8_t packet[sizeof(sirdma_bth) + 4 + SIRDMA_ICRC_LEN] = {};
		sirdma_bth bth{};

		bth.opcode = SIRDMA_BTH_SEND_ONLY;
		bth.pkey = htobe16(SIRDMA_DEFAULT_PKEY);
		bth.qpn = htobe32(qpn_);
		memcpy(packet, &bth, sizeof(bth));

		const uint32_t icrc = icrc_of(path_, id, packet, sizeof(packet));

		memcpy(packet + sizeof(bth) + 4, &icrc, sizeof(icrc));
		packet[sizeof(bth) + 3] ^= damage;
		EXPECT_EQ(::send(fd_.get(), packet, sizeof(packet), 0), ssize_t(sizeof(packet)));
	}

private:
	const Fd fd_;
	const uint32_t qpn_;
	Path path_{};
};

/* The traffic class of the next datagram that comes to @fd; -1: none did. */
int next_traffic_class(int fd, std::vector<uint8_t> &data)
{
	alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	data.resize(65536);
	iovec piece = {.iov_base = data.data(), .iov_len = data.size()};
	msghdr m{};
	pollfd readable = {.fd = fd, .events = POLLIN, .revents = 0};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);
	if (poll(&readable, 1, 20000) != 1)
		return -1;

	const ssize_t len = recvmsg(fd, &m, 0);
	const cmsghdr *c = len < 0 ? nullptr : CMSG_FIRSTHDR(&m);

	data.resize(static_cast<size_t>(std::max<ssize_t>(len, 0)));
	return c && c->cmsg_type == IP_TOS ? *CMSG_DATA(c) : -1;
}

/* A socket in place of a peer, which sees traffic classes. */
Fd peer_socket(const IpAddress &addr)
{
	Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	sockaddr_storage sa;
	const int on = 1;

	EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr *>(&sa),
		       addr.to_socket(SIRDMA_ROCE_UDP_PORT, sa)),
		  0);
	EXPECT_EQ(setsockopt(fd.get(), IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)), 0);
	return fd;
}

/* How many got past the ICRC, and how many did not, once @total were counted. */
std::pair<u64, u64> counted(Adapter &nic, u64 total)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
	u64 good, bad;

	do {
		/* A queue pair in RESET takes no packets, and counts them. */
		good = nic.stat(SIRDMA_STAT_RX_BAD_STATE);
		bad = nic.stat(SIRDMA_STAT_RX_BAD_ICRC);
	} while (good + bad < total && std::chrono::steady_clock::now() < end);
	return {good, bad};
}

} // namespace

TEST(TwinPort, TakesTheFirstPacketOfASenderThatNumbers)
{
	Node node;
	Adapter &nic = *node.device->nic;
	Sender sender(own_address(0), nic.addr(), node.qp->qp_num);

	sender.send(41000);
	EXPECT_EQ(counted(nic, 1), std::pair(u64{1}, u64{0}));
	sender.send(41001);
	EXPECT_EQ(counted(nic, 2), std::pair(u64{2}, u64{0}));
	sender.send(9000);
	EXPECT_EQ(counted(nic, 3), std::pair(u64{2}, u64{1})) << "no sequence";
}

TEST(TwinPort, CountsDamagedPacketsAsSuch)
{
	Node node;
	Adapter &nic = *node.device->nic;
	Sender numbers(own_address(0), nic.addr(), node.qp->qp_num);
	Sender socket(own_address(1), nic.addr(), node.qp->qp_num);

	numbers.send(41000, 0x20);
	EXPECT_EQ(counted(nic, 1), std::pair(u64{0}, u64{1})) << "the first of a sender";
	numbers.send(41001);
	EXPECT_EQ(counted(nic, 2), std::pair(u64{1}, u64{1})) << "now that is the first";
	for (unsigned bit = 0; bit < 8; ++bit)
		numbers.send(static_cast<uint16_t>(41002 + bit), static_cast<uint8_t>(1 << bit));
	EXPECT_EQ(counted(nic, 10), std::pair(u64{1}, u64{9}));
	socket.send(0);
	socket.send(0, 1);
	EXPECT_EQ(counted(nic, 12), std::pair(u64{2}, u64{10}));
}

TEST(TwinPort, PacketsHaveTheTrafficClassOfTheirPath)
{
	const Fd peer = peer_socket(own_address(0));
	std::vector<uint8_t> data;
	Config config;

	config.link = LinkKind::udp;
	for (const uint8_t traffic_class : {106, 0}) {
		Node node(config);
		Address to = node.address();

		memcpy(to.gid.raw, own_address(0).ip().b, sizeof(to.gid.raw));
		to.qpn = 0x1234;
		node.traffic_class = traffic_class;
		/* The timer is off: nothing is sent again. */
		node.connect(to, 0);
		/* One packet, then several, which the kernel segments */
		for (const uint32_t len : {8, 20000}) {
			ASSERT_EQ(node.post(IBV_WR_SEND, 0, len), 0);
			for (uint32_t got = 0; got < len;) {
				ASSERT_EQ(next_traffic_class(peer.get(), data), traffic_class);
				got += static_cast<uint32_t>(data.size() - sizeof(sirdma_bth) -
							     SIRDMA_ICRC_LEN);
			}
		}
	}
}

} // namespace sirdma::twin::test
