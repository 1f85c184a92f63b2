/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The bus between driver and device: registers, DMA memory, interrupts, and in
 * the kernel kicks, doorbell pages, link state, creation and removal.
 *
 * Driver and driver core reach their device only through it. The host of the device makes
 * the bus: the kernel adapter, the userspace twin, or a test harness (whose DMA addresses
 * are unrelated to process addresses).
 */
#ifndef SIRDMA_BUS_H
#define SIRDMA_BUS_H

#include "regs.h"

/* Memory that both sides access: by @va the driver, by @pa the device. */
struct sirdma_dma_mem {
	void *va;
	__u64 pa; /* DMA address; aligned to min(size rounded up to 2^n, 2 MiB), at least 4 KiB */
	__u64 size; /* bytes */
};

struct device;
struct net_device;
struct sirdma_bus;

/* The limits that a driver asks a new device for. */
struct sirdma_bus_config {
	__u32 max_qps; /* 3 .. 1 << 18; numbers below it: 0 is none, 1 the general services' */
	__u32 max_cqs; /* .. 1 << 19 */
	__u32 max_srqs; /* 2 .. 1 << 16; 0 is none */
	__u32 max_mrs; /* .. 1 << 24 */
	__u32 max_pds; /* .. (1 << 18) - 1 */
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
 * Interrupt handler. The bus calls it in atomic context with interrupts on (in the kernel,
 * in a softirq), never within a driver call that holds locks of the device, and never
 * within doorbell(). It consumes at most @budget events and returns how many. When it
 * returns @budget, the bus calls it again after other handlers have run.
 *
 * A vector's handler runs once at a time. When its interrupt is raised while it runs,
 * by itself or by others, the bus calls it again after it returned.
 */
typedef __u32 (*sirdma_irq_fn)(void *ctx, __u32 vector, __u32 budget);

struct sirdma_bus_ops {
	__u32 (*read32)(struct sirdma_bus *bus, __u32 reg);
	/*
	 * Register write, ordered after all earlier memory writes. Only CQPDB, CCQPHIGH, CTRL
	 * and PBLESYNC may sleep.
	 */
	void (*write32)(struct sirdma_bus *bus, __u32 reg, __u32 val);
	/* Zeroed memory, contiguous in DMA space. May sleep, also under a port_mutex: it waits for no storage (port.h). 0 or -ENOMEM. */
	int (*dma_alloc)(struct sirdma_bus *bus, __u64 size, struct sirdma_dma_mem *mem);
	void (*dma_free)(struct sirdma_bus *bus, struct sirdma_dma_mem *mem);
	/*
	 * Vectors 0 .. num_vectors-1. 0, -EINVAL or -EBUSY. irq_free() waits for a running
	 * handler.
	 */
	int (*irq_request)(struct sirdma_bus *bus, __u32 vector, sirdma_irq_fn fn, void *ctx);
	void (*irq_free)(struct sirdma_bus *bus, __u32 vector);

	/* The functions below are for drivers in a kernel; in a process they are NULL. */

	/*
	 * Run QP @qpn, which the device had put to sleep. Called in the system call of its user.
	 * @kicker: the number of the caller's context; 0: the driver vouches for the caller. Returns
	 * false if that context has no such QP.
	 */
	__u8 (*kick)(struct sirdma_bus *bus, __u32 qpn, __u32 kicker);
	/*
	 * For consumers in the kernel, which posted to @qpn and found need_kick set. Any
	 * context, also with interrupts off and locks of the consumer held: the device reads
	 * the rings soon, in a context of its own.
	 */
	void (*doorbell)(struct sirdma_bus *bus, __u32 qpn);
	/* The doorbell page of one user context. May sleep. 0 or -ENOMEM. */
	int (*db_alloc)(struct sirdma_bus *bus, struct sirdma_bus_db *db);
	void (*db_free)(struct sirdma_bus *bus, const struct sirdma_bus_db *db);
	/*
	 * The netdev's carrier, MTU or MAC changed: update SIRDMA_REG_LINK and the MAC
	 * registers.
	 */
	void (*link_update)(struct sirdma_bus *bus);
	/*
	 * Destroy the device; the driver has freed all objects and vectors, and rings no doorbell any
	 * more. Waits for packets in flight.
	 */
	void (*destroy)(struct sirdma_bus *bus);
};

struct sirdma_bus {
	const struct sirdma_bus_ops *ops;
	__u32 num_vectors;
	/* maps memory for the device; NULL: DMA addresses are the kernel's */
	struct device *dma_dev;
};

/*
 * Create a device and its bus on the Ethernet netdev @ndev, which is not a VLAN. The module
 * that hosts devices implements it. The function is one symbol that the driver's module links with, so
 * a module for other devices takes the place of the host's; both cannot be loaded at once. The bus
 * holds the netdev until it is destroyed.
 * ERR_PTR: -EBUSY when the netdev already has one, -EINVAL for an unsuitable netdev, -ENOMEM.
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
