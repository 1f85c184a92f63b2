/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Command queue: post, ring, reap. Requests queue in order for a free slot when
 * the ring is full, and complete in ring order.
 *
 * The device usually executes a command within the doorbell write, so a waiter
 * reaps first and sleeps only if its command is not done; the CEQ handler and
 * other waiters reap for it then.
 */
#ifndef SIRDMA_HW_CQP_H
#define SIRDMA_HW_CQP_H

#include "port/port.h"
#include "sirdma/bus.h"
#include "sirdma/cqp.h"

struct sirdma_hw;

#define SIRDMA_CCQ_ID 0 /* the CQ number that the CQP's completion queue takes */

/* A command in flight; lives on its waiter's stack. */
struct sirdma_cqp_request {
	struct port_event done;
	u64 retval;
	u32 status; /* major 31:16, minor 15:0 */
	bool completed; /* under the queue's lock: retval and status are final */
};

/* Someone waits for a slot of the ring; on the waiter's stack. */
struct sirdma_cqp_waiter {
	struct port_event granted;
	struct sirdma_cqp_waiter *next;
};

struct sirdma_cqp {
	struct port_lock lock; /* protects everything down to the statistics */
	/* [entries]; NULL in [tail, head): the waiter timed out and left */
	struct sirdma_cqp_request **requests;
	struct sirdma_cqp_waiter *waiters; /* for a slot, in order of arrival */
	struct sirdma_cqp_waiter **last_waiter;
	u32 entries;
	u32 head;
	u32 tail;
	u32 reserved; /* slots given to waiters that have not posted yet */
	u32 ccq_entries;
	u32 ccq_cons;
	u32 ccq_created_by; /* slot of the CCQ's creation while its element may come, or NO_SLOT */
	u32 arm_seq;
	bool polarity;
	bool ccq_polarity;
	bool ccq_ready; /* before: completions are polled through CQPTAIL, one at a time */
	bool dead; /* a command timed out, or the device broke the protocol: -EIO from now on */
	u64 commands;
	u64 completions;
	u64 failures;
	u64 timeouts;

	struct port_mutex doorbell; /* from a command's post to its doorbell write */
	struct port_mutex reset_lock; /* the reset of a dead queue; protects reset_done */
	bool reset_done;
	struct sirdma_dma_mem ring;
	struct sirdma_dma_mem ctx;
	struct sirdma_dma_mem ccq;
	struct sirdma_dma_mem ccq_shadow;
	/*
	 * Buffer of the commands that need one. It lives as long as the queue, so
	 * that a command that completes after its waiter left harms no one.
	 */
	struct port_mutex buf_lock;
	struct sirdma_dma_mem buf;
};

int sirdma_cqp_init(struct sirdma_hw *hw);
int sirdma_cqp_start_ccq(struct sirdma_hw *hw);
/* Completions are polled again afterwards: for teardown. No command may be in flight. */
void sirdma_cqp_stop_ccq(struct sirdma_hw *hw);
/* The device was reset before: it uses none of the memory any more. */
void sirdma_cqp_fini(struct sirdma_hw *hw);

/*
 * Execute one command and wait. @wqe: all words but the valid bit. *retval may
 * be NULL. 0, the errno of the device's status, -ETIMEDOUT, or -EIO after a
 * timeout killed the queue.
 *
 * The time runs while the queue makes no progress. A timeout resets the device,
 * which lets go of all memory, fails every other command in flight with -EIO
 * and reports SIRDMA_AE_FUNCTION_CATASTROPHIC.
 */
int sirdma_cqp_exec(struct sirdma_hw *hw, const struct sirdma_cqp_wqe *wqe, u64 *retval);
/*
 * The device failed: reset it, so that it uses no memory any more, and fail all commands,
 * those in flight and later ones, with -EIO. Reports SIRDMA_AE_FUNCTION_CATASTROPHIC, once.
 */
void sirdma_cqp_kill(struct sirdma_hw *hw);
/* Reap completions; called by waiters and by the CEQ handler. Any context. */
void sirdma_cqp_reap(struct sirdma_hw *hw);
/* The CEQ handler got the CCQ's event: reap, and ask for the next one if needed. */
void sirdma_cqp_event(struct sirdma_hw *hw);
/* Cookie of the CCQ in CEQEs. */
u64 sirdma_cqp_cookie(const struct sirdma_hw *hw);
/* The one place where a command status becomes an errno. */
int sirdma_cqp_errno(u32 status);

#endif
