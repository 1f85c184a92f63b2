/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "nic.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sched.h>
#include <unistd.h>

#include "cm/service.hpp"
#include "next_hop.hpp"
#include "ticks.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * After this many consecutive polls without work a thread yields the processor. With 8 a round trip
 * over shared memory takes 0.56 us, from 64 on 0.48.
 */
constexpr u64 polls_before_yield = 64;
/*
 * A poller reads the clock once in this many calls. Where that is no system call, 1 to 256 make no
 * difference.
 */
constexpr u32 clock_seldom = 16;
/*
 * After port_hot polls without datagrams only one poll in port_seldom reads the port, since that is a
 * system call; and after port_cold polls only if port_pause_us have passed. A round trip over shared memory
 * takes 1.07 us if each poll reads it, 0.60 us if one in 8 does, 0.48 us with 64 and 0.45 us with 512.
 * Values of port_hot from 16 to 4,096 make no difference, over UDP as well.
 */
constexpr u32 port_hot = 256;
constexpr u32 port_seldom = 64;
constexpr u32 port_cold = 1 << 16;
constexpr u64 port_pause_us = 20;
/* Window of a QP, bytes, until a burst has shown the way to its peer. It fits any. */
constexpr u32 window_bytes = UdpSender::window_min;

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

u32 dest_slot(const snic_tx_pkt &pkt) noexcept
{
	return slot_of(be32_to_cpu(pkt.bth.qpn) & SIRDMA_QPN_MASK);
}

/* How many packets from @at on go to one process. */
u32 same_slot(const snic_burst &burst, u32 at) noexcept
{
	const u32 slot = dest_slot(burst.pkts[at]);
	u32 n = 1;

	while (at + n < burst.npkts && dest_slot(burst.pkts[at + n]) == slot)
		++n;
	return n;
}

/* Datagrams of one burst have one address, which several processes may share. */
bool is_for_several(const snic_burst &burst) noexcept
{
	return (burst.pkts[0].bth.opcode & SIRDMA_BTH_TRANSPORT) == SIRDMA_BTH_UD &&
	       same_slot(burst, 0) < burst.npkts;
}

/* Fill @part with @n packets of @burst from @at on, whose payload is at @payload. */
void take_part(const snic_burst &burst, u32 at, u32 n, snic_seg_iter &payload,
	       snic_burst &part) noexcept
{
	u32 bytes = 0, run;

	part.flow = burst.flow;
	part.qpn = burst.qpn;
	part.npkts = n;
	part.nsegs = 0;
	part.copied = burst.copied;
	for (u32 i = 0; i < n; ++i) {
		part.pkts[i] = burst.pkts[at + i];
		bytes += part.pkts[i].payload_len;
	}
	for (; bytes; bytes -= run) {
		void *from = snic_seg_next(&payload, bytes, &run);

		part.segs[part.nsegs++] = {.ptr = from, .len = run};
	}
}

} // namespace

std::unique_ptr<Nic> Nic::create(const Config &config)
{
	std::unique_ptr<Nic> nic(new Nic);

	if (const int err = nic->start(config)) {
		nic.reset();
		errno = err;
		return nullptr;
	}
	return nic;
}

/* Open an unused address; the first one tried depends on the process id. */
bool Nic::open_free_address(uint32_t buffer)
{
	const uint32_t start = static_cast<uint32_t>(getpid());

	for (uint32_t i = 0; i < IpAddress::default_count; ++i) {
		addr_ = IpAddress::default_address(start + i);
		port_ = PortShare::create(addr_, true, buffer);
		if (port_)
			return true;
		if (errno != EADDRINUSE)
			return false;
	}
	return false;
}

