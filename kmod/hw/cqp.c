// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Command queue. */
#include "cqp.h"
#include "cqp_cmd.h"
#include "hw.h"
#include "sirdma/cqe.h"
#include "sirdma/shadow.h"

/* Completions of commands have this much room at least, 512 bytes. Not tuned. */
#define MIN_CCQ_ENTRIES 16
#define NO_SLOT ~0u
/*
 * A task sleeps for this long before it reaps by itself: while it polls for completions, and in
 * case an event is lost. Our device completes most commands before the doorbell write returns.
 * START_TIMEOUT_MS is how long the device may take to accept the queue; only one that is dead takes
 * longer. The times were not tuned.
 */
#define POLL_SLICE_MS 1
#define EVENT_SLICE_MS 20
#define START_TIMEOUT_MS 1000
/*
 * Limits for a command that finds no memory: other tasks of the cgroup may take the memory that was
 * reclaimed for it, and the command may run on another CPU than the one that has the room. The
 * number bounds these tries; it was not tuned.
 */
#define NO_MEMORY_TRIES 8
/* Bytes that are reclaimed between two tries: some objects */
#define CHARGED_ROOM 65536
#define NSEC_PER_MS 1000000ull

static u32 slots_free(const struct sirdma_cqp *cqp)
{
	u32 used = ((cqp->head - cqp->tail) & (cqp->entries - 1)) + cqp->reserved;
	/*
	 * CQPTAIL tells how many commands are done and whether the last one failed: issue them
	 * one at a time.
	 */
	u32 limit = cqp->ccq_ready ? cqp->entries - 1 : 1;

	return used < limit ? limit - used : 0;
}

/* Give free slots to the tasks that have waited longest. A dead queue wakes all of them. */
static void grant_slots(struct sirdma_cqp *cqp)
{
	struct sirdma_cqp_waiter *waiter;

	while (cqp->waiters && (cqp->dead || slots_free(cqp))) {
		waiter = cqp->waiters;
		cqp->waiters = waiter->next;
		if (!cqp->waiters)
			cqp->last_waiter = &cqp->waiters;
		cqp->reserved++;
		port_event_set(&waiter->granted);
	}
}

static void complete_tail(struct sirdma_cqp *cqp, u32 status, u64 retval)
{
	struct sirdma_cqp_request *request = cqp->requests[cqp->tail];

	cqp->requests[cqp->tail] = NULL;
	cqp->tail = (cqp->tail + 1) & (cqp->entries - 1);
	WRITE_ONCE(cqp->completions, cqp->completions + 1);
	if (status)
		cqp->failures++;
	if (request) {
		request->status = status;
		request->retval = retval;
		WRITE_ONCE(request->completed, true);
		port_event_set(&request->done);
	}
	grant_slots(cqp);
}

static void protocol_error(struct sirdma_cqp *cqp, const char *what)
{
	port_warn("command queue: device completed %s", what);
	cqp->dead = true;
	while (cqp->head != cqp->tail)
		complete_tail(cqp, SIRDMA_CQP_RESET, 0);
	grant_slots(cqp);
}

static void reap_register(struct sirdma_hw *hw)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	u32 reg = sirdma_rd32(hw->bus, SIRDMA_REG_CQPTAIL);
	u32 tail = (u32)SIRDMA_GET(SIRDMA_CQPTAIL_WQTAIL, reg);
	u32 mask = cqp->entries - 1, status = 0;

	if (tail == cqp->tail)
		return;
	if (((tail - cqp->tail) & mask) > ((cqp->head - cqp->tail) & mask) || tail > mask) {
		protocol_error(cqp, "commands that were not posted");
		return;
	}
	if (reg & SIRDMA_CQPTAIL_OP_ERR) {
		status = sirdma_rd32(hw->bus, SIRDMA_REG_CQPERRCODES);
		if (!status)
			status = SIRDMA_CQP_MAJ_ERROR << 16;
	}
	while (cqp->tail != tail)
		complete_tail(cqp, status, 0);
}

