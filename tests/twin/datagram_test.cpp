/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams of one queue pair to many processes. */
#include <algorithm>
#include <climits>
#include <netinet/ip.h>
#include <poll.h>

#include "child.hpp"
#include "in_process.hpp"
#include "ud.hpp"

namespace sirdma::twin::test
{

class TwinDatagram : public ::testing::TestWithParam<LinkKind> {};

INSTANTIATE_TEST_SUITE_P(All, TwinDatagram, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

/* The first one to each of them makes the connection and is not lost. */
TEST_P(TwinDatagram, GoToEveryProcessOfAnAddress)
{
	constexpr uint32_t rounds = 16;
	const Config there = at(own_address(0), GetParam());
	Node first(there), second(there), third(there);
	Node source(at(own_address(1), GetParam()));
	Ud a(first), b(second), c(third), from(source);
	Ud *const to[] = {&a, &b, &b, &c};
	std::vector<uint32_t> qpns;

	EXPECT_NE(slot_of(a.qp->qp_num), slot_of(b.qp->qp_num));
	EXPECT_NE(slot_of(b.qp->qp_num), slot_of(c.qp->qp_num));
	source.fill(3);
	from.aim(first.address().gid);
	for (Ud *ud : {&a, &b, &c})
		ud->post_recvs(2 * rounds);
	for (uint32_t n = 0; n < rounds * std::size(to); ++n)
		qpns.push_back(to[n % std::size(to)]->qp->qp_num);
	from.send(qpns);
	for (uint32_t n = 0; n < qpns.size() && !HasFailure(); ++n)
		to[n % std::size(to)]->expect(n, from);
}

/* The poster does not wait for a process that is not there, nor do the others. */
TEST_P(TwinDatagram, ForNobodyAreLostAlone)
{
	Node there(at(own_address(0), GetParam())), source(at(own_address(1), GetParam()));
	Ud sink(there), from(source);
	const uint32_t nobody = first_qpn_of(slot_of(sink.qp->qp_num) + 1) + 5;

	source.fill(4);
	from.aim(there.address().gid);
	sink.post_recvs(3);
	from.send({nobody, sink.qp->qp_num, nobody, nobody, sink.qp->qp_num, nobody});
	sink.expect(1, from);
	sink.expect(4, from);
	if (GetParam() == LinkKind::shm) {
		EXPECT_EQ(source.device->nic->stat(SIRDMA_STAT_TX_DROPS), 4u);
	}
}

/*
 * The IP header of a datagram is the second half of its GRH. Two processes of the address, because
 * the owner of the UDP port hands datagrams over to the other one.
 */
TEST_P(TwinDatagram, HaveTheirTrafficClassAndHopLimitInTheGrh)
{
	constexpr uint8_t traffic_class = 0x68;
	constexpr size_t tos = 21, ttl = 28, in_source = 32;
	const Config there = at(own_address(0), GetParam());
	Node first(there), second(there), source(at(own_address(1), GetParam()));

	source.fill(5);
	for (Node *node : {&first, &second}) {
		Ud to(*node), from(source);
		const in_addr expected = own_address(1).v4();

		to.post_recvs(1);
		from.aim(node->address().gid, traffic_class);
		from.send({to.qp->qp_num});
		to.expect(0, from);
		EXPECT_EQ(to.first_grh()[20], 0x45);
		EXPECT_EQ(to.first_grh()[tos], traffic_class);
		EXPECT_EQ(to.first_grh()[ttl], 64);
		EXPECT_EQ(memcmp(to.first_grh() + in_source, &expected, sizeof(expected)), 0);
	}
}

/* In one context or several; and those of another process are others. */
TEST_P(TwinDatagram, AProcessHasAllAddressHandlesOfItsDevice)
{
	Node node(at(own_address(0), GetParam())), other(at(own_address(0), GetParam()));
	ibv_context *const context = ibv_open_device(node.device->verbs());
	ibv_pd *const pd = ibv_alloc_pd(context);
	ibv_ah_attr attr{};
	ibv_device_attr limits{};
	std::vector<ibv_ah *> all;

	ASSERT_TRUE(pd);
	ASSERT_EQ(ibv_query_device(context, &limits), 0);
	attr.is_global = 1;
	attr.port_num = 1;
	attr.grh.dgid = node.address().gid;
	for (size_t n = 0; ibv_ah *ah = ibv_create_ah(n % 2 ? pd : node.pd, &attr); ++n)
		all.push_back(ah);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_EQ(all.size(), static_cast<size_t>(limits.max_ah));
	for (ibv_pd *of : {pd, node.pd}) {
		EXPECT_FALSE(ibv_create_ah(of, &attr));
		EXPECT_EQ(errno, ENOMEM);
	}
	all.push_back(ibv_create_ah(other.pd, &attr));
	EXPECT_TRUE(all.back());
	for (ibv_ah *ah : all)
		EXPECT_EQ(ibv_destroy_ah(ah), 0);
	ibv_ah *const again = ibv_create_ah(pd, &attr);
	EXPECT_TRUE(again);
	EXPECT_EQ(ibv_destroy_ah(again), 0);
	EXPECT_EQ(ibv_dealloc_pd(pd), 0);
	EXPECT_EQ(ibv_close_device(context), 0);
}

/* What a socket says of the last datagram it received. */
class LastPath : public DatagramSink {
public:
	void datagram(const Path &came, uint8_t *, size_t, u32, bool) noexcept override
	{
		path = came;
		++seen;
	}

	Path path{};
	u32 seen = 0;
};

/* A datagram from @src, sent with these fields of its header, to the receiver at @dst. */
void receive_header(const IpAddress &src, const IpAddress &dst, int traffic_class, int hop_limit)
{
	const bool v4 = dst.is_v4();
	const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
	const std::unique_ptr<UdpReceiver> receiver = UdpReceiver::create(dst);
	const Fd sender(socket(dst.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
	sockaddr_storage from, to;
	LastPath got;

	ASSERT_TRUE(receiver) << strerror(errno);
	receiver->ask_for_header();

	pollfd ready = {.fd = receiver->fd(), .events = POLLIN, .revents = 0};
	const socklen_t from_len = src.to_socket(0, from),
			to_len = dst.to_socket(SIRDMA_ROCE_UDP_PORT, to);

	ASSERT_EQ(bind(sender.get(), reinterpret_cast<sockaddr *>(&from), from_len), 0);
	ASSERT_EQ(setsockopt(sender.get(), level, v4 ? IP_TOS : IPV6_TCLASS, &traffic_class,
			     sizeof(traffic_class)),
		  0);
	ASSERT_EQ(setsockopt(sender.get(), level, v4 ? IP_TTL : IPV6_UNICAST_HOPS, &hop_limit,
			     sizeof(hop_limit)),
		  0);
	ASSERT_EQ(sendto(sender.get(), "datagram", 8, 0, reinterpret_cast<sockaddr *>(&to), to_len),
		  8);
	ASSERT_EQ(poll(&ready, 1, 20000), 1);
	EXPECT_EQ(receiver->receive(got), 1u);
	ASSERT_EQ(got.seen, 1u);
	EXPECT_TRUE(got.path.src == src);
	EXPECT_EQ(got.path.traffic_class, traffic_class);
	EXPECT_EQ(got.path.hop_limit, hop_limit);
}

TEST(TwinReceiver, TellsTrafficClassAndHopLimit)
{
	receive_header(own_address(1), own_address(0), 0x68, 7);
	receive_header(own_address(1), own_address(0), 0, 255);
}

/* Send a packet of queue pair @qpn with @len bytes of payload from @src to @dst. Returns false if the sender has no room. */
bool send_packet(UdpSender &sender, TxScratch &scratch, const IpAddress &src, const IpAddress &dst,
		 u32 qpn = 0, u8 opcode = SIRDMA_BTH_SEND_ONLY, u16 len = 64, bool signaled = false)
{
	snic_flow flow{};
	std::vector<uint8_t> payload(len);
	snic_burst &burst = scratch.burst;

	flow.src_ip = src.ip();
	flow.dst_ip = dst.ip();
	flow.is_v4 = src.is_v4();
	burst.flow = &flow;
	burst.qpn = qpn;
	burst.npkts = 1;
	burst.nsegs = len != 0;
	burst.segs[0] = {.ptr = payload.data(), .len = len};
	burst.signaled = signaled;
	snic_pkt_bth(&burst.pkts[0], opcode, SIRDMA_DEFAULT_PKEY, 5, 0, len);
	if (opcode == SIRDMA_BTH_ACK)
		snic_pkt_aeth(&burst.pkts[0], SIRDMA_AETH_ACK | SIRDMA_AETH_CREDIT_INVALID, 0);
	return sender.transmit(burst, scratch);
}

/* A burst from @addr gives its QP this window, if sockets have @buffer bytes. */
u32 window_with(const IpAddress &addr, uint32_t buffer)
{
	const std::unique_ptr<UdpSender> sender = UdpSender::create(addr, nullptr, buffer);
	const auto scratch = std::make_unique<TxScratch>();

	if (!sender)
		return 0;
	EXPECT_TRUE(send_packet(*sender, *scratch, addr, addr));
	EXPECT_EQ(scratch->burst.next.window, sender->window());
	return sender->window();
}

/* The identification of the next packet that @fd, a raw socket, receives; -1: none comes. */
int identification(int fd)
{
	pollfd ready = {.fd = fd, .events = POLLIN, .revents = 0};
	uint8_t packet[256];
	iphdr ip;

	if (poll(&ready, 1, 20000) != 1 ||
	    read(fd, packet, sizeof(packet)) < static_cast<ssize_t>(sizeof(ip)))
		return -1;
	memcpy(&ip, packet, sizeof(ip));
	return ntohs(ip.id);
}

/* The ICRC covers it, and the sender computes that before the kernel chooses. A connected socket would have others. */
TEST(TwinSender, HasIdentificationZero)
{
	const bool permitted = in_network_namespace([] {
		const IpAddress src = own_address(0), dst = own_address(1);

		ASSERT_EQ(system("ip link set lo up"), 0);

		const Fd raw(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP));
		const std::unique_ptr<UdpReceiver> receiver = UdpReceiver::create(dst);
		const std::unique_ptr<UdpSender> sender = UdpSender::create(src, nullptr, 0);
		const auto scratch = std::make_unique<TxScratch>();

		ASSERT_TRUE(raw && receiver && sender) << strerror(errno);
		for (int i = 0; i < 3; ++i) {
			EXPECT_TRUE(send_packet(*sender, *scratch, src, dst));
			EXPECT_EQ(identification(raw.get()), 0);
		}
	});

	if (!permitted)
		GTEST_SKIP() << "no right to make a network namespace";
}

/* The operations of the packets that came, and the place of each in its datagram. */
class ArrivedPackets : public DatagramSink {
public:
	void datagram(const Path &, uint8_t *data, size_t, u32 index, bool) noexcept override
	{
		seen.emplace_back(data[0], index);
	}

	std::vector<std::pair<uint8_t, u32>> seen;
};

/* Two ends of a wire of datagrams. */
struct Wire {
	using Came = std::vector<std::pair<uint8_t, u32>>;

	const IpAddress src = own_address(0), dst = own_address(1);
	std::unique_ptr<UdpReceiver> receiver = UdpReceiver::create(dst);
	std::unique_ptr<UdpSender> sender = UdpSender::create(src, nullptr, 0);
	std::unique_ptr<TxScratch> scratch = std::make_unique<TxScratch>();

	bool transmit(u32 qpn, u8 opcode, u16 len, bool signaled)
	{
		return send_packet(*sender, *scratch, src, dst, qpn, opcode, len, signaled);
	}

	/* The next packets that come. */
	Came receive() const
	{
		pollfd ready = {.fd = receiver->fd(), .events = POLLIN, .revents = 0};
		ArrivedPackets came;

		if (poll(&ready, 1, 20000) == 1)
			receiver->receive(came);
		return came.seen;
	}
};

/* Both come in one datagram: the kernel does not cut what stays on this machine. */
TEST(TwinSender, LetsAnAnswerCarryTheAcknowledgement)
{
	using Came = Wire::Came;
	constexpr u8 send_only = SIRDMA_BTH_SEND_ONLY, acknowledge = SIRDMA_BTH_ACK;
	Wire wire;

	ASSERT_TRUE(wire.receiver && wire.sender) << strerror(errno);
	EXPECT_TRUE(wire.transmit(7, acknowledge, 0, false));
	EXPECT_TRUE(wire.sender->holding());
	EXPECT_TRUE(wire.transmit(7, send_only, 8, true));
	EXPECT_FALSE(wire.sender->holding());
	EXPECT_EQ(wire.receive(), (Came{{send_only, 0}, {acknowledge, 1}}));

	/* An unsignaled request does not carry it, nor a shorter or a long one, nor that of another queue pair. */
	EXPECT_TRUE(wire.transmit(7, acknowledge, 0, false));
	EXPECT_TRUE(wire.transmit(7, send_only, 8, false));
	EXPECT_TRUE(wire.transmit(7, send_only, 0, true));
	EXPECT_TRUE(wire.transmit(7, send_only, 4096, true));
	EXPECT_TRUE(wire.transmit(8, send_only, 8, true));
	EXPECT_TRUE(wire.sender->holding());
	wire.sender->flush(*wire.scratch);

	Came came;

	while (came.size() < 5) {
		const Came more = wire.receive();

		ASSERT_FALSE(more.empty());
		came.insert(came.end(), more.begin(), more.end());
	}
	EXPECT_EQ(came, (Came{{send_only, 0},
			      {send_only, 0},
			      {send_only, 0},
			      {send_only, 0},
			      {acknowledge, 0}}));
}

/* The kernel does not segment datagrams of the sockets at @addr from now on: it refuses to without checksums. */
void refuse_segments(const IpAddress &addr)
{
	constexpr int on = 1, most_files = 1024;
	sockaddr_storage own, bound;

	addr.to_socket(0, own);
	for (int fd = 0; fd < most_files; ++fd) {
		socklen_t len = sizeof(bound);
		const auto &at = reinterpret_cast<const sockaddr_in &>(bound);

		if (getsockname(fd, reinterpret_cast<sockaddr *>(&bound), &len) ||
		    bound.ss_family != AF_INET ||
		    at.sin_addr.s_addr !=
			    reinterpret_cast<const sockaddr_in &>(own).sin_addr.s_addr)
			continue;
		EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)), 0);
	}
}

