/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "udp_link.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <netinet/udp.h>
#include <new>
#include <unistd.h>

namespace sirdma::twin
{

namespace
{

constexpr int buffer_bytes = 8 << 20;
/* Below the largest datagram by more than the headers. */
constexpr size_t run_bytes_max = 65000;
/* Addresses of ours: 127.64.0.0/16, beginning at one that depends on the process. */
constexpr uint32_t free_base = 127u << 24 | 64u << 16;
constexpr uint32_t free_count = 1u << 16;
constexpr size_t v4_in_mapped = 12;

sockaddr_in socket_addr(in_addr addr) noexcept
{
	sockaddr_in sa{};

	sa.sin_family = AF_INET;
	sa.sin_port = htons(SIRDMA_ROCE_UDP_PORT);
	sa.sin_addr = addr;
	return sa;
}

bool bind_to(int fd, in_addr addr) noexcept
{
	const sockaddr_in sa = socket_addr(addr);

	return !bind(fd, reinterpret_cast<const sockaddr *>(&sa), sizeof(sa));
}

bool bind_to_free(int fd, in_addr &addr) noexcept
{
	const uint32_t start = static_cast<uint32_t>(getpid());

	for (uint32_t i = 0; i < free_count; ++i) {
		addr.s_addr = htonl(free_base | ((start + i) & (free_count - 1)));
		if (bind_to(fd, addr))
			return true;
		if (errno != EADDRINUSE)
			return false;
	}
	return false;
}

void set_option(int fd, int level, int name, int value) noexcept
{
	/* What an older kernel lacks costs speed, not function. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

void enlarge_buffers(int fd) noexcept
{
	set_option(fd, SOL_SOCKET, SO_RCVBUF, buffer_bytes);
	set_option(fd, SOL_SOCKET, SO_SNDBUF, buffer_bytes);
	set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, buffer_bytes);
	set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, buffer_bytes);
}

in_addr v4_of(const sirdma_ip &ip) noexcept
{
	in_addr addr;

	memcpy(&addr, ip.b + v4_in_mapped, sizeof(addr));
	return addr;
}

sirdma_ip mapped(in_addr addr) noexcept
{
	sirdma_ip ip{};

	ip.b[10] = ip.b[11] = 0xff;
	memcpy(ip.b + v4_in_mapped, &addr, sizeof(addr));
	return ip;
}

} // namespace

std::unique_ptr<UdpLink> UdpLink::create(const Config &config)
{
	if (!config.addr.any() && !config.addr.is_v4()) {
		fprintf(stderr, "sirdma: %s: IPv6 is not there yet\n", config.addr.text().c_str());
		errno = EAFNOSUPPORT;
		return nullptr;
	}

	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	in_addr addr = config.addr.any() ? in_addr{} : config.addr.v4();

	if (fd < 0)
		return nullptr;
	if (!(addr.s_addr ? bind_to(fd, addr) : bind_to_free(fd, addr))) {
		const int err = errno;
		char text[INET_ADDRSTRLEN];

		inet_ntop(AF_INET, &addr, text, sizeof(text));
		fprintf(stderr, "sirdma: UDP port %u of %s: %s%s\n", SIRDMA_ROCE_UDP_PORT, text,
			strerror(err),
			err == EADDRINUSE ? " (by another process, or a RoCE driver of the "
					    "kernel)" :
					    "");
		close(fd);
		errno = err;
		return nullptr;
	}
	/* Never fragmented, and so with identification 0. */
	set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	set_option(fd, IPPROTO_UDP, UDP_GRO, 1);
	enlarge_buffers(fd);

	std::unique_ptr<UdpLink> link(new (std::nothrow) UdpLink(fd, addr, config));

	if (!link || !link->rx_bytes_) {
		if (!link)
			close(fd);
		errno = ENOMEM;
		return nullptr;
	}
	if (!config.pcap.empty())
		link->pcap_ = PcapWriter::create(config.pcap);
	return link;
}

UdpLink::UdpLink(int fd, in_addr addr, const Config &config) noexcept
	: fd_(fd), addr_(addr), faults_(config),
	  rx_bytes_(new (std::nothrow) uint8_t[batch * datagram_max])
{
}

UdpLink::~UdpLink()
{
	close(fd_);
}

/* Lay the packets out back to back and cut them into runs; how many runs. */
u32 UdpLink::build(const snic_burst &burst, TxScratch &s, const Path &path) noexcept
{
	const bool segments = segments_.load(std::memory_order_relaxed);
	uint8_t *at = s.bytes;
	snic_seg_iter payload;
	size_t segment = 0, last = 0;
	u32 runs = 0, in_run = 0;

	snic_seg_iter_init(&payload, &burst);
	for (u32 i = 0; i < burst.npkts; ++i) {
		const snic_tx_pkt &pkt = burst.pkts[i];
		const size_t body = pkt.hdr_len + pkt.payload_len;
		const size_t len = body + pkt.pad + SIRDMA_ICRC_LEN;

		memcpy(at, pkt.hdr, pkt.hdr_len);
		snic_seg_copy(&payload, at + pkt.hdr_len, pkt.payload_len);
		memset(at + body, 0, pkt.pad);

		/* Segments are of one size, but for a shorter last one. */
		const bool joins = segments && runs && last == segment && len <= segment &&
				   in_run < max_segments &&
				   s.pieces[runs - 1].iov_len + len <= run_bytes_max;

		if (!joins) {
			segment = len;
			in_run = 0;
			s.first[runs] = i;
			s.pieces[runs++] = {.iov_base = at, .iov_len = 0};
		}

		const uint32_t crc =
			snic_icrc_update(icrc_begin(path, static_cast<uint16_t>(in_run), len, at),
					 at + sizeof(sirdma_bth),
					 static_cast<u32>(body + pkt.pad - sizeof(sirdma_bth)));
		const uint32_t icrc = snic_icrc_final(crc);

		memcpy(at + body + pkt.pad, &icrc, sizeof(icrc));
		if (pcap_)
			pcap_->write(path, static_cast<uint16_t>(in_run), at, len);
		s.pieces[runs - 1].iov_len += len;
		last = len;
		++in_run;
		at += len;

		msghdr &m = s.messages[runs - 1].msg_hdr;

		m = {};
		m.msg_iov = &s.pieces[runs - 1];
		m.msg_iovlen = 1;
		if (in_run == 1)
			continue;
		m.msg_control = s.control[runs - 1];
		m.msg_controllen = sizeof(s.control[0]);
		cmsghdr *c = CMSG_FIRSTHDR(&m);
		const uint16_t size = static_cast<uint16_t>(segment);

		c->cmsg_level = IPPROTO_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(size));
		memcpy(CMSG_DATA(c), &size, sizeof(size));
	}
	s.first[runs] = burst.npkts;
	return runs;
}

/*
 * What a thread wrote is seen by who received what it sent afterwards. Thread
 * sanitizer does not know that of sockets.
 */
void UdpLink::order_by_wire() noexcept
{
#ifdef PORT_TSAN
	static std::atomic<u32> wire;

	wire.fetch_add(1);
#endif
}

/* How many messages need not be sent again. */
u32 UdpLink::send(TxScratch &s, u32 runs) noexcept
{
	u32 done = 0;

	while (done < runs) {
		order_by_wire();

		const int n = sendmmsg(fd_, s.messages + done, runs - done, 0);

		if (n > 0) {
			done += static_cast<u32>(n);
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN || errno == ENOBUFS)
			break;
		/* An interface that cannot segment. This run is lost; the transport sends it again. */
		if (s.messages[done].msg_hdr.msg_control && (errno == EIO || errno == EINVAL))
			segments_.store(false, std::memory_order_relaxed);
		++done;
	}
	return done;
}

u32 UdpLink::transmit(const snic_burst &burst, TxScratch &s) noexcept
{
	const Path path = {
		.src = addr_,
		.dst = v4_of(burst.flow->dst_ip),
		.sport = SIRDMA_ROCE_UDP_PORT, /* the socket's; the flow's own is for NICs */
		.dport = SIRDMA_ROCE_UDP_PORT,
	};
	sockaddr_in to = socket_addr(path.dst);
	const u32 runs = build(burst, s, path);

	for (u32 i = 0; i < runs; ++i) {
		s.messages[i].msg_hdr.msg_name = &to;
		s.messages[i].msg_hdr.msg_namelen = sizeof(to);
	}
	return s.first[send(s, runs)];
}

void UdpLink::take_segment(snic_dev *dev, const Path &path, uint8_t *data, size_t len, u32 index,
			   bool more) noexcept
{
	uint16_t id = ids_count_ ? static_cast<uint16_t>(index) : 0;
	const bool ok = icrc_holds(path, data, len, id);
	snic_seg seg = {.ptr = data, .len = static_cast<u32>(len)};
	snic_rx_pkt pkt{};

	if (ok && index)
		ids_count_ = id == index;
	if (pcap_)
		pcap_->write(path, id, data, len);
	pkt.src_ip = mapped(path.src);
	pkt.dst_ip = mapped(path.dst);
	pkt.segs = &seg;
	pkt.nsegs = 1;
	pkt.len = seg.len;
	pkt.is_v4 = true;
	pkt.icrc_ok = ok;
	pkt.more = more;
	faults_.receive(dev, pkt);
}

void UdpLink::take(snic_dev *dev, const mmsghdr &message) noexcept
{
	const msghdr &m = message.msg_hdr;
	const auto &from = *static_cast<const sockaddr_in *>(m.msg_name);
	const Path path = {
		.src = from.sin_addr,
		.dst = addr_,
		.sport = ntohs(from.sin_port),
		.dport = SIRDMA_ROCE_UDP_PORT,
	};
	auto *data = static_cast<uint8_t *>(m.msg_iov->iov_base);
	size_t left = message.msg_len, segment = left;

	for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(const_cast<msghdr *>(&m), c)) {
		int size;

		if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO)
			continue;
		memcpy(&size, CMSG_DATA(c), sizeof(size));
		if (size > 0)
			segment = static_cast<size_t>(size);
	}
	for (u32 i = 0; left; ++i) {
		const size_t len = std::min(left, segment);

		left -= len;
		take_segment(dev, path, data, len, i, left != 0);
		data += len;
	}
}

u32 UdpLink::receive(snic_dev *dev) noexcept
{
	for (u32 i = 0; i < batch; ++i) {
		RxSlot &slot = rx_slots_[i];
		msghdr &m = rx_messages_[i].msg_hdr;

		slot.piece = {.iov_base = rx_bytes_.get() + i * datagram_max,
			      .iov_len = datagram_max};
		m = {};
		m.msg_name = &slot.from;
		m.msg_namelen = sizeof(slot.from);
		m.msg_iov = &slot.piece;
		m.msg_iovlen = 1;
		m.msg_control = slot.control;
		m.msg_controllen = sizeof(slot.control);
	}

	const int n = recvmmsg(fd_, rx_messages_, batch, MSG_DONTWAIT, nullptr);

	order_by_wire();
	for (int i = 0; i < n; ++i)
		take(dev, rx_messages_[i]);
	if (n < static_cast<int>(batch))
		faults_.flush(dev);
	return n > 0 ? static_cast<u32>(n) : 0;
}

} // namespace sirdma::twin