/* Consume one element of the CCQ. Returns false when there is none. */
static bool reap_ccqe(struct sirdma_cqp *cqp)
{
	const struct sirdma_ccqe *cqe = (const struct sirdma_ccqe *)cqp->ccq.va + cqp->ccq_cons;
	/* This load pairs with the device, which writes the word with the valid bit last. */
	u64 hdr = le64_to_cpu(smp_load_acquire(&cqe->hdr));
	u32 slot = (u32)SIRDMA_GET(SIRDMA_CQE_WQEIDX, hdr), status = 0;
	bool created;

	if (!!(hdr & SIRDMA_CQE_VALID) != cqp->ccq_polarity)
		return false;
	if (++cqp->ccq_cons == cqp->ccq_entries) {
		cqp->ccq_cons = 0;
		cqp->ccq_polarity = !cqp->ccq_polarity;
	}
	/*
	 * A device may report the CCQ's creation in the CCQ as well; CQPTAIL completed that
	 * command.
	 */
	created = slot == cqp->ccq_created_by;
	cqp->ccq_created_by = NO_SLOT;
	if (created)
		return true;
	if (cqp->tail == cqp->head || slot != cqp->tail) {
		protocol_error(cqp, "a command out of order");
		return false;
	}
	if (hdr & SIRDMA_CQE_ERROR) {
		status = (u32)(hdr & (SIRDMA_CQE_MAJERR | SIRDMA_CQE_MINERR));
		if (!status)
			status = SIRDMA_CQP_MAJ_ERROR << 16;
	}
	complete_tail(cqp, status, le64_to_cpu(READ_ONCE(cqe->retval)));
	return true;
}

static void reap_ccq(struct sirdma_cqp *cqp)
{
	struct sirdma_cq_shadow *shadow = cqp->ccq_shadow.va;
	bool any = false;

	while (!cqp->dead && reap_ccqe(cqp))
		any = true;
	if (!any)
		return;
	/* This store is a release: the elements were read before the device may overwrite them. */
	smp_store_release(&shadow->cons_idx,
			  cpu_to_le64(SIRDMA_PREP(SIRDMA_CQ_SHADOW_CQEIDX, cqp->ccq_cons)));
}

static void reap_locked(struct sirdma_hw *hw)
{
	struct sirdma_cqp *cqp = &hw->cqp;

	if (cqp->dead)
		return;
	if (cqp->ccq_ready)
		reap_ccq(cqp);
	else
		reap_register(hw);
}

static void reap(struct sirdma_hw *hw)
{
	port_lock(&hw->cqp.lock);
	reap_locked(hw);
	port_unlock(&hw->cqp.lock);
}

/* Arm the CCQ, and reap the completions that came before it was armed. */
static void arm_and_reap(struct sirdma_hw *hw)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	struct sirdma_cq_shadow *shadow = cqp->ccq_shadow.va;

	bool arm;

	port_lock(&cqp->lock);
	arm = cqp->ccq_ready && !cqp->dead;
	if (arm) {
		cqp->arm_seq++;
		WRITE_ONCE(shadow->arm,
			   cpu_to_le64(SIRDMA_CQ_SHADOW_ARM_NEXT |
				       SIRDMA_PREP(SIRDMA_CQ_SHADOW_ARM_SEQ, cqp->arm_seq)));
	}
	port_unlock(&cqp->lock);
	if (arm) {
		/*
		 * Orders the arm word before the read of the ring; the device does it in
		 * reverse order.
		 */
		smp_mb();
		/*
		 * Do this outside the lock: the device may call the event handler within this
		 * write.
		 */
		sirdma_wr32(hw->bus, SIRDMA_REG_CQARM, SIRDMA_CCQ_ID);
	}
	reap(hw);
}

void sirdma_cqp_event(struct sirdma_hw *hw)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	bool more;

	port_lock(&cqp->lock);
	reap_locked(hw);
	more = cqp->head != cqp->tail;
	port_unlock(&cqp->lock);
	if (more)
		arm_and_reap(hw);
}

/* A cookie has 63 bits; the lowest bit of an address is 0. */
u64 sirdma_cqp_cookie(const struct sirdma_hw *hw)
{
	return (u64)(uintptr_t)&hw->cqp >> 1;
}

/*
 * The queue is dead. Reset the device, so that it uses no memory after our callers have
 * freed it, then complete all commands. Every task that finds the queue dead calls this
 * and returns when the reset is over; the first one performs it.
 */
static void reset_dead_queue(struct sirdma_hw *hw)
{
	const struct sirdma_async_event event = {
		.code = SIRDMA_AE_FUNCTION_CATASTROPHIC,
	};
	struct sirdma_cqp *cqp = &hw->cqp;
	bool first;

	port_mutex_lock(&cqp->reset_lock);
	first = !cqp->reset_done;
	if (first)
		sirdma_hw_reset(hw);
	cqp->reset_done = true;
	port_mutex_unlock(&cqp->reset_lock);
	if (!first)
		return;
	port_lock(&cqp->lock);
	while (cqp->head != cqp->tail)
		complete_tail(cqp, SIRDMA_CQP_RESET, 0);
	port_unlock(&cqp->lock);
	if (hw->events && hw->events->async_event)
		hw->events->async_event(hw->events_ctx, &event);
}

