/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ack_hold.hpp"

#include <algorithm>

namespace sirdma::twin
{

namespace
{

/* Successes in a row for which a failure is forgiven. */
constexpr u32 forgive_after = 64;

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

	if (burst.npkts != 1 || bth_of(pkt).opcode != SIRDMA_RC_ACK)
		return AckKind::none;

	sirdma_aeth aeth;

	memcpy(&aeth, pkt.hdr + sizeof(sirdma_bth), sizeof(aeth));
	return (be32_to_cpu(aeth.smsn) >> 24 & SIRDMA_AETH_KIND) == SIRDMA_AETH_ACK ?
		       AckKind::plain :
		       AckKind::refusal;
}

bool AckHold::release(Ack &out) noexcept
{
	out = ack_;
	left_psn_ = ack_.psn();
	folded_ = 0;
	any_.store(false, std::memory_order_relaxed);
	return true;
}

void AckHold::succeeded() noexcept
{
	trusted_ = true;
	if (++successes_ % forgive_after == 0)
		backoff_ = std::max(backoff_ / 2, trial_min);
}

void AckHold::failed() noexcept
{
	trusted_ = false;
	successes_ = 0;
	backoff_ = std::min(backoff_ * 2, trial_max);
	trial_in_ = backoff_;
}

void AckHold::hold(const Ack &ack) noexcept
{
	ack_ = ack;
	passes_ = 0;
	patient_ = trusted_ || !trial_in_ || !--trial_in_;
	any_.store(true, std::memory_order_relaxed);
}

/* This one leaves, and so stands for the one that waited. */
bool AckHold::leave(const Ack &ack, Ack &out) noexcept
{
	ack_ = ack;
	return release(out);
}

bool AckHold::offer(const Ack &ack, Ack &out) noexcept
{
	std::lock_guard hold_lock(lock_);
	const bool known = ack_.same_flow(ack.dst, ack.qpn);

	if (!known) {
		const bool other = any();

		if (other)
			release(out);
		trusted_ = false;
		successes_ = 0;
		trial_in_ = backoff_ = trial_min;
		wary_ = 0;
		/* Several that talk in turns get theirs at once. */
		if (!other)
			return leave(ack, out);
		left_psn_ = ack.psn();
		hold(ack);
		return true;
	}
	if (wary_ || ((ack.psn() - left_psn_) & SIRDMA_PSN_MASK) >= many_packets) {
		wary_ -= wary_ != 0;
		return leave(ack, out);
	}
	if (any() && patient_) {
		/* The same once more: the peer asked again. */
		if (ack.psn() == ack_.psn()) {
			failed();
			wary_ = wary_acks;
			return leave(ack, out);
		}
		succeeded();
	}
	if (any() && ++folded_ >= fold_max)
		return leave(ack, out);
	hold(ack);
	return false;
}

bool AckHold::ride(const IpAddress &dst, u32 qpn, Ack &out) noexcept
{
	if (!any())
		return false;
	std::lock_guard hold_lock(lock_);

	return any() && !patient_ && ack_.same_flow(dst, qpn) && release(out);
}

bool AckHold::flush(bool all, Ack &out) noexcept
{
	if (!any())
		return false;
	std::lock_guard hold_lock(lock_);

	return any() && (all || !patient_) && release(out);
}

bool AckHold::pass(Ack &out) noexcept
{
	if (!any())
		return false;
	std::lock_guard hold_lock(lock_);

	if (!any() || ++passes_ < passes_max)
		return false;
	if (patient_)
		failed();
	return release(out);
}

void AckHold::refused(const IpAddress &dst, u32 qpn) noexcept
{
	std::lock_guard hold_lock(lock_);

	if (!ack_.same_flow(dst, qpn))
		return;
	failed();
	wary_ = wary_acks;
}

void AckHold::give_back(const Ack &ack) noexcept
{
	std::lock_guard hold_lock(lock_);

	if (any())
		return;
	ack_ = ack;
	patient_ = false;
	passes_ = 0;
	any_.store(true, std::memory_order_relaxed);
}

} // namespace sirdma::twin
