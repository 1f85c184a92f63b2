/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "udp_link.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <new>

#include "no_cancel.hpp"
#include "wire_order.hpp"

namespace sirdma::twin
{

namespace
{

/* Receive buffer of a member of a group: a process may be in a thousand. The size was not tuned. */
constexpr uint32_t member_buffer_bytes = 1 << 20;
/* The value is less than the largest datagram minus the headers. */
constexpr size_t run_bytes_max = 65000;
/*
 * A datagram of at least stream_bytes, or merged to this length by GRO, belongs to a stream, which
 * lasts stream_calls calls at least. Without streams, single posts have 0.56 of their rate. The
 * length makes no difference.
 */
constexpr u32 stream_bytes = 8192;
constexpr u32 stream_calls = 16;

/*
 * The window for peers whose receive buffers are as large as the one of @fd: 16 streams fit one, or
 * 3 with the buffer that Linux allows by default. Streams of more peers, or to a smaller buffer (of
 * a process without CAP_NET_ADMIN), lose packets, and their windows shrink. The kernel doubles what
 * it was asked for, for its own structures.
 *
 * With a window of 128 KiB, two bursts, each side waits for the other one: WRITEs of 1 MiB on two
 * processors that others used as well had 1.5 GB/s (iperf3 -l 1M: 3.0), 3.2 with 512 KiB or 1 MiB
 * when they had little else to do. Where the processors share no cache, 512 KiB had 0.85 to 0.9 of
 * the bandwidth of 1 MiB. (tests/bench/twin, twin-udp-bw-1048576-1m)
 */
u32 window_of(int fd) noexcept
{
	constexpr int streams = 16;
	int room = 0;
	socklen_t len = sizeof(room);

	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &len))
		return UdpSender::window_min;
	return std::clamp(static_cast<u32>(room / streams), UdpSender::window_min,
			  UdpSender::window_max);
}

/* Append an option of the message to those in @control. */
template <typename Value>
void add_option(msghdr &m, uint8_t *control, int level, int type, Value value) noexcept
{
	cmsghdr header{};

	header.cmsg_level = level;
	header.cmsg_type = type;
	header.cmsg_len = CMSG_LEN(sizeof(value));
	m.msg_control = control;
	memcpy(control + m.msg_controllen, &header, sizeof(header));
	memcpy(control + m.msg_controllen + CMSG_LEN(0), &value, sizeof(value));
	m.msg_controllen += CMSG_SPACE(sizeof(value));
}

void set_traffic_class(msghdr &m, uint8_t *control, const Path &path) noexcept
{
	const int traffic_class = path.traffic_class;

	if (path.src.is_v4())
		add_option(m, control, IPPROTO_IP, IP_TOS, traffic_class);
	else
		add_option(m, control, IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
}

void set_hop_limit(msghdr &m, uint8_t *control, const Path &path) noexcept
{
	const int hop_limit = path.hop_limit;

	if (path.src.is_v4())
		add_option(m, control, IPPROTO_IP, IP_TTL, hop_limit);
	else
		add_option(m, control, IPPROTO_IPV6, IPV6_HOPLIMIT, hop_limit);
}

constexpr snic_seg empty_seg{};
constexpr snic_seg_iter no_payload{.seg = &empty_seg, .off = 0, .by_reference = false};

/*
 * May the acknowledgement that was held back be sent in one datagram with this burst, a request of the same queue pair? The
 * kernel cuts the datagram into segments of the length of the request, of which the last one may be shorter. The
 * acknowledgement is not to wait for a long request to be copied (the limit was not tuned).
 *
 * It pays where the program of the peer waits for the completion of its own request before it looks for the answer, as
 * perftest does: ib_send_lat -s 8 then takes 0.66 of the time, and ib_write_lat 0.8. Both programs are taken to be alike: if
 * this one asks for no completion, the acknowledgement follows in a datagram of its own, because one that is cut takes longer
 * to send (tests/bench/twinbench lat 8, which asks for one in 32: 1.11 of the time).
 */
bool can_carry_ack(const snic_burst &burst) noexcept
{
	constexpr u32 ack_bytes = sizeof(sirdma_bth) + sizeof(sirdma_aeth), payload_max = 256;
	const snic_tx_pkt &pkt = burst.pkts[0];

	return burst.signaled && burst.npkts == 1 && pkt.payload_len <= payload_max &&
	       pkt.hdr_len + pkt.payload_len >= ack_bytes;
}

} // namespace

