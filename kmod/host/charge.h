/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Bytes that a transmit queue has under way, in the network stack or to a device of this
 * machine. They are charged to the queue until they are freed. A netdev may keep a frame for
 * ever, so each period has a charge of its own, and the queue writes old charges off. A frame
 * that is freed later is subtracted from its charge alone, which outlives the queue and the
 * device until then.
 */
#ifndef SNIC_HOST_CHARGE_H
#define SNIC_HOST_CHARGE_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

struct snic_txq;

struct snic_charge {
	/* Plus SNIC_CHARGE_HELD while a queue uses the charge. At 0 nothing refers to it. */
	atomic_t bytes;
	struct snic_txq *q; /* NULL once the queue has dropped the charge; under RCU */
	struct rcu_head rcu;
} ____cacheline_aligned_in_smp;

#define SNIC_CHARGE_HELD 1

/* Returns NULL without memory. May sleep. */
struct snic_charge *snic_charge_create(struct snic_txq *q);
/*
 * The queue stops using the charge; RCU readers may use it for a grace period more. The last of its
 * frames frees it, and the module stays loaded until then. NULL is allowed.
 */
void snic_charge_drop(struct snic_charge *charge);

static inline u32 snic_charge_bytes(const struct snic_charge *charge)
{
	return atomic_read(&charge->bytes) - SNIC_CHARGE_HELD;
}

/*
 * Subtract @bytes. The subtraction is fully ordered. Call this under RCU: another CPU may subtract
 * the last of them.
 */
void snic_charge_sub(struct snic_charge *charge, u32 bytes);

#endif
