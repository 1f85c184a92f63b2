/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Received packets, streams and datagrams: they go to the model, to the connection manager or to another process.
 * Management datagrams are sent here, too.
 */
#include "nic.hpp"

#include <cstring>

#include "cm/service.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * After this many bytes from a neighbour acknowledgements are sent: much less than its window. With
 * a limit of 4 KiB, messages of 8 KiB have 0.6 to 1 of the bandwidth. Without a limit, lists of
 * small messages have 0.8 of their rate.
 */
constexpr u32 answer_bytes = 16 << 10;

/* Is it a SEND or WRITE? Their acknowledgement may wait; they ask for nothing else. */
bool may_wait(const uint8_t *data, size_t len) noexcept
{
	return len && *data <= SIRDMA_BTH_WRITE_ONLY_IMM;
}

} // namespace

/*
 * Deliver a packet to the model. Packets that a poller receives are acknowledged at its next call,
 * a poll or the post of an answer, unless this poll returns a message that is not usually answered (AnswerHabit).
 */
void Nic::deliver(const Path &path, uint8_t *data, size_t len, bool icrc_ok, bool more) noexcept
{
	const snic_seg seg = {.ptr = data, .len = static_cast<u32>(len)};
	snic_rx_pkt pkt{};

	pkt.src_ip = path.src.ip();
	pkt.dst_ip = path.dst.ip();
	pkt.segs = &seg;
	pkt.nsegs = 1;
	pkt.len = seg.len;
	pkt.traffic_class = path.traffic_class;
	pkt.ttl = path.hop_limit;
	pkt.is_v4 = addr_.is_v4();
	pkt.icrc_ok = icrc_ok;
	pkt.more = more;
	faults_->receive(batch_, pkt);
}

void Nic::malformed() noexcept
{
	snic_rx_reject(dev_, SIRDMA_STAT_RX_BAD_LENGTH);
}

void Nic::end_batch() noexcept
{
	snic_rx_batch_end(&batch_);
}

/* Does the ICRC hold? The function also writes the datagram to the capture. */
bool Nic::verify(const Path &path, const uint8_t *data, size_t len, u32 index) noexcept
{
	uint16_t id = ids_count_ ? static_cast<uint16_t>(index) : 0;
	const bool ok = icrc_holds(path, data, len, id) &&
			(id < max_segments || ids_.credible(path.src, id, port_now_ns(nullptr)));

	if (ok && index)
		ids_count_ = id == index;
	if (pcap_) [[unlikely]]
		pcap_->write(path, id, data, len);
	return ok;
}

/*
 * A datagram for QP 1. Any process of the address may receive it; its connection manager forwards
 * it to the process that it concerns.
 */
void Nic::management_datagram(const Path &path, uint8_t *data, size_t len, u32 index) noexcept
{
	constexpr size_t at_mad = sizeof(sirdma_bth) + sizeof(sirdma_deth);
	sirdma_mad mad;
	sirdma_stat why;

	if (!verify_management(path, data, len, index, why)) {
		snic_rx_reject(dev_, why);
		return;
	}
	if (faults_->takes(path.src.ip(), addr_.ip()))
		return;
	memcpy(&mad, data + at_mad, sizeof(mad));
	if (cm::Service *service = cm::Service::of_process())
		service->deliver(*this, path.src, mad);
}

/*
 * Is it a management datagram? If not, @why is set. The length is known before any field is read.
 */
bool Nic::verify_management(const Path &path, const uint8_t *data, size_t len, u32 index,
			    sirdma_stat &why) noexcept
{
	constexpr uint16_t partition = 0x7fff; /* bit 15 is the type of membership */
	sirdma_bth bth;
	sirdma_deth deth;

	why = SIRDMA_STAT_RX_BAD_LENGTH;
	if (len != sizeof(bth) + sizeof(deth) + sizeof(sirdma_mad) + SIRDMA_ICRC_LEN)
		return false;
	why = SIRDMA_STAT_RX_BAD_ICRC;
	if (!verify(path, data, len, index))
		return false;
	memcpy(&bth, data, sizeof(bth));
	memcpy(&deth, data + sizeof(bth), sizeof(deth));
	why = SIRDMA_STAT_RX_BAD_OPCODE;
	if (bth.opcode != (SIRDMA_BTH_UD | SIRDMA_BTH_SEND_ONLY))
		return false;
	why = SIRDMA_STAT_RX_BAD_HEADER;
	if (bth.flags & (SIRDMA_BTH_TVER | SIRDMA_BTH_PAD))
		return false;
	why = SIRDMA_STAT_RX_BAD_PKEY;
	if ((be16_to_cpu(bth.pkey) ^ SIRDMA_DEFAULT_PKEY) & partition)
		return false;
	why = SIRDMA_STAT_RX_BAD_QKEY;
	return be32_to_cpu(deth.qkey) == SIRDMA_GSI_QKEY;
}

/*
 * The datagram always goes by UDP: a process that is not the port's owner would get it from the
 * owner anyway.
 */
