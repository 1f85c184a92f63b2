/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The bus between driver and device: registers, DMA memory, interrupts, and in
 * the kernel kicks, doorbell pages, link state, creation and removal.
 *
 * Driver and driver core reach their device through this and nothing else. A bus
 * is made by whoever hosts the device: the kernel adapter, the userspace twin, a
 * test harness (whose DMA addresses are unrelated to process addresses).
 */
#ifndef SIRDMA_BUS_H
#define SIRDMA_BUS_H

#include "regs.h"

/* Memory both sides see: @va for the driver, @pa for the device. */
struct sirdma_dma_mem {
	void *va;
	__u64 pa; /* DMA address; aligned to min(size rounded up to 2^n, 2 MiB), at least 4 KiB */
	__u64 size; /* bytes */
};

struct device;
struct net_device;
struct sirdma_bus;

/* What a driver wants of a new device. */
struct sirdma_bus_config {
	__u32 max_qps; /* 3 .. 1 << 18; numbers below it: 0 is none, 1 the general services' */
	__u32 max_cqs; /* .. 1 << 19 */
	__u32 max_mrs; /* .. 1 << 24 */
	__u32 max_pds; /* .. 1 << 18 */
	__u32 max_sds; /* HMC size: .. SIRDMA_HMC_MAX_SD */
	__u32 max_ceqs; /* .. 1023; interrupt vectors are max_ceqs + 1 */
	__u32 max_arp; /* .. 65536 */
	__u32 max_sgids; /* .. 1024 */
	__u32 max_cqe; /* .. 1 << 20 */
};

/* A struct sirdma_db_page to map into one user context. */
struct sirdma_bus_db {
	__u64 phys; /* physical address of the page */
	__u8 is_io; /* registers of a device, not RAM: map it uncached */
};

/*
 * Interrupt handler: called in atomic context with interrupts on (in the kernel, a
 * softirq), never from within a driver call that holds locks of the device, and
 * never from within doorbell(). It takes at most @budget events and returns how many;
 * as many as @budget, and the bus calls it again after others had their turn.
 *
 * A vector's handler runs once at a time. When its interrupt is raised while it runs,
 * by itself or by others, the bus calls it again after it returned.
 */
typedef __u32 (*sirdma_irq_fn)(void *ctx, __u32 vector, __u32 budget);

struct sirdma_bus_ops {
	__u32 (*read32)(struct sirdma_bus *bus, __u32 reg);
	/* Register write, ordered after all earlier memory writes. Only CQPDB, CCQPHIGH and CTRL may sleep. */
	void (*write32)(struct sirdma_bus *bus, __u32 reg, __u32 val);
	/* Zeroed memory, contiguous in DMA space. May sleep. 0 or -ENOMEM. */
	int (*dma_alloc)(struct sirdma_bus *bus, __u64 size, struct sirdma_dma_mem *mem);
	void (*dma_free)(struct sirdma_bus *bus, struct sirdma_dma_mem *mem);
	/* Vectors 0 .. num_vectors-1. 0, -EINVAL or -EBUSY. free waits for a running handler. */
	int (*irq_request)(struct sirdma_bus *bus, __u32 vector, sirdma_irq_fn fn, void *ctx);
	void (*irq_free)(struct sirdma_bus *bus, __u32 vector);

	/* What follows is for drivers in a kernel; where the bus is a process's, it is NULL. */

	/* Run QP @qpn, whose user rang its doorbell while the device slept. In the user's context. */
	void (*kick)(struct sirdma_bus *bus, __u32 qpn);
	/*
	 * What a consumer inside the kernel rings after it posted to @qpn and need_kick says
	 * so: any context, interrupts off and locks of the consumer held. The device looks at
	 * the rings soon, from a context of its own.
	 */
	void (*doorbell)(struct sirdma_bus *bus, __u32 qpn);
	/* Doorbells of one user context. May sleep. 0 or -ENOMEM. */
	int (*db_alloc)(struct sirdma_bus *bus, struct sirdma_bus_db *db);
	void (*db_free)(struct sirdma_bus *bus, const struct sirdma_bus_db *db);
	/* The netdev's carrier, MTU or MAC changed; afterwards SIRDMA_REG_LINK and the MAC registers say it. */
	void (*link_update)(struct sirdma_bus *bus);
	/* The driver has no object left, and no vector. Waits for packets in flight. */
	void (*destroy)(struct sirdma_bus *bus);
};

struct sirdma_bus {
	const struct sirdma_bus_ops *ops;
	__u32 num_vectors;
	struct device *dma_dev; /* maps memory for the device; NULL: DMA addresses are the kernel's */
};

/*
 * A device for the Ethernet netdev @ndev, which is not a VLAN, and its bus. Provided by
 * the module that hosts devices. Holds the netdev until destroyed. ERR_PTR: -EBUSY when
 * the netdev already has one, -EINVAL for an unsuitable netdev, -ENOMEM.
 */
struct sirdma_bus *sirdma_bus_create(struct net_device *ndev,
				     const struct sirdma_bus_config *config);

static inline __u32 sirdma_rd32(struct sirdma_bus *bus, __u32 reg)
{
	return bus->ops->read32(bus, reg);
}

static inline void sirdma_doorbell(struct sirdma_bus *bus, __u32 qpn)
{
	bus->ops->doorbell(bus, qpn);
}

static inline void sirdma_wr32(struct sirdma_bus *bus, __u32 reg, __u32 val)
{
	bus->ops->write32(bus, reg, val);
}

#endif
