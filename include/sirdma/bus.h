/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The bus between driver and device: registers, DMA memory, interrupts.
 *
 * The driver core reaches its device through this and nothing else. A bus is
 * made by whoever hosts the device: the kernel adapter, the userspace twin, a
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

struct sirdma_bus;

/* Interrupt handler: called in atomic context, never from within a driver call that holds locks of the device. */
typedef void (*sirdma_irq_fn)(void *ctx, __u32 vector);

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
};

struct sirdma_bus {
	const struct sirdma_bus_ops *ops;
	__u32 num_vectors;
};

static inline __u32 sirdma_rd32(struct sirdma_bus *bus, __u32 reg)
{
	return bus->ops->read32(bus, reg);
}

static inline void sirdma_wr32(struct sirdma_bus *bus, __u32 reg, __u32 val)
{
	bus->ops->write32(bus, reg, val);
}

#endif
