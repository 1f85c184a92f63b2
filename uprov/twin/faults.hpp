/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A bad wire, for tests of applications: packets that arrive are lost, fail their ICRC, or change
 * places with the one behind. Every link hands its packets to the device through here, so faults
 * are the same on all links; a sequence of packets meets the same faults whenever the seed is the
 * same. The two directions between two devices that have the same seed meet different ones.
 */
#pragma once

#include <cstring>
#include <random>

#include "config.hpp"
#include "core.hpp"

namespace sirdma::twin
{

/* Decides which packets of one direction meet a fault. */
class FaultSequence {
public:
	/*
	 * @slot: of the device that receives (see rendezvous.hpp); @upwards: from a lower address.
	 */
	FaultSequence(uint64_t seed, uint32_t slot, bool upwards);

	/* Returns true in @p of all cases, 0 .. 1. */
	bool chance(double p);

private:
	std::mt19937_64 random_;
};

/* One thread at a time uses this: the receiver of the link. */
class Faults {
public:
	static bool any(const Config &config) noexcept
	{
		return config.loss > 0 || config.corrupt > 0 || config.reorder > 0;
	}

	Faults(const Config &config, uint32_t slot)
		: loss_(config.loss), corrupt_(config.corrupt), reorder_(config.reorder),
		  any_(any(config)), downwards_(config.seed, slot, false),
		  upwards_(config.seed, slot, true)
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

	/* Is a datagram from @src that the model does not get lost, or made useless? */
	bool takes(const sirdma_ip &src, const sirdma_ip &dst) noexcept;

	/* No packet follows: deliver the packet that was held back. */
	void flush(snic_rx_batch &batch) noexcept
	{
		if (held_) [[unlikely]]
			release(batch);
	}

private:
	void receive_badly(snic_rx_batch &batch, snic_rx_pkt pkt);
	void hold(const snic_rx_pkt &pkt);
	void release(snic_rx_batch &batch);

	const double loss_, corrupt_, reorder_; /* 0 .. 1 */
	const bool any_;
	FaultSequence downwards_, upwards_;
	bool held_ = false;
	snic_rx_pkt pkt_{}; /* the packet that was held back, over bytes_ */
	snic_seg seg_{};
	std::vector<uint8_t> bytes_;
};

} // namespace sirdma::twin
