/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Responder of RC: serves the peer's requests. QP lock held throughout. */
#ifndef SNIC_RESPONDER_H
#define SNIC_RESPONDER_H

#include "recv.h"

/* Handle a request packet. */
void snic_resp_rx(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx);
/* Send READ and atomic responses, and the acknowledgement that is due, in PSN order. */
void snic_resp_run(struct snic_qp *qp);
/* Received packets are dropped while an invalidation is under way: go on when it is done. */
void snic_resp_end_wait(struct snic_qp *qp);
/* Are responses or an acknowledgement due? */
static inline bool snic_resp_pending(const struct snic_qp *qp)
{
	return qp->resp.ack_due || qp->resp.rd_pending;
}

/*
 * read_resp.c
 *
 * "rd" in names is a READ or an atomic: the requests that are answered by a response with data, are
 * limited by ird, and are remembered for duplicates (struct snic_rd).
 */

/* A new READ request at epsn: check and queue it. */
enum snic_recv_verdict snic_read_request(struct snic_qp *qp, const struct snic_pkt *pkt);
/* May the peer have another READ or atomic unanswered? If not, the failure is recorded. */
bool snic_rd_has_room(struct snic_qp *qp);
/*
 * Queue the response of @len bytes to @pkt, a READ or atomic at epsn. The caller sets orig of an
 * atomic, which takes the place of va.
 */
struct snic_rd *snic_rd_accept(struct snic_qp *qp, const struct snic_pkt *pkt, u32 len);
/*
 * epsn moved on from @before: forget requests that ended a quarter of all PSNs ago. A lap later
 * their PSNs would be taken for those of other requests.
 */
void snic_rd_forget_old(struct snic_qp *qp, u32 before);
/* A duplicate request: answer it again if it is still remembered. */
void snic_rd_duplicate(struct snic_qp *qp, const struct snic_pkt *pkt);
/*
 * First PSN after @psn that an acknowledgement must not cover: the PSN of the next READ or atomic,
 * whose responses may have been lost, or epsn if there is none.
 */
u32 snic_rd_after(const struct snic_resp *resp, u32 psn);
/* Next READ or atomic to answer, in PSN order, or NULL. */
struct snic_rd *snic_rd_next(struct snic_qp *qp);

/* atomic.c */

/* A new atomic request at epsn: check and execute it, and queue its response. */
enum snic_recv_verdict snic_atomic_request(struct snic_qp *qp, const struct snic_pkt *pkt);

#endif
