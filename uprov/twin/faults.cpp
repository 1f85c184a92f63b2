/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "faults.hpp"

namespace sirdma::twin
{

FaultSequence::FaultSequence(uint64_t seed, uint32_t slot, bool upwards)
{
	std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), slot,
			    uint32_t{upwards}};

	random_.seed(words);
}

bool FaultSequence::chance(double p)
{
	/*
	 * 53 bits give the same result on every machine, which std::bernoulli_distribution does
	 * not.
	 */
	return p > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < p;
}

void Faults::receive_badly(snic_rx_batch &batch, snic_rx_pkt pkt)
{
	const bool is_upwards = memcmp(&pkt.src_ip, &pkt.dst_ip, sizeof(pkt.src_ip)) < 0;
	FaultSequence &faults = is_upwards ? upwards_ : downwards_;

	/* The next packet may be lost: acknowledgements must not wait for it. */
	pkt.more = false;
	if (faults.chance(loss_))
		return;
	if (faults.chance(corrupt_))
		pkt.icrc_ok = false;
	if (!held_ && faults.chance(reorder_)) {
		hold(pkt);
		return;
	}
	snic_rx_batch_add(&batch, &pkt);
	if (held_)
		release(batch);
}

bool Faults::takes(const sirdma_ip &src, const sirdma_ip &dst) noexcept
{
	FaultSequence &faults = memcmp(&src, &dst, sizeof(src)) < 0 ? upwards_ : downwards_;

	return any_ && (faults.chance(loss_) || faults.chance(corrupt_));
}

/* Copy the packet, because the link reuses its memory. */
void Faults::hold(const snic_rx_pkt &pkt)
{
	bytes_.clear();
	for (u32 i = 0; i < pkt.nsegs; ++i) {
		const auto *from = static_cast<const uint8_t *>(pkt.segs[i].ptr);

		bytes_.insert(bytes_.end(), from, from + pkt.segs[i].len);
	}
	seg_ = {};
	seg_.ptr = bytes_.data();
	seg_.len = static_cast<u32>(bytes_.size());
	pkt_ = pkt;
	pkt_.segs = &seg_;
	pkt_.nsegs = 1;
	held_ = true;
}

void Faults::release(snic_rx_batch &batch)
{
	held_ = false;
	snic_rx_batch_add(&batch, &pkt_);
}

} // namespace sirdma::twin
