/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "connection.hpp"

#include <cstring>
#include <poll.h>
#include <random>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "neighbours.hpp"
#include "no_cancel.hpp"
#include "wire_order.hpp"

extern "C" {
#include "model/super.h"
}

namespace sirdma::twin
{

namespace
{

enum RecordKind : uint16_t {
	record_packet = 1,
	record_datagram = 2,
	record_super = 3,
};

constexpr uint16_t record_more = 1;

/* Before a datagram that is handed over. */
struct DatagramHead {
	sirdma_ip src;
	uint32_t scope;
	uint16_t sport;
	uint16_t index;
};

static_assert(sizeof(DatagramHead) == 24);

/* Before the payload of a super-packet, or the pieces of the sender's memory it lies in. */
struct SuperHead {
	uint64_t lease; /* 0: the payload follows */
	uint32_t payload_len;
	uint32_t npieces;
	uint16_t npkts;
	uint8_t hdr_len;
	uint8_t pad;
	uint8_t hdr[SNIC_MAX_HDR];
};

struct Piece {
	uint64_t addr;
	uint64_t len;
};

static_assert(sizeof(SuperHead) == 72 && sizeof(Piece) == 16);

/* What a reader takes beyond packets and datagrams. */
constexpr uint32_t takes_supers = 1;
constexpr uint32_t takes_references = 2;
/* Of a super-packet's payload: by reference from so many bytes on, else copied up to so many. */
constexpr size_t reference_min = 16 << 10;
constexpr size_t copy_max = 16 << 10;
/* What goes by reference takes no room: the fewer pieces it comes in, the better. */
constexpr snic_limits by_reference_limits = {.burst = SNIC_BURST_BYTES, .window = 1 << 20};
/* A reader that takes nothing for so long is stuck: packets are lost to it. */
constexpr u64 stuck_ns = 200000000;
/* A reader copies at most SNIC_BURST_BYTES, which takes some microseconds where it has a processor. */
constexpr timespec look_again = {.tv_sec = 0, .tv_nsec = 1000000};
constexpr size_t release_bytes = ring_bytes / 8;
/* What a writer gathers before it shows it. */
constexpr size_t publish_bytes = 16 << 10;

/* Payload of @n packets from @at on. */
size_t payload_of(const snic_burst &burst, u32 at, u32 n) noexcept
{
	size_t bytes = 0;

	for (u32 i = at; i < at + n; ++i)
		bytes += burst.pkts[i].payload_len;
	return bytes;
}

/* The next @len bytes of @it as pieces; how many. 0: they do not fit. */
u32 take_pieces(snic_seg_iter &it, u32 len, std::span<Piece> pieces) noexcept
{
	u32 n = 0, run;

	for (; len; len -= run) {
		if (n == pieces.size()) [[unlikely]]
			return 0;

		const void *at = snic_seg_next(&it, len, &run);

		pieces[n++] = {.addr = reinterpret_cast<uintptr_t>(at), .len = run};
	}
	return n;
}

/* The pieces of @head, which follow it at @data, as segments. False when they do not add up. */
bool read_pieces(const SuperHead &head, const uint8_t *data, snic_seg *segs) noexcept
{
	u64 sum = 0;

	for (u32 i = 0; i < head.npieces; ++i) {
		Piece piece;

		memcpy(&piece, data + i * sizeof(piece), sizeof(piece));
		if (!piece.len || piece.len > head.payload_len - sum)
			return false;
		sum += piece.len;
		segs[i] = {.ptr = reinterpret_cast<void *>(piece.addr),
			   .len = static_cast<u32>(piece.len)};
	}
	return sum == head.payload_len;
}

/* The header's length and the pad are those its opcode and flags say, so that the payload begins with a segment. */
bool headers_fit(const SuperHead &head) noexcept
{
	sirdma_bth bth;

	memcpy(&bth, head.hdr, sizeof(bth));
	return snic_opcode_known(bth.opcode) && snic_op(bth.opcode)->flags & SNIC_PKT_PAYLOAD &&
	       head.hdr_len == snic_opcode_hdr_len(bth.opcode) &&
	       head.hdr_len <= sizeof(head.hdr) &&
	       head.pad == (bth.flags & SIRDMA_BTH_PAD) >> SIRDMA_BTH_PAD_SHIFT;
}

} // namespace

Lease::Lease() : word_(std::random_device()() | 1ull << 32) {}

void Connection::attach(RingPair rings, unsigned writes) noexcept
{
	rings_ = std::move(rings);
	if (!rings_)
		return;
	out_ = rings_.writer(writes);
	in_ = rings_.reader(1 - writes);
}

void Connection::set_up(const Lease &own, bool supers) noexcept
{
	ucred peer;
	socklen_t len = sizeof(peer);

	if (!getsockopt(sock_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &len))
		pid_ = peer.pid;
	out_.set_lease_at(own.word());
	if (supers)
		in_.set_takes(takes_supers);
}

void Connection::wake() noexcept
{
	/* A full socket wakes as well, and a closed one does not matter. */
	(void)!raw_syscall::send(sock_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Sending */

/* Room for @len bytes; null when there is none and the reader will say so. */
uint8_t *Connection::reserve(size_t len) noexcept
{
	if (uint8_t *at = out_.reserve(len)) [[likely]] {
		full_since_ = 0;
		return at;
	}
	return out_.want_room(len) ? out_.reserve(len) : nullptr;
}

/* Packet @at of @burst in a record, with room for the ICRC, which nobody computes. */
bool Connection::put(const snic_burst &burst, u32 at, snic_seg_iter &payload) noexcept
{
	constexpr uint64_t zero = 0;
	const snic_tx_pkt &pkt = burst.pkts[at];
	const size_t body = pkt.hdr_len + pkt.payload_len + pkt.pad;
	uint8_t *to = reserve(body + SIRDMA_ICRC_LEN);

	if (!to)
		return false;
	/* All of the header's room: what it does not fill is written over, or behind the record's end. */
	static_assert(sizeof(RecordHead) + sizeof(pkt.hdr) <= ring_align);
	memcpy(to, pkt.hdr, sizeof(pkt.hdr));
	snic_seg_copy(&payload, to + pkt.hdr_len, pkt.payload_len);
	/* Pad and ICRC, which may reach into the next record's head: that is not written yet. */
	static_assert(SIRDMA_ICRC_LEN + 3 <= sizeof(zero));
	memcpy(to + body - pkt.pad, &zero, sizeof(zero));
	order_by_wire();
	out_.commit({.len = static_cast<uint32_t>(body + SIRDMA_ICRC_LEN),
		     .kind = record_packet,
		     .flags = at + 1 < burst.npkts ? record_more : uint16_t{0}});
	return true;
}

/* @n packets of @burst from @at on in one record; by reference under @lease, unless that is 0. */
bool Connection::put_super(const snic_burst &burst, u32 at, u32 n, uint64_t lease,
			   snic_seg_iter &payload) noexcept
{
	Piece pieces[SNIC_BURST_SEGS];
	snic_seg_iter behind = payload;
	snic_super super;

	snic_super_build(&burst, at, n, &super);

	SuperHead head = {
		.lease = lease,
		.payload_len = super.payload_len,
		.npieces = lease ? take_pieces(behind, super.payload_len, pieces) : 0,
		.npkts = super.npkts,
		.hdr_len = super.hdr_len,
		.pad = super.pad,
		.hdr = {},
	};
	const size_t body = lease ? head.npieces * sizeof(Piece) : super.payload_len;
	uint8_t *to = reserve(sizeof(head) + body);

	if (!to)
		return false;
	memcpy(head.hdr, super.hdr, sizeof(head.hdr));
	memcpy(to, &head, sizeof(head));
	if (lease) {
		memcpy(to + sizeof(head), pieces, body);
		payload = behind;
	} else {
		snic_seg_copy(&payload, to + sizeof(head), super.payload_len);
	}
	order_by_wire();
	out_.commit({.len = static_cast<uint32_t>(sizeof(head) + body),
		     .kind = record_super,
		     .flags = at + n < burst.npkts ? record_more : uint16_t{0}});
	if (lease)
		lent_until_ = out_.tail();
	return true;
}

/* The lease to send under, which the reader is told of. */
uint64_t Connection::lend(Lease &own) noexcept
{
	const uint64_t lease = own.lend();

	if (out_.lease() != lease)
		out_.set_lease(lease);
	return lease;
}

/* As much of @burst as there is room for; how many packets. */
u32 Connection::put_all(snic_burst &burst, Lease &own) noexcept
{
	const u32 takes = out_.takes();
	const bool refer = lends_ && takes & takes_references;
	snic_seg_iter payload;
	u32 i, n;

	if (refer)
		burst.next = by_reference_limits;
	snic_seg_iter_init(&payload, &burst);
	for (i = 0; i < burst.npkts; i += n) {
		n = takes ? snic_super_run(&burst, i, refer ? SNIC_BURST_BYTES : copy_max) : 1;

		const bool by_reference = refer && n > 1 &&
					  payload_of(burst, i, n) >= reference_min;

		if (n > 1 ? !put_super(burst, i, n, by_reference ? lend(own) : 0, payload) :
			    !put(burst, i, payload))
			break;
		if (out_.unpublished() >= publish_bytes)
			out_.publish();
	}
	out_.publish();
	return i;
}

u32 Connection::push(snic_burst &burst, Lease &own) noexcept
{
	std::unique_lock hold(tx_lock_);
	u32 sent = put_all(burst, own);
	const bool wake_it = sent && out_.must_wake();

	if (sent < burst.npkts) {
		const u64 now = port_now_ns(nullptr);

		if (!full_since_)
			full_since_ = now;
		/* What it does not take is lost, as on any wire: retries decide. */
		if (out_.broken() || now - full_since_ > stuck_ns)
			sent = burst.npkts;
		if (out_.broken())
			broken_.store(true, std::memory_order_relaxed);
	}
	hold.unlock();
	if (wake_it)
		wake();
	return sent;
}

bool Connection::push(const Path &path, const uint8_t *data, size_t len, u32 index,
		      bool more) noexcept
{
	const DatagramHead head = {
		.src = path.src.ip(),
		.scope = path.src.scope(),
		.sport = path.sport,
		.index = static_cast<uint16_t>(index),
	};
	std::unique_lock hold(tx_lock_);
	uint8_t *at = out_.reserve(sizeof(head) + len);

	if (!at)
		return false;
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), data, len);
	order_by_wire();
	out_.commit({.len = static_cast<uint32_t>(sizeof(head) + len),
		     .kind = record_datagram,
		     .flags = more ? record_more : uint16_t{0}});
	out_.publish();

	const bool wake_it = out_.must_wake();

	hold.unlock();
	if (wake_it)
		wake();
	return true;
}

/* The neighbour is done with what it was reading, or gone, or stuck (false). */
bool Connection::read_is_over() noexcept
{
	const u64 start = port_now_ns(nullptr);
	pollfd end = {.fd = sock_.get(), .events = 0, .revents = 0};

	/* At most a copy of SNIC_BURST_BYTES: it is over soon. */
	for (int i = 0; i < 100; ++i) {
		if (!out_.being_read())
			return true;
		sched_yield();
	}
	while (out_.being_read()) {
		/* Its end of the socket is closed when it dies, and nothing else is waited for. */
		if (raw_syscall::poll(&end, 1, look_again) > 0)
			return true;
		if (port_now_ns(nullptr) - start > stuck_ns)
			return false;
	}
	return true;
}

bool Connection::delivered(u64 until) noexcept
{
	pollfd end = {.fd = sock_.get(), .events = 0, .revents = 0};
	uint64_t pos;

	{
		std::lock_guard hold(tx_lock_);

		pos = lent_until_;
	}
	if (!pos)
		return true;
	/* What is lent meanwhile is of regions that stay. */
	for (int i = 0; !out_.read_up_to(pos); ++i) {
		if (i < 100)
			sched_yield();
		/* It is gone, or stopped. */
		else if (raw_syscall::poll(&end, 1, look_again) > 0 || port_now_ns(nullptr) > until)
			return false;
	}
	return true;
}

void Connection::revoke(const Lease &own) noexcept
{
	{
		std::lock_guard hold(tx_lock_);

		if (!out_.lease())
			return;
		/* Unless something was lent under the new one already. */
		if (out_.lease() != own.current()) {
			lent_until_ = 0;
			out_.set_lease(own.current());
		}
	}
	if (!read_is_over()) {
		std::lock_guard hold(tx_lock_);

		lends_ = false;
	}
}

/* Receiving */

/* Can the neighbour's memory be read? Then references are welcome. */
void Connection::probe() noexcept
{
	uint64_t word;
	const iovec to = {.iov_base = &word, .iov_len = sizeof(word)};
	const iovec from = {.iov_base = reinterpret_cast<void *>(in_.lease_at()),
			    .iov_len = sizeof(word)};

	probed_ = true;
	if (pid_ && from.iov_base &&
	    process_vm_readv(pid_, &to, 1, &from, 1, 0) == ssize_t(sizeof(word)))
		in_.set_takes(takes_supers | takes_references);
}

bool Connection::pull(snic_seg_iter &it, void *to, u32 len) noexcept
{
	uint64_t word = 0;
	Piece pieces[SNIC_BURST_SEGS];
	iovec from[SNIC_BURST_SEGS + 1];
	const u32 n = take_pieces(it, len, pieces);
	const iovec into[] = {{.iov_base = to, .iov_len = len},
			      {.iov_base = &word, .iov_len = sizeof(word)}};
	ssize_t got = 0;

	if (!n) [[unlikely]]
		return false;
	for (u32 i = 0; i < n; ++i)
		from[i] = {.iov_base = reinterpret_cast<void *>(pieces[i].addr),
			   .iov_len = pieces[i].len};
	/* Read last: the lease held when the bytes were read if it does then. */
	from[n] = {.iov_base = reinterpret_cast<void *>(in_.lease_at()), .iov_len = sizeof(word)};
	if (in_.begin_reading(lease_)) [[likely]] {
		got = process_vm_readv(pid_, into, std::size(into), from, n + 1, 0);
		/* It did not wait for us: what it keeps there now is nobody's business. */
		if (word != lease_) [[unlikely]]
			memset(to, 0, len);
	}
	in_.end_reading();
	if (word == lease_) [[likely]]
		return true;
	if (got)
		in_.set_takes(takes_supers);
	return false;
}

bool Connection::take_super(const RecordHead &record, const uint8_t *data,
			    PacketSink &sink) noexcept
{
	static uint8_t zero[8];
	snic_seg segs[SNIC_BURST_SEGS + 2];
	SuperHead head;
	u32 n = 1;

	if (record.len < sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);

	const size_t body = record.len - sizeof(head);

	if (!headers_fit(head) || !head.npkts || head.npkts > SNIC_BURST_PKTS ||
	    head.payload_len > SNIC_BURST_BYTES)
		return false;
	segs[0] = {.ptr = head.hdr, .len = head.hdr_len};
	if (head.lease) {
		if (head.npieces > SNIC_BURST_SEGS || body != head.npieces * sizeof(Piece) ||
		    !read_pieces(head, data, segs + n))
			return false;
		n += head.npieces;
	} else {
		if (body != head.payload_len)
			return false;
		segs[n++] = {.ptr = const_cast<uint8_t *>(data), .len = head.payload_len};
		if (!probed_)
			probe();
	}
	/* Pad and ICRC. */
	segs[n++] = {.ptr = zero, .len = sizeof(zero)};
	lease_ = head.lease;
	sink.packet(node->addr,
		    {.segs = {segs, n},
		     .len = head.hdr_len + head.payload_len + head.pad + SIRDMA_ICRC_LEN,
		     .payload_len = head.payload_len,
		     .npkts = head.npkts,
		     .by_reference = head.lease != 0},
		    record.flags & record_more);
	return true;
}

/* False when the record breaks the rules. */
bool Connection::take(const IpAddress &addr, const RecordHead &head, uint8_t *data,
		      PacketSink &sink) noexcept
{
	const bool more = head.flags & record_more;
	DatagramHead from;

	switch (head.kind) {
	case record_packet:
		sink.packet(node->addr, data, head.len, more);
		return true;
	case record_super:
		return take_super(head, data, sink);
	case record_datagram:
		if (head.len <= sizeof(from))
			return false;
		memcpy(&from, data, sizeof(from));
		sink.datagram({.src = IpAddress(from.src, from.scope),
			       .dst = addr,
			       .sport = from.sport,
			       .dport = SIRDMA_ROCE_UDP_PORT},
			      data + sizeof(from), head.len - sizeof(from), from.index, more);
		return true;
	default:
		return false;
	}
}

/* The writer gets its room back, and is told if it waits for it. */
void Connection::release() noexcept
{
	if (in_.release() && out_.must_wake())
		wake();
}

u32 Connection::receive(const IpAddress &addr, PacketSink &sink, u32 share) noexcept
{
	RecordHead head;
	u32 n;

	for (n = 0; n < share; ++n) {
		uint8_t *data = in_.peek(head);

		if (!data) {
			if (in_.broken()) [[unlikely]]
				broken_.store(true, std::memory_order_relaxed);
			break;
		}
		order_by_wire();
		if (!take(addr, head, data, sink))
			sink.malformed();
		in_.next();
		if (in_.unreleased() >= release_bytes)
			release();
	}
	if (!n)
		return 0;
	sink.end_turn();
	release();
	return n;
}

} // namespace sirdma::twin
