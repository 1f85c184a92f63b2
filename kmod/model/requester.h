/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requester of RC: send queue to request packets. QP lock held throughout. */
#ifndef SNIC_REQUESTER_H
#define SNIC_REQUESTER_H

#include "send.h"

/* RTS entered from RTR: count from the modified PSN. */
void snic_req_start(struct snic_qp *qp);
/* Send what may be sent; go to sleep when there is nothing. */
void snic_req_run(struct snic_qp *qp);
/* One burst of it. */
enum snic_send_stop snic_req_burst(struct snic_qp *qp);
/* Send again from @psn (una <= @psn <= nxt) on, or skip to it when nxt fell behind. */
void snic_req_seek(struct snic_qp *qp, u32 psn);
/* Send everything from una on again. */
void snic_req_restart(struct snic_qp *qp);

#endif
