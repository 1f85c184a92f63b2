/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RoCEv2 through UDP sockets. A burst is sent by one system call, as runs of equal packets that
 * the kernel segments (GSO). Received packets that the kernel merged (GRO) are split again.
 * Packets are sent from an ephemeral port, because RoCEv2's port may belong to another
 * process; RoCEv2 prescribes the destination port only.
 */
#pragma once

#include <memory>
#include <sys/socket.h>

#include "ack_hold.hpp"
#include "address.hpp"
#include "core.hpp"
#include "fd.hpp"
#include "icrc.hpp"
#include "pcap.hpp"
#include "udp_socket.hpp"

namespace sirdma::twin
{

/* Buffers in which one thread builds a burst. */
struct TxScratch {
	static constexpr u32 packets = SNIC_BURST_PKTS;

	snic_burst burst; /* burst of the model */
	snic_burst part; /* part of it, for one process */
	/* Room for payload that the model copies. Its pages come when they are used. */
	std::unique_ptr<uint8_t[]> copies{new (std::nothrow) uint8_t[SNIC_BURST_BYTES]};
	uint8_t bytes[SNIC_BURST_BYTES + packets * (SNIC_MAX_HDR + 8)];
	mmsghdr messages[packets];
	iovec pieces[packets];
	u32 first[packets + 1]; /* first packet of each message in the burst */
	/* Room for the traffic class, the hop limit and the size of segments */
	alignas(cmsghdr) uint8_t
		control[packets][2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t))];
};

/* A class that receives datagrams, BTH to ICRC. */
class DatagramSink {
public:
	/*
	 * @index: place of the datagram among those that came in one message; @more: another one
	 * follows at once.
	 */
	virtual void datagram(const Path &path, uint8_t *data, size_t len, u32 index,
			      bool more) noexcept = 0;

protected:
	~DatagramSink() = default;
};

/* The sending side. Any thread may use it. */
class UdpSender {
public:
	/*
	 * Returns null with errno. @pcap, if not null, records the packets that are sent; @buffer:
	 * see Config.
	 */
	static std::unique_ptr<UdpSender> create(const IpAddress &addr, PcapWriter *pcap,
						 uint32_t buffer);

	/* Bounds of window(), bytes. The least one fits a socket buffer that is not enlarged. */
	static constexpr u32 window_min = 128 << 10, window_max = 1 << 20;
	/* Bytes that a QP may have in flight, which the receive buffers of the peers should hold. */
	u32 window() const noexcept { return window_; }

	/*
	 * Send packets. Returns how many of them, from the first on, the socket accepted. An acknowledgement alone is held
	 * back; a later burst of its QP may take it along. From the next burst on, the QP has the window.
	 */
	u32 transmit(snic_burst &burst, TxScratch &scratch) noexcept;
	/* A call ends: send the acknowledgement that transmit() held back. See AckHold. */
	void flush(TxScratch &scratch) noexcept;
	/* Is an acknowledgement held back? */
	bool holding() const noexcept { return hold_.any(); }
	/* Only write the burst to the capture: another link transmits it. */
	void record(const snic_burst &burst, TxScratch &scratch) noexcept;

private:
	UdpSender(Fd fd, const IpAddress &addr, uint16_t port, u32 window,
		  PcapWriter *pcap) noexcept
		: fd_(std::move(fd)), addr_(addr), port_(port), window_(window), pcap_(pcap)
	{
	}

	struct Layout;

	void put(Layout &at, TxScratch &scratch, const Path &path, const snic_tx_pkt &pkt,
		 snic_seg_iter &payload) noexcept;
	u32 build(const snic_burst &burst, const Ack *piggybacked, TxScratch &scratch,
		  const Path &path) noexcept;
	u32 send(TxScratch &scratch, const IpAddress &dst, u32 runs) noexcept;
	bool send_some(mmsghdr *messages, u32 count, u32 &sent) noexcept;
	void send_ack(const Ack &ack, TxScratch &scratch) noexcept;
	Path path_to(const IpAddress &dst, const snic_flow &flow) const noexcept;

	const Fd fd_;
	const IpAddress addr_;
	const uint16_t port_;
	const u32 window_;
	PcapWriter *const pcap_;
	std::atomic<bool> segments_{true}; /* the kernel supports UDP_SEGMENT */
	AckHold hold_;
};

/* A socket bound to RoCEv2's port of an address, or of a multicast group. */
class UdpReceiver {
public:
	/* Returns null with errno; EADDRINUSE: another socket has the port. */
	static std::unique_ptr<UdpReceiver> create(const IpAddress &addr, uint32_t buffer = 0);

	/*
	 * A socket that receives datagrams to multicast @group on interface @interface; other
	 * sockets may have the group and the port, too. Returns null with errno.
	 */
	static std::unique_ptr<UdpReceiver> create_member(const IpAddress &group,
							  uint32_t interface, uint32_t buffer);

	/*
	 * Make a receiver over such a socket, which another process made. Returns null with errno.
	 */
	static std::unique_ptr<UdpReceiver> adopt(Fd fd, const IpAddress &addr) noexcept;

	/*
	 * From now on report traffic class and hop limit of received datagrams; before, they are 0
	 * and SIRDMA_DEFAULT_HOP_LIMIT. Each recvmsg() then takes 0.15 us longer, 4 % of sendto()
	 * and recvmsg() of 64 B over lo (measured alternately with and without the options). So
	 * only devices with queue pairs for datagrams ask for them.
	 */
	void ask_for_header() noexcept;

	/* Readable when datagrams wait. */
	int fd() const noexcept { return fd_.get(); }

	/*
	 * The number of datagrams that are received at once. GRO may have merged several packets in
	 * each. The buffers of a batch, 64 KiB each, fit a cache of the second level (512 KiB and
	 * more today) until their payload has been placed.
	 */
	static constexpr u32 batch = 8;

	/*
	 * Deliver at most a batch of datagrams to @sink. Returns how many were delivered. One
	 * thread at a time.
	 */
	u32 receive(DatagramSink &sink) noexcept;

	/* Datagrams that the kernel dropped because the socket's buffer was full. */
	u64 overruns() const noexcept;

private:
	static constexpr size_t datagram_max = 65536;

	struct RxSlot {
		sockaddr_storage from;
		iovec piece;
		/* Room for GRO's segment size, the traffic class and the hop limit */
		alignas(cmsghdr) uint8_t control[3 * CMSG_SPACE(sizeof(int))];
	};

	UdpReceiver(Fd fd, const IpAddress &addr) noexcept;
	void prepare(u32 slot) noexcept;
	void take(DatagramSink &sink, const mmsghdr &message) noexcept;

	const Fd fd_;
	const IpAddress addr_;
	const std::unique_ptr<uint8_t[]> bytes_;
	RxSlot slots_[batch];
	mmsghdr messages_[batch];
	u32 found_ = 0; /* number of consecutive calls that found datagrams */
	u32 stream_ = 0; /* number of calls that expect more than one datagram */
};

} // namespace sirdma::twin
