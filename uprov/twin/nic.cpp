/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "nic.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "identity.hpp"

namespace sirdma::twin
{

namespace
{

constexpr u64 never = ~0ull;
constexpr u64 nsec_per_sec = 1000000000;
/*
 * How often a helper looks whether a polling process still polls: seldom where it
 * always did, soon where it stops now and then to watch its memory instead.
 */
constexpr u64 check_polling_min_ns = 50000;
constexpr u64 check_polling_max_ns = 2000000;
/* Until a socket without room is tried again. */
constexpr u64 retry_stalled_ns = 200000;
/* Polls without asking for an event, after which a process counts as polling. */
constexpr u32 polls_of_a_poller = 64;
/* Polls in a row without any work, after which the processor is offered to others. */
constexpr u32 polls_before_yield = 16;
/* Turns of deferred queues one call may take over. */
constexpr u32 turns_per_call = 32;
constexpr size_t list_room = 1024;
/* Unacknowledged bytes of a QP, which the receiver's socket buffer should hold. */
constexpr u32 window_bytes = 128 << 10;

void *dma_ptr(port_dma *, u64 addr, u32)
{
	return reinterpret_cast<void *>(addr);
}

snic_config device_config(const uint8_t *mac)
{
	snic_config cfg{};

	cfg.max_qps = 65536 + 2;
	cfg.max_cqs = 65536 + 1;
	cfg.max_mrs = (1 << 20) + 1;
	cfg.max_pds = 65536;
	cfg.max_sds = 64;
	cfg.max_ceqs = 1;
	cfg.max_arp = 16;
	cfg.max_sgids = 16;
	cfg.max_cqe = 1 << 20;
	cfg.window_bytes = window_bytes;
	memcpy(cfg.mac, mac, sizeof(cfg.mac));
	return cfg;
}

} // namespace

const sirdma_bus_ops Nic::bus_ops = {
	.read32 = bus_read,
	.write32 = bus_write,
	.dma_alloc = bus_alloc,
	.dma_free = bus_free,
	.irq_request = bus_irq_request,
	.irq_free = bus_irq_free,
};

const snic_host_ops Nic::host_ops = {
	.irq = on_irq,
	.tx = on_tx,
	.defer = on_defer,
	.burst = on_burst,
};

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

int Nic::start(const Config &config)
{
	link_ = UdpLink::create(config);
	if (!link_)
		return errno;

	const in_addr addr = link_->addr();
	const u32 found = interface_mtu(IpAddress(addr));

	mtu_ = config.mtu ? config.mtu : found ? found : 1500;
	const auto mac = device_mac(IpAddress(addr));

	memcpy(mac_, mac.data(), sizeof(mac_));
	bus_.ops = &bus_ops;
	bus_.num_vectors = num_vectors;
	bus_.nic = this;
	dma_.ptr = dma_ptr;
	deferred_.reserve(list_room);
	stalled_.reserve(list_room);
	scratch_ = std::make_unique<std::atomic<TxScratch *>[]>(port_nr_cpus());
	clock_ = port_clock_create(false);
	if (!clock_)
		return ENOMEM;

	const snic_config cfg = device_config(mac_);

	dev_ = snic_dev_create(&cfg, &host_ops, reinterpret_cast<snic_host *>(this), &dma_, clock_);
	if (!dev_)
		return ENOMEM;
	snic_link_set(dev_, true, mtu_);
	wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd_ < 0)
		return errno;

	/* Signals are the application's business. */
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	helper_ = std::thread([this] { help(); });
	pthread_sigmask(SIG_SETMASK, &old, nullptr);
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
	if (dev_)
		snic_dev_destroy(dev_);
	if (clock_)
		port_clock_destroy(clock_);
	if (wake_fd_ >= 0)
		close(wake_fd_);
	if (scratch_)
		for (u32 i = 0; i < port_nr_cpus(); ++i)
			delete scratch_[i].load();
}

/* Bus */

u32 Nic::bus_read(sirdma_bus *bus, u32 reg)
{
	return snic_reg_read(of(bus).dev_, reg);
}