std::unique_ptr<UdpSender> UdpSender::create(const IpAddress &addr, PcapWriter *pcap,
					     uint32_t buffer)
{
	Fd fd = open_udp_socket(addr, 0);
	sockaddr_storage own;
	socklen_t len = sizeof(own);

	if (!fd || getsockname(fd.get(), reinterpret_cast<sockaddr *>(&own), &len))
		return nullptr;
	size_buffers(fd.get(), buffer);
	set_group_egress(fd.get(), addr);

	const u32 window = window_of(fd.get());

	/* No thread receives from this socket. */
	set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, 0);

	const uint16_t port = ntohs(addr.is_v4() ? reinterpret_cast<sockaddr_in &>(own).sin_port :
						   reinterpret_cast<sockaddr_in6 &>(own).sin6_port);

	return std::unique_ptr<UdpSender>(new UdpSender(std::move(fd), addr, port, window, pcap));
}

/* This class places packets one after the other, in runs that the kernel segments. */
struct UdpSender::Layout {
	uint8_t *at;
	const bool segments;
	size_t segment = 0, last = 0;
	u32 packets = 0, runs = 0, in_run = 0;

	/* Segments have one size, but the last one may be shorter. */
	bool joins(const TxScratch &s, size_t len) const noexcept
	{
		return segments && runs && last == segment && len <= segment &&
		       in_run < max_segments && s.pieces[runs - 1].iov_len + len <= run_bytes_max;
	}
};

void UdpSender::put(Layout &to, TxScratch &s, const Path &path, const snic_tx_pkt &pkt,
		    snic_seg_iter &payload) noexcept
{
	const size_t body = pkt.hdr_len + pkt.payload_len;
	const size_t len = body + pkt.pad + SIRDMA_ICRC_LEN;

	if (!to.joins(s, len)) {
		to.segment = len;
		to.in_run = 0;
		s.first[to.runs] = to.packets;
		s.pieces[to.runs++] = {.iov_base = to.at, .iov_len = 0};
	}

	const uint16_t id = static_cast<uint16_t>(to.in_run);
	snic_icrc icrc;

	icrc_begin(icrc, path, id, len, pkt.hdr);
	memcpy(to.at, pkt.hdr, pkt.hdr_len);
	snic_icrc_update(&icrc, pkt.hdr + sizeof(sirdma_bth),
			 static_cast<u32>(pkt.hdr_len - sizeof(sirdma_bth)));
	snic_seg_copy_icrc(&payload, to.at + pkt.hdr_len, pkt.payload_len, &icrc);
	memset(to.at + body, 0, pkt.pad);
	snic_icrc_update(&icrc, to.at + body, pkt.pad);

	const u32 sum = snic_icrc_final(&icrc);

	memcpy(to.at + body + pkt.pad, &sum, sizeof(sum));
	if (pcap_)
		pcap_->write(path, id, to.at, len);
	s.pieces[to.runs - 1].iov_len += len;
	to.last = len;
	to.at += len;
	++to.packets;

	msghdr &m = s.messages[to.runs - 1].msg_hdr;

	if (!to.in_run++) {
		m = {};
		m.msg_iov = &s.pieces[to.runs - 1];
		m.msg_iovlen = 1;
		if (path.traffic_class)
			set_traffic_class(m, s.control[to.runs - 1], path);
		if (path.hop_limit != SIRDMA_DEFAULT_HOP_LIMIT)
			set_hop_limit(m, s.control[to.runs - 1], path);
	} else if (to.in_run == 2) {
		add_option(m, s.control[to.runs - 1], IPPROTO_UDP, UDP_SEGMENT,
			   static_cast<uint16_t>(to.segment));
	}
}