void sirdma_cqp_kill(struct sirdma_hw *hw)
{
	struct sirdma_cqp *cqp = &hw->cqp;

	port_lock(&cqp->lock);
	cqp->dead = true;
	grant_slots(cqp);
	port_unlock(&cqp->lock);
	reset_dead_queue(hw);
}

/* Write @wqe into the ring. A device may execute it before the doorbell is rung. */
static void post_locked(struct sirdma_cqp *cqp, const struct sirdma_cqp_wqe *wqe,
			struct sirdma_cqp_request *request)
{
	struct sirdma_cqp_wqe *slot = (struct sirdma_cqp_wqe *)cqp->ring.va + cqp->head;
	u64 hdr = le64_to_cpu(wqe->hdr) & ~SIRDMA_CQP_VALID;

	slot->w0 = wqe->w0;
	slot->w1 = wqe->w1;
	slot->w2 = wqe->w2;
	slot->w4 = wqe->w4;
	slot->w5 = wqe->w5;
	slot->w6 = wqe->w6;
	slot->w7 = wqe->w7;
	if (cqp->polarity)
		hdr |= SIRDMA_CQP_VALID;
	/*
	 * This store is a release: the device executes the command when it sees the valid bit, so
	 * all other words come first.
	 */
	smp_store_release(&slot->hdr, cpu_to_le64(hdr));

	cqp->requests[cqp->head] = request;
	cqp->head = (cqp->head + 1) & (cqp->entries - 1);
	if (!cqp->head)
		cqp->polarity = !cqp->polarity;
	cqp->commands++;
}

/*
 * Reserve a slot of the ring. Without a free one, wait for it in order of arrival, or until
 * the queue is dead.
 */
static void reserve_slot(struct sirdma_hw *hw, struct sirdma_cqp_waiter *waiter)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	bool wait;

	port_event_init(&waiter->granted);
	port_lock(&cqp->lock);
	wait = !cqp->dead && (cqp->waiters || !slots_free(cqp));
	if (wait) {
		*cqp->last_waiter = waiter;
		cqp->last_waiter = &waiter->next;
	} else {
		cqp->reserved++;
	}
	port_unlock(&cqp->lock);
	/* Commands in flight complete or time out; either calls grant_slots(). */
	while (wait && !port_event_wait(&waiter->granted, hw->cfg.cmd_timeout_ms))
		;
}

/*
 * Post @request and ring the doorbell. Returns 0 and the number of the slot, or -EIO.
 *
 * The mutex is held over both, so that a doorbell write announces the writer's own
 * command only: a device that executes commands within the write then executes each
 * in the task that issued it, which pays for the memory and the time it takes.
 */
static int request_post(struct sirdma_hw *hw, const struct sirdma_cqp_wqe *wqe,
			struct sirdma_cqp_request *request, u32 *slot)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	struct sirdma_cqp_waiter waiter = {};
	bool dead;
	u32 head;

	port_event_init(&request->done);
	reserve_slot(hw, &waiter);
	port_mutex_lock(&cqp->doorbell);
	/* The task that granted our slot holds the lock until it no longer uses @waiter. */
	port_lock(&cqp->lock);
	cqp->reserved--;
	dead = cqp->dead;
	*slot = cqp->head;
	if (!dead)
		post_locked(cqp, wqe, request);
	head = cqp->head;
	port_unlock(&cqp->lock);
	if (!dead)
		sirdma_wr32(hw->bus, SIRDMA_REG_CQPDB, head);
	port_mutex_unlock(&cqp->doorbell);
	if (!dead)
		return 0;
	reset_dead_queue(hw);
	return -EIO;
}

/* Wait until @request completes, or until no command has completed for cmd_timeout_ms. */
static void request_wait(struct sirdma_hw *hw, struct sirdma_cqp_request *request)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	u32 slice =
		min_t(u32, cqp->ccq_ready ? EVENT_SLICE_MS : POLL_SLICE_MS, hw->cfg.cmd_timeout_ms);
	u64 completions = READ_ONCE(cqp->completions), since, seen, now;

	reap(hw);
	/*
	 * Most commands are done when the doorbell write returns: do not read the clock for
	 * them.
	 */
	if (READ_ONCE(request->completed))
		return;
	since = port_now_ns(NULL);
	do {
		arm_and_reap(hw);
		if (port_event_wait(&request->done, slice))
			return;
		reap(hw);
		now = port_now_ns(NULL);
		seen = READ_ONCE(cqp->completions);
		if (seen == completions && now - since >= hw->cfg.cmd_timeout_ms * NSEC_PER_MS)
			return;
		if (seen != completions)
			since = now;
		completions = seen;
	} while (!READ_ONCE(request->completed));
}

