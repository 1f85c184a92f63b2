/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * alloc_netdev_dummy() came with 6.10. Since 6.15 napi_schedule() may be called
 * in every context; before, a task that called it left its softirq pending until
 * the next interrupt: napi_schedule_soon() sees to it that there is one.
 */
#ifndef SIRDMA_COMPAT_NAPI_H
#define SIRDMA_COMPAT_NAPI_H

#include <linux/irq_work.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
static inline void compat_dummy_setup(struct net_device *dev) {}

static inline struct net_device *alloc_netdev_dummy(int sizeof_priv)
{
	return alloc_netdev(sizeof_priv, "dummy#", NET_NAME_UNKNOWN, compat_dummy_setup);
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
static inline void compat_softirq_soon(struct irq_work *work) {}

static DEFINE_PER_CPU(struct irq_work, compat_softirq_work);

/* At run time: these kernels do not relocate the initial values of a module's per-CPU variables. */
static inline void napi_schedule_soon_init(void)
{
	int i;

	for_each_possible_cpu(i)
		*per_cpu_ptr(&compat_softirq_work, i) = IRQ_WORK_INIT_HARD(compat_softirq_soon);
}

/* Interrupts are off. */
static inline void napi_schedule_soon(struct napi_struct *napi)
{
	if (!napi_schedule_prep(napi))
		return;
	__napi_schedule_irqoff(napi);
	irq_work_queue(this_cpu_ptr(&compat_softirq_work));
}

static inline void napi_schedule_soon_exit(void)
{
	int i;

	for_each_possible_cpu(i)
		irq_work_sync(per_cpu_ptr(&compat_softirq_work, i));
}
#else
static inline void napi_schedule_soon(struct napi_struct *napi)
{
	napi_schedule_irqoff(napi);
}

static inline void napi_schedule_soon_init(void) {}
static inline void napi_schedule_soon_exit(void) {}
#endif

#endif
