// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "doorbell.h"

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "compat/hrtimer.h"
#include "compat/mm.h"
#include "device.h"
#include "qp.h"
#include "sirdma/regs.h"
#include "ucontext.h"
#include "user.h"

/*
 * The period in which the word of a watched page is read. It is that of the device's own timer for
 * the send queue of a poster that does not wait (kmod/host/host.c, SQ_POLL_NS).
 */
#define WATCH_NS (50 * NSEC_PER_USEC)
/*
 * The timer rings at most this many queue pairs, in a softirq and under a spinlock. For more, it starts
 * the work: a worker waits until the scheduler takes the processor from the tasks that poll for a
 * completion, which is a time slice of some milliseconds. Not tuned.
 */
#define LOOK_IN_TIMER 64
/*
 * A task whose store faults runs at most this many queue pairs itself. More of them run in the device's
 * bottom half, which has a budget and serves all users in turn.
 */
#define LOOK_KICKS 8
/*
 * The most load of a user that is looked at in WATCH_NS. Each queue pair at a watched page is a load of
 * one; the page adds PAGE_LOAD, since an interrupt of the timer and setting it again cost more than the
 * look at one queue pair. The period of all pages of a user with more load is longer.
 *
 * The bound holds for all processors together: a timer stays on the processor where it was started, as
 * a rule that of the task that faulted, so a user may have all its timers on one processor, which other
 * users need. Timers that were set before the load grew come early once. The look of a fault is not
 * counted: it takes the time of the task itself. Not tuned.
 */
#define WATCH_LOAD 16
#define PAGE_LOAD 4
/*
 * The timer has the page unmapped when it found no store for this many times WATCH_NS, a millisecond, or
 * for one period, if that is longer. Meanwhile a store costs no fault. A page of more than LOOK_IN_TIMER
 * queue pairs is unmapped when there was no store for one period: the next store faults then, and its
 * look does not wait for a worker. Not tuned.
 */
#define WATCH_IDLE 20
/*
 * After a look of the timer, or of the work at more than LOOK_IN_TIMER queue pairs, the page is left alone
 * for at least this many times as long as the look took, so that the looks at one page take a fifth of a
 * processor at most. That is the time of ringing: the queue pairs run in the device's bottom half, which
 * has a budget. Not tuned.
 */
#define WATCH_PAUSE 4
/*
 * mmap() is refused if the context has this many mappings, those of forks included: each is unmapped by
 * itself. A fork is never refused. libirdma needs one; the rest is reserve, not tuned.
 */
#define MAX_MAPPINGS 8

/* The word, while no doorbell was stored. A store of this number is not noticed; no QP has it. */
#define NO_DOORBELL cpu_to_le32(~0u)

/*
 * Offsets of these pages for mmap(), in pages. A number is used once, or again after 2^31 contexts:
 * unmapping goes by the offset in the file, and all contexts of a device are opened by the same file
 * in /dev.
 */
#define FIRST_PGOFF 0x80000000u

struct sirdma_doorbell {
	struct sirdma_mmap_entry base;
	struct file *file; /* each mapping refers to it; the context as well, while it exists */
	struct sirdma_db_page *page;
	struct mutex lock; /* protects all members below; taken inside mmap_lock */
	struct sirdma_dev *dev; /* NULL: the context is gone */
	struct sirdma_user *user; /* of the context; NULL like dev */
	u32 mappings;
	/* That of the mappings' file in /dev, which keep it. NULL: there are no mappings. */
	struct inode *inode;
	struct hrtimer timer;
	struct work_struct work;
	/*
	 * Taken inside the mutex, and by the timer alone. dev, user and the members below change under
	 * both locks; idle under this one.
	 */
	spinlock_t timer_lock;
	struct list_head qps; /* list of struct sirdma_qp.doorbell_node */
	u32 nqps;
	bool watched; /* the timer runs, or will be started by the work */
	u32 load; /* the share of user->doorbell_load; 0: not watched */
	u32 idle; /* multiples of WATCH_NS since the timer found a store */
};

static atomic_t doorbell_count = ATOMIC_INIT(0);

static struct sirdma_doorbell *to_doorbell(struct sirdma_mmap_entry *entry)
{
	return container_of(entry, struct sirdma_doorbell, base);
}

