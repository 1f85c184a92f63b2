/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The bus that a host gives to its driver: registers, DMA memory, interrupts. */
#ifndef SNIC_HOST_BUS_H
#define SNIC_HOST_BUS_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include "sirdma/bus.h"

struct snic_host;

/*
 * An interrupt line. The model raises it with locks held. Its bottom half calls the
 * handler on the same CPU once the locks are dropped. It is enabled while there is a handler.
 */
struct snic_vector {
	struct napi_struct napi;
	struct snic_host *host;
	sirdma_irq_fn fn; /* NULL: no driver requested the vector */
	void *ctx;
	u32 index;
};

struct snic_bus {
	struct sirdma_bus base;
	struct mutex lock; /* protects blocks */
	/* protects the requests of vectors; napi_enable() takes locks of netdevs within it */
	struct mutex irq_lock;
	struct list_head blocks; /* DMA memory that the driver holds */
	struct snic_vector *vectors; /* [base.num_vectors] */
};

int snic_bus_init(struct snic_host *host, u32 num_vectors);
/* Report and free DMA memory that the driver did not free. */
void snic_bus_fini(struct snic_host *host);
/* The model's interrupt callback. */
void snic_bus_irq(struct snic_host *host, u32 vector);

#endif
