/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Invalidation of a key by a queue pair. It ends when nobody uses the memory by the key any
 * more. That may be later, in the context of another queue pair, whose lock is held there: so
 * the end only sets a state and has this queue pair run.
 *
 *          start                     last user
 *   IDLE ─────────▶ STARTING ──────────────────────▶ DONE ── finish ──▶ IDLE
 *                      │ users are left               ▲
 *                      ▼                              │ last user: the queue pair is deferred
 *                    WAITING ─────────────────────────┘
 *
 * QP lock held, except by the last user. A queue pair that is reset or fails meanwhile leaves the
 * invalidation as it is, and keeps a reference to itself until the end.
 */
#ifndef SNIC_INV_H
#define SNIC_INV_H

#include "mr.h"

struct snic_qp;

struct snic_inv {
	struct snic_slot_callback callback;
	struct snic_qp *qp;
	u64 state; /* changed by compare-and-swap */
};

/* The invalidations that a queue pair may have under way */
enum {
	SNIC_INV_SQ, /* of a send WQE */
	SNIC_INV_RQ, /* of a message received */
	SNIC_INVS,
};

enum snic_inv_result {
	SNIC_INV_DONE,
	SNIC_INV_WAIT, /* the queue pair will be run, to call snic_inv_finish() */
	SNIC_INV_AGAIN, /* not started; the queue pair will be run, to try again */
	SNIC_INV_REFUSED, /* counted */
};

/* Allocate qp->inv. False: no memory. Freed by port_free(). */
bool snic_inv_alloc(struct snic_qp *qp);
/* Invalidate @stag. */
enum snic_inv_result snic_inv_start(struct snic_inv *inv, u32 stag, enum snic_inv_why why);
/* After SNIC_INV_WAIT: is the key invalid? */
bool snic_inv_finish(struct snic_inv *inv);

#endif
