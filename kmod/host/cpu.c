// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cpu.h"

#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include "backlog.h"
#include "compat/napi.h"
#include "defer.h"
#include "local.h"
#include "napi.h"
#include "rx.h"
#include "txq.h"

/*
 * Bytes and queues that one drain may send before other softirqs run. A small frame
 * counts as SNIC_FRAME_MIN_COST: many would flood the receive backlog of a virtual netdev. The
 * bytes are two bursts (SNIC_BURST_DEFAULT) on the wire, eight to a device of this host, or 32 small
 * frames; the queues are all of eight devices, each of which may have almost nothing. The numbers
 * were not tuned: scripts/accept hold-times measures what they allow.
 */
#define SNIC_DRAIN_COST (128 * 1024)
#define SNIC_DRAIN_STEPS 256

static DEFINE_PER_CPU(struct snic_cpu, snic_cpus);

struct snic_cpu *snic_cpu_this(void)
{
	return this_cpu_ptr(&snic_cpus);
}

struct snic_cpu *snic_cpu_of(int cpu)
{
	return per_cpu_ptr(&snic_cpus, cpu);
}

unsigned long snic_cpu_received(void)
{
	return READ_ONCE(raw_cpu_ptr(&snic_cpus)->received);
}

static u32 snic_cpu_backlog_head(void)
{
	return snic_backlog_head(this_cpu_ptr(&softnet_data));
}

/* @q stays until the bottom half finds that the frames of @q have passed the backlog. */
static void snic_cpu_linger(struct snic_cpu *cpu, struct snic_txq *q)
{
	/*
	 * While no queue lingers, the bottom half may not run, and @passed gets so old that it
	 * seems new.
	 */
	if (list_empty(&cpu->lingering))
		cpu->passed = snic_cpu_backlog_head();
	list_add_tail(&q->node, &cpu->lingering);
}

/*
 * Drain one queue, or a batch of it. Returns false when none is pending. Drops the lock and takes
 * it again.
 */
static bool snic_cpu_step(struct snic_cpu *cpu, u32 *cost)
{
	enum snic_txq_next next;
	struct snic_txq *q;

	if (list_empty(&cpu->pending))
		return false;
	q = list_first_entry(&cpu->pending, struct snic_txq, node);
	list_del(&q->node);
	spin_unlock(&cpu->lock);
	next = snic_txq_drain(q, cost);
	spin_lock(&cpu->lock);
	/* A released queue may belong to another CPU by now, or may be freed. */
	if (next == SNIC_TXQ_MORE)
		list_add_tail(&q->node, &cpu->pending);
	else if (next == SNIC_TXQ_LINGER)
		snic_cpu_linger(cpu, q);
	return true;
}

/* Returns false when something is left for the bottom half. */
static bool snic_cpu_drain(struct snic_cpu *cpu)
{
	u32 cost = 0, steps = 0;
	bool done = true;

	/*
	 * Only this CPU adds queues. The bottom half is scheduled already for the queues that
	 * linger.
	 */
	if (list_empty(&cpu->pending))
		return true;
	spin_lock(&cpu->lock);
	if (!cpu->draining) {
		cpu->draining = true;
		while (cost < SNIC_DRAIN_COST && steps++ < SNIC_DRAIN_STEPS)
			if (!snic_cpu_step(cpu, &cost))
				break;
		cpu->draining = false;
		done = list_empty(&cpu->pending) && list_empty(&cpu->lingering);
	}
	spin_unlock(&cpu->lock);
	return done;
}

void snic_enter(void)
{
	local_bh_disable();
	snic_cpu_this()->entered++;
}

void snic_leave(void)
{
	struct snic_cpu *cpu = snic_cpu_this();

	/* The outermost bracket drains the queues. */
	if (cpu->entered == 1 && !snic_cpu_drain(cpu))
		napi_schedule(&cpu->napi);
	cpu->entered--;
	local_bh_enable();
}

void snic_cpu_pend(struct snic_txq *q)
{
	struct snic_cpu *cpu = snic_cpu_this();

	spin_lock(&cpu->lock);
	list_add_tail(&q->node, &cpu->pending);
	spin_unlock(&cpu->lock);
	if (!cpu->entered)
		napi_schedule(&cpu->napi);
}

u32 snic_cpu_backlog_tail(void)
{
	return snic_backlog_tail(this_cpu_ptr(&softnet_data));
}

/* Other CPUs may add to the backlog meanwhile, but no frames of this CPU. */
static bool snic_cpu_backlog_empty(void)
{
	const struct softnet_data *sd = this_cpu_ptr(&softnet_data);

	return skb_queue_empty_lockless(&sd->input_pkt_queue) &&
	       skb_queue_empty_lockless(&sd->process_queue);
}

