/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs. The lock of a QP protects all of it. The transport (transport.h) has the parts that
 * depend on the QP's type.
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
#include "prq.h"
#include "read_req.h"
#include "rq.h"
#include "srq.h"
#include "wqe.h"
#include "sirdma/qpctx.h"
#include "sirdma/shadow.h"

/*
 * These numbers bound the memory of a QP (scripts/accept footprint) and what it has in flight. They
 * were not tuned. With them struct snic_qp takes 4 KiB, the size of a slab object.
 */
#define SNIC_MAX_RD_ATOMIC 16 /* inbound READs and atomics that a QP remembers for duplicates */
/*
 * Repeated requests for parts of READs that are not answered yet. The requester retransmits a
 * request for which there is no place.
 */
#define SNIC_RD_REPEATS 6
#define SNIC_OUT_MSGS 128 /* messages in flight, power of two; 12 bytes of memory each */
#define SNIC_DEFAULT_WINDOW (512 * 1024) /* bytes in flight: eight bursts */
/*
 * Packets in flight: 4 MiB with the least path MTU, and far less than the half of the PSNs that are
 * newer than a given one.
 */
#define SNIC_MAX_WINDOW 16384
/*
 * With fewer messages in flight than this, an empty send queue asks for a kick; with more, the
 * acknowledgements that come soon, if one was asked for, make the device read the queue again. Not tuned.
 */
#define SNIC_AWAKE_MSGS 8
/*
 * Bursts of responses that are sent while the QP's lock is held once, and bursts of requests as well.
 * Received packets wait for the lock in a softirq: two bursts of default size are copied and summed in
 * 60 us at 2 GB/s, and a QP that both responds and requests sends four.
 * snic_qp_run() takes the lock SNIC_RUN_HOLDS times, and leaves the rest to the next
 * bottom half: eight bursts are a whole window (SNIC_DEFAULT_WINDOW). UC and UD have no window, so
 * that this alone bounds a kick. Eight bursts of short packets take 0.9 ms by instructions; with 64
 * holds a kick takes 12 ms (scripts/accept hold-times).
 */
#define SNIC_HOLD_BURSTS 2
#define SNIC_RUN_HOLDS 4
/*
 * An acknowledgement is requested at least once in this many packets, and four times in a window.
 * Not tuned.
 */
#define SNIC_ACKREQ_PKTS 16
/*
 * This many coalesced acknowledgements make the responder send one although more packets follow: two
 * of the requester's intervals (SNIC_ACKREQ_PKTS). Not tuned.
 */
#define SNIC_ACK_COALESCE 32
/*
 * A long READ is split into several READ requests, so that the window limits the bytes that the
 * responder sends at once. This is the longest request, bytes: a quarter of SNIC_DEFAULT_WINDOW. Not tuned
 * but by snic_config.read_bytes.
 */
#define SNIC_READ_CHUNK (128 * 1024)
/*
 * Completions that one run flushes. The background flushes the rest. The number bounds how long the
 * QP's lock is held (scripts/accept hold-times). Not tuned.
 */
#define SNIC_FLUSH_BATCH 512

/* A message whose PSNs are assigned and which is not completed. */
struct snic_out {
	u32 psn; /* first PSN */
	u32 len;
	u16 idx; /* ring position of the WQE, quanta */
	u8 op; /* enum sirdma_sq_op */
	u8 flags; /* SNIC_OUT_* */
};

#define SNIC_OUT_SIGNALED 0x01
#define SNIC_OUT_POLARITY 0x02 /* valid bit of the WQE's lap */
#define SNIC_OUT_LOCAL 0x04 /* nothing is sent: the message has no PSN */
#define SNIC_OUT_FAILED 0x08 /* the message completes with snic_req.fail_* once it is the oldest */
#define SNIC_OUT_TODO 0x10 /* the message completes after a key operation (key_op.h) */
#define SNIC_OUT_STARTED 0x20 /* that key operation is under way */
#define SNIC_OUT_REFUSED 0x40 /* the host has refused to execute the message: it has to be sent */
#define SNIC_OUT_UNSIGNALED 0x80 /* a SEND or WRITE of one packet (small.h), without completion */

