/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs. Everything of a QP is protected by its lock. What it does is its
 * transport's (transport.h).
 *
 * Lock order: QP, then receive queue or CQ, then event queue. Host callbacks are made under the
 * QP lock.
 */
#ifndef SNIC_QP_H
#define SNIC_QP_H

#include "burst.h"
#include "cq.h"
#include "dev.h"
#include "packet.h"
#include "path.h"
#include "read_req.h"
#include "rq.h"
#include "wqe.h"
#include "sirdma/qpctx.h"
#include "sirdma/shadow.h"

#define SNIC_MAX_RD_ATOMIC 16 /* inbound READs a QP remembers */
#define SNIC_RD_REPEATS 8 /* repetitions of parts of them waiting to be answered */
#define SNIC_OUT_MSGS 128 /* messages in flight, power of two */
#define SNIC_MAX_MTU 4096
#define SNIC_DEFAULT_WINDOW (512 * 1024) /* bytes in flight */
#define SNIC_MAX_WINDOW 16384 /* packets in flight */
/* Below this many messages in flight the device sleeps and wants a kick. */
#define SNIC_AWAKE_MSGS 8
/*
 * Bursts sent under one hold of the QP's lock, for which packets that arrive wait in a
 * softirq: two of usual size are copied and summed in 60 us at 2 GB/s. snic_qp_run()
 * takes the lock so many times before it leaves the rest to the next bottom half.
 */
#define SNIC_HOLD_BURSTS 2
#define SNIC_RUN_HOLDS 4
/* A request for an acknowledgement at least this often, packets. */
#define SNIC_ACKREQ_PKTS 16
/* Acknowledgements owed before they are sent although more packets follow. */
#define SNIC_ACK_COALESCE 32
/*
 * A long READ is asked for in pieces, each a READ request of its own, so that the
 * window bounds what the responder may send at once. At most this many bytes.
 */
#define SNIC_READ_CHUNK (128 * 1024)
/* Completions that one run flushes. */
#define SNIC_FLUSH_BATCH 512

/* A message with PSNs assigned and not yet completed. */
struct snic_out {
	u32 psn; /* first */
	u32 len;
	u16 idx; /* of the WQE, quanta */
	u8 op; /* enum sirdma_sq_op */
	u8 flags; /* SNIC_OUT_* */
};

#define SNIC_OUT_SIGNALED 0x01
#define SNIC_OUT_POLARITY 0x02 /* valid bit of the WQE's lap */
#define SNIC_OUT_LOCAL 0x04 /* takes no PSN */
#define SNIC_OUT_FAILED 0x08 /* completes with snic_req.fail_* once it is the oldest */

/*
 * Requester. out[] is a ring of free-running indices: head is the oldest
 * message, cur the one nxt lies in (== tail: none), tail the next free slot.
 */
struct snic_req {
	u32 una; /* oldest PSN not acknowledged */
	u32 nxt; /* next PSN to send; behind max after a restart */
	u32 max; /* one beyond the highest PSN ever sent */
	u32 psn; /* first PSN of the next new message */
	u32 sq_idx; /* next quantum to fetch */
	u32 sq_shown; /* what the shadow area says it is */
	u32 head, cur, tail;
	u32 read_msgs; /* READ messages in out[] (fence) */
	u32 cwnd; /* packets that may be in flight */
	u32 ssthresh; /* up to here cwnd doubles in each round trip */
	u32 grow; /* packets acknowledged and not yet turned into cwnd */
	u32 probe; /* after an RNR wait, packets that may be in flight; 0: cwnd */
	u32 unasked; /* packets since the last AckReq */
	u32 polled_idx; /* sq_idx when the poll timer was armed last */
	u32 kick_epsn; /* resp.epsn at the last kick */
	u32 sqe_slot; /* out[] index sqe was decoded for */
	u32 rd_slot; /* same for rd_sqe */
	u32 absent_psn; /* what could not be sent, or placed, for want of memory */
	u32 lost_dist; /* distance from una of the answer that told of the loss */
	u64 deadline; /* of the ACK timer, or of the wait */
	u32 fail_vendor;
	u16 fail_minor;
	u8 retry_left;
	u8 rnr_left;
	u8 rnr_tries; /* RNR NAKs since una moved */
	u8 kicks_ahead; /* in a row, by a poster that did not wait */
	bool last_signaled; /* the last message done has a completion */
	bool sq_polarity;
	bool sqe_valid;
	bool rd_valid;
	bool failed; /* a message is SNIC_OUT_FAILED: start no others */
	bool rnr_wait; /* nothing is sent: the peer was not ready, or absent_wait */
	bool absent_wait; /* memory of our own is absent */
	u8 absent_waits; /* for what absent_psn begins with */
	bool restarted; /* a loss was noticed, una has not moved since */
	bool awake; /* need_kick is 0 */
	struct snic_sqe sqe; /* of out[cur], being sent */
	struct snic_sqe rd_sqe; /* of out[head], a READ being received */
	struct snic_out out[SNIC_OUT_MSGS];
	struct snic_reads reads;
};

/* An inbound READ, or a part of one asked for again: waiting, being answered, or kept. */
struct snic_rd {
	u64 va;
	u32 rkey;
	u32 len;
	u32 psn; /* first response */
	u32 msn;
	u32 pos; /* next response */
	bool used;
	bool todo;
	bool done; /* was answered completely, or is asked for again */
};

