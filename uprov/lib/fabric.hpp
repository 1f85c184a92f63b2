/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A fabric of adapters: packets in flight are a list, sorted by their time of arrival
 * on one virtual clock.
 */
#pragma once

#include "adapter.hpp"
#include "sirdma/twin.h"

namespace sirdma::twin
{

class VirtualFabric;

class FabricAdapter final : public Adapter {
public:
	/* Returns null with errno. */
	static std::unique_ptr<FabricAdapter> create(VirtualFabric &fabric, const IpAddress &addr,
						     uint32_t mtu);
	~FabricAdapter() override;

	/* The device of the API that has this adapter. */
	sirdma_device *handle = nullptr;

	void receive(const snic_rx_pkt &packet) noexcept { snic_rx(dev_, &packet); }

	void run_qp(u32 qpn) noexcept override;
	bool poll() noexcept override;
	void expect_event() noexcept override {}

private:
	explicit FabricAdapter(VirtualFabric &fabric) noexcept : fabric_(fabric) {}
	u32 transmit(snic_burst &burst) noexcept override;
	snic_burst *burst() noexcept override { return burst_.get(); }

	VirtualFabric &fabric_;
	std::unique_ptr<snic_burst> burst_;
	std::unique_ptr<uint8_t[]> copies_; /* see snic_burst.copies */
};

class VirtualFabric {
public:
	/* Returns null with errno. */
	static std::unique_ptr<VirtualFabric> create(const sirdma_fabric_params &params);
	~VirtualFabric();
	VirtualFabric(const VirtualFabric &) = delete;
	VirtualFabric &operator=(const VirtualFabric &) = delete;

	port_clock *clock() noexcept { return clock_; }

	/* The time since the fabric was created, ns. */
	u64 now() const noexcept { return port_now_ns(clock_) - epoch_; }

	bool has_adapters() const noexcept { return !adapters_.empty(); }

	FabricAdapter *find(const IpAddress &addr) const noexcept;
	void attach(FabricAdapter &adapter);
	/* Packets that the device has sent still arrive; packets for it are lost. */
	void detach(FabricAdapter &adapter) noexcept;
	/* The first address from 10.0.0.1 on that no adapter has. */
	IpAddress free_address() const noexcept;

	void send(FabricAdapter &from, const snic_burst &burst);
	void advance(u64 ns);
	/* Returns false if @max_ns were not enough. */
	bool run_until_idle(u64 max_ns);
	void empty_poll() { advance(params_.poll_ns); }

	int add_rule(const sirdma_rule &rule);
	const u64 *hits(int rule) const noexcept;
	void clear_rules() noexcept { rules_.clear(); }

private:
	struct PacketInFlight {
		u64 due; /* time on the clock of now() at which the packet arrives, ns */
		std::vector<u8> bytes; /* BTH to ICRC */
		sirdma_ip src, dst;
		u8 traffic_class, ttl;
		bool is_v4, icrc_ok;
	};
	struct Rule {
		sirdma_rule rule;
		u64 seen = 0, hits = 0;
	};

	explicit VirtualFabric(const sirdma_fabric_params &params) noexcept : params_(params) {}
	Rule *rule_for(const sirdma_packet &packet) noexcept;
	void enqueue(PacketInFlight packet);
	void deliver(const PacketInFlight &packet);
	void settle() noexcept;
	/* The time in @ns, or the last one that the clock can tell. */
	u64 after(u64 ns) const noexcept;
	/*
	 * Deliver one packet, or advance the clock to the next due time, up to @limit. Returns
	 * false if there is none.
	 */
	bool step(u64 limit);

	const sirdma_fabric_params params_;
	port_clock *clock_ = nullptr;
	u64 epoch_ = 0; /* ns of clock_ when the fabric was created */
	std::vector<FabricAdapter *> adapters_;
	std::deque<PacketInFlight> wire_; /* sorted by due; equals in the order of sending */
	std::vector<Rule> rules_;
	bool running_ =
		false; /* set in advance() and run_until_idle(): a poll from within adds no time */
};

} // namespace sirdma::twin
