// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "defer.h"

#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include "compat/kthread.h"
#include "cpu.h"
#include "dev.h"
#include "napi.h"
#include "sirdma/roce.h"

static struct kthread_worker *snic_background; /* work of all hosts */
static struct workqueue_struct *snic_gsi_wq;

int snic_qpset_init(struct snic_qpset *set, u32 max_qps)
{
	u32 words = BITS_TO_LONGS(max_qps);

	set->qps = words * BITS_PER_LONG;
	set->group_qps = DIV_ROUND_UP(words, BITS_PER_LONG) * BITS_PER_LONG;
	set->groups = 0;
	set->next = 0;
	set->bits = kvcalloc(words, sizeof(*set->bits), GFP_KERNEL);
	return set->bits ? 0 : -ENOMEM;
}

void snic_qpset_fini(struct snic_qpset *set)
{
	kvfree(set->bits);
}

void snic_qpset_add(struct snic_qpset *set, u32 qpn)
{
	if (qpn >= set->qps)
		return;
	/*
	 * The barrier pairs with the removal of the bit: the CPU that takes the member sees why it
	 * was added.
	 */
	smp_mb__before_atomic();
	set_bit(qpn, set->bits);
	/*
	 * The barrier pairs with the one in snic_qpset_run(): a CPU that sees the group sees the
	 * member.
	 */
	smp_mb__before_atomic();
	set_bit(qpn / set->group_qps, &set->groups);
}

/* Run members in [*qpn, stop) and move *qpn past them. Returns false when the time is over. */
static bool snic_qpset_run_group(struct snic_qpset *set, struct snic_host *host,
				 void (*fn)(struct snic_host *host, u32 qpn), u32 *qpn, u32 stop,
				 u64 end)
{
	while ((*qpn = find_next_bit(set->bits, stop, *qpn)) < stop) {
		/* Two CPUs may find the bit, but only one of them clears it. */
		if (!test_and_clear_bit((*qpn)++, set->bits))
			continue;
		fn(host, *qpn - 1);
		if (ktime_get_ns() >= end)
			return false;
	}
	return true;
}

/*
 * The first group of @mask, which is not empty, from @group on. If there is none, the first group
 * of all.
 */
static u32 snic_qpset_next_group(unsigned long mask, u32 group)
{
	unsigned long behind = mask >> group;

	return behind ? group + __ffs(behind) : __ffs(mask);
}

bool snic_qpset_run(struct snic_qpset *set, struct snic_host *host,
		    void (*fn)(struct snic_host *host, u32 qpn), u64 end)
{
	u32 groups = DIV_ROUND_UP(set->qps, set->group_qps);
	u32 qpn = READ_ONCE(set->next), group, first, start, stop, i;
	bool in_time = true;
	unsigned long mask;

	/* Go once around: the first group is visited again, for its members before the start. */
	for (i = 0; i <= groups && in_time; i++) {
		mask = READ_ONCE(set->groups);
		if (!mask)
			break;
		start = qpn < set->qps ? qpn : 0;
		group = snic_qpset_next_group(mask, start / set->group_qps);
		first = group * set->group_qps;
		stop = min(first + set->group_qps, set->qps);
		if (start < first || start >= stop)
			start = first;
		qpn = stop;
		/*
		 * The clearing is fully ordered: a CPU that adds a member which is not seen below
		 * adds the group again.
		 */
		if (!test_and_clear_bit(group, &set->groups))
			continue;
		qpn = start;
		in_time = snic_qpset_run_group(set, host, fn, &qpn, stop, end);
		if (start != first || qpn != stop)
			set_bit(group, &set->groups);
	}
	WRITE_ONCE(set->next, qpn);
	return !snic_qpset_empty(set);
}

static void snic_defer_qp_run(struct snic_host *host, u32 qpn)
{
	snic_enter();
	snic_qp_run(host->dev, qpn);
	snic_leave();
}

/* What one host has deferred: QPs that wait for room, and QPs that left work. */
enum snic_defer_kind {
	SNIC_DEFER_WAITERS,
	SNIC_DEFER_QPS,
	SNIC_DEFER_KINDS,
};