/* The command in @slot timed out: forget its request, which is about to leave the stack. */
static void request_abandon(struct sirdma_hw *hw, u32 slot, const struct sirdma_cqp_wqe *wqe)
{
	struct sirdma_cqp *cqp = &hw->cqp;

	cqp->requests[slot] = NULL;
	cqp->timeouts++;
	cqp->dead = true;
	grant_slots(cqp);
	port_warn("command 0x%02x timed out after %u ms: device reset",
		  (u32)SIRDMA_GET(SIRDMA_CQP_OPCODE, le64_to_cpu(wqe->hdr)),
		  hw->cfg.cmd_timeout_ms);
}

/* The errno of the status of a command. */
static int status_errno(u32 status)
{
	static const int errnos[] = {
		[SIRDMA_CQP_OK] = 0,
		[SIRDMA_CQP_BAD_OPCODE] = -EOPNOTSUPP,
		[SIRDMA_CQP_BAD_INDEX] = -EINVAL,
		[SIRDMA_CQP_IN_USE] = -EBUSY,
		[SIRDMA_CQP_NO_OBJECT] = -ENOENT,
		[SIRDMA_CQP_BAD_PARAM] = -EINVAL,
		[SIRDMA_CQP_BAD_STATE] = -EINVAL,
		[SIRDMA_CQP_NO_MEMORY] = -ENOMEM,
		[SIRDMA_CQP_BAD_ADDRESS] = -EFAULT,
		[SIRDMA_CQP_BAD_RING] = -EIO,
		[SIRDMA_CQP_RESET] = -EIO,
		[SIRDMA_CQP_AGAIN] = -EAGAIN,
	};
	u32 minor = status & 0xffff;

	if (!status)
		return 0;
	if (!minor || minor >= ARRAY_SIZE(errnos))
		return -EIO;
	return errnos[minor];
}

int sirdma_cqp_exec(struct sirdma_hw *hw, const struct sirdma_cqp_wqe *wqe, u64 *retval)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	struct sirdma_cqp_request request = {};
	bool completed, dead;
	u32 slot;
	int err;

	err = request_post(hw, wqe, &request, &slot);
	if (err)
		return err;
	request_wait(hw, &request);

	/*
	 * The lock also waits for the task that completes @request, which may still use its
	 * event.
	 */
	port_lock(&cqp->lock);
	completed = request.completed;
	if (!completed)
		request_abandon(hw, slot, wqe);
	dead = cqp->dead;
	port_unlock(&cqp->lock);

	if (dead)
		reset_dead_queue(hw);
	if (!completed)
		return -ETIMEDOUT;
	if (retval)
		*retval = request.retval;
	return status_errno(request.status);
}

bool sirdma_cqp_make_room(int err, u32 *tries)
{
	return err == -ENOMEM && ++*tries < NO_MEMORY_TRIES && port_reclaim(CHARGED_ROOM, true);
}

/* Give the device the queue's context and wait until it accepts it. */
static int cqp_start(struct sirdma_hw *hw)
{
	struct sirdma_cqp *cqp = &hw->cqp;
	struct sirdma_cqp_ctx *ctx = cqp->ctx.va;
	u32 status;
	int err;

	ctx->sq_base = cpu_to_le64(cqp->ring.pa);
	ctx->sq_entries = cpu_to_le32(cqp->entries);
	ctx->version = cpu_to_le32(SIRDMA_HW_VERSION);
	ctx->compl_ctx = cpu_to_le64(sirdma_cqp_cookie(hw));
	sirdma_wr32(hw->bus, SIRDMA_REG_CCQPLOW, (u32)cqp->ctx.pa);
	sirdma_wr32(hw->bus, SIRDMA_REG_CCQPHIGH, (u32)(cqp->ctx.pa >> 32));
	err = sirdma_hw_poll(hw, SIRDMA_REG_CCQPSTATUS,
			     (u32)(SIRDMA_CCQPSTATUS_DONE | SIRDMA_CCQPSTATUS_ERR),
			     START_TIMEOUT_MS, &status);
	if (err || (status & SIRDMA_CCQPSTATUS_ERR)) {
		port_warn("command queue did not start: status 0x%x", status);
		return err ? err : -EIO;
	}
	return 0;
}

