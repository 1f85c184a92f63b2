/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Polling the send queue by timer while posts keep arriving.
 *
 * A kick is a system call in which the message is sent, received and acknowledged. That is the
 * shortest path for a message whose poster waits for it, and an expensive one for a stream of short
 * messages. So when a poster does not wait, the device asks for no kicks and polls the ring by a
 * timer: the requests that were posted meanwhile leave in one burst. The timer stops after a few
 * empty periods (SQ_POLL_CREDIT).
 */
#ifndef SNIC_SQ_POLL_H
#define SNIC_SQ_POLL_H

#include "qp.h"

void snic_sq_poll_init(struct snic_qp *qp);

/* The functions below need the QP lock. */

/* Called for each kick, before the ring is read. */
void snic_sq_poll_kicked(struct snic_qp *qp);
/* The ring is empty. Returns true if the timer will poll it again. */
bool snic_sq_poll_stay(struct snic_qp *qp);
/* The QP leaves the states in which it can send. */
void snic_sq_poll_stop(struct snic_qp *qp);

#endif