/* Lay out the packets, and @piggybacked behind them, if any; returns the number of runs. */
u32 UdpSender::build(const snic_burst &burst, const Ack *piggybacked, TxScratch &s,
		     const Path &path) noexcept
{
	Layout layout{.at = s.bytes, .segments = segments_.load(std::memory_order_relaxed)};
	snic_seg_iter payload;

	snic_seg_iter_init(&payload, &burst);
	for (u32 i = 0; i < burst.npkts; ++i)
		put(layout, s, path, burst.pkts[i], payload);
	if (piggybacked) {
		snic_seg_iter none = no_payload;

		put(layout, s, path, piggybacked->pkt, none);
	}
	s.first[layout.runs] = layout.packets;
	return layout.runs;
}

/* Send as many runs as one system call accepts. Returns false with errno. */
bool UdpSender::send_some(mmsghdr *messages, u32 count, u32 &sent) noexcept
{
	const msghdr &first = messages->msg_hdr;

	order_by_wire();
	if (count == 1) {
		sent = 1;
		/* sendmsg() reads three structures; half a round trip of 8 bytes then takes 1.03 of the time. */
		return (first.msg_controllen ? raw_syscall::sendmsg(fd_.get(), &first, 0) :
					       raw_syscall::sendto(fd_.get(), first)) >= 0;
	}

	const int n = raw_syscall::sendmmsg(fd_.get(), messages, count, 0);

	sent = n > 0 ? static_cast<u32>(n) : 0;
	return n > 0;
}

/* Send the runs; returns how many packets need not be sent again. */
u32 UdpSender::send(TxScratch &s, const IpAddress &dst, u32 runs) noexcept
{
	sockaddr_storage to;
	const socklen_t to_len = dst.to_socket(SIRDMA_ROCE_UDP_PORT, to);
	u32 done = 0, n;

	for (u32 i = 0; i < runs; ++i) {
		s.messages[i].msg_hdr.msg_name = &to;
		s.messages[i].msg_hdr.msg_namelen = to_len;
	}
	while (done < runs) {
		if (send_some(s.messages + done, runs - done, n)) {
			done += n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN || errno == ENOBUFS)
			break;
		/* The interface cannot segment: transmit() sends the packets again. Any other run is lost, as on a wire. */
		if (s.first[done + 1] - s.first[done] > 1 && (errno == EIO || errno == EINVAL))
			segments_.store(false, std::memory_order_relaxed);
		++done;
	}
	return s.first[done];
}

void UdpSender::record(const snic_burst &burst, TxScratch &s) noexcept
{
	build(burst, nullptr, s,
	      {.src = addr_,
	       .dst = IpAddress(burst.flow->dst_ip),
	       .sport = SIRDMA_ROCE_UDP_PORT,
	       .dport = SIRDMA_ROCE_UDP_PORT,
	       .traffic_class = burst.flow->traffic_class});
}

/*
 * The flow's own source port is for network cards. As in the kernel's RDMA core
 * (ib_resolve_eth_dmac()), the hop limit of an address is sent to groups only, and other packets
 * have the hop limit of their route: programs such as ibv_rc_pingpong set 1 and reach peers behind
 * routers.
 */
Path UdpSender::path_to(const IpAddress &dst, const snic_flow &flow) const noexcept
{
	const bool to_group = sirdma_ip_is_multicast(&flow.dst_ip);

	return {.src = addr_,
		.dst = dst,
		.sport = port_,
		.dport = SIRDMA_ROCE_UDP_PORT,
		.traffic_class = flow.traffic_class,
		.hop_limit = to_group ? flow.hop_limit : uint8_t{SIRDMA_DEFAULT_HOP_LIMIT}};
}

u32 UdpSender::transmit(snic_burst &burst, TxScratch &s) noexcept
{
	const IpAddress dst(burst.flow->dst_ip, addr_.scope());
	const AckKind kind = ack_kind(burst);
	Ack leaves;

	burst.next.window = window_;
	if (kind == AckKind::refusal)
		hold_.refused(burst.qpn);
	if (kind == AckKind::plain) {
		if (hold_.offer({.dst = dst,
				 .traffic_class = burst.flow->traffic_class,
				 .qpn = burst.qpn,
				 .pkt = burst.pkts[0]},
				leaves))
			send_ack(leaves, s);
		return 1;
	}

	const Path path = path_to(dst, *burst.flow);
	const bool segments = segments_.load(std::memory_order_relaxed);
	const bool piggybacks = segments && can_carry_ack(burst) &&
				hold_.take(burst.qpn, dst, leaves);
	u32 sent = send(s, dst, build(burst, piggybacks ? &leaves : nullptr, s, path));

	/* The interface cannot segment: each packet leaves alone. */
	if (segments && !segments_.load(std::memory_order_relaxed)) [[unlikely]]
		sent = send(s, dst, build(burst, nullptr, s, path));
	if (piggybacks && sent <= burst.npkts)
		hold_.give_back(leaves);
	return std::min(sent, burst.npkts);
}