/* Returns false with errno, and prints a message on stderr. */
bool Nic::open_links(const Config &config)
{
	addr_ = config.addr;
	kind_ = config.link;
	if (!config.pcap.empty())
		pcap_ = PcapWriter::create(config.pcap);
	if (addr_.any() ? !open_free_address(config.buffer) :
			  !(port_ = PortShare::create(addr_, false, config.buffer))) {
		const int err = errno;

		fprintf(stderr, "sirdma: UDP port %u of %s: %s%s\n", SIRDMA_ROCE_UDP_PORT,
			addr_.text().c_str(), strerror(err),
			err == EADDRINUSE ? " (by another user's process, or a RoCE driver of the "
					    "kernel)" :
					    "");
		errno = err;
		return false;
	}
	/* Captures and faults need packets, not super-packets. */
	needs_packets_ = pcap_ || Faults::any(config);
	neighbours_ = Neighbours::create(addr_, !needs_packets_);
	sender_ = UdpSender::create(addr_, pcap_.get(), config.buffer);
	if (!neighbours_ || !sender_) {
		const int err = errno;

		if (err == EADDRNOTAVAIL)
			fprintf(stderr,
				"sirdma: %s: %u processes use this address already; another "
				"one takes more\n",
				addr_.text().c_str(), num_slots);
		else
			fprintf(stderr, "sirdma: %s: %s\n", addr_.text().c_str(), strerror(err));
		errno = err;
		return false;
	}
	/* Captures and faults need packets. Without a table all requests are sent. */
	if (config.one_sided && kind_ != LinkKind::udp && !needs_packets_)
		table_ = AccessTable::create(first_qpn());
	if (table_)
		neighbours_->let_access(*table_);
	groups_ = std::make_unique<Groups>(addr_, config.buffer);
	faults_ = std::make_unique<Faults>(config, neighbours_->slot());
	return true;
}

int Nic::start(const Config &config)
{
	if (!open_links(config))
		return errno;

	const u32 found = interface_mtu(addr_);

	mtu_ = config.mtu ? config.mtu : found ? found : 1500;
	stalled_.qpns.reserve(qpns_per_slot);
	lingering_.qpns.reserve(qpns_per_slot);
	scratch_ = std::make_unique<std::atomic<TxScratch *>[]>(port_nr_cpus());
	clock_ = port_clock_create(false);
	if (!clock_)
		return ENOMEM;

	if (const int err = create_device(addr_, mtu_, num_qpns, window_bytes, clock_,
					  table_ != nullptr, true))
		return err;
	batch_.dev = dev_;

	if (kind_ != LinkKind::udp)
		helper_.watch_after_yields();

	const int err = helper_.start(clock_);

	started_ = !err;
	return err;
}

Nic::~Nic()
{
	helper_.stop();
	/* The driver has closed all of it, unless something could not be destroyed. */
	if (table_ && neighbours_) {
		table_->shut();
		neighbours_->finish_accesses();
	}
	/* The helper delivers no more messages. */
	if (cm::Service *service = started_ ? cm::Service::existing() : nullptr)
		service->forget(*this);
	destroy_device();
	if (clock_)
		port_clock_destroy(clock_);
	if (scratch_)
		for (u32 i = 0; i < port_nr_cpus(); ++i)
			delete scratch_[i].load();
}

u32 Nic::transmit(snic_burst &burst) noexcept
{
	const u32 sent = kind_ != LinkKind::udp && is_for_several(burst) ? transmit_parts(burst) :
									   send(burst);

	if (sent < burst.npkts)
		push(stalled_, burst.qpn);
	return sent;
}

u32 Nic::transmit_parts(const snic_burst &burst) noexcept
{
	snic_burst &part = scratch().part;
	snic_seg_iter payload;
	u32 at = 0, n, sent;

	snic_seg_iter_init(&payload, &burst);
	do {
		n = same_slot(burst, at);
		take_part(burst, at, n, payload, part);
		sent = send(part);
		at += sent;
	} while (sent == n && at < burst.npkts);
	return at;
}

/* Send packets that go to one process. Returns how many of them, from the first on, were sent. */
u32 Nic::send(snic_burst &burst) noexcept
{
	u32 sent = burst.npkts;

	if (kind_ != LinkKind::udp && neighbours_->transmit(burst, sent)) {
		/* One-sided access begins when all is acknowledged. */
		burst.next.near = !table_;
		if (pcap_) [[unlikely]]
			sender_->record(burst, scratch());
	} else if (kind_ != LinkKind::shm || sirdma_ip_is_multicast(&burst.flow->dst_ip)) {
		sent = sender_->transmit(burst, scratch());
	} else {
		snic_stat_add(dev_, SIRDMA_STAT_TX_DROPS, burst.npkts);
	}
	return sent;
}

snic_burst *Nic::burst() noexcept
{
	return &scratch().burst;
}

/* Only its own thread uses an element. */
TxScratch &Nic::scratch() noexcept
{
	return *scratch_[port_cpu()].load(std::memory_order_relaxed);
}

