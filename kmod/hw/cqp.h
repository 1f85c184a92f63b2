/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Command queue: post commands, ring the doorbell, reap completions. When the ring is
 * full, tasks wait for a free slot in order of arrival. Commands complete in ring order.
 *
 * The device usually executes a command within the doorbell write. So the task that
 * issued it reaps first, and sleeps only when its command is not done yet; then the CEQ
 * handler or another waiting task reaps its completion.
 */
#ifndef SIRDMA_HW_CQP_H
#define SIRDMA_HW_CQP_H

#include "port/port.h"
#include "sirdma/bus.h"
#include "sirdma/cqp.h"

struct sirdma_hw;

#define SIRDMA_CCQ_ID 0 /* the number of the CQ in which commands complete */

/* A command in flight, on the stack of the task that waits for it. */
struct sirdma_cqp_request {
	struct port_event done;
	u64 retval;
	u32 status; /* major 31:16, minor 15:0 */
	bool completed; /* set under the queue's lock: retval and status are final */
};

/* A task that waits for a slot of the ring, on its stack. */
struct sirdma_cqp_waiter {
	struct port_event granted;
	struct sirdma_cqp_waiter *next;
};

struct sirdma_cqp {
	struct port_lock lock; /* protects everything down to the statistics */
	/* [entries]; NULL in [tail, head): the task timed out and no longer waits */
	struct sirdma_cqp_request **requests;
	struct sirdma_cqp_waiter *waiters; /* tasks that wait for a slot, in order of arrival */
	struct sirdma_cqp_waiter **last_waiter;
	u32 entries;
	u32 head;
	u32 tail;
	u32 reserved; /* slots of tasks that have not posted yet */
	u32 ccq_entries;
	u32 ccq_cons;
	u32 ccq_created_by; /* slot of the CCQ's creation while its element may come, or NO_SLOT */
	u32 arm_seq;
	bool polarity;
	bool ccq_polarity;
	bool ccq_ready; /* false: completions are polled through CQPTAIL, one command at a time */
	bool dead; /* the device failed: every command returns -EIO from now on */
	u64 commands;
	u64 completions;
	u64 failures;
	u64 timeouts;

	struct port_mutex doorbell; /* held from a command's post to its doorbell write */
	/* held during the reset of a dead queue; protects reset_done */
	struct port_mutex reset_lock;
	bool reset_done;
	struct sirdma_dma_mem ring;
	struct sirdma_dma_mem ctx;
	struct sirdma_dma_mem ccq;
	struct sirdma_dma_mem ccq_shadow;
	/*
	 * A buffer for the commands that need one. It lives as long as the queue: a command may
	 * complete, and write to the buffer, after the task that issued the command timed out.
	 */
	struct port_mutex buf_lock;
	struct sirdma_dma_mem buf;
};

int sirdma_cqp_init(struct sirdma_hw *hw);
int sirdma_cqp_start_ccq(struct sirdma_hw *hw);
/* Call this at teardown: later completions are polled by CQPTAIL. No command may be in flight. */
void sirdma_cqp_stop_ccq(struct sirdma_hw *hw);
/*
 * Free the queue. The caller has reset the device, which therefore uses none of the memory any
 * more.
 */
void sirdma_cqp_fini(struct sirdma_hw *hw);

/*
 * Execute one command and wait for its completion. @wqe: all words, without the valid
 * bit. @retval may be NULL. Returns 0, the errno of the device's status, -ETIMEDOUT, or
 * -EIO when the queue is dead.
 *
 * The timeout counts the time in which no command completes. When it expires, the
 * device is reset, so that it uses no memory any more, every other command in flight
 * fails with -EIO, and SIRDMA_AE_FUNCTION_CATASTROPHIC is reported.
 */
int sirdma_cqp_exec(struct sirdma_hw *hw, const struct sirdma_cqp_wqe *wqe, u64 *retval);
/*
 * A command that makes an object returned @err: should the caller try the command again? The device
 * allocates while all commands wait for it, so it does not reclaim memory, and -ENOMEM may only say
 * that. This function reclaims memory for as long as it takes, so the caller must hold nothing that
 * other tasks wait for. @tries counts, from 0.
 */
bool sirdma_cqp_make_room(int err, u32 *tries);
/*
 * The device failed: reset it, so that it uses no memory any more, and fail all commands,
 * those in flight and later ones, with -EIO. Reports SIRDMA_AE_FUNCTION_CATASTROPHIC, once.
 */
void sirdma_cqp_kill(struct sirdma_hw *hw);
/*
 * For the CEQ handler, when the CCQ raised an event: reap, and arm the CCQ again while
 * commands are in flight.
 */
void sirdma_cqp_event(struct sirdma_hw *hw);
/* The context that the CEQEs of the CCQ carry. */
u64 sirdma_cqp_cookie(const struct sirdma_hw *hw);

#endif