void Nic::send(const IpAddress &dst, const sirdma_mad &mad) noexcept
{
	snic_flow flow{};

	if (!can_work())
		return;

	TxScratch &buffers = scratch();
	snic_burst &burst = buffers.burst;

	flow.src_ip = addr_.ip();
	flow.dst_ip = dst.ip();
	flow.is_v4 = addr_.is_v4();
	burst.flow = &flow;
	burst.qpn = SIRDMA_GSI_QPN;
	burst.npkts = burst.nsegs = 1;
	burst.signaled = false;
	burst.segs[0] = {.ptr = const_cast<sirdma_mad *>(&mad), .len = sizeof(mad)};
	snic_pkt_bth(&burst.pkts[0], SIRDMA_BTH_UD | SIRDMA_BTH_SEND_ONLY, SIRDMA_DEFAULT_PKEY,
		     SIRDMA_GSI_QPN, management_psn_++ & SIRDMA_PSN_MASK, sizeof(mad));
	snic_pkt_deth(&burst.pkts[0], SIRDMA_GSI_QKEY, SIRDMA_GSI_QPN);
	(void)sender_->transmit(burst, buffers);
}

/*
 * A datagram from the port, from the process that owns the port, or of a group. No other process
 * forwards a group's datagram.
 */
void Nic::datagram(const Path &path, uint8_t *data, size_t len, u32 index, bool more) noexcept
{
	sirdma_bth bth;
	u32 slot;

	if (len < sizeof(bth)) {
		snic_rx_reject(dev_, SIRDMA_STAT_RX_BAD_LENGTH);
		return;
	}
	memcpy(&bth, data, sizeof(bth));

	const bool to_group = sirdma_ip_is_multicast(&path.dst.ip());

	if ((be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK) == SIRDMA_GSI_QPN && !to_group) [[unlikely]] {
		management_datagram(path, data, len, index);
		return;
	}
	slot = slot_of(be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK);
	if (slot != neighbours_->slot() && !to_group) {
		/*
		 * This process does not verify the datagram: the process that gets it does, if
		 * there is one.
		 */
		snic_rx_batch_end(&batch_);
		if (!port_->receiver() || slot >= num_slots)
			snic_rx_reject(dev_, SIRDMA_STAT_RX_NO_QP);
		else if (!neighbours_->forward(slot, path, data, len, index, more))
			snic_rx_reject(dev_, SIRDMA_STAT_RX_OVERRUNS);
		return;
	}

	const bool ok = verify(path, data, len, index);

	deliver(path, data, len, ok, more || (polled_ && may_wait(data, len)));
	/* What follows from a neighbour's ring is of another flow. */
	batch_.last.len = 0;
}

/* May the acknowledgement of a SEND or WRITE wait, because more packets follow, or an answer of the program? */
bool Nic::ack_may_wait(bool more) const noexcept
{
	return (more || polled_) && batch_.bytes < answer_bytes;
}

void Nic::packet(const IpAddress &src, uint8_t *data, size_t len, uint8_t traffic_class,
		 bool more) noexcept
{
	/* A batch of packets is of one flow: of the neighbour whose ring is read, see datagram(). */
	if (needs_packets_ || !snic_rx_batch_try_write(&batch_, data, static_cast<u32>(len),
						       traffic_class, ack_may_wait(more)))
		add_packet(src, data, len, traffic_class, more);
}

/* As deliver(), without a Path, which takes as long as a tenth of a small message. */
void Nic::add_packet(const IpAddress &src, uint8_t *data, size_t len, uint8_t traffic_class,
		     bool more) noexcept
{
	const snic_seg seg = {.ptr = data, .len = static_cast<u32>(len)};
	snic_rx_pkt pkt = neighbour_packet_;

	if (pcap_) [[unlikely]]
		pcap_->write_unsummed({.src = src,
				       .dst = addr_,
				       .sport = SIRDMA_ROCE_UDP_PORT,
				       .dport = SIRDMA_ROCE_UDP_PORT,
				       .traffic_class = traffic_class},
				      data, len);
	pkt.src_ip = src.ip();
	pkt.segs = &seg;
	pkt.len = seg.len;
	pkt.traffic_class = traffic_class;
	pkt.more = (more || (polled_ && may_wait(data, len))) && batch_.bytes < answer_bytes;
	faults_->receive(batch_, pkt);
}

void Nic::stream(const IpAddress &src, const snic_stream &stream, uint8_t traffic_class,
		 bool more) noexcept
{
	snic_stream left = stream;
	uint8_t bytes[SNIC_STREAM_PKT_MAX];

	if (needs_packets_) [[unlikely]] {
		PacketSink::stream(src, stream, traffic_class, more);
		return;
	}
	do {
		u32 n = snic_rx_batch_try_stream(&batch_, &left, traffic_class, ack_may_wait(more));

		if (!n) {
			/* The first of those left is received alone. */
			const u32 len = snic_stream_first(&left, bytes);

			add_packet(src, bytes, len, traffic_class, more || left.count > 1);
			n = 1;
		}
		snic_stream_skip(&left, n);
	} while (left.count);
}

void Nic::packet(const IpAddress &src, const SuperPacket &super, bool more) noexcept
{
	snic_rx_pkt pkt = neighbour_packet_;

	pkt.src_ip = src.ip();
	pkt.segs = super.segs.data();
	pkt.nsegs = static_cast<u32>(super.segs.size());
	pkt.len = super.len;
	pkt.npkts = super.npkts;
	pkt.by_reference = super.by_reference;
	pkt.more = (more || (polled_ && may_wait(static_cast<uint8_t *>(super.segs[0].ptr),
						 super.segs[0].len))) &&
		   batch_.bytes + super.payload_len < answer_bytes;
	snic_rx_batch_add(&batch_, &pkt);
}

bool Nic::pull(snic_seg_iter &it, void *to, u32 len) noexcept
{
	return neighbours_->pull(it, to, len);
}

void Nic::finish_references() noexcept
{
	neighbours_->finish_leases();
}

} // namespace sirdma::twin
