// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cpu.h"

#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include "bus.h"
#include "defer.h"
#include "local.h"
#include "txq.h"

/*
 * What one turn may send, in bytes, before other softirqs get theirs. Small
 * frames count as more: not to flood the receive backlog of a virtual netdev.
 */
#define SNIC_DRAIN_COST (1024 * 1024)
#define SNIC_DRAIN_STEPS 256

static DEFINE_PER_CPU(struct snic_cpu, snic_cpus);

struct snic_cpu *snic_cpu_this(void)
{
	return this_cpu_ptr(&snic_cpus);
}

struct snic_cpu *snic_cpu_any(void)
{
	return raw_cpu_ptr(&snic_cpus);
}

/* Take one entry off the lists and act on it; false when there is none. Called and returns locked. */
static bool snic_cpu_step(struct snic_cpu *cpu, bool handlers, u32 *cost)
{
	struct snic_vector *vector;
	enum snic_txq_next next;
	struct snic_txq *q;

	if (!list_empty(&cpu->pending)) {
		q = list_first_entry(&cpu->pending, struct snic_txq, node);
		list_del(&q->node);
		spin_unlock(&cpu->lock);
		next = snic_txq_drain(q, cost);
		spin_lock(&cpu->lock);
		/* A released queue may be another CPU's, or gone. */
		if (next == SNIC_TXQ_MORE)
			list_add_tail(&q->node, &cpu->pending);
		else if (next == SNIC_TXQ_LINGER)
			list_add_tail(&q->node, &cpu->lingering);
		return true;
	}
	if (handlers && !list_empty(&cpu->vectors)) {
		vector = list_first_entry(&cpu->vectors, struct snic_vector, node);
		list_del(&vector->node);
		spin_unlock(&cpu->lock);
		snic_vector_run(vector);
		spin_lock(&cpu->lock);
		return true;
	}
	return false;
}

/* @handlers: the context may call interrupt handlers. What is left over, the tasklet does. */
static void snic_cpu_drain(struct snic_cpu *cpu, bool handlers)
{
	u32 cost = 0, steps = 0;

	spin_lock(&cpu->lock);
	if (!cpu->draining) {
		cpu->draining = true;
		while (cost < SNIC_DRAIN_COST && steps++ < SNIC_DRAIN_STEPS)
			if (!snic_cpu_step(cpu, handlers, &cost))
				break;
		cpu->draining = false;
		if (!list_empty(&cpu->pending) || !list_empty(&cpu->vectors) ||
		    !list_empty(&cpu->lingering))
			tasklet_schedule(&cpu->work);
	}
	spin_unlock(&cpu->lock);
}

void snic_enter(void)
{
	local_bh_disable();
	snic_cpu_this()->entered++;
}

void snic_leave(void)
{
	struct snic_cpu *cpu = snic_cpu_this();

	/*
	 * An inner bracket leaves the lists to the outer one. Handlers take locks
	 * of the driver, which may hold them where it turned softirqs off.
	 */
	if (cpu->entered == 1)
		snic_cpu_drain(cpu, cpu->in_work || softirq_count() == SOFTIRQ_DISABLE_OFFSET);
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
		tasklet_schedule(&cpu->work);
}

void snic_cpu_raise(struct snic_vector *vector)
{
	struct snic_cpu *cpu = snic_cpu_this();

	spin_lock(&cpu->lock);
	list_add_tail(&vector->node, &cpu->vectors);
	spin_unlock(&cpu->lock);
	if (!cpu->entered)
		tasklet_schedule(&cpu->work);
}

void snic_cpu_schedule(void)
{
	/* Raised in process context it would wait for ksoftirqd; enabling softirqs runs it. */
	bool process = !in_interrupt() && !irqs_disabled();

	if (process)
		local_bh_disable();
	tasklet_schedule(&raw_cpu_ptr(&snic_cpus)->work);
	if (process)
		local_bh_enable();
}

static void snic_cpu_work(struct tasklet_struct *work)
{
	struct snic_cpu *cpu = from_tasklet(cpu, work, work);
	struct snic_cpu *this = snic_cpu_this();

	snic_enter();
	this->in_work = true;
	/* The receive softirq comes before tasklets: lingering queues have waited for it. */
	spin_lock(&cpu->lock);
	list_splice_tail_init(&cpu->lingering, &cpu->pending);
	spin_unlock(&cpu->lock);
	snic_defer_run();
	/* Not this CPU's when that one went offline with the tasklet pending. */
	if (cpu != this)
		snic_cpu_drain(cpu, true);
	snic_leave();
	this->in_work = false;
}

static int snic_cpu_init_one(struct snic_cpu *cpu, int node)
{
	spin_lock_init(&cpu->lock);
	INIT_LIST_HEAD(&cpu->pending);
	INIT_LIST_HEAD(&cpu->lingering);
	INIT_LIST_HEAD(&cpu->vectors);
	tasklet_setup(&cpu->work, snic_cpu_work);
	cpu->burst = kmalloc_node(sizeof(*cpu->burst), GFP_KERNEL, node);
	cpu->rx = kmalloc_node(sizeof(*cpu->rx), GFP_KERNEL, node);
	return cpu->burst && cpu->rx ? 0 : -ENOMEM;
}

int snic_cpu_init(void)
{
	int i, err;

	for_each_possible_cpu(i) {
		err = snic_cpu_init_one(per_cpu_ptr(&snic_cpus, i), cpu_to_node(i));
		if (err) {
			snic_cpu_exit();
			return err;
		}
	}
	return 0;
}

void snic_cpu_exit(void)
{
	int i;

	for_each_possible_cpu(i) {
		struct snic_cpu *cpu = per_cpu_ptr(&snic_cpus, i);

		if (cpu->work.callback)
			tasklet_kill(&cpu->work);
		snic_local_drop_cache(cpu);
		if (cpu->frag.page)
			put_page(cpu->frag.page);
		kfree(cpu->burst);
		kfree(cpu->rx);
	}
}
