/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs. The lock of a QP protects all of it. What depends on the QP's type is in
 * its transport (transport.h).
 *
 * Lock order: QP, then shared receive queue or CQ, then event queue. Host callbacks are called with
 * the QP lock held.
 */
#ifndef SNIC_QP_H
#define SNIC_QP_H

#include "burst.h"
#include "cq.h"
#include "dev.h"
#include "inv.h"
#include "packet.h"
#include "path.h"
#include "read_req.h"
#include "rq.h"
#include "srq.h"
#include "wqe.h"
#include "sirdma/qpctx.h"
#include "sirdma/shadow.h"

#define SNIC_MAX_RD_ATOMIC 16 /* inbound READs and atomics a QP remembers */
#define SNIC_RD_REPEATS 8 /* repeated requests for parts of READs, not yet answered */
#define SNIC_OUT_MSGS 128 /* messages in flight, power of two */
#define SNIC_MAX_MTU 4096
#define SNIC_DEFAULT_WINDOW (512 * 1024) /* bytes in flight */
#define SNIC_MAX_WINDOW 16384 /* packets in flight */
/* With fewer messages in flight than this, an empty send queue asks for a kick. */
#define SNIC_AWAKE_MSGS 8
/*
 * Bursts sent while the QP's lock is held once. Received packets wait for the lock in a
 * softirq: two bursts of default size are copied and summed in 60 us at 2 GB/s.
 * snic_qp_run() takes the lock SNIC_RUN_HOLDS times, and leaves the rest to the next
 * bottom half.
 */
#define SNIC_HOLD_BURSTS 2
#define SNIC_RUN_HOLDS 4
/* An acknowledgement is requested at least once in this many packets. */
#define SNIC_ACKREQ_PKTS 16
/* This many coalesced acknowledgements are sent although more packets follow. */
#define SNIC_ACK_COALESCE 32
/*
 * A long READ is split into several READ requests, so that the window limits what the
 * responder sends at once. The longest request, bytes.
 */
#define SNIC_READ_CHUNK (128 * 1024)
/* Completions that one run flushes; the rest is left to the background. */
#define SNIC_FLUSH_BATCH 512

/* A message whose PSNs are assigned and which is not completed. */
struct snic_out {
	u32 psn; /* first */
	u32 len;
	u16 idx; /* of the WQE, quanta */
	u8 op; /* enum sirdma_sq_op */
	u8 flags; /* SNIC_OUT_* */
};

#define SNIC_OUT_SIGNALED 0x01
#define SNIC_OUT_POLARITY 0x02 /* valid bit of the WQE's lap */
#define SNIC_OUT_LOCAL 0x04 /* nothing is sent: no PSN */
#define SNIC_OUT_FAILED 0x08 /* completes with snic_req.fail_* once it is the oldest */
#define SNIC_OUT_TODO 0x10 /* a local operation has to be done before it completes (local.h) */
#define SNIC_OUT_STARTED 0x20 /* that operation is under way */

/*
 * Requester. out[] is a ring with free-running indices: head is the oldest message, cur
 * the message that nxt belongs to (tail if none), tail the next free entry.
 */
struct snic_req {
	u32 una; /* oldest PSN not acknowledged */
	u32 nxt; /* next PSN to send; behind max after a restart */
	u32 max; /* highest PSN sent, plus one */
	u32 psn; /* first PSN of the next new message */
	u32 sq_idx; /* next quantum to fetch */
	u32 sq_published; /* sq_idx as last written to the shadow area */
	u32 head, cur, tail;
	u32 rd_atomic_msgs; /* READs and atomics in out[] (fence) */
	u32 cwnd; /* packets that may be in flight */
	u32 ssthresh; /* below it, cwnd doubles in each round trip */
	u32 grow; /* packets acknowledged that have not yet increased cwnd */
	u32 probe; /* after an RNR wait, packets that may be in flight; 0: cwnd */
	u32 unasked; /* packets since the last AckReq */
	u32 polled_idx; /* sq_idx when the poll timer was armed last */
	u32 kick_epsn; /* resp.epsn at the last kick */
	u32 sqe_slot; /* out[] index of sqe */
	u32 rd_slot; /* out[] index of rd_sqe */
	u32 absent_psn; /* could not be sent, or its response placed: memory was absent */
	u32 lost_dist; /* distance from una of the answer that showed the loss */
	u64 deadline; /* of the ACK timeout, or of the wait if rnr_wait */
	u32 fail_vendor;
	u16 fail_minor;
	u8 retry_left;
	u8 rnr_left;
	u8 rnr_tries; /* RNR NAKs since una moved */
	u8 kicks_ahead; /* consecutive kicks by a poster that did not wait (sq_poll.c) */
	bool last_signaled; /* the last completed message had a CQE */
	bool sq_polarity;
	bool sqe_valid;
	bool rd_valid;
	bool failed; /* a message is SNIC_OUT_FAILED: start no others */
	bool rnr_wait; /* nothing is sent until deadline: RNR NAK, or absent_wait */
	bool absent_wait; /* local memory is absent */
	u8 absent_waits; /* waits for absent_psn */
	bool restarted; /* retransmitting: una has not moved since the loss was detected */
	bool awake; /* need_kick is 0: a post needs no kick */
	bool local_done; /* a local operation was done, so later messages may start */
	bool inv_wait; /* out[head] is acknowledged, but waits for an invalidation */
	bool answers_dropped; /* meanwhile: what they answered has to be retransmitted */
	bool nak_kept; /* one of them was the NAK nak_code, by which the peer failed */
	u8 nak_code;
	u8 fast_regs; /* that this burst executed */
	u32 nak_psn; /* that it refused */
	struct snic_sqe sqe; /* of out[cur], being sent */
	struct snic_sqe rd_sqe; /* of out[head]: a READ, an atomic or a local operation (local.h) */
	struct snic_out out[SNIC_OUT_MSGS];
	struct snic_reads reads;
};

