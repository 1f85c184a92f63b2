/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Looking out for work instead of being kicked.
 *
 * A kick is a system call in which the message is sent, received and
 * acknowledged: the shortest way for one that is waited for, but dear for a
 * stream of short messages, each of which makes the whole way alone. So a device that
 * sees a poster run ahead of it stays awake and looks at the ring by a timer; what
 * gathered meanwhile leaves together. One look in vain, and it sleeps again.
 */
#ifndef SNIC_LOOKOUT_H
#define SNIC_LOOKOUT_H

#include "qp.h"

void snic_lookout_init(struct snic_qp *qp);

/* All below: QP lock held. */

/* A kick came, before it is served. */
void snic_lookout_kicked(struct snic_qp *qp);
/* The ring is empty: true when the timer will look again. */
bool snic_lookout_stay(struct snic_qp *qp);
/* The QP leaves the states that send. */
void snic_lookout_stop(struct snic_qp *qp);

#endif
