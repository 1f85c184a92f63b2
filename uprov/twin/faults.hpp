/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A bad wire, for tests of applications: packets that arrive are lost, fail their
 * ICRC, or change places with the one behind. Every link hands its packets to the
 * device through here, so faults are the same whatever carries them; a sequence
 * of packets meets the same faults whenever the seed is the same.
 */
#pragma once

#include <random>

#include "config.hpp"
#include "core.hpp"

namespace sirdma::twin
{

/* Used by one thread at a time: the link's receiver. */
class Faults {
public:
	explicit Faults(const Config &config)
		: loss_(config.loss), corrupt_(config.corrupt), reorder_(config.reorder),
		  any_(loss_ > 0 || corrupt_ > 0 || reorder_ > 0), random_(config.seed)
	{
	}

	/* @pkt arrived. */
	void receive(snic_rx_batch &batch, const snic_rx_pkt &pkt) noexcept
	{
		if (!any_) [[likely]]
			snic_rx_batch_add(&batch, &pkt);
		else
			receive_badly(batch, pkt);
	}

	bool any() const noexcept { return any_; }

	/* Nothing waits behind: a packet that was held back for the next one goes now. */
	void flush(snic_rx_batch &batch) noexcept
	{
		if (held_) [[unlikely]]
			release(batch);
	}

private:
	void receive_badly(snic_rx_batch &batch, snic_rx_pkt pkt);
	bool chance(double p);
	void hold(const snic_rx_pkt &pkt);
	void release(snic_rx_batch &batch);

	const double loss_, corrupt_, reorder_; /* 0 .. 1 */
	const bool any_;
	std::mt19937_64 random_;
	bool held_ = false;
	snic_rx_pkt pkt_{}; /* the one held back, over bytes_ */
	snic_seg seg_{};
	std::vector<uint8_t> bytes_;
};

} // namespace sirdma::twin