/* If memory for a thread's buffer is short, the helper does its work. */
bool Nic::can_work() noexcept
{
	std::atomic<TxScratch *> &slot = scratch_[port_cpu()];

	if (slot.load(std::memory_order_relaxed)) [[likely]]
		return true;

	std::unique_ptr<TxScratch> fresh(new (std::nothrow) TxScratch());

	if (!fresh || !fresh->copies) {
		helper_.wake();
		return false;
	}
	fresh->burst.copies = fresh->copies.get();
	slot.store(fresh.release(), std::memory_order_relaxed);
	return true;
}

/* Progress */

void Nic::run_qp(u32 qpn) noexcept
{
	if (!can_work()) [[unlikely]] {
		snic_qp_ring(dev_, qpn);
		defer(qpn);
		helper_.wake();
		return;
	}
	const MayAccess may_access(*this);

	helper_.enter_call();
	kick_model(qpn);
	run_deferred();
	flush();
	interrupt();
	helper_.timers_armed();
	helper_.leave_call();
}

void Nic::flush() noexcept
{
	if (sender_->holding() && can_work())
		sender_->flush(scratch());
}

/* Is there work that was deferred, for the next call or the helper? */
bool Nic::owes() noexcept
{
	smp_mb();
	return pending() || sender_->holding() || lingering_.count.load();
}

/* Nothing more comes, or the process may end. */
void Nic::acknowledge_lingering() noexcept
{
	u32 qpn;

	for (u32 left = lingering_.count.load(); left && pop(lingering_, qpn); --left) {
		port_rcu_read_lock();
		snic_qp_acknowledge(dev_, qpn);
		port_rcu_read_unlock();
	}
}

u64 Nic::stat(sirdma_stat id) noexcept
{
	u64 n = snic_stat_read(dev_, id);

	if (id == SIRDMA_STAT_REFUSED_NEIGHBOURS)
		n += neighbours_->refused();
	if (id == SIRDMA_STAT_RX_OVERRUNS) {
		/*
		 * A thread that receives may be interrupted by a signal whose handler ends the
		 * process.
		 */
		const std::unique_lock hold(rx_lock_, std::try_to_lock);

		if (hold)
			group_overruns_ = groups_->overruns();
		n += port_->overruns() + group_overruns_;
	}
	return n;
}

void Nic::expect_datagrams() noexcept
{
	std::lock_guard hold(rx_lock_);

	port_->ask_for_headers();
}

int Nic::resolve(const IpAddress &dst) noexcept
{
	return sirdma_ip_is_multicast(&dst.ip()) ? 0 : await_next_hop(addr_, dst);
}

int Nic::join(const IpAddress &group) noexcept
{
	int err;

	if (group.is_v4() != addr_.is_v4())
		return EHOSTUNREACH;

	std::unique_ptr<UdpReceiver> receiver = groups_->open(group);

	if (!receiver)
		return errno;
	{
		std::lock_guard hold(rx_lock_);

		err = groups_->add(group, receiver);
	}
	/* The helper may not know this file yet. */
	helper_.wake();
	return err;
}

void Nic::leave(const IpAddress &group) noexcept
{
	std::unique_ptr<UdpReceiver> receiver; /* this is closed when the lock is free */
	std::lock_guard hold(rx_lock_);

	receiver = groups_->leave(group);
}

/*
 * Deliver a packet to the model. Packets that a poller receives are acknowledged at its next call,
 * a poll or the post of an answer, unless the poll returns a completion.
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
	snic_rx_pkt pkt{};

	if (pcap_) [[unlikely]]
		pcap_->write_unsummed({.src = src,
				       .dst = addr_,
				       .sport = SIRDMA_ROCE_UDP_PORT,
				       .dport = SIRDMA_ROCE_UDP_PORT,
				       .traffic_class = traffic_class},
				      data, len);
	pkt.src_ip = src.ip();
	pkt.dst_ip = addr_.ip();
	pkt.segs = &seg;
	pkt.nsegs = 1;
	pkt.len = seg.len;
	pkt.traffic_class = traffic_class;
	pkt.ttl = SIRDMA_DEFAULT_HOP_LIMIT;
	pkt.is_v4 = addr_.is_v4();
	pkt.icrc_ok = true;
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
	snic_rx_pkt pkt{};

	pkt.src_ip = src.ip();
	pkt.dst_ip = addr_.ip();
	pkt.segs = super.segs.data();
	pkt.nsegs = static_cast<u32>(super.segs.size());
	pkt.len = super.len;
	pkt.npkts = super.npkts;
	pkt.by_reference = super.by_reference;
	pkt.is_v4 = addr_.is_v4();
	pkt.icrc_ok = true;
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

/* Does a poller look at the port, although it knows of no datagram? */
bool Nic::port_is_next() noexcept
{
	if (port_idle_ < port_hot)
		return true;
	if (port_idle_ % port_seldom)
		return false;
	if (port_idle_ < port_cold)
		return true;

	const u64 now = ticks();

	if (now - port_looked_at_ < port_pause_us * ticks_per_us())
		return false;
	port_looked_at_ = now;
	return true;
}

