/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Fast registration (IBTA 10.6.4.4): a work request registers memory with a slot that ALLOC_STAG
 * made. The slot has a page list of its own. Behind that is the list that the driver writes, before
 * it posts the request; the device copies it when the request is executed. So the list of a valid
 * region does not change.
 */
#ifndef SNIC_FAST_H
#define SNIC_FAST_H

#include "mr.h"

struct snic_qp;
struct snic_sqe;

struct snic_fast {
	struct snic_mr mr;
	u32 pd; /* PD of the queue pairs that may register with the slot */
	u32 first_pble;
	u32 blocks; /* entries of each list */
};

/*
 * Execute ALLOC_STAG of a region. The caller has checked that the index and the domain are in
 * range.
 */
u32 snic_fast_alloc(struct snic_dev *dev, const struct sirdma_cqp_stag *cmd);
/*
 * Execute the FAST_REG @sqe of @qp, whose lock is held. The slot must be FREE. Returns false when
 * the device refuses the request: nothing changes, and the refusal is counted.
 */
bool snic_fast_reg(struct snic_qp *qp, const struct snic_sqe *sqe);

#endif