/* Why the requester sends nothing until its deadline; SNIC_WAIT_HOST has none. */
enum snic_req_wait {
	SNIC_WAIT_NONE,
	SNIC_WAIT_RNR,
	SNIC_WAIT_ABSENT, /* local memory is absent */
	SNIC_WAIT_HOST, /* the host executes the current message (one_sided.h) */
};

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
	u32 rd_atomic_msgs; /* messages in out[] with responses of their own (fence) */
	u32 cwnd; /* packets that may be in flight */
	u16 ask_after; /* packets after which an acknowledgement is asked for */
	u16 cut_left; /* packets that were in flight when cwnd was reduced last, and still are */
	u32 ssthresh; /* below it, cwnd doubles in each round trip */
	u32 grow; /* packets acknowledged that have not yet increased cwnd */
	u32 probe; /* after an RNR wait, packets that may be in flight; 0: cwnd */
	u32 unasked; /* packets since the last AckReq, see snic_req_was_asked() */
	u32 polled_tail; /* tail when the poll timer was armed last */
	u32 kick_epsn; /* resp.epsn at the last kick */
	u32 sqe_slot; /* out[] index of sqe */
	u32 rd_slot; /* out[] index of rd_sqe */
	u32 absent_psn; /* PSN not sent, or response not placed: memory was absent */
	u32 lost_dist; /* distance from una of the answer that showed the loss */
	u64 deadline; /* end of the ACK timeout, or of the wait */
	u64 one_sided_note; /* of the host, see struct snic_one_sided */
	const void *executes; /* identifies the execution that SNIC_WAIT_HOST waits for */
	u32 nak_psn; /* PSN that the kept NAK refused */
	u32 fail_vendor;
	u16 fail_minor;
	u8 retry_left;
	u8 rnr_left;
	u8 rnr_tries; /* RNR NAKs since una moved, or a response came */
	u8 kicks_ahead; /* consecutive kicks by a poster that did not wait (sq_poll.c) */
	u8 poll_credit; /* credit that periods of the poll timer use up (sq_poll.c) */
	u8 poll_found; /* messages that the timer found, SQ_POLL_STREAM at most */
	bool last_signaled; /* the last completed message had a CQE */
	bool sq_polarity;
	bool sqe_valid;
	bool rd_valid;
	bool failed; /* a message is SNIC_OUT_FAILED: no other message starts */
	u8 wait; /* enum snic_req_wait */
	u8 absent_waits; /* how often the requester has waited for absent_psn */
	bool repeats_last : 1; /* see snic_req_request_ack() */
	bool restarted : 1; /* retransmitting: una has not moved since the loss was detected */
	bool awake; /* need_kick is 0: a post needs no kick */
	bool local_done; /* a local operation is done, so later messages may start */
	bool inv_wait; /* out[head] is acknowledged, but waits for an invalidation */
	bool answers_dropped : 1; /* answers were dropped: their requests have to be repeated */
	bool nak_kept : 1; /* a dropped answer was the NAK nak_code, by which the peer failed */
	u8 nak_code;
	u8 fast_regs; /* FAST_REGs that this burst executed */
	u8 one_sided_skip; /* requests to send before one-sided execution is tried again (one_sided.c) */
	u8 one_sided_pause; /* value of one_sided_skip after the last refusal; 0: the host did not refuse */
	struct snic_sqe sqe; /* WQE of out[cur], which is being sent */
	struct snic_sqe rd_sqe; /* WQE of out[head]: READ, atomic or key operation (key_op.h) */
	struct snic_out out[SNIC_OUT_MSGS];
	struct snic_reads reads;
};