/*
 * Receive a share of the packets that came. Returns the number of datagrams and packets. Reading
 * UDP sockets takes system calls: while only neighbours send, they are read from time to time,
 * unless the caller knows that there is something (@all), or timers are @due. They must not fire
 * before the packets are received that would stop them. The caller holds rx_lock_.
 */
u32 Nic::receive(bool all, bool due) noexcept
{
	u32 got = neighbours_->receive(*this, all || due), from_port = 0;
	UdpReceiver *port = port_->receiver();

	if (all || (due && !got) || neighbours_->unused() || port_is_next()) {
		if (port && !port_->succeeded()) {
			from_port = port->receive(*this);
			if (from_port)
				port_->progressed();
		}
		if (groups_->any()) [[unlikely]]
			from_port += groups_->receive(*this);
	}
	port_idle_ = from_port ? 0 : port_idle_ + 1;
	got += from_port;
	if (!got)
		faults_->flush(batch_);
	snic_rx_batch_end(&batch_);
	return got;
}

/*
 * Do the work that waits, once: for the helper (@all) or for a poller. Returns true if it did work that may
 * have made a completion.
 */
bool Nic::serve(bool all) noexcept
{
	bool worked = run_deferred();
	u32 qpn;

	/* Send the acknowledgement that the previous call held back. */
	flush();
	/* The helper knows that there is work: it waits for the lock. */
	std::unique_lock receiving(rx_lock_, std::defer_lock);
	if (all)
		receiving.lock();
	else
		(void)receiving.try_lock();
	if (receiving) {
		polled_ = !all && helper_.away();

		/* Pollers read the clock from time to time. */
		const bool timed = all || timers_.waiting() || !(++polls_to_clock_ % clock_seldom);
		const u64 now = timed ? port_now_ns(nullptr) : 0;
		const bool due = timed && port_clock_due(clock_) <= now;
		const u32 got = receive(all, due);
		const bool fire = timers_.may_fire(due, got);

		receiving.unlock();
		if (got)
			helper_.count_arrival();
		worked = worked || got || fire;
		if (fire) {
			port_clock_run(clock_, now);
			/* Do the work of the timers before that of other threads. */
			run_deferred();
		}
	}
	for (u32 stalled = stalled_.count.load(); stalled && pop(stalled_, qpn); --stalled) {
		snic_tx_resume(dev_, qpn);
		worked = true;
	}
	if (all) [[unlikely]]
		acknowledge_lingering();
	if (all || !helper_.away()) {
		worked = run_deferred() || worked;
		flush();
	}
	interrupt();
	return worked;
}

bool Nic::poll() noexcept
{
	if (!can_work()) [[unlikely]]
		return false;
	helper_.count_poll();
	note_poll();

	const u64 before = helper_.arrivals();
	bool worked;

	helper_.enter_call();
	{
		const MayAccess may_access(*this);

		worked = serve(false);
	}
	helper_.leave_call();
	helper_.timers_armed();
	/*
	 * The peer that this process waits for may need this processor. On a busy machine spinning
	 * would only delay the answer of the peer. But there a yield takes milliseconds, so a
	 * process that polls a few times and then sleeps until an event does not yield.
	 */
	if (helper_.arrivals() != before) {
		helper_.note_busy();
	} else if (helper_.idle_polls() > polls_before_yield) {
		acknowledge_lingering();
		sched_yield();
	}
	return worked;
}

/*
 * A poll returns completions. Acknowledge a message before its completion is returned: the process
 * may exit then.
 */
void Nic::found(bool message) noexcept
{
	helper_.note_busy();
	note_waited();
	if (!message)
		return;
	/* The completion is visible before the helper that received the message has finished. */
	helper_.wait_served();
	if (lingering_.count.load() && can_work()) [[unlikely]]
		acknowledge_lingering();
	if ((pending() || sender_->holding()) && can_work()) {
		settle();
		helper_.timers_armed();
	}
}

} // namespace sirdma::twin
