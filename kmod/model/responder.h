/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Responder of RC: serves the peer's requests. QP lock held throughout. */
#ifndef SNIC_RESPONDER_H
#define SNIC_RESPONDER_H

#include "recv.h"

/* Handle a request packet. */
void snic_resp_rx(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx);
/* Send READ responses and the acknowledgement that is due, in PSN order. */
void snic_resp_run(struct snic_qp *qp);
/* Are READ responses or an acknowledgement due? */
bool snic_resp_pending(const struct snic_qp *qp);

/* read_resp.c */

/* A new READ request at epsn: check and queue it. */
enum snic_recv_verdict snic_rd_request(struct snic_qp *qp, const struct snic_pkt *pkt);
/* A duplicate READ request: answer it again if the READ is still remembered. */
void snic_rd_duplicate(struct snic_qp *qp, const struct snic_pkt *pkt);
/*
 * First PSN after @psn that an acknowledgement must not cover: the PSN of the next READ,
 * whose responses may have been lost, or epsn if there is none.
 */
u32 snic_rd_after(const struct snic_resp *resp, u32 psn);
/* Next READ to answer, in PSN order, or NULL. */
struct snic_rd *snic_rd_next(struct snic_qp *qp);

#endif