/*
 * An inbound READ, a repeated request for a part of one, an atomic, FLUSH or ATOMIC WRITE: pending
 * until its last response is sent, then kept for duplicates.
 */
struct snic_rd {
	union {
		u64 va; /* address of a READ */
		u64 orig; /* value that the memory held before the atomic, which is executed once */
	};
	u32 rkey;
	u32 len; /* bytes of the responses */
	u32 psn; /* PSN of the first response */
	u32 msn;
	u32 pos; /* index of the next response */
	bool used; /* the request is remembered */
	bool pending; /* the responder has to send responses */
	bool done : 1; /* answered completely, or a duplicate: does not count against ird */
	bool rnr_due : 1; /* repeated since the last RNR NAK */
	bool sent : 1; /* the host took all responses */
	bool answered : 1; /* it had taken them before the request was repeated */
	u8 opcode; /* opcode of the request */
};

struct snic_resp {
	u32 epsn; /* next expected PSN */
	u32 msn;
	u32 ack_psn; /* PSN of the acknowledgement that is due */
	u32 nak_cause; /* PSN that caused the last NAK */
	u32 owed; /* answers that were coalesced since the last transmission */
	u32 recv_len; /* bytes of the current SEND that are placed */
	union {
		u32 wr_rkey; /* R_Key of the current RDMA WRITE */
		u32 inv_stag; /* key that the SEND with invalidate names */
	};
	u32 wr_left; /* bytes of the WRITE that are not placed yet */
	u32 wr_total;
	u32 rd_tail; /* rd[] index of the next READ or atomic, free-running */
	u64 wr_va;
	u32 rd_pending; /* entries of rd[] that are pending */
	u32 rd_new; /* PSN of the first response that was never sent, while an entry is pending */
	u16 fail_ae; /* event that reports the failure, enum sirdma_ae_code */
	u16 cnp_interval; /* number of the interval of the last CNP, modulo 2^16 (cnp.c) */
	u32 fail_vendor;
	u16 fail_minor; /* error of the receive WQE; 0: it does not fail */
	u8 ack_syndrome;
	u8 in_msg; /* between FIRST and LAST: SNIC_PKT_SEND or SNIC_PKT_WRITE, else 0 */
	bool ack_due;
	bool nak_sent; /* a NAK is sent or due: the responder sends no other until epsn arrives */
	bool nak_nearer; /* nak_cause is before the PSN that caused the NAK before */
	bool fatal; /* the NAK that is due is the last packet; the QP fails then */
	bool rqe_valid; /* rqe was fetched and has not completed */
	bool absent; /* memory of the next READ is absent: wait as rd_absent() says */
	bool unacked : 1; /* a message was received since the last acknowledgement, which did not ask for one */
	bool lingers : 1; /* the host will call snic_qp_acknowledge() */
	bool comm_est; /* the communication established event was raised */
	bool inv_wait; /* a SEND with invalidate completes when its key is invalid; drop packets */
	bool inv_started; /* the invalidation is under way; else it waits for earlier READs */
	bool inv_dropped; /* a packet was dropped meanwhile */
	u8 inv_op; /* opcode of that SEND */
	bool inv_solicited;
	struct snic_rqe rqe;
	/* The latest READs and atomics, then repeated requests for parts of READs. */
	struct snic_rd rd[SNIC_MAX_RD_ATOMIC + SNIC_RD_REPEATS];
};

struct snic_transport;
struct snic_xrc;

