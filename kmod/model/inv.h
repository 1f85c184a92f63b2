/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Invalidation of a key by a queue pair. The invalidation ends when the last user of the memory by
 * the key is gone. This may be later, in the context of another queue pair, whose lock is held
 * there: so the end only sets a state and makes this queue pair run.
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
	u64 state; /* the state changes by compare-and-swap */
};

/* The invalidations that a queue pair may have under way */
enum {
	SNIC_INV_SQ, /* the invalidation of a send WQE */
	SNIC_INV_RQ, /* the invalidation of a received message */
	SNIC_INVS,
};

enum snic_inv_result {
	SNIC_INV_DONE,
	SNIC_INV_WAIT, /* the queue pair will be run, to call snic_inv_finish() */
	SNIC_INV_AGAIN, /* not started; the queue pair will run and try again */
	SNIC_INV_REFUSED, /* the device refused and counted it */
};

/* Allocate qp->inv; port_free() frees it. Returns false without memory. */
bool snic_inv_alloc(struct snic_qp *qp);
/* Invalidate @stag. */
enum snic_inv_result snic_inv_start(struct snic_inv *inv, u32 stag, enum snic_inv_why why);
/* Call this after SNIC_INV_WAIT. Is the key invalid? */
bool snic_inv_finish(struct snic_inv *inv);

#endif