/*
 * An inbound READ, a repeated request for a part of one, or an atomic: pending until its last
 * response is sent, then kept for duplicates.
 */
struct snic_rd {
	union {
		u64 va; /* of a READ */
		u64 orig; /* what the memory held before the atomic, which is executed once */
	};
	u32 rkey;
	u32 len;
	u32 psn; /* first response */
	u32 msn;
	u32 pos; /* next response */
	bool used; /* the request is remembered */
	bool pending; /* responses are to be sent */
	bool done; /* answered completely, or a duplicate: does not count against ird */
	u8 opcode; /* of the request */
};

struct snic_resp {
	u32 epsn; /* next PSN expected */
	u32 msn;
	u32 ack_psn; /* of the acknowledgement that is due */
	u32 nak_cause; /* PSN that caused the last NAK */
	u32 owed; /* answers that were coalesced since the last transmission */
	u32 recv_len; /* bytes of the current SEND placed */
	union {
		u32 wr_rkey; /* of the current RDMA WRITE */
		u32 inv_stag; /* that the SEND with invalidate names */
	};
	u32 wr_left; /* bytes not yet placed */
	u32 wr_total;
	u64 wr_va;
	u32 rd_tail; /* rd[] index of the next READ or atomic, free-running */
	u32 rd_pending; /* entries of rd[] that are pending */
	u32 fail_ae; /* enum sirdma_ae_code */
	u32 fail_vendor;
	u16 fail_minor; /* error of the receive WQE; 0: it does not fail */
	u8 ack_syndrome;
	u8 in_msg; /* between FIRST and LAST: SNIC_PKT_SEND or SNIC_PKT_WRITE, else 0 */
	bool ack_due;
	bool nak_sent; /* a NAK is sent or due: no other until epsn arrives */
	bool fatal; /* the NAK that is due is the last packet; the QP fails then */
	bool rqe_valid; /* rqe was fetched and is not completed */
	bool absent; /* memory of the next READ is absent: wait for a repeated request or a kick */
	bool comm_est; /* the communication established event was raised */
	bool inv_wait; /* a SEND with invalidate completes when its key is invalid; drop packets */
	bool inv_started; /* the invalidation is under way; else it waits for READs before it */
	bool inv_dropped; /* a packet was dropped */
	u8 inv_op; /* of that SEND */
	bool inv_solicited;
	struct snic_rqe rqe;
	/* The latest READs and atomics, then repeated requests for parts of READs. */
	struct snic_rd rd[SNIC_MAX_RD_ATOMIC + SNIC_RD_REPEATS];
};

struct snic_transport;

struct snic_qp {
	struct snic_obj obj;
	const struct snic_transport *transport;
	struct port_lock lock;
	struct snic_dev *dev;
	struct snic_cq *send_cq;
	struct snic_cq *recv_cq;
	struct sirdma_qp_shadow *shadow;
	struct port_timer timer; /* of the transport: timer_due(), timer_expired() */
	struct port_timer sq_poll; /* sq_poll.h */
	u64 compl_ctx;
	struct snic_aeq_events async;
	struct snic_ring sq_ring;
	struct snic_srq *srq; /* NULL: it has a receive queue of its own */
	struct snic_srq_share srq_share; /* lock of srq */
	struct snic_rq own_rq;
	u32 sq_quanta;
	u32 pd;
	u32 recv_pd; /* of the memory that receive WQEs name */
	u8 type; /* enum sirdma_qp_type */
	u8 queue_flags; /* SIRDMA_QPC_* */
	u8 state; /* enum sirdma_qp_state; RESET from the start of destruction on */
	bool timer_armed; /* or it fired, and timer_due is set */
	bool timer_due; /* snic_qp_advance() calls timer_expired() */
	bool sq_poll_armed;
	bool tx_stalled; /* the host has no room: it will call snic_tx_resume() */
	bool deferred; /* the host will call snic_qp_run() */
	bool in_run; /* snic_qp_run() runs, and will run again if run_again is set */
	bool run_again; /* there is more work */
	bool flush_deferred; /* the same, in the background */
	bool rung; /* by snic_qp_ring(), which does not take the lock */
	bool sqd_event; /* raise an event when the send queue is drained */
	bool lent; /* payload was transmitted since snic_qp_revoke(), maybe by reference */
	bool last_wqe_raised; /* LAST_WQE_REACHED */