/*
 * Are there tunnels? vxlan, macsec and others take a frame out of the backlog and put its contents
 * into a cell (net/gro_cells.h), a NAPI instance that they schedule on this CPU. The position of a
 * cell in the softirq's lists, before this bottom half or behind it, cannot be seen.
 */
static bool snic_cpu_cells __read_mostly;

/* A tunnel has its cells when it is registered; other netdevs without hardware get theirs later. */
static int snic_cpu_netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	const struct net_device *ndev = netdev_notifier_info_to_dev(info);

	if (event == NETDEV_REGISTER && !ndev->dev.parent && !list_empty(&ndev->napi_list))
		WRITE_ONCE(snic_cpu_cells, true);
	return NOTIFY_DONE;
}

static struct notifier_block snic_cpu_notifier = {
	.notifier_call = snic_cpu_netdev_event,
};

bool snic_cpu_passed(u32 last, bool lingers)
{
	const struct snic_cpu *cpu = snic_cpu_this();

	if (lingers && READ_ONCE(snic_cpu_cells))
		return (s32)(cpu->passed_cells - last) >= 0;
	return (s32)(snic_cpu_backlog_head() - last) >= 0 || snic_cpu_backlog_empty();
}

void snic_cpu_schedule_bh(void)
{
	local_bh_disable();
	napi_schedule(&snic_cpu_this()->napi);
	local_bh_enable();
}

void snic_cpu_schedule(void)
{
	unsigned long flags;

	local_irq_save(flags);
	napi_schedule_soon(&snic_cpu_this()->soon);
	local_irq_restore(flags);
}

/*
 * The softirq calls this once per poll. It polls all scheduled instances between two calls, so the
 * cells that were scheduled before the last call have been polled.
 */
static void snic_cpu_note_backlog(struct snic_cpu *cpu)
{
	cpu->passed_cells = cpu->passed;
	cpu->passed = snic_cpu_backlog_head();
}

/*
 * The bottom half sends the frames that other contexts left, takes the received frames that wait,
 * and runs deferred work. @cpu may be another CPU than this one: a CPU that went offline while its
 * bottom half was scheduled.
 */
static int snic_cpu_poll(struct napi_struct *napi, int budget)
{
	struct snic_cpu *cpu = container_of(napi, struct snic_cpu, napi);
	u64 start = ktime_get_ns();
	bool more, waiting;

	snic_enter();
	snic_cpu_note_backlog(snic_cpu_this());
	spin_lock(&cpu->lock);
	list_splice_tail_init(&cpu->lingering, &cpu->pending);
	spin_unlock(&cpu->lock);
	if (cpu != snic_cpu_this() && !snic_cpu_drain(cpu))
		napi_schedule(napi);
	snic_leave();
	waiting = snic_rx_take_waiting(cpu, start + SNIC_POLL_NS / 2);
	more = snic_defer_run(start + SNIC_POLL_NS);
	return snic_napi_polled(napi, start, budget, waiting || more);
}

static int snic_cpu_init_one(struct snic_cpu *cpu, int node)
{
	spin_lock_init(&cpu->lock);
	INIT_LIST_HEAD(&cpu->pending);
	INIT_LIST_HEAD(&cpu->lingering);
	skb_queue_head_init(&cpu->waiting);
	cpu->burst = kmalloc_node(sizeof(*cpu->burst), GFP_KERNEL, node);
	cpu->rx = kmalloc_node(sizeof(*cpu->rx), GFP_KERNEL, node);
	if (!cpu->burst || !cpu->rx)
		return -ENOMEM;
	snic_napi_add(&cpu->napi, snic_cpu_poll);
	napi_soon_init(&cpu->soon, &cpu->napi);
	napi_enable(&cpu->napi);
	return 0;
}

static void snic_cpu_free(void)
{
	int i;

	for_each_possible_cpu(i) {
		struct snic_cpu *cpu = snic_cpu_of(i);

		if (cpu->napi.poll) {
			napi_soon_exit(&cpu->soon);
			napi_disable(&cpu->napi);
			snic_napi_del(&cpu->napi);
		}
		snic_local_drop_cache(cpu);
		if (cpu->frag.page)
			put_page(cpu->frag.page);
		kfree(cpu->burst);
		kfree(cpu->rx);
	}
	synchronize_net();
	snic_napi_exit();
}

int snic_cpu_init(void)
{
	int i, err;

	err = snic_napi_init();
	if (err)
		return err;
	for_each_possible_cpu(i) {
		err = snic_cpu_init_one(snic_cpu_of(i), cpu_to_node(i));
		if (err) {
			snic_cpu_free();
			return err;
		}
	}
	/* The notifier gets an event for each netdev that exists. */
	err = register_netdevice_notifier(&snic_cpu_notifier);
	if (err)
		snic_cpu_free();
	return err;
}

void snic_cpu_exit(void)
{
	unregister_netdevice_notifier(&snic_cpu_notifier);
	snic_cpu_free();
}
