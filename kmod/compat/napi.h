/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* NAPI instances of a device without a netdev. alloc_netdev_dummy() came with 6.10. */
#ifndef SIRDMA_COMPAT_NAPI_H
#define SIRDMA_COMPAT_NAPI_H

#include <linux/irq_work.h>
#include <linux/netdevice.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
static inline void compat_dummy_setup(struct net_device *dev) {}

static inline struct net_device *alloc_netdev_dummy(int sizeof_priv)
{
	return alloc_netdev(sizeof_priv, "dummy#", NET_NAME_UNKNOWN, compat_dummy_setup);
}
#endif

/*
 * Schedules an instance of this CPU from any context, so that it is polled soon. If a task calls
 * napi_schedule(), the softirq waits for ksoftirqd, which takes two context switches, or in kernels
 * before 6.15 for the next interrupt. So an interrupt calls it, where irq_work has one.
 */
struct napi_soon {
	struct irq_work work;
	struct napi_struct *napi;
};

#ifdef CONFIG_IRQ_WORK
static inline void napi_soon_fire(struct irq_work *work)
{
	__napi_schedule(container_of(work, struct napi_soon, work)->napi);
}

static inline void napi_soon_init(struct napi_soon *soon, struct napi_struct *napi)
{
	soon->work = IRQ_WORK_INIT_HARD(napi_soon_fire);
	soon->napi = napi;
}

/* Interrupts are off. */
static inline void napi_schedule_soon(struct napi_soon *soon)
{
	if (!napi_schedule_prep(soon->napi))
		return;
	if (arch_irq_work_has_interrupt())
		irq_work_queue(&soon->work);
	else
		__napi_schedule_irqoff(soon->napi);
}

/* The instance may be disabled after this. */
static inline void napi_soon_exit(struct napi_soon *soon)
{
	irq_work_sync(&soon->work);
}
#else
static inline void napi_soon_init(struct napi_soon *soon, struct napi_struct *napi)
{
	soon->napi = napi;
}

static inline void napi_schedule_soon(struct napi_soon *soon)
{
	napi_schedule_irqoff(soon->napi);
}

static inline void napi_soon_exit(struct napi_soon *soon) {}
#endif

#endif
