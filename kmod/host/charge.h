/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Bytes that a transmit queue has under way, in the network stack or to a device of this
 * machine. They are charged to the queue until they are freed, but not for ever, for
 * others may keep a frame: what is charged in one period is one charge, and the queue
 * writes it off when it is old. Frames that are freed later are freed from the charge
 * alone, which outlives queue and device with them.
 */
#ifndef SNIC_HOST_CHARGE_H
#define SNIC_HOST_CHARGE_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

struct snic_txq;

struct snic_charge {
	/* And SNIC_CHARGE_HELD while a queue has it: at 0 nobody refers to it. */
	atomic_t bytes;
	struct snic_txq *q; /* NULL once the queue has dropped it; under RCU */
	struct rcu_head rcu;
} ____cacheline_aligned_in_smp;

#define SNIC_CHARGE_HELD 1

/* May sleep. NULL without memory. */
struct snic_charge *snic_charge_create(struct snic_txq *q);
/*
 * The queue uses it no more. Whoever found it under RCU may go on for a grace period. The last
 * of its frames frees it, by code of this module, which stays until then. NULL is allowed.
 */
void snic_charge_drop(struct snic_charge *charge);

static inline u32 snic_charge_bytes(const struct snic_charge *charge)
{
	return atomic_read(&charge->bytes) - SNIC_CHARGE_HELD;
}

/* Take @bytes off. Fully ordered. Under RCU, for another one may take off the last. */
void snic_charge_sub(struct snic_charge *charge, u32 bytes);

#endif
