/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device model in this process: its bus, wire, time and interrupts.
 *
 * Work runs to completion where it arises: a poster runs its queue, a poller
 * takes in packets. A helper thread does both for a process that does neither,
 * and leaves a process that polls alone.
 */
#pragma once

#include <thread>

#include "config.hpp"
#include "core.hpp"
#include "faults.hpp"
#include "neighbours.hpp"
#include "port_share.hpp"

namespace sirdma::twin
{

class Nic : private PacketSink {
public:
	/* Null with errno. */
	static std::unique_ptr<Nic> create(const Config &config);
	/* The driver is gone. */
	~Nic();
	Nic(const Nic &) = delete;
	Nic &operator=(const Nic &) = delete;

	sirdma_bus *bus() noexcept { return &bus_; }

	const IpAddress &addr() const noexcept { return addr_; }

	/* Queue pair numbers this process may use: [first, limit). */
	u32 first_qpn() const noexcept { return neighbours_->slot() * qpns_per_slot; }
	u32 limit_qpn() const noexcept { return first_qpn() + qpns_per_slot; }

	uint32_t mtu() const noexcept { return mtu_; }

	const uint8_t *mac() const noexcept { return mac_; }

	u64 stat(sirdma_stat id) noexcept;

	/* A WQE was posted to sleeping QP @qpn. */
	void run_qp(u32 qpn) noexcept;
	/* A poll found nothing: take in what waits. */
	void poll() noexcept;
	/* The application is about to sleep until an event. */
	void expect_event() noexcept;

	/* What was raised and deferred by calls into the model; not from within one. */
	void settle() noexcept;

private:
	struct Bus : sirdma_bus {
		Nic *nic;
	};
	/* Queue pairs that want a turn; the count is read without the lock. */
	struct QpList {
		std::vector<u32> qpns;
		std::atomic<u32> count{0};
	};
	static constexpr u32 num_vectors = 2; /* asynchronous events, completion events */
	struct Vector {
		sirdma_irq_fn fn = nullptr;
		void *ctx = nullptr;
	};

	Nic() = default;
	int start(const Config &config);
	bool open_links(const Config &config);
	bool open_free_address();
	void help() noexcept;
	bool look_away() noexcept;
	u64 time_to_sleep() noexcept;
	void meet() noexcept;
	bool fall_asleep() noexcept;
	void wake_up() noexcept;
	bool serve(bool all) noexcept;
	void run_deferred() noexcept;
	void interrupt() noexcept;
	u32 receive(bool all) noexcept;
	void deliver(const IpAddress &src, uint8_t *data, size_t len, bool icrc_ok,
		     bool more) noexcept;
	void datagram(const Path &path, uint8_t *data, size_t len, u32 index,
		      bool more) noexcept override;
	void packet(const IpAddress &src, uint8_t *data, size_t len, bool more) noexcept override;
	void wake() noexcept;
	TxScratch &scratch() noexcept;
	void wake_for_timers() noexcept;
	bool pop(QpList &list, u32 &qpn) noexcept;
	void push(QpList &list, u32 qpn) noexcept;
	bool pending() noexcept;

	static Nic &of(sirdma_bus *bus) noexcept { return *static_cast<Bus *>(bus)->nic; }
	static Nic &of(snic_host *host) noexcept { return *reinterpret_cast<Nic *>(host); }

	static u32 bus_read(sirdma_bus *bus, u32 reg);
	static void bus_write(sirdma_bus *bus, u32 reg, u32 val);
	static int bus_alloc(sirdma_bus *bus, __u64 size, sirdma_dma_mem *mem);
	static void bus_free(sirdma_bus *bus, sirdma_dma_mem *mem);
	static int bus_irq_request(sirdma_bus *bus, u32 vector, sirdma_irq_fn fn, void *ctx);
	static void bus_irq_free(sirdma_bus *bus, u32 vector);
	static const sirdma_bus_ops bus_ops;

	static void on_irq(snic_host *host, u32 vector);
	static u32 on_tx(snic_host *host, const snic_burst *burst);
	static void on_defer(snic_host *host, u32 qpn);
	static snic_burst *on_burst(snic_host *host);
	static const snic_host_ops host_ops;

	IpAddress addr_;
	LinkKind kind_{};
	std::unique_ptr<PcapWriter> pcap_;
	std::unique_ptr<Neighbours> neighbours_;
	std::unique_ptr<PortShare> port_;
	std::unique_ptr<UdpSender> sender_;
	uint32_t mtu_ = 0;
	uint8_t mac_[6]{};
	Bus bus_{};
	port_dma dma_{};
	port_clock *clock_ = nullptr;
	snic_dev *dev_ = nullptr;
	std::unique_ptr<std::atomic<TxScratch *>[]> scratch_; /* by port_cpu() */

	std::shared_mutex vectors_lock_; /* protects vectors_; shared: a handler runs */
	Vector vectors_[num_vectors];
	std::atomic<u32> raised_{0};

	std::mutex
		rx_lock_; /* one receiver at a time keeps packets in order; protects what follows */
	std::unique_ptr<Faults> faults_;
	IdFilter ids_;
	bool ids_count_ = true; /* segments that came together were numbered by their sender */
	u32 port_idle_ = 0; /* times since the port had something */
	u32 rounds_to_clock_ = 0;
	bool polled_ = false; /* a poller takes in what comes, not the helper */

	std::mutex lists_lock_; /* protects the two lists */
	QpList deferred_; /* QPs with more work than one turn may do */
	QpList stalled_; /* QPs the socket had no room for */

	/* The helper. */
	std::thread helper_;
	Fd wake_fd_;
	std::atomic<bool> stop_{false};
	std::atomic<u64> wakes_at_{0}; /* when the sleeping helper looks at the timers; 0: awake */
	std::atomic<bool> leaves_alone_{false}; /* it sleeps without an eye on the socket */
	u64 seen_polls_ = 0;
	std::atomic<u64> polls_{0};
	std::atomic<u32> polls_since_arm_{0};
	std::atomic<u64> rounds_{0}; /* in which packets came */
	std::atomic<u32> idle_polls_{0}; /* since then */
};

} // namespace sirdma::twin
