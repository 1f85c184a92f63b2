/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "nic.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock.hpp"
#include "no_cancel.hpp"

namespace sirdma::twin
{

namespace
{

constexpr u64 never = ~0ull;
constexpr timespec wait_for_memory = {.tv_sec = 0, .tv_nsec = 1000000};
constexpr u64 nsec_per_sec = 1000000000;
/*
 * How often a helper looks whether a polling process still polls: seldom where it
 * always did, soon where it stops now and then to watch its memory instead.
 */
constexpr u64 check_polling_min_ns = 50000;
constexpr u64 check_polling_max_ns = 1000000;
/* How often the helper is woken for a process that spins on memory until it looks away again. */
constexpr u32 watch_max = 256;
/* Of a thread that sleeps most of the time and is waited for when it wakes. */
constexpr u64 helper_slice_ns = 100000;
constexpr unsigned long helper_slack_ns = 2000;
/* Until a socket without room is tried again. */
constexpr u64 retry_stalled_ns = 200000;
/* Polls without asking for an event, after which a process counts as polling. */
constexpr u32 polls_of_a_poller = 64;
/* Polls in a row without any work, after which the processor is offered to others. */
constexpr u32 polls_before_yield = 64;
/* Rounds of a poller from one look at the clock to the next. */
constexpr u32 clock_seldom = 16;
/* Rounds without datagrams after which the port is looked at only each so many rounds. */
constexpr u32 port_hot = 256;
constexpr u32 port_seldom = 64;
/* Addresses to choose from: 127.64.0.0/16. */
constexpr uint32_t free_base = 127u << 24 | 64u << 16;
constexpr uint32_t free_count = 1u << 16;
/* Unacknowledged bytes of a QP, which the receiver's socket buffer should hold. */
constexpr u32 window_bytes = 128 << 10;

/* Bytes a neighbour may have sent in one go before it hears of them: much less than its window. */
constexpr u32 answer_bytes = 16 << 10;

/* Of the kernel's scheduler; not every C library declares it. */
struct SchedAttr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime; /* for ordinary threads, since Linux 6.12: the slice wanted */
	uint64_t deadline;
	uint64_t period;
};

/*
 * An application that spins on its memory waits for the helper, perhaps on the
 * processor it spins on: who asks for short slices may interrupt who has long ones.
 */
void want_short_slices() noexcept
{
	SchedAttr attr{};

	prctl(PR_SET_TIMERSLACK, helper_slack_ns, 0, 0, 0);
	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.policy != SCHED_OTHER)
		return;
	attr.runtime = helper_slice_ns;
	(void)!syscall(SYS_sched_setattr, 0, &attr, 0);
}