void Nic::bus_write(sirdma_bus *bus, u32 reg, u32 val)
{
	smp_mb();
	snic_reg_write(of(bus).dev_, reg, val);
	/*
	 * The driver may hold locks its handlers take: what this raised is delivered
	 * when it returns to us (settle()), or by the helper if it waits for it.
	 */
}

int Nic::bus_alloc(sirdma_bus *, __u64 size, sirdma_dma_mem *mem)
{
	const u64 bytes = (size + 4095) & ~4095ull;
	const u64 align = std::clamp<u64>(std::bit_ceil(bytes), 4096, 2 << 20);
	void *va = std::aligned_alloc(align, (bytes + align - 1) & ~(align - 1));

	if (!va)
		return -ENOMEM;
	memset(va, 0, bytes);
	mem->va = va;
	mem->pa = reinterpret_cast<u64>(va);
	mem->size = size;
	return 0;
}

void Nic::bus_free(sirdma_bus *, sirdma_dma_mem *mem)
{
	std::free(mem->va);
	*mem = {};
}

int Nic::bus_irq_request(sirdma_bus *bus, u32 vector, sirdma_irq_fn fn, void *ctx)
{
	Nic &nic = of(bus);

	if (vector >= num_vectors)
		return -EINVAL;
	std::unique_lock hold(nic.vectors_lock_);
	if (nic.vectors_[vector].fn)
		return -EBUSY;
	nic.vectors_[vector] = {.fn = fn, .ctx = ctx};
	return 0;
}

void Nic::bus_irq_free(sirdma_bus *bus, u32 vector)
{
	Nic &nic = of(bus);
	std::unique_lock hold(nic.vectors_lock_);

	nic.vectors_[vector] = {};
}

/* What the model asks of its host */

void Nic::on_irq(snic_host *host, u32 vector)
{
	if (vector < num_vectors)
		of(host).raised_.fetch_or(1u << vector);
}

u32 Nic::on_tx(snic_host *host, const snic_burst *burst)
{
	Nic &nic = of(host);
	const u32 sent = nic.link_->transmit(*burst, nic.scratch());

	if (sent < burst->npkts)
		nic.push(nic.stalled_, burst->qpn);
	return sent;
}

void Nic::on_defer(snic_host *host, u32 qpn)
{
	Nic &nic = of(host);

	nic.push(nic.deferred_, qpn);
}

snic_burst *Nic::on_burst(snic_host *host)
{
	return &of(host).scratch().burst;
}

TxScratch &Nic::scratch() noexcept
{
	/* Each slot is touched by its thread alone. */
	std::atomic<TxScratch *> &slot = scratch_[port_cpu()];
	TxScratch *scratch = slot.load(std::memory_order_relaxed);

	if (!scratch) [[unlikely]] {
		scratch = std::make_unique<TxScratch>().release();
		slot.store(scratch, std::memory_order_relaxed);
	}
	return *scratch;
}

void Nic::push(std::vector<u32> &list, u32 qpn) noexcept
{
	std::lock_guard hold(lists_lock_);

	if (std::find(list.begin(), list.end(), qpn) == list.end())
		list.push_back(qpn);
}

bool Nic::pop(std::vector<u32> &list, u32 &qpn) noexcept
{
	std::lock_guard hold(lists_lock_);

	if (list.empty())
		return false;
	qpn = list.front();
	list.erase(list.begin());
	return true;
}

bool Nic::pending() noexcept
{
	std::lock_guard hold(lists_lock_);

	return !deferred_.empty() || raised_.load();
}

/* Progress */

void Nic::settle() noexcept
{
	u32 qpn;

	for (u32 i = 0; i < turns_per_call && pop(deferred_, qpn); ++i)
		snic_qp_run(dev_, qpn);
	while (u32 raised = raised_.load() ? raised_.exchange(0) : 0) {
		std::shared_lock hold(vectors_lock_);

		for (; raised; raised &= raised - 1) {
			const u32 vector = static_cast<u32>(std::countr_zero(raised));

			if (vectors_[vector].fn)
				vectors_[vector].fn(vectors_[vector].ctx, vector);
		}
	}
}