struct snic_qp {
	struct snic_obj obj;
	const struct snic_transport *transport;
	struct port_lock lock;
	u32 sq_quanta;
	struct snic_dev *dev;
	struct snic_cq *send_cq;
	struct snic_cq *recv_cq; /* of an XRC target: see xrc.h */
	struct sirdma_qp_shadow *shadow;
	/* Timer of the transport: timer_due(), timer_expired(). The responder asks again for memory by it. */
	struct port_timer timer;
	struct port_timer sq_poll; /* poll timer, see sq_poll.h */
	u64 compl_ctx;
	struct snic_aeq_events async;
	struct snic_ring sq_ring;
	struct snic_srq *srq; /* NULL: a receive queue of its own, or an XRC target (xrc.h) */
	struct snic_srq_share srq_share; /* protected by the lock of srq */
	struct snic_rq own_rq;
	u32 pd; /* of an XRC target: see xrc.h */
	u32 recv_pd; /* PD of the memory that receive WQEs name */
	u8 type; /* enum sirdma_qp_type */
	u8 queue_flags; /* SIRDMA_QPC_* */
	u8 state; /* enum sirdma_qp_state; RESET from the start of destruction on */
	bool timer_armed; /* the timer is armed, or it fired and timer_due is set */
	bool timer_due; /* snic_qp_advance() calls timer_expired() */
	bool sq_poll_armed;
	bool tx_stalled; /* the host has no room: it will call snic_tx_resume() */
	bool deferred; /* the host will call snic_qp_run() */
	bool in_run; /* snic_qp_run() runs; it runs again if run_again is set */
	bool run_again; /* there is more work */
	bool flush_deferred; /* there is more background work */
	bool rung; /* set by snic_qp_ring(), which does not take the lock */
	bool inv_drained; /* set without the lock when an invalidation that the QP waits for is done */
	bool ack_follows; /* an acknowledgement is due, and waits for the requests that are being sent */
	bool sqd_event : 1; /* raise an event when the send queue is drained */
	bool last_wqe_raised : 1; /* the LAST_WQE_REACHED event was raised */
	bool referenced; /* peers may read payload that it transmitted: only with PORT_WIRE_IN_MEMORY */
	bool kept[SNIC_SIDES]; /* the host may keep payload that it transmitted (kept.h) */
	bool kept_unacked; /* some of that is of requests that are not acknowledged */

	struct snic_limits limits; /* limits that the host set for the peer */

	/* Attributes */
	u8 mtu_shift;
	u8 min_rnr_timer;
	u8 retry_cnt;
	u8 rnr_retry;
	u8 ack_timeout;
	u8 ord;
	u8 ird;
	u16 pkey;
	u16 flush_left; /* WQEs that snic_qp_flush_sends() still flushes; 0: none */
	u32 kept_end; /* kept_unacked: the PSN after the last of them */
	u32 access;
	u32 dest_qpn;
	u32 qkey;
	u32 sq_psn; /* send PSN as modify set it; the requester starts here */
	u32 rq_psn; /* the same for the responder */

	u32 av_idx; /* a datagram QP's last address vector */
	u32 kicker; /* see struct sirdma_qp_ctx */
	u32 turn_msn; /* the MSN at the last snic_qp_takes_turns() */

	struct snic_xrc *xrc; /* of an XRC target, else NULL */
	struct snic_inv *inv; /* [SNIC_INVS] */

	struct snic_path path; /* path to the peer; of a datagram QP: the path of av_idx */
	u64 av_ctrl; /* first word of that vector when it was read; 0: none was read */

	struct snic_page_asks asks;
	struct snic_list_link domain_link; /* domain.h */
	struct snic_rx_mem *rx_mem; /* memory of the batch with the lock; NULL between batches */

	struct snic_req req;
	struct snic_resp resp;
	struct snic_mw *windows; /* type 2 windows that the QP has bound, under snic_dev.mw_lock */
};

static inline u32 snic_qp_mtu(const struct snic_qp *qp)
{
	return 1u << qp->mtu_shift;
}

/* The number of packets of a message of @len bytes. An empty message has one packet. */
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

/* The QP @qpn with a reference, or NULL. The caller drops the reference by snic_qp_put(). */
struct snic_qp *snic_qp_get(struct snic_dev *dev, u32 qpn);

static inline void snic_qp_put(struct snic_qp *qp)
{
	snic_obj_put(&qp->obj);
}

