/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requests of kernel consumers on a device that failed. It was reset and completes nothing, but
 * consumers wait for their completions before they let go of it: all that is posted, before the
 * failure and after it, completes as flushed when its CQ is polled.
 */
#ifndef SIRDMA_DRV_KFLUSH_H
#define SIRDMA_DRV_KFLUSH_H

#include <rdma/ib_verbs.h>

#include "device.h"

struct sirdma_kcq;
struct sirdma_kqp;

/* This load is an acquire: the caller sees what the device wrote before its reset. */
static inline bool sirdma_dev_was_reset(const struct sirdma_dev *dev)
{
	return test_bit_acquire(SIRDMA_DEV_RESET, &dev->flags);
}

void sirdma_kflush_init(struct sirdma_dev *dev);
void sirdma_kflush_fini(struct sirdma_dev *dev);
/* The device was reset: from now on requests are flushed. Calls the handlers of armed CQs. */
void sirdma_kflush_start(struct sirdma_dev *dev);

/*
 * A consumer moved the QP to ERR. The device failed, so it raises no event. If the QP has a shared
 * receive queue, raise the event LAST_WQE_REACHED soon, out of the consumer's call.
 */
void sirdma_kqp_drained(struct sirdma_kqp *kqp);

/* The CQs of @kqp flush its requests, until it leaves. */
void sirdma_kqp_join_cqs(struct sirdma_kqp *kqp);
void sirdma_kqp_leave_cqs(struct sirdma_kqp *kqp);

/*
 * Complete up to @num_entries requests. Returns how many were completed. The caller holds the lock
 * of @kcq.
 */
int sirdma_kcq_flush(struct sirdma_kcq *kcq, int num_entries, struct ib_wc *wc);
/* Are there requests to flush? The caller holds the lock of @kcq. */
bool sirdma_kcq_must_flush(struct sirdma_kcq *kcq);

#endif