struct snic_resp {
	u32 epsn; /* next PSN expected */
	u32 msn;
	u32 ack_psn; /* of the acknowledgement owed */
	u32 nak_cause; /* PSN ahead of epsn that made us NAK */
	u32 owed; /* acknowledgements folded into the one owed */
	u32 recv_len; /* bytes of this message placed */
	u32 wr_rkey; /* RDMA WRITE in progress */
	u32 wr_left;
	u32 wr_total;
	u64 wr_va;
	u32 rd_tail; /* slot of the next READ */
	u32 rd_todo; /* how many of rd[] are todo */
	u32 fail_ae; /* enum sirdma_ae_code */
	u32 fail_vendor;
	u16 fail_minor; /* of the receive WQE; 0: none fails */
	u8 ack_syndrome;
	u8 in_msg; /* SNIC_PKT_SEND or _WRITE while between FIRST and LAST */
	bool ack_due;
	bool nak_sent; /* stay silent about PSNs ahead until epsn arrives */
	bool fatal; /* the owed NAK is the last packet: error state follows */
	bool rqe_valid; /* rqe is taken from the ring and not completed */
	bool absent; /* the next READ's memory is: wait for a repetition or the doorbell */
	bool comm_est;
	struct snic_rqe rqe;
	struct snic_rd rd[SNIC_MAX_RD_ATOMIC + SNIC_RD_REPEATS]; /* the latest, repetitions */
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
	struct port_timer timer; /* the transport's */
	struct port_timer sq_poll; /* sq_poll.h */
	u64 compl_ctx;
	struct snic_ring sq_ring;
	struct snic_rq own_rq;
	struct snic_rq *rq; /* what it receives from */
	u32 sq_quanta;
	u32 pd;
	u8 type; /* enum sirdma_qp_type */
	u8 queue_flags; /* SIRDMA_QPC_* */
	u8 state; /* enum sirdma_qp_state; RESET from the start of destruction on */
	bool timer_armed; /* or it fired, and timer_due is to be served */
	bool timer_due;
	bool sq_poll_armed;
	bool tx_stalled; /* no room(), or tx() was short: snic_tx_resume() will come */
	bool deferred; /* the host will call snic_qp_run() */
	bool in_run; /* snic_qp_run() has the lock, and takes it again if asked */
	bool run_again; /* it was asked */
	bool flush_deferred; /* the same, in the background */
	bool sqd_event;

	struct snic_limits limits; /* of its peer */

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
	u32 sq_psn; /* as modified; the requester counts from here */
	u32 rq_psn;

	struct snic_path path; /* of a connected QP: to its peer */

	/* Region of the last packet of a batch; none between batches */
	struct snic_mr *rx_mr;
	u32 rx_stag;

	struct snic_req req;
	struct snic_resp resp;
};

static inline u32 snic_qp_mtu(const struct snic_qp *qp)
{
	return 1u << qp->mtu_shift;
}

/* Packets of @len bytes; an empty message takes one. */
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

/* Can the QP send requests, or hear their answers? */
static inline bool snic_qp_can_send(const struct snic_qp *qp)
{
	return qp->state == SIRDMA_QPS_RTS || qp->state == SIRDMA_QPS_SQD;
}

static inline bool snic_qp_can_receive(const struct snic_qp *qp)
{
	return qp->state >= SIRDMA_QPS_RTR && qp->state <= SIRDMA_QPS_SQE;
}

/* Referenced QP, or NULL. */
struct snic_qp *snic_qp_get(struct snic_dev *dev, u32 qpn);

static inline void snic_qp_put(struct snic_qp *qp)
{
	snic_obj_put(&qp->obj);
}

/* All below: QP lock held. */

/*
 * The region of @stag for a received packet, as by snic_mr_get(). It is the QP's
 * until another one is asked for or the batch ends.
 */
struct snic_mr *snic_qp_rx_mr(struct snic_qp *qp, u32 stag, u64 va, u32 len, u8 access,
			      enum sirdma_ae_code *ae);
void snic_qp_drop_mr(struct snic_qp *qp);
void snic_qp_timer_init(struct snic_qp *qp);
/* Clear rings, PSNs and messages, as after creation. */
void snic_qp_reset(struct snic_qp *qp);
/* To the error state: everything posted is flushed. Raises @ae unless NONE. */
void snic_qp_fail(struct snic_qp *qp, enum sirdma_ae_code ae, enum sirdma_ae_source src);
/* A send failed: to the state in which the transport's send queue is in error. */
void snic_qp_fail_send(struct snic_qp *qp);
/* Error states: flush what was posted, a batch at a time; in SQE, to the send queue. */
void snic_qp_flush(struct snic_qp *qp);
/* All of the send queue's at once, at most a ring. */
void snic_qp_flush_sends(struct snic_qp *qp);
/* Have snic_qp_run() called soon. */
void snic_qp_defer(struct snic_qp *qp);
/* Do whatever the state and the queues allow now. */
void snic_qp_advance(struct snic_qp *qp);
/* Send queue drained? Then tell who asked. */
void snic_qp_check_drained(struct snic_qp *qp);
/* Complete the send WQE at @out; false when the CQ is dead (the QP has failed then). */
bool snic_qp_complete_send(struct snic_qp *qp, const struct snic_out *out, u16 minor, u32 vendor);
/* Complete @c on the receive queue; same. */
bool snic_qp_complete_recv(struct snic_qp *qp, struct snic_completion *c);
/* The receive WQE in hand fails; false: so did the queue pair, for nobody could be told. */
bool snic_qp_fail_recv(struct snic_qp *qp, u16 minor, u32 vendor);

#endif
