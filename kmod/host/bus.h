/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The bus a host gives its driver: registers, DMA memory, interrupts. */
#ifndef SNIC_HOST_BUS_H
#define SNIC_HOST_BUS_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include "sirdma/bus.h"

struct snic_host;

/*
 * An interrupt line. The model raises it with locks held; the same CPU calls the
 * handler once they are dropped. While one CPU is in the handler, others only
 * count what they have to say, and it calls the handler once more.
 */
struct snic_vector {
	struct list_head node; /* in snic_cpu.vectors while queued */
	unsigned long queued; /* bit 0 */
	atomic_t calls; /* wanted, the running one included */
	struct snic_host *host;
	sirdma_irq_fn fn; /* NULL: not requested */
	void *ctx;
	u32 index;
};

struct snic_bus {
	struct sirdma_bus base;
	struct mutex lock; /* protects blocks, and requesting of vectors */
	struct list_head blocks; /* DMA memory handed out */
	struct snic_vector *vectors; /* [base.num_vectors] */
};

int snic_bus_init(struct snic_host *host, u32 num_vectors);
/* Reports and frees DMA memory the driver left behind. */
void snic_bus_fini(struct snic_host *host);
/* Wait until no interrupt is pending; none may be raised any more. */
void snic_bus_wait_idle(struct snic_host *host);
/* Call the handler of @vector, taken from its list. Softirqs are off. */
void snic_vector_run(struct snic_vector *vector);
/* The model's interrupt callback. */
void snic_bus_irq(struct snic_host *host, u32 vector);

#endif
