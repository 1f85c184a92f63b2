// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// One device model with everything around it: virtual time, device memory, a
// bus for a driver, interrupts, deferred work, and a port on a fabric.
#pragma once

#include <functional>

#include "dma_space.hpp"

namespace sirdma::test
{

class Fabric;

// The bytes at @va of @mr as a data path finds them: *n of @len are contiguous.
inline snic_mem bytes_at(snic_dev *dev, const snic_mr *mr, u64 va, u32 len, void **p, u32 *n)
{
	snic_run run;
	snic_mem found = snic_mr_run(dev, mr, va, len, &run);

	if (found == SNIC_MEM_OK)
		*p = snic_run_some(&run, va, len, n);
	return found;
}

// Virtual clock; hosts of one fabric share one.
class Clock {
public:
	Clock() : clock_(port_clock_create(true)) {}
	~Clock() { port_clock_destroy(clock_); }
	Clock(const Clock &) = delete;
	Clock &operator=(const Clock &) = delete;

	port_clock *get() { return clock_; }
	u64 now() { return port_now_ns(clock_); }
	u64 next() { return port_clock_next(clock_); }
	void advance(u64 ns) { port_clock_advance(clock_, ns); }

private:
	port_clock *clock_;
};

struct HostOptions {
	u64 seed = 1;
	snic_config cfg{
		.max_qps = 1024,
		.max_cqs = 1024,
		.max_srqs = 64,
		.max_mrs = 4096,
		.max_pds = 256,
		.max_sds = 64,
		.max_ceqs = 4,
		.max_arp = 256,
		.max_sgids = 16,
		.max_cqe = 65536,
		.window_bytes = 0,
		.mac = {0x02, 0x53, 0x49, 0x00, 0x00, 0x01},
	};
	u32 mtu = 9000; // of the port, L3
	// Packets accepted by one tx() call; with fewer than SNIC_BURST_PKTS, bursts are accepted in part.
	u32 tx_room = SNIC_BURST_PKTS;
	u32 irq_budget = 64; // events of one call of a handler
};

class TestHost {
public:
	explicit TestHost(const HostOptions &opts = {}, std::shared_ptr<Clock> clock = nullptr,
			  Fabric *fabric = nullptr);
	~TestHost();
	TestHost(const TestHost &) = delete;
	TestHost &operator=(const TestHost &) = delete;

	snic_dev *dev() { return dev_; }
	sirdma_bus *bus() { return &bus_; }
	DmaSpace &dma() { return dma_; }
	Clock &clock() { return *clock_; }
	const HostOptions &options() const { return opts_; }

	u32 read32(u32 reg) { return snic_reg_read(dev_, reg); }
	void write32(u32 reg, u32 val) { snic_reg_write(dev_, reg, val); }
	// Limits that the host reports after every burst, and the payload bytes of the longest burst since.
	void set_limits(const snic_limits &limits);
	// What snic_host_ops.linger() named is acknowledged.
	void acknowledge_lingering();
	u32 longest_burst();
	// Whether QPs may fill bursts. Returns the QPs that were refused before; they are resumed now.
	std::vector<u32> set_room(bool room);
	u64 stat(sirdma_stat id) { return snic_stat_read(dev_, id); }
	void kick(u32 qpn) { snic_qp_kick(dev_, qpn); }
	bool kick_by(u32 qpn, u32 kicker) { return snic_qp_kick_by(dev_, qpn, kicker); }
	// The same for a caller that may not run the model: it is left to run_deferred().
	void ring(u32 qpn);
	// How often the device told the host that it must not read transmitted memory any more.
	u64 references_finished() const { return finished_.load(); }

	// The host keeps the payload of the next bursts, so many of them, where the device lets it.
	void keep_bursts(size_t count = SIZE_MAX) { keeps_ = count; }
	// How many it keeps, until they are dropped.
	size_t kept_bursts() const { return kept_.size(); }
	void drop_kept();
	// The QPs of which the device told the host that it must not read any more what it keeps of their requests, or
	// responses.
	const std::vector<std::pair<u32, snic_side>> &finished_kept() const
	{
		return finished_kept_;
	}
	// The same for requests that were acknowledged: the QPs, and the first PSN that was not.
	const std::vector<std::pair<u32, u32>> &finished_before() const { return finished_before_; }

	// Executes a request in the memory of the peer, or refuses; without it the host reaches no peer's.
	std::function<bool(const snic_one_sided &)> one_sided;
	bool one_sided_waits = true; // It might have to wait for the memory.
	// From now on this is a host that has no such operation, as the kernel's.
	void forget_one_sided() { host_ops_.one_sided_nowait = nullptr; }

