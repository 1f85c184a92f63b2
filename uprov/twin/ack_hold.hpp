/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The acknowledgement that a device is about to send over UDP. It waits for the end of the call that made it, or for
 * the next call (AnswerHabit), so that the application's own answer, for which the peer waits, leaves first or carries it
 * (can_carry_ack()). One that acknowledges several packets does not wait, because their sender may have filled its
 * window. On a path that loses packets no acknowledgement waits: if several are in flight the last of them
 * may be lost, but a single one must not be.
 *
 * Measured between two processes over loopback with tests/bench/twinbench, as medians of
 * interleaved runs. An acknowledgement that leaves at once makes a ping-pong of 8-byte WRITEs
 * take 1.45 times as long as one that leaves after the answer. Holding it until the next one takes its place
 * changed neither latency nor message rate nor bandwidth by more than their noise.
 *
 * At most one waits. Each queue pair has state of its own for this decision, so that queue pairs
 * that send alternately do not disturb each other. The caller has the socket: the functions return
 * the acknowledgement that it must send.
 */
#pragma once

#include <mutex>

#include "address.hpp"
#include "core.hpp"
#include "rendezvous.hpp"

namespace sirdma::twin
{

struct Ack {
	IpAddress dst;
	uint8_t traffic_class;
	u32 qpn; /* our queue pair */
	snic_tx_pkt pkt; /* packet without payload */

	u32 psn() const noexcept;
};

enum class AckKind { none, plain, refusal };

/* Is @burst nothing but an acknowledgement, and does it refuse something (NAK, RNR NAK)? */
AckKind ack_kind(const snic_burst &burst) noexcept;

class AckHold {
public:
	/*
	 * The number of packets since the last acknowledgement that makes one leave at once. Writes
	 * of 1 MiB are as fast with 2, 4 and 8, and have 0.6 times the bandwidth without a limit.
	 */
	static constexpr u32 packets_max = 4;
	/*
	 * The number of acknowledgements that leave at once after a packet was missed. Without them
	 * ibv_rc_pingpong -s 65536 takes 2.3 times as long where 3 % of the packets are lost.
	 */
	static constexpr u32 wary_acks = 256;

	/* Each function returns true with the acknowledgement that must leave now. */

	/* Keep @ack in place of the former one. A former one of another queue pair leaves. */
	bool offer(const Ack &ack, Ack &out) noexcept;
	/* A call ends. */
	bool flush(Ack &out) noexcept;
	/* Remove the acknowledgement of @qpn, which leaves in the datagram of a request to @dst. */
	bool take(u32 qpn, const IpAddress &dst, Ack &out) noexcept;

	/* @qpn refuses a packet of its peer: the peer missed a packet, or was too fast. */
	void refused(u32 qpn) noexcept;
	/* There was no room for @ack: keep it, unless there is a newer acknowledgement. */
	void give_back(const Ack &ack) noexcept;

	bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

private:
	/*
	 * A queue pair that takes over the number of another one may wrongly send its first
	 * acknowledgements at once.
	 */
	struct Flow {
		u32 left_psn; /* PSN of the last acknowledgement that left */
		u32 wary; /* number of future acknowledgements that leave at once */
	};

	/* A device has at most this many consecutive numbers. */
	Flow &flow(u32 qpn) noexcept { return flows_[qpn % qpns_per_slot]; }
	bool release(const Ack &ack, Ack &out) noexcept;
	template <typename Leaves> bool leave_if(const Leaves &leaves, Ack &out) noexcept;

	std::mutex lock_; /* protects the members below; innermost */
	std::atomic<bool> any_{false}; /* written under lock_ */
	Ack ack_{}; /* acknowledgement that waits */
	std::array<Flow, qpns_per_slot> flows_{};
};

} // namespace sirdma::twin