/* Take the doorbell out of the page. Returns false if none was stored since the last call. */
static bool doorbell_take_store(struct sirdma_doorbell *db)
{
	__le32 *word = &db->page->wqe_alloc;

	if (READ_ONCE(*word) == NO_DOORBELL)
		return false;
	/*
	 * xchg() is a full barrier: what was posted before the store that it replaces is seen by
	 * the look that follows. A later store changes the word again.
	 */
	return xchg(word, NO_DOORBELL) != NO_DOORBELL;
}

/* Look at the queue pairs: this CPU's bottom half runs them. The caller holds timer_lock. */
static void doorbell_look_deferred(struct sirdma_doorbell *db)
{
	struct sirdma_bus *bus = db->dev->bus;
	struct sirdma_qp *qp;

	list_for_each_entry(qp, &db->qps, doorbell_node)
		bus->ops->doorbell(bus, qp->ibqp.qp_num);
}

/* The caller holds the lock. */
static void doorbell_look(struct sirdma_doorbell *db)
{
	struct sirdma_bus *bus = db->dev->bus;
	struct sirdma_qp *qp;

	list_for_each_entry(qp, &db->qps, doorbell_node) {
		if (db->nqps <= LOOK_KICKS)
			bus->ops->kick(bus, qp->ibqp.qp_num, 0);
		else
			bus->ops->doorbell(bus, qp->ibqp.qp_num);
		cond_resched();
	}
}

/* The page or its queue pairs changed. The caller holds timer_lock. */
static void doorbell_update_load(struct sirdma_doorbell *db)
{
	u32 load = db->watched ? db->nqps + PAGE_LOAD : 0;

	atomic_add((int)(load - db->load), &db->user->doorbell_load);
	db->load = load;
}

/* The period of the user's pages, in multiples of WATCH_NS. The caller holds timer_lock. */
static u32 doorbell_periods(const struct sirdma_doorbell *db)
{
	u32 load = atomic_read(&db->user->doorbell_load);

	return max(DIV_ROUND_UP(load, WATCH_LOAD), 1u);
}

/* The time until the next look, after one that took @look_ns. */
static u64 doorbell_pause_ns(u32 periods, u64 look_ns)
{
	return max_t(u64, (u64)WATCH_NS * periods, look_ns * WATCH_PAUSE);
}

/* The caller holds the lock. @look_ns: how long the work's last look took. */
static void doorbell_watch(struct sirdma_doorbell *db, u64 look_ns)
{
	u64 pause;

	spin_lock_bh(&db->timer_lock);
	db->watched = true;
	db->idle = 0;
	doorbell_update_load(db);
	pause = doorbell_pause_ns(doorbell_periods(db), look_ns);
	hrtimer_start(&db->timer, ns_to_ktime(pause), HRTIMER_MODE_REL_SOFT);
	spin_unlock_bh(&db->timer_lock);
}

/* The caller holds the lock. The timer ends by itself. */
static void doorbell_unwatch(struct sirdma_doorbell *db)
{
	spin_lock_bh(&db->timer_lock);
	db->watched = false;
	doorbell_update_load(db);
	spin_unlock_bh(&db->timer_lock);
}

/* The caller holds the lock, without which no fault maps the page. */
static void doorbell_unmap(struct sirdma_doorbell *db)
{
	if (db->inode)
		unmap_mapping_range(db->inode->i_mapping,
				    (loff_t)db->base.entry.start_pgoff << PAGE_SHIFT, PAGE_SIZE, 1);
	doorbell_unwatch(db);
}

/*
 * Look at the queue pairs, if there was a store. Returns the time until the next look in multiples of
 * WATCH_NS; 0: the timer ends, and the work or a fault may start it again. The caller holds timer_lock.
 *
 * The timer runs on while the work waits to unmap the page, where stores would go unnoticed otherwise.
 */
static u32 doorbell_tick(struct sirdma_doorbell *db)
{
	u32 periods, idle = db->idle;

	if (!db->watched)
		return 0;
	if (db->nqps > LOOK_IN_TIMER) {
		queue_work(sirdma_urgent_wq, &db->work);
		return 0;
	}
	periods = doorbell_periods(db);
	if (doorbell_take_store(db)) {
		doorbell_look_deferred(db);
		db->idle = 0;
		return periods;
	}
	db->idle += periods;
	if (idle < WATCH_IDLE && db->idle >= WATCH_IDLE)
		queue_work(sirdma_urgent_wq, &db->work);
	return periods;
}

