/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device counters, as GATHER_STATS returns them: __le64 each, in this order.
 * TX_BYTES and RX_BYTES count whole frames, from the Ethernet header to the ICRC. A frame to a
 * multicast group counts once in RX_PKTS and RX_BYTES, however many of its queue pairs get it.
 * RX_OVERRUNS counts received packets that the host had no memory or no room for.
 * RX_ECN counts received packets that a switch has marked, and CNPs are congestion notifications.
 * ONE_SIDED counts requests that were executed without packets, and ANSWERS_AWAITED polls of a process that spins on its
 * memory that returned after the peer's answer had come, whether or not they waited for it (twins only).
 * SIRDMA_STATS(X) calls X(IDENTIFIER, name) for each.
 */
#ifndef SIRDMA_STATS_H
#define SIRDMA_STATS_H

#include "bits.h"

#define SIRDMA_STATS(X) \
	X(TX_PKTS, tx_pkts) \
	X(TX_BYTES, tx_bytes) \
	X(RX_PKTS, rx_pkts) \
	X(RX_BYTES, rx_bytes) \
	X(TX_DROPS, tx_drops) \
	X(TX_STALLS, tx_stalls) \
	X(RX_BAD_LENGTH, rx_bad_length) \
	X(RX_BAD_ICRC, rx_bad_icrc) \
	X(RX_BAD_HEADER, rx_bad_header) \
	X(RX_BAD_OPCODE, rx_bad_opcode) \
	X(RX_BAD_PKEY, rx_bad_pkey) \
	X(RX_BAD_GID, rx_bad_gid) \
	X(RX_NO_QP, rx_no_qp) \
	X(RX_BAD_STATE, rx_bad_state) \
	X(RX_FRAGMENTS, rx_fragments) \
	X(RX_DUPLICATE, rx_duplicate) \
	X(RX_OUT_OF_SEQUENCE, rx_out_of_sequence) \
	X(RX_STALE_ACK, rx_stale_ack) \
	X(RX_ECN, rx_ecn) \
	X(ACK_TIMEOUTS, ack_timeouts) \
	X(RETRANSMITS, retransmits) \
	X(RETRY_EXCEEDED, retry_exceeded) \
	X(RNR_RETRY_EXCEEDED, rnr_retry_exceeded) \
	X(RNR_NAK_SENT, rnr_nak_sent) \
	X(RNR_NAK_RCVD, rnr_nak_rcvd) \
	X(SEQ_NAK_SENT, seq_nak_sent) \
	X(SEQ_NAK_RCVD, seq_nak_rcvd) \
	X(NAK_INV_REQ_SENT, nak_inv_req_sent) \
	X(NAK_REM_ACCESS_SENT, nak_rem_access_sent) \
	X(NAK_REM_OP_SENT, nak_rem_op_sent) \
	X(ACKS_SENT, acks_sent) \
	X(ACKS_RCVD, acks_rcvd) \
	X(WQE_INVALID, wqe_invalid) \
	X(KICKS, kicks) \
	X(CQ_OVERFLOWS, cq_overflows) \
	X(CEQES, ceqes) \
	X(AEQES, aeqes) \
	X(AEQ_MERGED, aeq_merged) \
	X(CQP_COMMANDS, cqp_commands) \
	X(CQP_ERRORS, cqp_errors) \
	X(HMC_FAULTS, hmc_faults) \
	X(MR_INVALID_KEY, mr_invalid_key) \
	X(MR_BAD_PD, mr_bad_pd) \
	X(MR_BAD_RANGE, mr_bad_range) \
	X(MR_BAD_ACCESS, mr_bad_access) \
	X(MR_ABSENT, mr_absent) \
	X(LOCAL_LOOP_PKTS, local_loop_pkts) \
	X(RX_OVERRUNS, rx_overruns) \
	X(REFUSED_NEIGHBOURS, refused_neighbours) \
	X(RX_NO_RECV, rx_no_recv) \
	X(RX_REFUSED, rx_refused) \
	X(TX_OVER_MTU, tx_over_mtu) \
	X(TX_WRITTEN_OFF, tx_written_off) \
	X(RX_BAD_QKEY, rx_bad_qkey) \
	X(RX_NO_GROUP, rx_no_group) \
	X(MR_BAD_INVALIDATE, mr_bad_invalidate) \
	X(MW_BAD_BIND, mw_bad_bind) \
	X(MR_BAD_FAST_REG, mr_bad_fast_reg) \
	X(PAGE_REQUESTS, page_requests) \
	X(PAGE_REQUESTS_LOST, page_requests_lost) \
	X(PAGE_ERRORS, page_errors) \
	X(ONE_SIDED, one_sided) \
	X(CNPS_SENT, cnps_sent) \
	X(CNPS_RCVD, cnps_rcvd) \
	X(ANSWERS_AWAITED, answers_awaited) \
	X(LOCAL_KEPT_PKTS, local_kept_pkts)

enum sirdma_stat {
#define SIRDMA_STAT_ENUM(id, name) SIRDMA_STAT_##id,
	SIRDMA_STATS(SIRDMA_STAT_ENUM)
#undef SIRDMA_STAT_ENUM
		SIRDMA_STAT_COUNT
};

#endif
