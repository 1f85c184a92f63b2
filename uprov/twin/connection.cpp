/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "connection.hpp"

#include <algorithm>
#include <sys/socket.h>

#include "neighbours.hpp"
#include "no_cancel.hpp"
#include "ticks.hpp"
#include "wire_order.hpp"

extern "C" {
#include "model/super.h"
}

namespace sirdma::twin
{

namespace
{

/* An idle pair has one at each end, or two (scripts/accept twin-mesh-64). */
static_assert(sizeof(Connection) <= 1536);
/* Payload that is copied must fit half of the ring. */
static_assert(PayloadChoice::bytes_max <= ring_record_max / 2);
/* A reader that takes no references gets records of so many bytes, and copies out meanwhile. */
constexpr size_t copy_max = 16 << 10;
/*
 * Payload by reference takes no room in the ring, so a burst may have the maximum length. The window
 * is four of these: while the reader copies one, 16 us at 16 GB/s, the next one is there, and the
 * acknowledgements of two others may be under way.
 */
constexpr snic_limits by_reference_limits = {
	.burst = SNIC_BURST_BYTES, .window = 1 << 20, .near = false};
/*
 * The reader returns room to the writer in parts of this size, and the last part when nothing comes any more.
 * Returning room takes the cache line from the writer, who reads it when it publishes. Sizes from a 64th of the
 * ring to all of it make no difference. A record of any length must fit beside what was not returned.
 */
constexpr size_t release_bytes = ring_bytes / 8;

static_assert(record_size(ring_record_max) + ring_align + release_bytes <= ring_bytes);
/*
 * Records are published together, up to this many bytes. For messages of 8 KiB, publishing each
 * record alone gives 0.95 of the bandwidth, and publishing 64 KiB at once gives 0.92.
 */
constexpr size_t publish_bytes = 16 << 10;

constexpr uint32_t takes_always = takes_supers | takes_streams;

static_assert(takes_references_of(PayloadChoice::classes - 1) < takes_streams);

/* Payload of @n packets from @at on. */
size_t payload_of(const snic_burst &burst, u32 at, u32 n) noexcept
{
	size_t bytes = 0;

	for (u32 i = at; i < at + n; ++i)
		bytes += burst.pkts[i].payload_len;
	return bytes;
}

/* @takes: RingControl::takes */
bool goes_by_reference(uint32_t takes, size_t bytes) noexcept
{
	if (bytes > PayloadChoice::bytes_max)
		return true;
	return PayloadChoice::chooses(bytes) &&
	       takes & takes_references_of(PayloadChoice::class_of(static_cast<u32>(bytes)));
}

} // namespace

void PacketSink::stream(const IpAddress &src, const snic_stream &stream, uint8_t traffic_class,
			bool more) noexcept
{
	uint8_t bytes[SNIC_STREAM_PKT_MAX];

	for (snic_stream left = stream; left.count; snic_stream_skip(&left, 1)) {
		const u32 len = snic_stream_first(&left, bytes);

		packet(src, bytes, len, traffic_class, more || left.count > 1);
	}
}

void Connection::attach(RingPair rings, unsigned writes, bool supers) noexcept
{
	ucred peer{};
	socklen_t len = sizeof(peer);

	rings_ = std::move(rings);
	if (!rings_)
		return;
	out_ = rings_.writer(writes);
	in_ = rings_.reader(1 - writes);
	if (getsockopt(sock_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &len))
		peer.pid = 0;
	lease_.attach(rings_.control(writes));
	leased_.attach(rings_.control(1 - writes), peer.pid);
	access_.attach(rings_.control(writes), peer.pid);
	grant_.attach(rings_.control(1 - writes), sock_.get(), peer.pid);
	supers_ = supers;
	take_kinds(takes_always);
}

/* Without super-packets and streams, the only kinds of records are packets and datagrams. */
void Connection::take_kinds(uint32_t kinds) noexcept
{
	if (supers_)
		in_.set_takes(kinds);
}

void Connection::wake() noexcept
{
	/* If the socket is full the reader is woken already; if it is closed there is no reader. */
	(void)!raw_syscall::send(sock_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Sending */

/* Write as many packets of @burst as there is room for. Returns how many were written. */
u32 Connection::put_all(snic_burst &burst) noexcept
{
	const u32 takes = out_.takes();
	const bool streams = takes & takes_streams;
	const bool refers = (takes & takes_references) && !burst.transient;
	const uint64_t lease = refers ? lease_.number() : 0;
	snic_seg_iter payload;
	snic_stream stream;
	u32 i, n;

	if (lease)
		burst.next = by_reference_limits;
	snic_seg_iter_init(&payload, &burst);
	for (i = 0; i < burst.npkts; i += n) {
		const bool several = i + 1 < burst.npkts;

		n = several && streams ? snic_stream_describe(&burst, i, &stream) : 1;
		if (n > 1) {
			if (!put_stream(out_, burst, i, stream))
				break;
			continue;
		}
		n = several && takes ?
			    snic_super_count(&burst, i, lease ? SNIC_BURST_BYTES : copy_max) :
			    1;

		const bool refer = lease && n > 1 &&
				   goes_by_reference(takes, payload_of(burst, i, n));

		if (n > 1 ? !put_super(out_, burst, i, n, refer ? lease : 0, payload) :
			    !put_packet(out_, burst, i, payload))
			break;
		if (refer)
			lease_.used(out_.tail());
		if (out_.unpublished() >= publish_bytes)
			out_.publish();
	}
	out_.publish();
	return i;
}

u32 Connection::push(snic_burst &burst) noexcept
{
	std::unique_lock hold(tx_lock_);
	u32 sent = put_all(burst);
	const bool wake_it = sent && out_.must_wake();

	if (sent)
		full_since_ = 0;
	if (sent < burst.npkts) {
		const u64 now = port_now_ns(nullptr);

		if (!full_since_)
			full_since_ = now;
		/*
		 * A stuck reader loses the packets, as on any wire; the transport retransmits
		 * them.
		 */
		if (out_.broken() || now - full_since_ > reader_stuck_ns)
			sent = burst.npkts;
		if (out_.broken())
			broken_.store(true, std::memory_order_relaxed);
	}
	out_.fetch_next_line();
	hold.unlock();
	if (wake_it)
		wake();
	return sent;
}

bool Connection::push(const Path &path, const uint8_t *data, size_t len, u32 index,
		      bool more) noexcept
{
	std::unique_lock hold(tx_lock_);

	if (!put_datagram(out_, path, data, len, index, more))
		return false;
	out_.publish();

	const bool wake_it = out_.must_wake();

	out_.fetch_next_line();
	hold.unlock();
	if (wake_it)
		wake();
	return true;
}

bool Connection::trim() noexcept
{
	const std::unique_lock hold(tx_lock_, std::try_to_lock);

	if (!attached() || broken())
		return false;
	if (!hold)
		return true;
	if (out_.tail() != seen_tail_) {
		seen_tail_ = out_.tail();
		return true;
	}
	if (out_.trim())
		return false;
	if (out_.broken())
		set_broken();
	/* The neighbour has not read everything. */
	return !out_.broken();
}

/* Receiving */

bool Connection::pull(snic_seg_iter &it, void *to, u32 len) noexcept
{
	if (leased_.read(received_under_, it, to, len)) [[likely]]
		return true;
	/* Stale references are no reason to refuse further ones. */
	if (!leased_.readable())
		take_kinds(takes_always);
	return false;
}

/* Accept references, for middle lengths where they are the better way. */
void Connection::take_references() noexcept
{
	uint32_t kinds = takes_always | takes_references;

	for (u32 i = 0; i < PayloadChoice::classes; ++i)
		if (choice_.refers(i))
			kinds |= takes_references_of(i);
	take_kinds(kinds);
}

/* Deliver @super, and measure what that takes if both ways are tried out for its length. */
void Connection::deliver(const SuperRecord &super, bool more, PacketSink &sink) noexcept
{
	const u32 bytes = super.head.payload_len, copy_cost = in_.copy_cost();

	/* The writer measures first. */
	if (!PayloadChoice::chooses(bytes) || !copy_cost || !leased_.readable()) {
		sink.packet(node->addr, super.packet(), more);
		return;
	}

	const u64 start = ticks();
	const bool measured = choice_.measures(bytes, start);

	sink.packet(node->addr, super.packet(), more);
	if (measured && choice_.note(received_under_, bytes, start, ticks(), copy_cost))
		take_references();
}

bool Connection::take_packets(const RecordHead &record, uint8_t *data, PacketSink &sink) noexcept
{
	SuperRecord super;

	if (!take_super(record, data, super))
		return false;
	received_under_ = super.head.lease;
	unreleased_reference_ = unreleased_reference_ || received_under_;
	/*
	 * The first payload is copied. After it, accept references if the sender's memory is
	 * readable.
	 */
	if (!received_under_ && leased_.try_once())
		take_references();

	deliver(super, record.flags & record_more, sink);
	return true;
}

u32 Connection::deliver_stream(const RecordHead &record, const uint8_t *data,
			       PacketSink &sink) noexcept
{
	snic_stream stream;

	if (!take_stream(record, data, stream))
		return 0;
	sink.stream(node->addr, stream, static_cast<uint8_t>(record.flags >> record_class_shift),
		    record.flags & record_more);
	return stream.count;
}

/* Returns the number of packets in the record, a super-packet counts as one; 0: it is malformed. */
u32 Connection::take(const IpAddress &addr, const RecordHead &head, uint8_t *data,
		     PacketSink &sink) noexcept
{
	switch (head.kind) {
	case record_packet:
		sink.packet(node->addr, data, head.len,
			    static_cast<uint8_t>(head.flags >> record_class_shift),
			    head.flags & record_more);
		return 1;
	case record_stream:
		return deliver_stream(head, data, sink);
	case record_super:
		return take_packets(head, data, sink) ? 1 : 0;
	case record_datagram:
		return take_datagram(head, data, sink, addr) ? 1 : 0;
	default:
		return 0;
	}
}

void Connection::release() noexcept
{
	unreleased_reference_ = false;
	if (in_.release() && out_.must_wake())
		wake();
}

u32 Connection::receive(const IpAddress &addr, PacketSink &sink, u32 share) noexcept
{
	RecordHead head;
	u32 n = 0;

	while (n < share) {
		uint8_t *data = in_.peek(head);

		if (!data) {
			if (in_.broken()) [[unlikely]]
				broken_.store(true, std::memory_order_relaxed);
			break;
		}
		order_by_wire();

		const u32 took = take(addr, head, data, sink);

		if (!took) [[unlikely]]
			sink.malformed();
		n += std::max(took, 1u);
		in_.next();
		if (in_.unreleased() >= release_bytes)
			release();
	}
	if (!n)
		return 0;
	sink.end_batch();
	/* Lease::finish() waits until the records that refer to the lease are read. */
	if (unreleased_reference_)
		release();
	return n;
}

} // namespace sirdma::twin
