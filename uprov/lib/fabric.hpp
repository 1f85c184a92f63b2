/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Adapters on a wire that is a list of packets by their time of arrival. All time
 * is that of one virtual clock.
 */
#pragma once

#include "adapter.hpp"
#include "sirdma/twin.h"

namespace sirdma::twin
{

class VirtualFabric;

class FabricAdapter final : public Adapter {
public:
	/* Null with errno. */
	static std::unique_ptr<FabricAdapter> create(VirtualFabric &fabric, const IpAddress &addr,
						     uint32_t mtu);
	~FabricAdapter() override;

	/* What the API calls it. */
	sirdma_device *handle = nullptr;

	void receive(const snic_rx_pkt &packet) noexcept { snic_rx(dev_, &packet); }

	void run_qp(u32 qpn) noexcept override;
	void poll() noexcept override;
	void expect_event() noexcept override {}

private:
	explicit FabricAdapter(VirtualFabric &fabric) noexcept : fabric_(fabric) {}
	u32 transmit(snic_burst &burst) noexcept override;
	snic_burst *burst() noexcept override { return burst_.get(); }

	VirtualFabric &fabric_;
	std::unique_ptr<snic_burst> burst_;
};

class VirtualFabric {
public:
	/* Null with errno. */
	static std::unique_ptr<VirtualFabric> create(const sirdma_fabric_params &params);
	~VirtualFabric();
	VirtualFabric(const VirtualFabric &) = delete;
	VirtualFabric &operator=(const VirtualFabric &) = delete;

	port_clock *clock() noexcept { return clock_; }

	/* Since it was made. */
	u64 now() const noexcept { return port_now_ns(clock_) - epoch_; }

	bool busy() const noexcept { return !adapters_.empty(); }

	FabricAdapter *find(const IpAddress &addr) const noexcept;
	void attach(FabricAdapter &adapter);
	/* Packets of its own and those for it are lost. */
	void detach(FabricAdapter &adapter) noexcept;
	/* An address of 10.0.0.0/8 that nobody has. */
	IpAddress free_address() const noexcept;

	void send(FabricAdapter &from, const snic_burst &burst);
	void advance(u64 ns);
	/* False when @max_ns were not enough. */
	bool run_until_idle(u64 max_ns);
	void empty_poll() { advance(params_.poll_ns); }

	int add_rule(const sirdma_rule &rule);
	const u64 *hits(int rule) const noexcept;
	void clear_rules() noexcept { rules_.clear(); }

private:
	struct Flight {
		u64 due;
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
	void launch(Flight flight);
	void deliver(const Flight &flight);
	void settle() noexcept;
	/* Let happen the next thing that is due by @limit; false when there is none. */
	bool step(u64 limit);

	const sirdma_fabric_params params_;
	port_clock *clock_ = nullptr;
	u64 epoch_ = 0; /* of the clock */
	std::vector<FabricAdapter *> adapters_;
	std::deque<Flight> wire_; /* by due, and among equals in order of sending */
	std::vector<Rule> rules_;
	bool running_ = false; /* time passes: a poll from within lets no more pass */
};

} // namespace sirdma::twin
