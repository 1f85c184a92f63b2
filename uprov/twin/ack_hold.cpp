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

bool AckHold::release(const Ack &ack, Ack &out) noexcept
{
	out = ack;
	flow(ack.qpn).left_psn = ack.psn();
	return true;
}

bool AckHold::offer(const Ack &ack, Ack &out) noexcept
{
	std::lock_guard hold_lock(lock_);
	Flow &own = flow(ack.qpn);
	const bool replaces = any() && ack_.qpn == ack.qpn;
	const bool now = own.wary || ((ack.psn() - own.left_psn) & SIRDMA_PSN_MASK) >= packets_max;

	own.wary -= own.wary != 0;
	if (now) {
		if (replaces)
			any_.store(false, std::memory_order_relaxed);
		return release(ack, out);
	}

	const bool other_leaves = any() && !replaces && release(ack_, out);

	ack_ = ack;
	any_.store(true, std::memory_order_relaxed);
	return other_leaves;
}

template <typename Leaves> bool AckHold::leave_if(const Leaves &leaves, Ack &out) noexcept
{
	if (!any())
		return false;
	std::lock_guard hold_lock(lock_);

	if (!any() || !leaves(ack_))
		return false;
	any_.store(false, std::memory_order_relaxed);
	return release(ack_, out);
}

bool AckHold::flush(Ack &out) noexcept
{
	return leave_if([](const Ack &) { return true; }, out);
}

bool AckHold::take(u32 qpn, const IpAddress &dst, Ack &out) noexcept
{
	return leave_if([&](const Ack &ack) { return ack.qpn == qpn && ack.dst == dst; }, out);
}

void AckHold::refused(u32 qpn) noexcept
{
	std::lock_guard hold_lock(lock_);

	flow(qpn).wary = wary_acks;
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
