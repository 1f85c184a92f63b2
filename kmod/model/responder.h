/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Responder of RC: serves the peer's requests. QP lock held throughout. */
#ifndef SNIC_RESPONDER_H
#define SNIC_RESPONDER_H

#include "recv.h"

struct snic_tx;

/* Handle a request packet. */
void snic_resp_rx(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx);
/* The same for an XRC target: snic_xrc_execute() (xrc.h) executes the requests. */
void snic_resp_rx_xrc(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx);
/* An acknowledgement of everything before @psn is due. */
void snic_resp_owe_ack(struct snic_resp *resp, u32 psn);
/* Execute the request that is expected next. */
enum snic_recv_verdict snic_resp_execute(struct snic_qp *qp, const struct snic_pkt *pkt,
					 const struct snic_rx_pkt *rx);
/* Send responses, and the acknowledgement that is due, in PSN order. */
void snic_resp_run(struct snic_qp *qp);
/*
 * The responder drops received packets while an invalidation is under way: go on when it is done.
 */
void snic_resp_end_wait(struct snic_qp *qp);
/* Are responses or an acknowledgement due? */
static inline bool snic_resp_pending(const struct snic_qp *qp)
{
	return qp->resp.ack_due || qp->resp.rd_pending;
}

/* A message that did not ask for an acknowledgement was received. */
void snic_resp_linger(struct snic_qp *qp);
/* Acknowledge it now. */
void snic_resp_end_linger(struct snic_qp *qp);
/*
 * Is an acknowledgement due that may follow requests? A process of the twin runs the device when it posts,
 * and what it posts is usually the answer that its peer waits for. Large requests would delay it.
 */
static inline bool snic_resp_ack_can_follow(const struct snic_qp *qp)
{
	const struct snic_resp *resp = &qp->resp;
	const struct snic_req *req = &qp->req;

	return PORT_WIRE_IN_MEMORY && resp->ack_due && qp->limits.near && !resp->nak_sent &&
	       !resp->fatal && !resp->rd_pending && !resp->absent && !resp->inv_wait &&
	       req->nxt == req->max && snic_qp_can_receive(qp);
}

/*
 * Append that acknowledgement to a burst of small requests. Returns false if they are not small, or not whole,
 * or if there is no room.
 */
bool snic_resp_add_ack(struct snic_tx *tx);
/* The acknowledgement was sent. */
void snic_resp_ack_sent(struct snic_qp *qp);

/*
 * read_resp.c
 *
 * "rd" in names is a READ, an atomic, a FLUSH or an ATOMIC WRITE: the requests that are answered by
 * responses of their own, are limited by ird, and are remembered for duplicates (struct snic_rd).
 */

/* Check and queue a new READ request at epsn. */
enum snic_recv_verdict snic_read_request(struct snic_qp *qp, const struct snic_pkt *pkt);
/* May the peer have another such request unanswered? If not, the failure is recorded. */
bool snic_rd_has_room(struct snic_qp *qp);
/*
 * Queue the response to @pkt, at epsn. The caller sets orig of an atomic, which takes
 * the place of va.
 */
struct snic_rd *snic_rd_accept(struct snic_qp *qp, const struct snic_pkt *pkt);
/*
 * epsn moved on from @before: forget requests that ended a quarter of all PSNs ago. A lap later
 * their PSNs would be taken for those of other requests.
 */
void snic_rd_forget_old(struct snic_qp *qp, u32 before);
/* Handle a duplicate request: answer it again if it is still remembered. */
void snic_rd_duplicate(struct snic_qp *qp, const struct snic_pkt *pkt);
/*
 * First PSN after @psn that an acknowledgement must not cover: the PSN of the next such request,
 * whose responses may have been lost, or epsn if there is none.
 */
u32 snic_rd_after(const struct snic_resp *resp, u32 psn);
/* Next request to answer, in PSN order, or NULL. */
struct snic_rd *snic_rd_next(struct snic_qp *qp);

/* flush.c */

/* Check and execute a new FLUSH at epsn, and queue its response. */
enum snic_recv_verdict snic_flush_request(struct snic_qp *qp, const struct snic_pkt *pkt);

/* atomic.c */

/* Check and execute a new atomic request at epsn, and queue its response. */
enum snic_recv_verdict snic_atomic_request(struct snic_qp *qp, const struct snic_pkt *pkt);
/* The same for an ATOMIC WRITE. */
enum snic_recv_verdict snic_atomic_write_request(struct snic_qp *qp, const struct snic_pkt *pkt,
						 const struct snic_rx_pkt *rx);

#endif