	struct snic_limits limits; /* that the host set for its peer */

	/* Attributes */
	u8 mtu_shift;
	u8 min_rnr_timer;
	u8 retry_cnt;
	u8 rnr_retry;
	u8 ack_timeout;
	u8 ord;
	u8 ird;
	u16 pkey;
	u32 access;
	u32 dest_qpn;
	u32 qkey;
	u32 sq_psn; /* as modify set it; the requester starts here */
	u32 rq_psn; /* the same for the responder */

	u32 av_idx; /* of a datagram QP, the last address vector */

	struct snic_inv *inv; /* [SNIC_INVS] */
	struct snic_mw *windows; /* of type 2 that it has bound, under snic_dev.mw_lock */

	struct snic_path path; /* to its peer; of a datagram QP, that of av_idx */
	u64 av_ctrl; /* first word of that vector when it was read; 0: none was */

	struct snic_mr *rx_mr; /* region of the last received packet; NULL between batches */
	u32 rx_stag;
	u32 rx_pd; /* that it was checked for */

	struct snic_req req;
	struct snic_resp resp;
};

static inline u32 snic_qp_mtu(const struct snic_qp *qp)
{
	return 1u << qp->mtu_shift;
}

/* Number of packets of a message of @len bytes; an empty one has one packet. */
static inline u32 snic_qp_pkts(const struct snic_qp *qp, u32 len)
{
	return len ? (u32)(((u64)len + snic_qp_mtu(qp) - 1) >> qp->mtu_shift) : 1;
}

static inline struct snic_out *snic_out_at(struct snic_req *req, u32 slot)
{
	return &req->out[slot % SNIC_OUT_MSGS];
}

static inline u32 snic_out_pkts(const struct snic_qp *qp, const struct snic_out *out)
{
	return out->flags & SNIC_OUT_LOCAL ? 0 : snic_qp_pkts(qp, out->len);
}

static inline bool snic_req_in_flight(const struct snic_req *req)
{
	return req->una != req->max;
}

/* Can the QP send requests and receive responses? */
static inline bool snic_qp_can_send(const struct snic_qp *qp)
{
	return qp->state == SIRDMA_QPS_RTS || qp->state == SIRDMA_QPS_SQD;
}

static inline bool snic_qp_can_receive(const struct snic_qp *qp)
{
	return qp->state >= SIRDMA_QPS_RTR && qp->state <= SIRDMA_QPS_SQE;
}

/* The QP @qpn with a reference, or NULL. Pair with snic_qp_put(). */
struct snic_qp *snic_qp_get(struct snic_dev *dev, u32 qpn);

static inline void snic_qp_put(struct snic_qp *qp)
{
	snic_obj_put(&qp->obj);
}

/* All below: QP lock held. */

/*
 * The region of @stag for a received packet, as by snic_mr_get(). The QP keeps the
 * reference until the next call for another region, or until the batch ends.
 */
struct snic_mr *snic_qp_rx_mr(struct snic_qp *qp, u32 pd, u32 stag, u64 va, u32 len, u8 access,
			      enum sirdma_ae_code *ae);
void snic_qp_put_rx_mr(struct snic_qp *qp);
void snic_qp_timer_init(struct snic_qp *qp);
/*
 * As snic_revoke(), of what this QP transmitted. The host looks at all its peers for that,
 * so it is not asked again before the QP has transmitted something new.
 */
void snic_qp_revoke(struct snic_qp *qp);
/* Reset indices, PSNs and messages to their state after creation. */
void snic_qp_reset(struct snic_qp *qp);
/* Move to ERR and flush all posted WQEs. Raises event @ae unless it is SIRDMA_AE_NONE. */
void snic_qp_fail(struct snic_qp *qp, enum sirdma_ae_code ae, enum sirdma_ae_source src);
/* A send failed: move to SQE or ERR, as the transport wants. */
void snic_qp_fail_send(struct snic_qp *qp);
/* In ERR, flush a batch of posted WQEs of both queues; in SQE, of the send queue. */
void snic_qp_flush(struct snic_qp *qp);
/* Flush the whole send queue at once: at most a ring of WQEs. */
void snic_qp_flush_sends(struct snic_qp *qp);
/* Have snic_qp_run() called soon. */
void snic_qp_defer(struct snic_qp *qp);
/* Do the work that state and queues allow now: flush, respond, send. */
void snic_qp_advance(struct snic_qp *qp);
/* In SQD, raise the event if the send queue is drained. */
void snic_qp_check_drained(struct snic_qp *qp);
/* Complete the send WQE of @out. False when the CQ cannot take it: the QP has failed then. */
bool snic_qp_complete_send(struct snic_qp *qp, const struct snic_out *out, u16 minor, u32 vendor);
/* Complete a receive WQE with @c. False: the same. */
bool snic_qp_complete_recv(struct snic_qp *qp, struct snic_completion *c);
/* Complete the fetched receive WQE in error. False: the same. */
bool snic_qp_fail_recv(struct snic_qp *qp, u16 minor, u32 vendor);

#endif
