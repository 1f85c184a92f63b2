/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "adapter.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "identity.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * The number of deferred QPs that one call to settle() runs at most. Each sends SNIC_RUN_HOLDS *
 * SNIC_HOLD_BURSTS bursts, 0.5 MiB if they are of 64 KiB, so that a call is held for about a
 * millisecond at 16 GB/s.
 */
constexpr u32 runs_per_call = 32;

snic_config device_config(const uint8_t *mac, u32 max_qps, u32 window_bytes)
{
	snic_config cfg{};

	/*
	 * The kernel's defaults (kmod/drv/params.c) with the numbers that no application gets, and
	 * half as many SRQs. Nothing is allocated for them ahead.
	 */
	cfg.max_qps = max_qps;
	cfg.max_cqs = 65536 + 1;
	cfg.max_srqs = 32768 + 1;
	cfg.max_mrs = (1 << 20) + 1;
	cfg.max_pds = 65536;
	/* Of 2 MiB each, for page lists and address vectors; they bound the memory. Not tuned. */
	cfg.max_sds = 64;
	/* A process has one event queue and one address, and all its peers have one MAC. */
	cfg.max_ceqs = 1;
	cfg.max_arp = 16;
	cfg.max_sgids = 16;
	cfg.max_cqe = 1 << 20; /* the index in the shadow area has 20 bits */
	cfg.window_bytes = window_bytes;
	memcpy(cfg.mac, mac, sizeof(cfg.mac));
	return cfg;
}

} // namespace

const sirdma_bus_ops Adapter::bus_ops = {
	.read32 = bus_read,
	.write32 = bus_write,
	.dma_alloc = bus_alloc,
	.dma_free = bus_free,
	.irq_request = bus_irq_request,
	.irq_free = bus_irq_free,
};

constexpr snic_host_ops Adapter::make_host_ops(bool one_sided, bool lingers) noexcept
{
	return {
		.irq = on_irq,
		.tx = on_tx,
		.defer = on_defer,
		.burst = on_burst,
		.pull = on_pull,
		.finish_references = on_finish_references,
		.one_sided_nowait = one_sided ? on_one_sided_nowait : nullptr,
		.one_sided = one_sided ? on_one_sided : nullptr,
		.linger = lingers ? on_linger : nullptr,
		.qp_failed = on_qp_failed,
	};
}

constinit const snic_host_ops Adapter::host_ops[2][2] = {
	{make_host_ops(false, false), make_host_ops(false, true)},
	{make_host_ops(true, false), make_host_ops(true, true)},
};

Adapter::~Adapter() = default;

int Adapter::create_device(const IpAddress &addr, uint32_t mtu, u32 max_qps, u32 window_bytes,
			   port_clock *clock, bool one_sided, bool lingers)
{
	const auto mac = device_mac(addr);
	const snic_config cfg = device_config(mac.data(), max_qps, window_bytes);

	addr_ = addr;
	mtu_ = mtu;
	memcpy(mac_, mac.data(), sizeof(mac_));
	bus_.ops = &bus_ops;
	bus_.num_vectors = num_vectors;
	bus_.self = this;
	/* push() on the data path must not allocate. */
	deferred_.qpns.reserve(qpns_per_slot);
	device_clock_ = clock;
	dev_ = snic_dev_create(&cfg, &host_ops[one_sided][lingers],
			       reinterpret_cast<snic_host *>(this), &dma_, clock);
	if (!dev_)
		return ENOMEM;
	snic_link_set(dev_, true, mtu_);
	return 0;
}

void Adapter::destroy_device() noexcept
{
	if (dev_)
		snic_dev_destroy(dev_);
	dev_ = nullptr;
}

u64 Adapter::stat(sirdma_stat id) noexcept
{
	return snic_stat_read(dev_, id);
}

/* Bus */

u32 Adapter::bus_read(sirdma_bus *bus, u32 reg)
{
	return snic_reg_read(of(bus).dev_, reg);
}

void Adapter::bus_write(sirdma_bus *bus, u32 reg, u32 val)
{
	smp_mb();
	snic_reg_write(of(bus).dev_, reg, val);
	/*
	 * The driver may hold locks that its handlers take. So settle() delivers interrupts after
	 * the driver has returned, or the helper does if the driver waits for one.
	 */
}

int Adapter::bus_alloc(sirdma_bus *, __u64 size, sirdma_dma_mem *mem)
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

void Adapter::bus_free(sirdma_bus *, sirdma_dma_mem *mem)
{
	std::free(mem->va);
	*mem = {};
}

int Adapter::bus_irq_request(sirdma_bus *bus, u32 vector, sirdma_irq_fn fn, void *ctx)
{
	Adapter &self = of(bus);

	if (vector >= num_vectors)
		return -EINVAL;
	std::unique_lock hold(self.vectors_lock_);
	if (self.vectors_[vector].fn)
		return -EBUSY;
	self.vectors_[vector] = {.fn = fn, .ctx = ctx};
	return 0;
}

