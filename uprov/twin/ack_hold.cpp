/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ack_hold.hpp"

namespace sirdma::twin
{

namespace
{

sirdma_bth bth_of(const snic_tx_pkt &pkt) noexcept
{
	sirdma_bth bth;

	memcpy(&bth, pkt.hdr, sizeof(bth));
	return bth;
}

} // namespace

u32 Ack::psn() const noexcept
{
	return be32_to_cpu(bth_of(pkt).apsn) & SIRDMA_PSN_MASK;
}

AckKind ack_kind(const snic_burst &burst) noexcept
{
	const snic_tx_pkt &pkt = burst.pkts[0];
	sirdma_aeth aeth;

	if (burst.npkts != 1 || bth_of(pkt).opcode != SIRDMA_BTH_ACK)
		return AckKind::none;
	memcpy(&aeth, pkt.hdr + sizeof(sirdma_bth), sizeof(aeth));
	return (be32_to_cpu(aeth.smsn) >> 24 & SIRDMA_AETH_KIND) == SIRDMA_AETH_ACK ?
		       AckKind::plain :
		       AckKind::refusal;
}

bool AckHold::release(Ack &out) noexcept
{
	out = ack_;
	left_psn_ = ack_.psn();
	any_.store(false, std::memory_order_relaxed);
	return true;
}

bool AckHold::offer(const Ack &ack, Ack &out) noexcept
{
	std::lock_guard hold_lock(lock_);
	const bool same = ack_.same_flow(ack.dst, ack.qpn);
	const bool other_leaves = any() && !same;

	if (other_leaves)
		release(out);
	if (!same) {
		left_psn_ = ack.psn();
		wary_ = 0;
	}
	ack_ = ack;
	if (wary_ || ((ack.psn() - left_psn_) & SIRDMA_PSN_MASK) >= packets_max) {
		wary_ -= wary_ != 0;
		return release(out);
	}
	any_.store(true, std::memory_order_relaxed);
	return other_leaves;
}

bool AckHold::flush(Ack &out) noexcept
{
	if (!any())
		return false;
	std::lock_guard hold_lock(lock_);

	return any() && release(out);
}

void AckHold::refused(const IpAddress &dst, u32 qpn) noexcept
{
	std::lock_guard hold_lock(lock_);

	if (ack_.same_flow(dst, qpn))
		wary_ = wary_acks;
}

void AckHold::give_back(const Ack &ack) noexcept
{
	std::lock_guard hold_lock(lock_);

	if (any())
		return;
	ack_ = ack;
	any_.store(true, std::memory_order_relaxed);
}

} // namespace sirdma::twin