/* SEND and WRITE: their acknowledgement is all they ask for. */
bool may_wait(const uint8_t *data, size_t len) noexcept
{
	return len && *data <= SIRDMA_BTH_WRITE_ONLY_IMM;
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

/* An address nobody uses: one of 127.64.0.0/16, beginning at one that depends on the process. */
bool Nic::open_free_address(uint32_t buffer)
{
	const uint32_t start = static_cast<uint32_t>(getpid());

	for (uint32_t i = 0; i < free_count; ++i) {
		addr_ = IpAddress(in_addr{htonl(free_base | ((start + i) & (free_count - 1)))});
		port_ = PortShare::create(addr_, true, buffer);
		if (port_)
			return true;
		if (errno != EADDRINUSE)
			return false;
	}
	return false;
}

/* False with errno, and a message on stderr. */
bool Nic::open_links(const Config &config)
{
	addr_ = config.addr;
	kind_ = config.link;
	if (!config.pcap.empty())
		pcap_ = PcapWriter::create(config.pcap);
	faults_ = std::make_unique<Faults>(config);
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
	/* What is captured or spoilt must be packets. */
	neighbours_ = Neighbours::create(addr_, !pcap_ && !faults_->any());
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
	return true;
}

int Nic::start(const Config &config)
{
	if (!open_links(config))
		return errno;

	const u32 found = interface_mtu(addr_);

	mtu_ = config.mtu ? config.mtu : found ? found : 1500;
	stalled_.qpns.reserve(qpns_per_slot);
	scratch_ = std::make_unique<std::atomic<TxScratch *>[]>(port_nr_cpus());
	clock_ = port_clock_create(false);
	if (!clock_)
		return ENOMEM;

	if (const int err = create_device(addr_, mtu_, num_qpns, window_bytes, clock_))
		return err;
	batch_.dev = dev_;
	wake_fd_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (!wake_fd_)
		return errno;

	/* Signals are the application's business. */
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int err = 0;

	try {
		helper_ = std::thread([this] { help(); });
	} catch (const std::system_error &error) {
		err = error.code().value();
	}
	pthread_sigmask(SIG_SETMASK, &old, nullptr);
	if (err) {
		fprintf(stderr, "sirdma: no thread for the device: %s\n", strerror(err));
		return err;
	}
	pthread_setname_np(helper_.native_handle(), "sirdma");
	return 0;
}

Nic::~Nic()
{
	if (helper_.joinable()) {
		stop_ = true;
		wake();
		helper_.join();
	}
	destroy_device();
	if (clock_)
		port_clock_destroy(clock_);
	if (scratch_)
		for (u32 i = 0; i < port_nr_cpus(); ++i)
			delete scratch_[i].load();
}

u32 Nic::transmit(snic_burst &burst) noexcept
{
	u32 sent = burst.npkts;

	if (kind_ != LinkKind::udp && neighbours_->transmit(burst, sent)) {
		if (pcap_) [[unlikely]]
			sender_->record(burst, scratch());
	} else if (kind_ != LinkKind::shm) {
		sent = sender_->transmit(burst, scratch());
	} else {
		snic_stat_add(dev_, SIRDMA_STAT_TX_DROPS, burst.npkts);
	}
	if (sent < burst.npkts)
		push(stalled_, burst.qpn);
	return sent;
}

snic_burst *Nic::burst() noexcept
{
	return &scratch().burst;
}

/* Each slot is touched by its thread alone. */
TxScratch &Nic::scratch() noexcept
{
	return *scratch_[port_cpu()].load(std::memory_order_relaxed);
}

/* A thread for which there is no memory leaves its work to the helper. */
bool Nic::can_work() noexcept
{
	std::atomic<TxScratch *> &slot = scratch_[port_cpu()];

	if (slot.load(std::memory_order_relaxed)) [[likely]]
		return true;

	auto *fresh = new (std::nothrow) TxScratch();

	slot.store(fresh, std::memory_order_relaxed);
	if (!fresh)
		wake();
	return fresh;
}

/* Progress */

void Nic::run_qp(u32 qpn) noexcept
{
	if (!can_work()) [[unlikely]] {
		defer(qpn);
		wake();
		return;
	}
	inside_.store(true, std::memory_order_relaxed);
	run_model(qpn);
	run_deferred();
	flush();
	interrupt();
	wake_for_timers();
	inside_.store(false, std::memory_order_relaxed);
}

void Nic::flush() noexcept
{
	if (sender_->holding() && can_work())
		sender_->flush(scratch());
}

/* Something is put off that the next call does, or the helper. */
bool Nic::owes() noexcept
{
	smp_mb();
	return pending() || sender_->holding();
}

u64 Nic::stat(sirdma_stat id) noexcept
{
	u64 n = snic_stat_read(dev_, id);

	if (id == SIRDMA_STAT_REFUSED_NEIGHBOURS)
		n += neighbours_->refused();
	if (id == SIRDMA_STAT_RX_OVERRUNS)
		if (const UdpReceiver *port = port_->receiver())
			n += port->overruns();
	return n;
}

/*
 * To the model. What a poller takes in is acknowledged at its next call, be it a
 * poll or the post of an answer, unless the poll ends with a completion.
 */
void Nic::deliver(const IpAddress &src, uint8_t *data, size_t len, bool icrc_ok, bool more) noexcept
{
	snic_seg seg = {.ptr = data, .len = static_cast<u32>(len)};
	snic_rx_pkt pkt{};

	pkt.src_ip = src.ip();
	pkt.dst_ip = addr_.ip();
	pkt.segs = &seg;
	pkt.nsegs = 1;
	pkt.len = seg.len;
	pkt.is_v4 = addr_.is_v4();
	pkt.icrc_ok = icrc_ok;
	pkt.more = more;
	faults_->receive(batch_, pkt);
}

void Nic::malformed() noexcept
{
	snic_rx_reject(dev_, SIRDMA_STAT_RX_BAD_LENGTH);
}

void Nic::end_turn() noexcept
{
	snic_rx_batch_end(&batch_);
}

/* From the port, or from who has it. */
void Nic::datagram(const Path &path, uint8_t *data, size_t len, u32 index, bool more) noexcept
{
	sirdma_bth bth;
	u32 slot;

	if (len < sizeof(bth)) {
		snic_rx_reject(dev_, SIRDMA_STAT_RX_BAD_LENGTH);
		return;
	}
	memcpy(&bth, data, sizeof(bth));
	slot = slot_of(be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK);
	if (slot != neighbours_->slot()) {
		/* Not verified: that is up to the process it is for, if there is one. */
		snic_rx_batch_end(&batch_);
		if (!port_->receiver() || slot >= num_slots)
			snic_rx_reject(dev_, SIRDMA_STAT_RX_NO_QP);
		else if (!neighbours_->forward(slot, path, data, len, index, more))
			snic_rx_reject(dev_, SIRDMA_STAT_RX_OVERRUNS);
		return;
	}

	uint16_t id = ids_count_ ? static_cast<uint16_t>(index) : 0;
	const bool ok = icrc_holds(path, data, len, id) &&
			(id < max_segments || ids_.credible(path.src, id, port_now_ns(nullptr)));

	if (ok && index)
		ids_count_ = id == index;
	if (pcap_) [[unlikely]]
		pcap_->write(path, id, data, len);
	deliver(path.src, data, len, ok, more || (polled_ && may_wait(data, len)));
}

void Nic::packet(const IpAddress &src, uint8_t *data, size_t len, bool more) noexcept
{
	if (pcap_) [[unlikely]]
		pcap_->write_unsummed({.src = src,
				       .dst = addr_,
				       .sport = SIRDMA_ROCE_UDP_PORT,
				       .dport = SIRDMA_ROCE_UDP_PORT},
				      data, len);
	more = more || (polled_ && may_wait(data, len));
	deliver(src, data, len, true, more && batch_.bytes < answer_bytes);
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

void Nic::revoke() noexcept
{
	neighbours_->finish_leases();
}

/*
 * A turn of what came; how many datagrams and records. Looking at the port is a
 * system call: where neighbours do the talking it is looked at now and then, but
 * for a caller who was told that something is there (@all). rx_lock_ is held.
 */
u32 Nic::receive(bool all) noexcept
{
	u32 got = neighbours_->receive(*this), from_port = 0;
	UdpReceiver *port = port_->receiver();

	if (port && !port_->succeeded() &&
	    (all || neighbours_->unused() || port_idle_ < port_hot ||
	     port_idle_ % port_seldom == 0)) {
		from_port = port->receive(*this);
		if (from_port)
			port_->progressed();
	}
	port_idle_ = from_port ? 0 : port_idle_ + 1;
	got += from_port;
	if (!got)
		faults_->flush(batch_);
	snic_rx_batch_end(&batch_);
	return got;
}

/*
 * One round of everything that waits, for the helper (@all) or a poller; true
 * when there may be more.
 */
bool Nic::serve(bool all) noexcept
{
	bool more = false;
	u32 qpn;

	run_deferred();
	/* From the call before. */
	flush();
	/* The helper was told that something is there: it has nothing better to do than wait. */
	std::unique_lock receiving(rx_lock_, std::defer_lock);
	if (all)
		receiving.lock();
	else
		(void)receiving.try_lock();
	if (receiving) {
		polled_ = !all && leaves_alone_.load();

		const u32 got = receive(all);
		const bool look = all || !(++rounds_to_clock_ % clock_seldom);

		receiving.unlock();
		more = got >= UdpReceiver::batch;
		if (got)
			rounds_.fetch_add(1, std::memory_order_relaxed);
		/*
		 * No timer fires while the packet that would stop it may still be waiting, and
		 * what it asks for is done before others come. Pollers look at the clock now
		 * and then.
		 */
		if (!more && look) {
			port_clock_run(clock_);
			run_deferred();
		}
	}
	for (u32 stalled = stalled_.count.load(); stalled && pop(stalled_, qpn); --stalled)
		snic_tx_resume(dev_, qpn);
	if (all || !leaves_alone_.load()) {
		run_deferred();
		flush();
	}
	interrupt();
	return more || pending();
}

void Nic::poll() noexcept
{
	if (!can_work()) [[unlikely]]
		return;
	polls_.fetch_add(1, std::memory_order_relaxed);
	polls_since_arm_.fetch_add(1, std::memory_order_relaxed);

	const u64 before = rounds_.load(std::memory_order_relaxed);

	inside_.store(true, std::memory_order_relaxed);
	serve(false);
	inside_.store(false, std::memory_order_relaxed);
	wake_for_timers();
	/*
	 * The peer we wait for may want this very processor: on a busy machine
	 * spinning would only keep it from answering.
	 */
	if (rounds_.load(std::memory_order_relaxed) != before)
		idle_polls_.store(0, std::memory_order_relaxed);
	else if (idle_polls_.fetch_add(1, std::memory_order_relaxed) >= polls_before_yield)
		sched_yield();
}

/* A process that ends right after it was told of a message has acknowledged it. */
void Nic::found(bool message) noexcept
{
	if (!message)
		return;
	/* Its completion can be seen before the helper that took it in is done with it. */
	for (Backoff backoff(0); helping_.load(std::memory_order_acquire);)
		backoff.pause();
	if ((pending() || sender_->holding()) && can_work()) {
		settle();
		wake_for_timers();
	}
}

void Nic::expect_event() noexcept
{
	polls_since_arm_.store(0);
	flush();
	/* Partner: help(), which says that it looks away before it looks at the count again. */
	if (leaves_alone_.load())
		wake();
}

void Nic::wake() noexcept
{
	const uint64_t one = 1;

	if (raw_syscall::write(wake_fd_.get(), &one, sizeof(one)) < 0)
		return; /* full: it is awake */
}

/* A timer was armed that is due before the sleeping helper would look. */
void Nic::wake_for_timers() noexcept
{
	const u64 at = wakes_at_.load();

	if (!at)
		return;
	const u64 due = port_clock_due(clock_);
	if (due == never || (at != never && due >= at))
		return;
	/* Once is enough. */
	u64 seen = at;
	if (wakes_at_.compare_exchange_strong(seen, 0))
		wake();
}

/* May the helper leave a process alone that polls by itself? */
bool Nic::look_away() noexcept
{
	const u64 polls = polls_.load(std::memory_order_relaxed);
	bool alone = polls != seen_polls_ || inside_.load(std::memory_order_relaxed);

	seen_polls_ = polls;
	leaves_alone_.store(alone);
	/* Partner: expect_event(). */
	if (alone && (watch_ || polls_since_arm_.load() < polls_of_a_poller)) {
		alone = false;
		leaves_alone_.store(false);
	}
	return alone;
}

/* Until a timer is due, or something waits that nobody will tell of. */
u64 Nic::time_to_sleep() noexcept
{
	/* First any value, then the right one: who arms a timer in between wakes us. */
	wakes_at_.store(never);

	u64 wait = port_clock_next(clock_);

	if (stalled_.count.load())
		wait = std::min(wait, retry_stalled_ns);
	return std::min(wait, port_->wait());
}

/* Neighbours that come, go or wake us; the port's owner may be one of them. */
void Nic::meet() noexcept
{
	std::lock_guard hold(rx_lock_);

	polled_ = false;
	neighbours_->serve(*this);
	port_->serve();
}

bool Nic::fall_asleep() noexcept
{
	std::lock_guard hold(rx_lock_);

	return neighbours_->fall_asleep();
}

void Nic::wake_up() noexcept
{
	std::lock_guard hold(rx_lock_);

	neighbours_->wake_up();
}

void Nic::help() noexcept
{
	u64 check_ns = check_polling_min_ns;

	want_short_slices();
	/* Without a transmit buffer the helper cannot work, and no other thread does its work. */
	while (!can_work() && !stop_)
		nanosleep(&wait_for_memory, nullptr);
	while (!stop_) {
		const bool alone = look_away();
		const UdpReceiver *port = port_->receiver();
		pollfd fds[] = {
			{.fd = wake_fd_.get(), .events = POLLIN, .revents = 0},
			{.fd = neighbours_->fd(), .events = POLLIN, .revents = 0},
			{.fd = port_->fd(), .events = POLLIN, .revents = 0},
			{.fd = port && !alone ? port->fd() : -1, .events = POLLIN, .revents = 0},
		};
		u64 wait = time_to_sleep();

		if (alone)
			wait = std::min(wait, check_ns);
		else if (owes() || !fall_asleep())
			wait = 0;
		if (wait != never) {
			u64 expected = never;
			wakes_at_.compare_exchange_strong(expected, port_now_ns(nullptr) + wait);
		}

		const timespec ts = {.tv_sec = static_cast<time_t>(wait / nsec_per_sec),
				     .tv_nsec = static_cast<long>(wait % nsec_per_sec)};

		ppoll(fds, std::size(fds), wait == never ? nullptr : &ts, nullptr);
		wakes_at_.store(0);
		if (!alone)
			wake_up();
		if (fds[0].revents) {
			uint64_t count;

			if (read(wake_fd_.get(), &count, sizeof(count)) < 0)
				continue;
		}
		if (fds[1].revents || fds[2].revents || !port_->wait())
			meet();

		const bool polled = polls_.load(std::memory_order_relaxed) != seen_polls_ ||
				    inside_.load(std::memory_order_relaxed);
		const u64 rounds = rounds_.load(std::memory_order_relaxed);

		if (alone && polled) {
			check_ns = std::min(check_ns * 2, check_polling_max_ns);
			continue;
		}
		if (alone)
			check_ns = check_polling_min_ns;
		helping_.store(true, std::memory_order_relaxed);
		serve(true);
		helping_.store(false, std::memory_order_release);
		/*
		 * There is who polls for completions and spins on its memory in between: it
		 * is found out by what came when it had not polled for a while.
		 */
		if (!alone)
			watch_ -= watch_ && (fds[1].revents || fds[3].revents);
		else if (rounds_.load(std::memory_order_relaxed) != rounds)
			watch_ = watch_max;
	}
}

} // namespace sirdma::twin