/* All below: QP lock held. */

/*
 * The region of @stag for a received packet, as by snic_mr_get(). The batch keeps the reference
 * until the next call for another region, or until it ends.
 */
struct snic_mr *snic_qp_rx_mr(struct snic_qp *qp, u32 pd, u32 stag, u64 va, u32 len, u8 access,
			      enum sirdma_ae_code *ae);
/* The same for the PD of the QP, but a violation is neither counted nor named. */
struct snic_mr *snic_qp_try_rx_mr(struct snic_qp *qp, u32 stag, u64 va, u32 len, u8 access);
void snic_qp_put_rx_mr(struct snic_qp *qp);
void snic_qp_timer_init(struct snic_qp *qp);

/* From the return on, nobody reads payload of requests, or responses, of this QP that the host keeps. */
static inline void snic_qp_finish_kept(struct snic_qp *qp, enum snic_side side)
{
	if (!qp->kept[side])
		return;
	qp->kept[side] = false;
	if (side == SNIC_REQUESTER)
		qp->kept_unacked = false;
	snic_dev_ops(qp->dev)->finish_kept(qp->dev->host, qp->obj.id, side);
}

/*
 * From the return on, nobody reads payload of this QP's requests by reference. Where the wire is memory
 * the same holds for responses; the host looks at all its peers for that, so the QP does not ask it again
 * before it has transmitted something new.
 */
static inline void snic_qp_finish_requests(struct snic_qp *qp)
{
	snic_qp_finish_kept(qp, SNIC_REQUESTER);
	if (!PORT_WIRE_IN_MEMORY || !qp->referenced)
		return;
	qp->referenced = false;
	snic_finish_references(qp->dev);
}

/* The same for all payload that this QP transmitted by reference. */
static inline void snic_qp_finish_references(struct snic_qp *qp)
{
	snic_qp_finish_requests(qp);
	snic_qp_finish_kept(qp, SNIC_RESPONDER);
}
/* Reset indices, PSNs and messages to the values that they have after creation. */
void snic_qp_reset(struct snic_qp *qp);
/* Move to ERR and flush all posted WQEs. Raise event @ae unless it is SIRDMA_AE_NONE. */
void snic_qp_fail(struct snic_qp *qp, enum sirdma_ae_code ae, enum sirdma_ae_source src);
/* A send failed: move to SQE or ERR, as the transport wants. */
void snic_qp_fail_send(struct snic_qp *qp);
/* In ERR, flush a batch of posted WQEs of both queues. In SQE, flush a batch of the send queue. */
void snic_qp_flush(struct snic_qp *qp);
/*
 * In SQE, flush at most SIRDMA_CQP_MODIFY_FLUSHES WQEs of the send queue. Returns false if there
 * are more. Returns true if none is left, or if a whole ring was flushed since the first call,
 * since applications may post behind the flushed WQEs.
 */
bool snic_qp_flush_sends(struct snic_qp *qp);
/* Make the host call snic_qp_run() soon. */
void snic_qp_defer(struct snic_qp *qp);
/* Do the work that state and queues allow now: flush, respond, send. */
void snic_qp_advance(struct snic_qp *qp);
/* In SQD, raise the event if the send queue is drained. */
void snic_qp_check_drained(struct snic_qp *qp);
/*
 * Complete the send WQE of @out. Returns false if the CQ cannot take the completion: the QP has
 * failed then.
 */
bool snic_qp_complete_send(struct snic_qp *qp, const struct snic_out *out, u16 minor, u32 vendor);
/* Complete a receive WQE with @c. Returns false as snic_qp_complete_send() does. */
bool snic_qp_complete_recv(struct snic_qp *qp, struct snic_completion *c);
/* Complete the fetched receive WQE in error. Returns false as snic_qp_complete_send() does. */
bool snic_qp_fail_recv(struct snic_qp *qp, u16 minor, u32 vendor);

#endif