void Adapter::bus_irq_free(sirdma_bus *bus, u32 vector)
{
	Adapter &self = of(bus);
	std::unique_lock hold(self.vectors_lock_);

	self.vectors_[vector] = {};
}

void Adapter::on_irq(snic_host *host, u32 vector)
{
	of(host).raise(vector);
}

u32 Adapter::on_tx(snic_host *host, snic_burst *burst)
{
	return of(host).transmit(*burst);
}

void Adapter::on_defer(snic_host *host, u32 qpn, bool)
{
	Adapter &self = of(host);

	self.defer(qpn);
}

snic_burst *Adapter::on_burst(snic_host *host)
{
	return of(host).burst();
}

bool Adapter::on_pull(snic_host *host, snic_seg_iter *it, void *to, u32 len)
{
	return of(host).pull(*it, to, len);
}

void Adapter::on_finish_references(snic_host *host)
{
	of(host).finish_references();
}

bool Adapter::on_one_sided(snic_host *host, const snic_one_sided *request)
{
	return of(host).one_sided(*request);
}

snic_one_sided_status Adapter::on_one_sided_nowait(snic_host *host, const snic_one_sided *request)
{
	return of(host).one_sided_nowait(*request);
}

void Adapter::on_qp_failed(snic_host *host, u32 qpn)
{
	of(host).qp_failed(qpn);
}

void Adapter::on_linger(snic_host *host, u32 qpn)
{
	of(host).linger(qpn);
}

void Adapter::push(QpList &list, u32 qpn) noexcept
{
	std::lock_guard hold(lists_lock_);

	if (std::find(list.qpns.begin(), list.qpns.end(), qpn) != list.qpns.end())
		return;
	list.qpns.push_back(qpn);
	++list.count;
}

bool Adapter::pop(QpList &list, u32 &qpn) noexcept
{
	/* The loops that empty a list end here, without the lock. */
	if (!list.count.load())
		return false;
	std::lock_guard hold(lists_lock_);

	if (list.qpns.empty())
		return false;
	qpn = list.qpns.front();
	list.qpns.erase(list.qpns.begin());
	--list.count;
	return true;
}

bool Adapter::pending() noexcept
{
	return deferred_.count.load() || raised_.load();
}

void Adapter::settle() noexcept
{
	if (can_work()) {
		run_deferred();
		flush();
	}
	interrupt();
}

void Adapter::settle_all() noexcept
{
	/* A queue pair may be deferred again and again. */
	for (u32 left = qpns_per_slot; left && can_work(); --left) {
		settle();
		if (!pending())
			break;
	}
}

void Adapter::remove(QpList &list, u32 qpn) noexcept
{
	std::lock_guard hold(lists_lock_);
	const auto at = std::find(list.qpns.begin(), list.qpns.end(), qpn);

	if (at == list.qpns.end())
		return;
	list.qpns.erase(at);
	--list.count;
}

/* The model looks objects up under RCU: enter it once for the whole call. */
void Adapter::kick_model(u32 qpn) noexcept
{
	/* The kick does what was deferred. */
	if (deferred_.count.load())
		remove(deferred_, qpn);
	port_rcu_read_lock();
	snic_qp_kick(dev_, qpn);
	port_rcu_read_unlock();
}

void Adapter::run_all_deferred() noexcept
{
	u32 qpn;

	for (u32 i = 0; i < runs_per_call && pop(deferred_, qpn); ++i) {
		port_rcu_read_lock();
		snic_qp_run(dev_, qpn);
		port_rcu_read_unlock();
	}
}

/*
 * The handler of a vector runs in one thread at a time. A thread that finds it running leaves the
 * vector raised. The first thread clears the vector in running_ and then checks raised_ again.
 */
void Adapter::call_handlers() noexcept
{
	while (u32 raised = raised_.load() & ~running_.load()) {
		for (; raised; raised &= raised - 1) {
			const u32 vector = static_cast<u32>(std::countr_zero(raised));
			const u32 bit = 1u << vector;

			if (running_.fetch_or(bit) & bit)
				continue;
			raised_.fetch_and(~bit);
			call_handler(vector);
			running_.fetch_and(~bit);
		}
	}
}

void Adapter::raise(u32 vector) noexcept
{
	if (vector < num_vectors)
		raised_.fetch_or(1u << vector);
}

void Adapter::call_handler(u32 vector) noexcept
{
	std::shared_lock hold(vectors_lock_);
	const Vector &irq = vectors_[vector];

	if (irq.fn && irq.fn(irq.ctx, vector, event_budget) == event_budget)
		raised_.fetch_or(1u << vector);
}

} // namespace sirdma::twin