TEST(TwinSender, SendsAnAnswerAloneWhereTheKernelDoesNotSegment)
{
	Wire wire;

	ASSERT_TRUE(wire.receiver && wire.sender) << strerror(errno);
	refuse_segments(wire.src);
	EXPECT_TRUE(wire.transmit(7, SIRDMA_BTH_ACK, 0, false));
	EXPECT_TRUE(wire.transmit(7, SIRDMA_BTH_SEND_ONLY, 8, true));
	EXPECT_TRUE(wire.sender->holding());
	EXPECT_EQ(wire.receive(), (Wire::Came{{SIRDMA_BTH_SEND_ONLY, 0}}));
	wire.sender->flush(*wire.scratch);
	EXPECT_EQ(wire.receive(), (Wire::Came{{SIRDMA_BTH_ACK, 0}}));
}

TEST(TwinSender, HasAWindowThatSixteenStreamsIntoOneBufferMayHave)
{
	const IpAddress addr = own_address(0);
	const Fd socket_of_system(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	int most = INT_MAX / 2;
	socklen_t len = sizeof(most);

	/* The kernel doubles what it is asked for, and what it permits. */
	ASSERT_EQ(setsockopt(socket_of_system.get(), SOL_SOCKET, SO_RCVBUF, &most, len), 0);
	ASSERT_EQ(getsockopt(socket_of_system.get(), SOL_SOCKET, SO_RCVBUF, &most, &len), 0);
	EXPECT_EQ(window_with(addr, 64 << 10), UdpSender::window_min);
	for (const int kib : {1536, 2048, 4096, 8192, 65536}) {
		const int room = std::min(most, 2 * kib << 10);

		EXPECT_EQ(window_with(addr, static_cast<uint32_t>(kib) << 10),
			  std::clamp(static_cast<u32>(room) / 16, UdpSender::window_min,
				     UdpSender::window_max))
			<< kib;
	}
	/* As much as there is; more than the system permits to others if this is root. */
	EXPECT_GE(window_with(addr, 0), std::clamp(static_cast<u32>(std::min(most, 16 << 20)) / 16,
						   UdpSender::window_min, UdpSender::window_max));
}

TEST(TwinReceiver, TellsTheTrafficClassOfIPv6)
{
	/* ::1 is everybody's, except in a network namespace. */
	const bool permitted = in_network_namespace([] {
		IpAddress own;

		ASSERT_EQ(system("ip link set lo up"), 0);
		ASSERT_TRUE(IpAddress::parse("::1", own));
		receive_header(own, own, 0x68, 7);
		receive_header(own, own, 0, 255);
	});

	if (!permitted)
		GTEST_SKIP() << "no right to make a network namespace";
}

} // namespace sirdma::twin::test