void UdpSender::send_ack(const Ack &ack, TxScratch &s) noexcept
{
	Layout layout{.at = s.bytes, .segments = false};
	snic_seg_iter none = no_payload;
	const Path path = {.src = addr_,
			   .dst = ack.dst,
			   .sport = port_,
			   .dport = SIRDMA_ROCE_UDP_PORT,
			   .traffic_class = ack.traffic_class};

	put(layout, s, path, ack.pkt, none);
	s.first[1] = 1;
	if (!send(s, ack.dst, 1))
		hold_.give_back(ack);
}

void UdpSender::flush(TxScratch &s) noexcept
{
	Ack leaves;

	if (hold_.flush(leaves))
		send_ack(leaves, s);
}

namespace
{

/* Control data of a received datagram. IP_TOS is a byte, the others are integers. */
struct ControlData {
	uint8_t traffic_class = 0, hop_limit = SIRDMA_DEFAULT_HOP_LIMIT;
	size_t segment = 0; /* 0: GRO merged nothing */

	void take(const cmsghdr &c) noexcept
	{
		int value = 0;

		if (c.cmsg_level == IPPROTO_IP && c.cmsg_type == IP_TOS) {
			traffic_class = *CMSG_DATA(&c);
			return;
		}
		memcpy(&value, CMSG_DATA(&c), sizeof(value));
		if (c.cmsg_level == IPPROTO_UDP && c.cmsg_type == UDP_GRO && value > 0)
			segment = static_cast<size_t>(value);
		else if (c.cmsg_level == IPPROTO_IPV6 && c.cmsg_type == IPV6_TCLASS)
			traffic_class = static_cast<uint8_t>(value);
		else if ((c.cmsg_level == IPPROTO_IP && c.cmsg_type == IP_TTL) ||
			 (c.cmsg_level == IPPROTO_IPV6 && c.cmsg_type == IPV6_HOPLIMIT))
			hop_limit = static_cast<uint8_t>(value);
	}
};

} // namespace

std::unique_ptr<UdpReceiver> UdpReceiver::create(const IpAddress &addr, uint32_t buffer)
{
	Fd fd = open_udp_socket(addr, SIRDMA_ROCE_UDP_PORT);

	if (!fd)
		return nullptr;
	set_option(fd.get(), IPPROTO_UDP, UDP_GRO, 1);
	size_buffers(fd.get(), buffer);
	return adopt(std::move(fd), addr);
}

std::unique_ptr<UdpReceiver> UdpReceiver::create_member(const IpAddress &group, uint32_t interface,
							uint32_t buffer)
{
	/* The scope matters only for groups of a link. */
	Fd fd = open_udp_socket(IpAddress(group.ip(), interface), SIRDMA_ROCE_UDP_PORT, interface);

	if (!fd || !join_group(fd.get(), group, interface))
		return nullptr;
	set_option(fd.get(), IPPROTO_UDP, UDP_GRO, 1);
	size_buffers(fd.get(), buffer ? buffer : member_buffer_bytes);

	std::unique_ptr<UdpReceiver> receiver = adopt(std::move(fd), group);

	if (receiver)
		receiver->ask_for_header();
	return receiver;
}

std::unique_ptr<UdpReceiver> UdpReceiver::adopt(Fd fd, const IpAddress &addr) noexcept
{
	sockaddr_storage own{};
	socklen_t len = sizeof(own);
	int type = 0;
	socklen_t type_len = sizeof(type);

	if (getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &type_len) ||
	    getsockname(fd.get(), reinterpret_cast<sockaddr *>(&own), &len))
		return nullptr;
	if (type != SOCK_DGRAM || own.ss_family != addr.family()) {
		errno = EPROTO;
		return nullptr;
	}

	std::unique_ptr<UdpReceiver> receiver(new (std::nothrow) UdpReceiver(std::move(fd), addr));

	if (!receiver || !receiver->bytes_) {
		errno = ENOMEM;
		return nullptr;
	}
	return receiver;
}