void Nic::run_qp(u32 qpn) noexcept
{
	snic_qp_run(dev_, qpn);
	settle();
	wake_for_timers();
}

/* One round of everything that waits; true when there may be more. */
bool Nic::serve() noexcept
{
	bool more = false;
	size_t stalled;
	u32 qpn;

	if (rx_lock_.try_lock()) {
		const u32 got = link_->receive(dev_);

		rx_lock_.unlock();
		more = got == UdpLink::batch;
		if (got)
			rounds_.fetch_add(1, std::memory_order_relaxed);
		/* No timer fires while the packet that would stop it may still be waiting. */
		if (!more)
			port_clock_run(clock_);
	}
	{
		std::lock_guard hold(lists_lock_);
		stalled = stalled_.size();
	}
	for (; stalled && pop(stalled_, qpn); --stalled)
		snic_tx_resume(dev_, qpn);
	settle();
	return more || pending();
}

void Nic::poll() noexcept
{
	polls_.fetch_add(1, std::memory_order_relaxed);
	polls_since_arm_.fetch_add(1, std::memory_order_relaxed);

	const u64 before = rounds_.load(std::memory_order_relaxed);

	serve();
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

void Nic::expect_event() noexcept
{
	polls_since_arm_.store(0);
	/* Partner: help(), which says that it looks away before it looks at the count again. */
	if (leaves_alone_.load())
		wake();
}

void Nic::wake() noexcept
{
	const uint64_t one = 1;

	if (write(wake_fd_, &one, sizeof(one)) < 0)
		return; /* full: it is awake */
}

/* A timer was armed that is due before the sleeping helper would look. */
void Nic::wake_for_timers() noexcept
{
	const u64 at = wakes_at_.load();

	if (!at)
		return;
	const u64 next = port_clock_next(clock_);
	if (next == never || (at != never && port_now_ns(nullptr) + next >= at))
		return;
	/* Once is enough. */
	u64 seen = at;
	if (wakes_at_.compare_exchange_strong(seen, 0))
		wake();
}

void Nic::help() noexcept
{
	pollfd fds[2] = {{.fd = wake_fd_, .events = POLLIN, .revents = 0},
			 {.fd = link_->fd(), .events = POLLIN, .revents = 0}};
	u64 seen_polls = 0, check_ns = check_polling_min_ns;

	while (!stop_) {
		const u64 polls = polls_.load(std::memory_order_relaxed);
		bool alone = polls != seen_polls;

		seen_polls = polls;
		leaves_alone_.store(alone);
		/* Partner: expect_event(). */
		if (alone && polls_since_arm_.load() < polls_of_a_poller) {
			alone = false;
			leaves_alone_.store(false);
		}
		/* First any value, then the right one: who arms a timer in between wakes us. */
		wakes_at_.store(never);
		u64 wait = port_clock_next(clock_);
		{
			std::lock_guard hold(lists_lock_);
			if (!stalled_.empty())
				wait = std::min(wait, retry_stalled_ns);
		}
		if (alone)
			wait = std::min(wait, check_ns);
		else if (pending())
			wait = 0;
		if (wait != never) {
			u64 expected = never;
			wakes_at_.compare_exchange_strong(expected, port_now_ns(nullptr) + wait);
		}

		const timespec ts = {.tv_sec = static_cast<time_t>(wait / nsec_per_sec),
				     .tv_nsec = static_cast<long>(wait % nsec_per_sec)};

		ppoll(fds, alone ? 1 : 2, wait == never ? nullptr : &ts, nullptr);
		wakes_at_.store(0);
		if (fds[0].revents) {
			uint64_t count;

			if (read(wake_fd_, &count, sizeof(count)) < 0)
				continue;
		}
		if (alone && polls_.load(std::memory_order_relaxed) != seen_polls) {
			check_ns = std::min(check_ns * 2, check_polling_max_ns);
			continue;
		}
		if (alone)
			check_ns = check_polling_min_ns;
		serve();
	}
}

} // namespace sirdma::twin