static enum hrtimer_restart doorbell_timer(struct hrtimer *timer)
{
	struct sirdma_doorbell *db = container_of(timer, struct sirdma_doorbell, timer);
	u64 start = ktime_get_ns(), end;
	bool again;
	u32 periods;

	spin_lock(&db->timer_lock);
	periods = doorbell_tick(db);
	/* A task may have started it, under the lock, since it fired. */
	again = periods && !hrtimer_is_queued(timer);
	if (again) {
		/* The pause starts now, not at the last expiry, so that a late timer makes one too. */
		end = ktime_get_ns();
		hrtimer_set_expires(timer,
				    ns_to_ktime(end + doorbell_pause_ns(periods, end - start)));
	}
	spin_unlock(&db->timer_lock);
	return again ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/* Did the timer find a store after it had started the work? */
static bool doorbell_is_busy(struct sirdma_doorbell *db)
{
	bool busy;

	spin_lock_bh(&db->timer_lock);
	busy = db->nqps <= LOOK_IN_TIMER && db->idle < WATCH_IDLE;
	spin_unlock_bh(&db->timer_lock);
	return busy;
}

static void doorbell_work(struct work_struct *work)
{
	struct sirdma_doorbell *db = container_of(work, struct sirdma_doorbell, work);
	u64 start;

	mutex_lock(&db->lock);
	start = ktime_get_ns();
	if (!db->dev || !db->watched) {
		/* The context is gone, or an earlier work has unmapped the page. */
	} else if (doorbell_take_store(db)) {
		doorbell_look(db);
		doorbell_watch(db, db->nqps > LOOK_IN_TIMER ? ktime_get_ns() - start : 0);
	} else if (doorbell_is_busy(db)) {
		doorbell_watch(db, 0);
	} else {
		doorbell_unmap(db);
		if (doorbell_take_store(db))
			doorbell_look(db);
	}
	mutex_unlock(&db->lock);
}

/*
 * A task stores while the page is not mapped. The page is mapped under the lock, so that it is
 * never mapped unwatched. What was posted before the store is in the ring already.
 */
static vm_fault_t doorbell_fault(struct vm_fault *vmf)
{
	struct sirdma_doorbell *db = vmf->vma->vm_private_data;
	vm_fault_t ret;

	mutex_lock(&db->lock);
	ret = vmf_insert_pfn(vmf->vma, vmf->address, PHYS_PFN(virt_to_phys(db->page)));
	if (ret == VM_FAULT_NOPAGE && db->dev) {
		sirdma_count(&db->dev->counters, SIRDMA_COUNTER_DOORBELL_FAULTS);
		doorbell_look(db);
		if (!db->watched)
			doorbell_watch(db, 0);
	}
	mutex_unlock(&db->lock);
	return ret;
}

static void doorbell_vma_open(struct vm_area_struct *vma)
{
	struct sirdma_doorbell *db = vma->vm_private_data;

	mutex_lock(&db->lock);
	db->mappings++;
	mutex_unlock(&db->lock);
	get_file(db->file);
}

static void doorbell_vma_close(struct vm_area_struct *vma)
{
	struct sirdma_doorbell *db = vma->vm_private_data;

	mutex_lock(&db->lock);
	if (!--db->mappings)
		db->inode = NULL;
	mutex_unlock(&db->lock);
	fput(db->file);
}

static const struct vm_operations_struct doorbell_vm_ops = {
	.open = doorbell_vma_open,
	.close = doorbell_vma_close,
	.fault = doorbell_fault,
};

static int doorbell_map(struct sirdma_mmap_entry *entry, struct ib_ucontext *ibuctx,
			struct vm_area_struct *vma)
{
	struct sirdma_doorbell *db = to_doorbell(entry);

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_end - vma->vm_start != PAGE_SIZE)
		return -EINVAL;
	mutex_lock(&db->lock);
	if (db->mappings >= MAX_MAPPINGS) {
		mutex_unlock(&db->lock);
		return -EBUSY;
	}
	db->mappings++;
	db->inode = file_inode(vma->vm_file);
	mutex_unlock(&db->lock);
	get_file(db->file);
	vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = db;
	vma->vm_ops = &doorbell_vm_ops;
	return 0;
}

