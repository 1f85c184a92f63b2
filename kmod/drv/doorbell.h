/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Doorbells by page fault, for providers that do not kick.
 *
 * Such a provider stores the number of a queue pair into its doorbell page. The page is RAM, so the
 * device does not notice the store. Therefore the page is mapped only while the driver watches it:
 *
 *              a store faults: look, map the page
 *    unmapped ───────────────────────────────────▶ watched ──┐ each period: was the word stored
 *        ▲                                            │  ▲───┘ again? Then look
 *        └────────────────────────────────────────────┘
 *          it was not for some periods: unmap the page, and read the word once more
 *
 * To look is to have the device read the send queues of all queue pairs of the context, since all of
 * them store into the same word. No doorbell is lost: a store before the page is unmapped has reached
 * the word when the driver reads it once more, and a later store faults.
 *
 * The first look is made by the task that faulted. The next ones are made by a timer, in a softirq, so
 * that no task has to leave a processor for them. Two things are left to a worker: to unmap the page,
 * while the timer still runs, and all looks at a context of very many queue pairs.
 *
 * The period is 50 us, and longer for a user that has many watched pages or many queue pairs at them.
 *
 * A poster that waits longer than these periods faults each time, and the device runs in the context
 * of the fault, as it does in that of a kick. A poster of a stream, or of a ping-pong, faults once.
 *
 * Mappings may outlive context and device. Each of them refers to a file, which keeps the page, and
 * this module, until the last mapping is gone.
 */
#ifndef SIRDMA_DRV_DOORBELL_H
#define SIRDMA_DRV_DOORBELL_H

#include <rdma/ib_verbs.h>

struct sirdma_doorbell;
struct sirdma_qp;

/*
 * Make the doorbell page of @ibuctx. The mapping entry frees it, when the entry is removed. Returns
 * ERR_PTR(-ENOMEM) or another error.
 */
struct sirdma_doorbell *sirdma_doorbell_create(struct ib_ucontext *ibuctx);
struct rdma_user_mmap_entry *sirdma_doorbell_entry(struct sirdma_doorbell *db);

/* @qp rings qp->doorbell, until it is removed. Both do nothing for a queue pair without a doorbell. */
void sirdma_doorbell_add(struct sirdma_qp *qp);
void sirdma_doorbell_remove(struct sirdma_qp *qp);

#endif