	// Zeroed driver memory; freed with the host at the latest.
	sirdma_dma_mem alloc(u64 size);
	void free(sirdma_dma_mem &mem);
	// Blocks allocated through the bus and not yet freed: leak check of drivers.
	size_t dma_blocks();
	// The next @skip bus allocations succeed, the ones after it fail; < 0: never fail.
	void fail_alloc_after(int skip) { fail_after_ = skip; }

	// Vectors raised and not yet delivered, and how often each was raised.
	u64 irqs_pending() const { return pending_.load(); }
	u64 irq_count(u32 vector) const { return raised_[vector].load(); }
	// Call the handlers of latched interrupts; true if there were any.
	bool deliver_interrupts();
	// Deliver interrupts from a thread of their own until stopped, for drivers that block.
	void start_irq_thread();
	void stop_irq_thread();

	// Run one deferred QP or resume one stalled one; true if there was any.
	bool run_deferred();
	bool has_deferred();
	// From now on, QPs that are deferred to the background never run.
	void keep_background_busy() { background_busy_ = true; }

	// Give this host an address on the fabric, v4-mapped for IPv4.
	void add_ip(const sirdma_ip &ip);

private:
	friend class Fabric;
	struct Bus : sirdma_bus {
		TestHost *host;
	};
	struct Irq {
		sirdma_irq_fn fn = nullptr;
		void *ctx = nullptr;
		std::mutex running;
	};

	static TestHost &self(sirdma_bus *bus) { return *static_cast<Bus *>(bus)->host; }
	static TestHost &self(snic_host *host) { return *reinterpret_cast<TestHost *>(host); }
	static u32 bus_read(sirdma_bus *bus, u32 reg);
	static void bus_write(sirdma_bus *bus, u32 reg, u32 val);
	static int bus_alloc(sirdma_bus *bus, __u64 size, sirdma_dma_mem *mem);
	static void bus_free(sirdma_bus *bus, sirdma_dma_mem *mem);
	static int bus_irq_request(sirdma_bus *bus, u32 vector, sirdma_irq_fn fn, void *ctx);
	static void bus_irq_free(sirdma_bus *bus, u32 vector);
	static void on_irq(snic_host *host, u32 vector);
	static bool on_room(snic_host *host, u32 qpn);
	static u32 on_tx(snic_host *host, snic_burst *burst);
	static void on_defer(snic_host *host, u32 qpn, bool background);
	static snic_burst *on_burst(snic_host *host);
	static void on_finish_references(snic_host *host) { self(host).finished_++; }
	static void on_finish_kept(snic_host *host, u32 qpn, snic_side side)
	{
		self(host).finished_kept_.emplace_back(qpn, side);
	}
	static void on_finish_kept_before(snic_host *host, u32 qpn, u32 una)
	{
		self(host).finished_before_.emplace_back(qpn, una);
	}
	static void on_linger(snic_host *host, u32 qpn);
	static bool on_pull(snic_host *host, snic_seg_iter *it, void *to, u32 len);
	static bool on_one_sided(snic_host *host, const snic_one_sided *request)
	{
		return self(host).one_sided(*request);
	}
	static snic_one_sided_status on_one_sided_nowait(snic_host *host,
							 const snic_one_sided *request)
	{
		const TestHost &me = self(host);

		if (!me.one_sided)
			return SNIC_ONE_SIDED_REFUSED;
		if (me.one_sided_waits)
			return SNIC_ONE_SIDED_WOULD_BLOCK;
		return me.one_sided(*request) ? SNIC_ONE_SIDED_EXECUTED : SNIC_ONE_SIDED_REFUSED;
	}
	static const sirdma_bus_ops bus_ops_;
	static const snic_host_ops all_host_ops_;
	snic_host_ops host_ops_ = all_host_ops_;

	HostOptions opts_;
	std::shared_ptr<Clock> clock_;
	Fabric *fabric_;
	DmaSpace dma_;
	Bus bus_{};
	snic_dev *dev_ = nullptr;

	std::mutex lock_; // protects the members below, down to fail_after_
	std::deque<u32> deferred_; // QPs to run
	bool background_busy_ = false;
	std::deque<u32> stalled_; // QPs to resume
	std::vector<u32> waiting_; // QPs to resume when there is room_
	bool room_ = true;
	snic_limits limits_{};
	std::vector<u32> lingering_;
	u32 longest_burst_ = 0;
	std::map<u64, void *> blocks_;
	int fail_after_ = -1;

	static constexpr u32 max_vectors = 64;
	std::array<Irq, max_vectors> irqs_;
	std::array<std::atomic<u64>, max_vectors> raised_{};
	std::atomic<u64> pending_{0};
	std::atomic<u64> finished_{0};
	size_t keeps_ = 0; // so many more
	std::vector<snic_kept> kept_;
	std::vector<std::pair<u32, snic_side>> finished_kept_;
	std::vector<std::pair<u32, u32>> finished_before_;
	std::thread irq_thread_;
	std::atomic<bool> irq_stop_{false};
};

} // namespace sirdma::test