UdpReceiver::UdpReceiver(Fd fd, const IpAddress &addr) noexcept
	: fd_(std::move(fd)), addr_(addr), bytes_(new (std::nothrow) uint8_t[batch * datagram_max])
{
	for (u32 i = 0; i < batch; ++i)
		prepare(i);
}

void UdpReceiver::ask_for_header() noexcept
{
	if (addr_.is_v4()) {
		set_option(fd(), IPPROTO_IP, IP_RECVTOS, 1);
		set_option(fd(), IPPROTO_IP, IP_RECVTTL, 1);
	} else {
		set_option(fd(), IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		set_option(fd(), IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	}
}

/* Reset this for the next datagram. */
void UdpReceiver::prepare(u32 i) noexcept
{
	RxSlot &slot = slots_[i];
	msghdr &m = messages_[i].msg_hdr;

	slot.piece = {.iov_base = bytes_.get() + i * datagram_max, .iov_len = datagram_max};
	m = {};
	m.msg_name = &slot.from;
	m.msg_namelen = sizeof(slot.from);
	m.msg_iov = &slot.piece;
	m.msg_iovlen = 1;
	m.msg_control = slot.control;
	m.msg_controllen = sizeof(slot.control);
}

void UdpReceiver::take(DatagramSink &sink, const mmsghdr &message) noexcept
{
	const msghdr &m = message.msg_hdr;
	const auto *from = static_cast<const sockaddr *>(m.msg_name);
	ControlData arrival;

	for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(const_cast<msghdr *>(&m), c))
		arrival.take(*c);

	const Path path = {
		.src = IpAddress::of(from),
		.dst = addr_,
		.sport = ntohs(from->sa_family == AF_INET ?
				       reinterpret_cast<const sockaddr_in *>(from)->sin_port :
				       reinterpret_cast<const sockaddr_in6 *>(from)->sin6_port),
		.dport = SIRDMA_ROCE_UDP_PORT,
		.traffic_class = arrival.traffic_class,
		.hop_limit = arrival.hop_limit,
	};
	auto *data = static_cast<uint8_t *>(m.msg_iov->iov_base);
	size_t left = message.msg_len;

	for (u32 i = 0; left; ++i) {
		const size_t len = arrival.segment ? std::min(left, arrival.segment) : left;

		left -= len;
		sink.datagram(path, data, len, i, left != 0);
		data += len;
	}
}

/*
 * A peer that waits for an answer sent one datagram, so only one is received, without a system
 * call to learn whether there are others. Datagrams of a stream are received together, so
 * that they are acknowledged together.
 */
u32 UdpReceiver::receive(DatagramSink &sink) noexcept
{
	int n;

	if (!stream_) {
		const ssize_t len =
			raw_syscall::recvmsg(fd_.get(), &messages_[0].msg_hdr, MSG_DONTWAIT);

		n = len >= 0;
		messages_[0].msg_len = n ? static_cast<unsigned>(len) : 0;
	} else {
		n = raw_syscall::recvmmsg(fd_.get(), messages_, batch, MSG_DONTWAIT);
		--stream_;
	}
	if (n <= 0) {
		found_ = 0;
		return 0;
	}
	if (++found_ > 2 || n > 1 || messages_[0].msg_len >= stream_bytes)
		stream_ = stream_calls;
	order_by_wire();
	for (int i = 0; i < n; ++i) {
		take(sink, messages_[i]);
		prepare(static_cast<u32>(i));
	}
	return static_cast<u32>(n);
}

u64 UdpReceiver::overruns() const noexcept
{
	u32 info[SK_MEMINFO_VARS] = {};
	socklen_t len = sizeof(info);

	return getsockopt(fd_.get(), SOL_SOCKET, SO_MEMINFO, info, &len) ? 0 :
									   info[SK_MEMINFO_DROPS];
}

} // namespace sirdma::twin