static bool snic_defer_has(const struct snic_host *host, enum snic_defer_kind kind)
{
	return kind == SNIC_DEFER_WAITERS ? snic_txqs_has_waiters(host->txqs) :
					    !snic_qpset_empty(&host->deferred);
}

/* Run one QP at least, others until @end. */
static void snic_defer_run_kind(struct snic_host *host, enum snic_defer_kind kind, u64 end)
{
	if (kind == SNIC_DEFER_QPS) {
		snic_qpset_run(&host->deferred, host, snic_defer_qp_run, end);
		return;
	}
	snic_enter();
	snic_txqs_serve(host->txqs, end);
	snic_leave();
}

/*
 * The place where the next run of this CPU begins. Each kind of each host has a place, in the order
 * of the list of hosts. A host that comes or goes shifts the places, so one run begins elsewhere.
 */
static DEFINE_PER_CPU(u32, snic_defer_next);

/* Run the places from @first on and before @stop. Returns false when the time is over. */
static bool snic_defer_run_places(u32 first, u32 stop, u64 end)
{
	struct snic_host *host;
	u32 place = 0, kind;

	list_for_each_entry_rcu(host, &snic_hosts, node) {
		for (kind = 0; kind < SNIC_DEFER_KINDS; kind++, place++) {
			if (place < first || place >= stop || !snic_defer_has(host, kind))
				continue;
			snic_defer_run_kind(host, kind, end);
			this_cpu_write(snic_defer_next, place + 1);
			if (ktime_get_ns() >= end)
				return false;
		}
	}
	return true;
}

static bool snic_defer_left(void)
{
	const struct snic_host *host;
	u32 kind;

	list_for_each_entry_rcu(host, &snic_hosts, node)
		for (kind = 0; kind < SNIC_DEFER_KINDS; kind++)
			if (snic_defer_has(host, kind))
				return true;
	return false;
}

bool snic_defer_run(u64 end)
{
	u32 first = this_cpu_read(snic_defer_next);
	bool more;

	rcu_read_lock();
	if (snic_defer_run_places(first, U32_MAX, end))
		snic_defer_run_places(0, first, end);
	more = snic_defer_left();
	rcu_read_unlock();
	return more;
}

void snic_defer_background(struct snic_host *host, u32 qpn)
{
	snic_qpset_add(&host->background, qpn);
	kthread_queue_work(snic_background, &host->background_work);
}

/* One time slice for this host, then the next host's work runs. */
void snic_background_work(struct kthread_work *work)
{
	struct snic_host *host = container_of(work, struct snic_host, background_work);

	if (snic_qpset_run(&host->background, host, snic_defer_qp_run,
			   ktime_get_ns() + SNIC_POLL_NS))
		kthread_queue_work(snic_background, work);
}

/*
 * A tenth of the time that a task of normal priority gets on the same CPU. A consumer that
 * polls for flushed work requests still gets them.
 */
#define SNIC_BACKGROUND_NICE 10

int snic_background_init(void)
{
	snic_background = kthread_run_worker(0, "sirdma_flush");
	if (IS_ERR(snic_background))
		return PTR_ERR(snic_background);
	set_user_nice(snic_background->task, SNIC_BACKGROUND_NICE);
	return 0;
}

void snic_background_exit(void)
{
	kthread_destroy_worker(snic_background);
}

void snic_defer_gsi(struct snic_host *host)
{
	queue_work(snic_gsi_wq, &host->gsi_work);
}

void snic_gsi_work(struct work_struct *work)
{
	snic_defer_qp_run(container_of(work, struct snic_host, gsi_work), SIRDMA_GSI_QPN);
}

/* WQ_MEM_RECLAIM: a block device over RDMA connects again before pages can be written to it. */
int snic_gsi_init(void)
{
	snic_gsi_wq = alloc_workqueue("sirdma_gsi", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return snic_gsi_wq ? 0 : -ENOMEM;
}

void snic_gsi_exit(void)
{
	destroy_workqueue(snic_gsi_wq);
}
