/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The acknowledgement a device is about to send: it waits for the end of the call
 * that made it, so that it leaves together with the application's own answer. To a
 * peer that has shown that it goes on without, as one that only waits for the
 * answer, it waits a little longer, until the next one takes its place. One for
 * many packets leaves at once, since their sender may have filled its window; and
 * so does each where packets are lost: the last of several that are on their way
 * may be lost, the only one must not be.
 *
 * At most one waits. The socket is the caller's: what must leave comes back.
 */
#pragma once

#include <mutex>

#include "address.hpp"
#include "core.hpp"

namespace sirdma::twin
{

struct Ack {
	IpAddress dst;
	u32 qpn; /* ours */
	snic_tx_pkt pkt; /* without payload */

	u32 psn() const noexcept;
	bool same_flow(const IpAddress &to, u32 from) const noexcept
	{
		return qpn == from && dst == to;
	}
};

enum class AckKind { none, plain, refusal };

/* Is @burst nothing but an acknowledgement, and does it refuse something (NAK, RNR NAK)? */
AckKind ack_kind(const snic_burst &burst) noexcept;

class AckHold {
public:
	/* One takes the place of so many others at most. Fewer than a requester needs to doze off. */
	static constexpr u32 fold_max = 4;
	/* Passes without a packet after which the peer is taken to wait for it. */
	static constexpr u32 passes_max = 32;
	/* Acknowledgements from one trial of a peer's patience to the next, doubled by failure. */
	static constexpr u32 trial_min = 64;
	static constexpr u32 trial_max = 64 * 1024;
	/* Packets since the last acknowledgement from which on one does not wait. */
	static constexpr u32 many_packets = 8;
	/* Acknowledgements that leave at once after a packet was missed. */
	static constexpr u32 wary_acks = 256;

	/* Each returns true with the one that must leave now. */

	/* Keep @ack, and not the one before. */
	bool offer(const Ack &ack, Ack &out) noexcept;
	/* A packet leaves to the same peer: the one that would leave soon goes with it. */
	bool ride(const IpAddress &dst, u32 qpn, Ack &out) noexcept;
	/* A call ends; nobody is there to take care of the patient kind either: @all. */
	bool flush(bool all, Ack &out) noexcept;
	/* A poll found nothing. */
	bool pass(Ack &out) noexcept;

	/* @qpn refuses a packet of @dst, which so missed one or was too fast. */
	void refused(const IpAddress &dst, u32 qpn) noexcept;
	/* There was no room for @ack: keep it, unless there is a newer one. */
	void give_back(const Ack &ack) noexcept;

	bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

private:
	bool release(Ack &out) noexcept;
	bool leave(const Ack &ack, Ack &out) noexcept;
	void hold(const Ack &ack) noexcept;
	void succeeded() noexcept;
	void failed() noexcept;

	std::mutex lock_; /* protects what follows; innermost */
	std::atomic<bool> any_{false}; /* written under lock_ */
	Ack ack_{};
	u32 left_psn_ = 0; /* of the last one that left */
	bool patient_ = false; /* it stays beyond the call */
	u32 folded_ = 0; /* whose place it took */
	u32 passes_ = 0;

	/* The peer last met. */
	bool trusted_ = false; /* goes on without acknowledgements */
	u32 successes_ = 0; /* in a row */
	u32 trial_in_ = trial_min;
	u32 backoff_ = trial_min;
	u32 wary_ = 0; /* of them to come */
};

} // namespace sirdma::twin
