/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requester of RC: send queue to request packets. QP lock held throughout. */
#ifndef SNIC_REQUESTER_H
#define SNIC_REQUESTER_H

#include "send.h"

/* RTS entered from RTR: start at the send PSN that modify set. */
void snic_req_start(struct snic_qp *qp);
/* Send what window and host allow; when the send queue is empty, ask for a kick. */
void snic_req_run(struct snic_qp *qp);
/* Send one burst. */
enum snic_send_stop snic_req_burst(struct snic_qp *qp);
/*
 * Continue sending at @psn: back to retransmit, or forward when answers overtook a
 * retransmission.
 */
void snic_req_seek(struct snic_qp *qp, u32 psn);
/* Retransmit from una on. */
void snic_req_restart(struct snic_qp *qp);

#endif
