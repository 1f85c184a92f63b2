/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Operations of the send queue on keys, by which nothing is sent: LOCAL_INV, BIND_MW, and the
 * invalidation that ends a READ_LOC_INV. QP lock held.
 *
 * A LOCAL_INV or BIND_MW begins when all earlier messages are complete, and later ones begin when
 * it is done: the verbs API has no flag for the local invalidate fence (IBTA 10.8.3.3), so drivers
 * always set it. FAST_REG is none of them: it waits for no earlier message, and send.c executes it
 * when it fetches it (fast.h).
 */
#ifndef SNIC_KEY_OP_H
#define SNIC_KEY_OP_H

#include "qp.h"

/*
 * Execute the operation of out[] entry @slot, which is SNIC_OUT_TODO. Returns false if the
 * operation is not done: the queue pair will run when it may be done, or the operation has failed
 * (SNIC_OUT_FAILED).
 */
bool snic_key_op_run(struct snic_qp *qp, u32 slot);

#endif
