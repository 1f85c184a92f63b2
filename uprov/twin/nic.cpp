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
	part.transient = burst.transient;
	part.signaled = burst.signaled;
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
			err == EAGAIN	  ? " (the process that owns the port accepts no "
					    "connection: it is stopped, or waits for a processor)" :
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
	neighbour_packet_.dst_ip = addr_.ip();
	neighbour_packet_.nsegs = 1;
	neighbour_packet_.ttl = SIRDMA_DEFAULT_HOP_LIMIT;
	neighbour_packet_.is_v4 = addr_.is_v4();
	neighbour_packet_.icrc_ok = true;

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

	if (sent < burst.npkts) {
		push(stalled_, burst.qpn);
		/* The process may sleep until an event, and unreliable queue pairs have no timer that would wake the helper. */
		helper_.retry_after(retry_stalled_ns);
	}
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
	if (helper_.process_spins()) [[unlikely]]
		note_post();
	answer_habit_.note_post();
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
	if (id == SIRDMA_STAT_ANSWERS_AWAITED)
		n += answers_awaited_.load(std::memory_order_relaxed);
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

void Nic::need_headers() noexcept
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
 * unless the caller wants to look at everything (@effort), or timers are @due. They must not fire
 * before the packets are received that would stop them. The caller holds rx_lock_.
 */
