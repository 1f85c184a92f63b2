/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requester: send queue to request packets. QP lock held throughout. */
#ifndef SNIC_REQUESTER_H
#define SNIC_REQUESTER_H

#include "qp.h"

/* RTS entered from RTR: count from the modified PSN. */
void snic_req_start(struct snic_qp *qp);
/* Send what may be sent; go to sleep when there is nothing. */
void snic_req_run(struct snic_qp *qp);
/* Send again from @psn (una <= @psn <= nxt) on, or skip to it when nxt fell behind. */
void snic_req_seek(struct snic_qp *qp, u32 psn);
/* Send everything from una on again. */
void snic_req_restart(struct snic_qp *qp);
/* Message @out fails with @minor once everything before it is complete. */
void snic_req_mark_failed(struct snic_qp *qp, struct snic_out *out, u16 minor, u32 vendor);
/*
 * Decode the WQE of message @slot again. False, and the message marked failed,
 * when the ring no longer holds what was sent.
 */
bool snic_req_reload(struct snic_qp *qp, u32 slot, struct snic_sqe *sqe);

#endif
