/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory windows (IBTA 10.6.7). A bound window is looked up like a region: its mapping names a
 * part of its region's blocks, and its region stays as long as the window is bound.
 *
 * A window of type 1 is of its protection domain; binding it again ends the former binding. A
 * window of type 2 is of the queue pair that bound it (2B: and of the protection domain), and must
 * be invalidated before it is bound again, or end with that queue pair.
 */
#ifndef SNIC_MW_H
#define SNIC_MW_H

#include "inv.h"

struct snic_qp;
struct snic_sqe;

struct snic_mw {
	struct snic_mr mr; /* VALID while it is bound */
	struct snic_mr *region; /* the region to which the window is bound, or NULL */
	/* the place of a bound type 2 window in its queue pair's list */
	struct snic_qp *qp;
	struct snic_mw *next, **link; /* under snic_dev.mw_lock */
	u32 pd;
	u32 qpn; /* the queue pair that bound a type 2 window */
	bool type1;
};

/* Is @mr a window that queue pair @qpn of @pd has bound for itself? */
bool snic_mw_is_of_qp(const struct snic_mr *mr, u32 pd, u32 qpn);

/*
 * Execute the BIND_MW @sqe of @qp, whose lock is held. WAIT: qp->inv[SNIC_INV_SQ] ends the former
 * binding; the caller calls this function again after that. REFUSED: nothing is bound, the refusal
 * is counted, and after a WAIT the former binding is gone.
 */
enum snic_inv_result snic_mw_bind(struct snic_qp *qp, const struct snic_sqe *sqe);
/* The last reference to the window @slot was dropped: the window is no longer bound. */
void snic_mw_unbound(struct snic_slot *slot);

/*
 * Execute ALLOC_STAG of a window. The caller has checked that the index and the domain are in
 * range.
 */
u32 snic_mw_alloc(struct snic_dev *dev, const struct sirdma_cqp_stag *cmd);
/*
 * Unbind at most @most windows of type 2 of a queue pair that is in RESET, and wait for their
 * users. Returns false if the queue pair has more.
 */
bool snic_mw_unbind_qp(struct snic_qp *qp, u32 most);

#endif