u32 Nic::receive(Effort effort, bool due) noexcept
{
	const bool all = effort >= Effort::ended;
	u32 got = neighbours_->receive(*this, all || due, effort == Effort::yielded), from_port = 0;
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
 * Take rx_lock_ for a poll. One that may have slept waits for the thread that receives, but not for long: it may be the
 * handler of a signal that interrupted that thread.
 */
void Nic::try_to_receive(std::unique_lock<ShortLock> &receiving, Effort effort) noexcept
{
	/*
	 * The helper has the lock for some 10 us, during system calls. If it has no processor, each yield gives it one for
	 * some ms, or another process. Not tuned.
	 */
	constexpr u64 wait_us = 1000;
	constexpr u32 yields_min = 8;
	u64 begin = 0;

	for (u32 yields = 0; !receiving.try_lock() && effort != Effort::poll; ++yields) {
		if (!yields)
			begin = ticks();
		else if (yields >= yields_min && ticks() - begin > wait_us * ticks_per_us())
			return;
		sched_yield();
	}
}

/* Do the work that waits, once. Returns true if it did work that may have made a completion. */
bool Nic::serve(Effort effort) noexcept
{
	const bool by_helper = effort == Effort::help;

	answer_habit_.note_no_post();

	bool worked = run_deferred();
	u32 qpn;

	/* Send the acknowledgement that the previous call held back. */
	flush();
	std::unique_lock receiving(rx_lock_, std::defer_lock);
	if (by_helper)
		receiving.lock();
	else
		try_to_receive(receiving, effort);
	if (receiving) {
		polled_ = !by_helper && helper_.away();
		if (!by_helper)
			helper_.count_poll();

		/* Pollers read the clock from time to time. */
		const bool timed = effort != Effort::poll || timers_.waiting() ||
				   !(++polls_to_clock_ % clock_seldom);
		const u64 now = timed ? port_now_ns(nullptr) : 0;
		const bool due = timed && port_clock_due(clock_) <= now;
		const u32 bytes = batch_.request_bytes;
		const u32 got = receive(effort, due);
		const bool fire = timers_.may_fire(due, got);

		if (got) {
			/* Whoever sees the arrival sees that payload came: await_answer(). */
			if (batch_.request_bytes != bytes) {
				std::atomic<u64> &payloads = by_helper ? helper_payloads_ :
									 poller_payloads_;

				payloads.store(payloads.load(std::memory_order_relaxed) + 1,
					       std::memory_order_relaxed);
			}
			helper_.count_arrival();
		}
		receiving.unlock();
		worked = worked || got || fire;
		if (fire) {
			port_clock_run(clock_, now);
			/* Do the work of the timers before that of other threads. */
			run_deferred();
		}
	} else {
		helper_.count_miss();
	}
	for (u32 stalled = stalled_.count.load(); stalled && pop(stalled_, qpn); --stalled) {
		snic_tx_resume(dev_, qpn);
		worked = true;
	}
	if (by_helper) [[unlikely]]
		acknowledge_lingering();
	if (by_helper || !helper_.away()) {
		worked = run_deferred() || worked;
		flush();
	}
	interrupt();
	return worked;
}

inline bool Nic::serve_for_poll(Effort effort) noexcept
{
	const MayAccess may_access(*this);
	bool worked;

	helper_.enter_call();
	worked = serve(effort);
	helper_.leave_call();
	helper_.timers_armed();
	return worked;
}

bool Nic::poll() noexcept
{
	if (!can_work()) [[unlikely]]
		return false;
	note_poll();

	const u64 arrivals_before = helper_.arrivals();
	bool worked = serve_for_poll(Effort::poll);

	/*
	 * The peer that this process waits for may need this processor. On a busy machine spinning
	 * would only delay the answer of the peer. But a yield takes milliseconds on a busy machine, so a
	 * process that polls a few times and then sleeps until an event does not yield.
	 *
	 * This poll also reports what neighbours sent during the yield, and what the helper received. libfabric
	 * destroys a queue pair if a poll finds no completion and it then reads the event that the peer has
	 * disconnected: it would lose a message that arrived during the yield.
	 */
	if (helper_.arrivals() == arrivals_before && helper_.idle_polls() > polls_before_yield) {
		acknowledge_lingering();
		sched_yield();
		serve_for_poll(Effort::yielded);
		worked = true;
	}
	if (peer_ended_.load(std::memory_order_acquire)) [[unlikely]] {
		receive_last();
		worked = true;
	}
	/* Packets that the helper received may have made a completion. */
	if (helper_.arrivals() == arrivals_before)
		return worked;
	helper_.note_busy();
	return true;
}

/*
 * A peer has disconnected: receive what it sent before, of which the event was faster. At most a ring is full of that.
 */
void Nic::receive_last() noexcept
{
	constexpr u32 shares_max = 64;

	peer_ended_.store(false, std::memory_order_relaxed);
	for (u32 n = 0; n < shares_max; ++n) {
		const u64 polls = helper_.polls(), arrivals = helper_.arrivals();

		serve_for_poll(Effort::ended);
		if (helper_.polls() == polls) { /* another thread receives */
			peer_ended_.store(true, std::memory_order_relaxed);
			return;
		}
		if (helper_.arrivals() == arrivals)
			return;
	}
}

/*
 * A poll returns completions. What a message left to do, such as its acknowledgement, is done before its completion is
 * returned, because the process may end after that; but see AnswerHabit. With one-sided access the acknowledgement
 * would leave before the answer all the same. A helper that is held up may have the locks of queue pairs: the poll
 * leaves all that to it.
 */
void Nic::found(bool message) noexcept
{
	helper_.note_busy();
	note_waited();
	if (!message) {
		if (helper_.spins_by_itself()) [[unlikely]]
			await_answer();
		return;
	}
	/* The completion is visible before the helper that received the message has finished. */
	if (!helper_.wait_served()) [[unlikely]]
		return;
	if (!(pending() || sender_->holding() || lingering_.count.load()) || !can_work())
		return;
	if (!table_ && answer_habit_.note_message(ticks())) {
		interrupt();
		return;
	}
	acknowledge_lingering();
	settle();
	helper_.timers_armed();
}

/* Waits do not pay: the helper is to watch. */
void Nic::answers_fail() noexcept
{
	answers_.note_no_answer();
	helper_.set_polls_wait(false);
}

/*
 * A process that spins on its memory posts. If it posts long after the answer, it may have worked before it looked at the
 * answer, and the wait delayed that work: this counts as a wait in vain.
 */
void Nic::note_post() noexcept
{
	const u64 answered_at = answered_at_.load(std::memory_order_relaxed);

	payloads_at_post_.store(poller_payloads_.load(std::memory_order_relaxed),
				std::memory_order_relaxed);
	if (!answered_at)
		return;
	answered_at_.store(0, std::memory_order_relaxed);
	if (answers_.pays() && ticks() - answered_at > AnswerWait::limit_us * ticks_per_us())
		answers_fail();
}

/*
 * The completion of a request is about to be returned to a process that spins on its memory: wait for the answer of
 * the peer, see answer_wait.hpp. The answer may have come together with the acknowledgement: then this returns at once.
 * Packets that are no answer end the wait, too, which was in vain then: they may have made a completion.
 */
void Nic::await_answer() noexcept
{
	const u64 at_post = payloads_at_post_.load(std::memory_order_relaxed),
		  helper_payloads = helper_payloads_.load(std::memory_order_relaxed),
		  arrivals = helper_.arrivals();
	const auto answered = [&] {
		return poller_payloads_.load(std::memory_order_relaxed) != at_post ||
		       helper_payloads_.load(std::memory_order_relaxed) != helper_payloads;
	};

	answered_at_.store(0, std::memory_order_relaxed);
	/* The helper had to receive what the process was spinning for. */
	if (answers_.pays() && !helper_.polls_wait())
		answers_.note_no_answer();
	if (!answers_.is_due() || !can_work())
		return;
	/* Send the helper away: else the answer would wake it, and on a busy machine it would take this processor. */
	helper_.set_polls_wait(true);
	if (!answered()) {
		const u64 begin = ticks(), longest = answers_.longest_us() * ticks_per_us();

		helper_.enter_call();
		do {
			const MayAccess may_access(*this);

			serve(Effort::poll);
		} while (!answered() && helper_.arrivals() == arrivals &&
			 ticks() - begin < longest);
		helper_.leave_call();
		helper_.note_busy();
		helper_.timers_armed();
	}
	if (!answered()) {
		answers_fail();
		return;
	}
	answers_.note_answer();
	answers_awaited_.fetch_add(1, std::memory_order_relaxed);
	answered_at_.store(ticks(), std::memory_order_relaxed);
}

} // namespace sirdma::twin