int sirdma_cqp_init(struct sirdma_hw *hw)
{
	const struct sirdma_bus_ops *ops = hw->bus->ops;
	struct sirdma_cqp *cqp = &hw->cqp;
	u32 entries = hw->cfg.cqp_entries;
	int err;

	memset(cqp, 0, sizeof(*cqp));
	if (entries < SIRDMA_CQP_MIN_ENTRIES || entries > SIRDMA_CQP_MAX_ENTRIES ||
	    (entries & (entries - 1)))
		return -EINVAL;
	port_lock_init(&cqp->lock);
	port_mutex_init(&cqp->doorbell);
	port_mutex_init(&cqp->reset_lock);
	port_mutex_init(&cqp->buf_lock);
	cqp->entries = entries;
	cqp->polarity = true;
	cqp->last_waiter = &cqp->waiters;
	cqp->requests = port_alloc(entries * sizeof(*cqp->requests));
	if (!cqp->requests)
		return -ENOMEM;
	err = ops->dma_alloc(hw->bus, entries * sizeof(struct sirdma_cqp_wqe), &cqp->ring);
	if (err)
		goto err_free_requests;
	err = ops->dma_alloc(hw->bus, sizeof(struct sirdma_cqp_ctx), &cqp->ctx);
	if (err)
		goto err_free_ring;
	err = ops->dma_alloc(hw->bus, SIRDMA_PAGE_SIZE, &cqp->buf);
	if (err)
		goto err_free_ctx;
	err = cqp_start(hw);
	if (err)
		goto err_free_buf;
	return 0;

err_free_buf:
	sirdma_hw_reset(hw);
	ops->dma_free(hw->bus, &cqp->buf);
err_free_ctx:
	ops->dma_free(hw->bus, &cqp->ctx);
err_free_ring:
	ops->dma_free(hw->bus, &cqp->ring);
err_free_requests:
	port_free(cqp->requests);
	return err;
}

void sirdma_cqp_fini(struct sirdma_hw *hw)
{
	const struct sirdma_bus_ops *ops = hw->bus->ops;
	struct sirdma_cqp *cqp = &hw->cqp;

	if (cqp->ccq.va) {
		ops->dma_free(hw->bus, &cqp->ccq_shadow);
		ops->dma_free(hw->bus, &cqp->ccq);
	}
	ops->dma_free(hw->bus, &cqp->buf);
	ops->dma_free(hw->bus, &cqp->ctx);
	ops->dma_free(hw->bus, &cqp->ring);
	port_free(cqp->requests);
}

int sirdma_cqp_start_ccq(struct sirdma_hw *hw)
{
	const struct sirdma_bus_ops *ops = hw->bus->ops;
	struct sirdma_cqp *cqp = &hw->cqp;
	struct sirdma_cqp_cq_params params = {
		.cq_id = SIRDMA_CCQ_ID,
		.cookie = sirdma_cqp_cookie(hw),
		.is_ccq = true,
	};
	int err;

	cqp->ccq_entries = max_t(u32, cqp->entries, MIN_CCQ_ENTRIES);
	err = ops->dma_alloc(hw->bus, cqp->ccq_entries * sizeof(struct sirdma_ccqe), &cqp->ccq);
	if (err)
		return err;
	err = ops->dma_alloc(hw->bus, sizeof(struct sirdma_cq_shadow), &cqp->ccq_shadow);
	if (err)
		goto err_free_ccq;
	params.entries = cqp->ccq_entries;
	params.pa = cqp->ccq.pa;
	params.shadow_pa = cqp->ccq_shadow.pa;
	err = sirdma_cqp_create_cq(hw, &params);
	if (err)
		goto err_free_shadow;

	port_lock(&cqp->lock);
	cqp->ccq_cons = 0;
	cqp->ccq_polarity = true;
	cqp->ccq_created_by = (cqp->tail - 1) & (cqp->entries - 1);
	cqp->ccq_ready = true;
	port_unlock(&cqp->lock);
	return 0;

err_free_shadow:
	ops->dma_free(hw->bus, &cqp->ccq_shadow);
err_free_ccq:
	ops->dma_free(hw->bus, &cqp->ccq);
	cqp->ccq.va = NULL;
	return err;
}

void sirdma_cqp_stop_ccq(struct sirdma_hw *hw)
{
	struct sirdma_cqp *cqp = &hw->cqp;

	port_lock(&cqp->lock);
	cqp->ccq_ready = false;
	port_unlock(&cqp->lock);
	if (!cqp->dead)
		sirdma_cqp_destroy_cq(hw, SIRDMA_CCQ_ID);
}