/* The context goes away. Its mappings stay, and stores to them have no effect any more. */
static void doorbell_stop(struct sirdma_mmap_entry *entry)
{
	struct sirdma_doorbell *db = to_doorbell(entry);

	mutex_lock(&db->lock);
	WARN_ON(!list_empty(&db->qps));
	spin_lock_bh(&db->timer_lock);
	db->watched = false;
	doorbell_update_load(db);
	db->dev = NULL;
	db->user = NULL;
	spin_unlock_bh(&db->timer_lock);
	mutex_unlock(&db->lock);
	/* From now on no task starts the timer. */
	hrtimer_cancel(&db->timer);
	cancel_work_sync(&db->work);
	fput(db->file);
}

static void doorbell_free(struct sirdma_doorbell *db)
{
	free_page((unsigned long)db->page);
	kfree(db);
}

static int doorbell_release(struct inode *inode, struct file *file)
{
	doorbell_free(file->private_data);
	return 0;
}

static const struct file_operations doorbell_fops = {
	.owner = THIS_MODULE,
	.release = doorbell_release,
};

static struct sirdma_doorbell *doorbell_alloc(struct sirdma_dev *dev, struct sirdma_user *user)
{
	struct sirdma_doorbell *db = kzalloc(sizeof(*db), GFP_KERNEL_ACCOUNT);

	if (!db)
		return NULL;
	db->page = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!db->page) {
		kfree(db);
		return NULL;
	}
	db->page->wqe_alloc = NO_DOORBELL;
	db->base.map = doorbell_map;
	db->base.free = doorbell_stop;
	mutex_init(&db->lock);
	spin_lock_init(&db->timer_lock);
	db->dev = dev;
	db->user = user;
	INIT_LIST_HEAD(&db->qps);
	hrtimer_setup(&db->timer, doorbell_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	INIT_WORK(&db->work, doorbell_work);
	return db;
}

struct sirdma_doorbell *sirdma_doorbell_create(struct ib_ucontext *ibuctx)
{
	u32 pgoff = FIRST_PGOFF | (u32)atomic_inc_return(&doorbell_count);
	struct sirdma_doorbell *db =
		doorbell_alloc(to_sdev(ibuctx->device), to_suctx(ibuctx)->user);
	struct file *file;
	int err;

	if (!db)
		return ERR_PTR(-ENOMEM);
	file = anon_inode_getfile("[sirdma_doorbell]", &doorbell_fops, db, O_RDWR);
	if (IS_ERR(file)) {
		doorbell_free(db);
		return ERR_CAST(file);
	}
	db->file = file;
	err = rdma_user_mmap_entry_insert_range(ibuctx, &db->base.entry, PAGE_SIZE, pgoff, pgoff);
	if (err) {
		fput(file); /* frees db */
		return ERR_PTR(err);
	}
	return db;
}

struct rdma_user_mmap_entry *sirdma_doorbell_entry(struct sirdma_doorbell *db)
{
	return &db->base.entry;
}

void sirdma_doorbell_add(struct sirdma_qp *qp)
{
	struct sirdma_doorbell *db = qp->doorbell;

	if (!db)
		return;
	mutex_lock(&db->lock);
	spin_lock_bh(&db->timer_lock);
	list_add_tail(&qp->doorbell_node, &db->qps);
	db->nqps++;
	doorbell_update_load(db);
	spin_unlock_bh(&db->timer_lock);
	mutex_unlock(&db->lock);
}

void sirdma_doorbell_remove(struct sirdma_qp *qp)
{
	struct sirdma_doorbell *db = qp->doorbell;

	if (!db)
		return;
	mutex_lock(&db->lock);
	spin_lock_bh(&db->timer_lock);
	list_del(&qp->doorbell_node);
	db->nqps--;
	doorbell_update_load(db);
	spin_unlock_bh(&db->timer_lock);
	mutex_unlock(&db->lock);
}
