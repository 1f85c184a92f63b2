/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire: one UDP socket on the RoCEv2 port of one address. Bursts leave in
 * one system call, as runs of equal packets that the kernel segments, and what
 * the kernel coalesced on the way in is taken apart again.
 */
#pragma once

#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>

#include "config.hpp"
#include "core.hpp"
#include "faults.hpp"
#include "icrc.hpp"
#include "pcap.hpp"

namespace sirdma::twin
{

/* Where one thread builds a burst. */
struct TxScratch {
	snic_burst burst; /* the model's */
	uint8_t bytes[SNIC_BURST_BYTES + SNIC_BURST_PKTS * (SNIC_MAX_HDR + 8)];
	mmsghdr messages[SNIC_BURST_PKTS];
	iovec pieces[SNIC_BURST_PKTS];
	u32 first[SNIC_BURST_PKTS + 1]; /* packet of the burst each message begins with */
	alignas(cmsghdr) uint8_t control[SNIC_BURST_PKTS][CMSG_SPACE(sizeof(uint16_t))];
};

class UdpLink {
public:
	/* Null with errno, and a message on stderr. */
	static std::unique_ptr<UdpLink> create(const Config &config);
	~UdpLink();
	UdpLink(const UdpLink &) = delete;
	UdpLink &operator=(const UdpLink &) = delete;

	in_addr addr() const noexcept { return addr_; }

	/* Readable when packets wait. */
	int fd() const noexcept { return fd_; }

	/* How many packets the socket took, from the front; any thread. */
	u32 transmit(const snic_burst &burst, TxScratch &scratch) noexcept;

	/* Datagrams taken at once; each may be a train of packets. */
	static constexpr u32 batch = 8;

	/* Give what waits to @dev, a batch at most; how many. One thread at a time. */
	u32 receive(snic_dev *dev) noexcept;

private:
	static constexpr size_t datagram_max = 65536;

	struct RxSlot {
		sockaddr_in from;
		iovec piece;
		alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	};

	UdpLink(int fd, in_addr addr, const Config &config) noexcept;

	u32 build(const snic_burst &burst, TxScratch &scratch, const Path &path) noexcept;
	static void order_by_wire() noexcept;
	u32 send(TxScratch &scratch, u32 runs) noexcept;
	void take(snic_dev *dev, const mmsghdr &message) noexcept;
	void take_segment(snic_dev *dev, const Path &path, uint8_t *data, size_t len, u32 index,
			  bool more) noexcept;

	const int fd_;
	const in_addr addr_;
	std::atomic<bool> segments_{true}; /* the kernel segments for us */
	std::unique_ptr<PcapWriter> pcap_;

	/* Of the receiving thread. */
	Faults faults_;
	std::unique_ptr<uint8_t[]> rx_bytes_;
	RxSlot rx_slots_[batch];
	mmsghdr rx_messages_[batch];
	bool ids_count_ = true; /* segments that came together were numbered by their sender */
};

} // namespace sirdma::twin
