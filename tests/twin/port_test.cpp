/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams of other RoCEv2 senders, made by hand, on their way from the port into the device. */
#include <algorithm>
#include <endian.h>

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

} // namespace sirdma::twin::test
