/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transmit queues between the model and the wire. QPs of a device are spread
 * over them by number, so the packets of one QP stay in order: at any time at
 * most one CPU drains a queue.
 */
#ifndef SNIC_HOST_TXQ_H
#define SNIC_HOST_TXQ_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct snic_host;

#define SNIC_TXQS 32
/* Bytes queued here or still on their way through the network stack. */
#define SNIC_TXQ_LIMIT (1024 * 1024)
#define SNIC_TXQ_RESUME (SNIC_TXQ_LIMIT / 2)

struct snic_txq {
	spinlock_t lock; /* protects wire, local and scheduled; taken inside QP locks */
	struct sk_buff_head wire;
	struct list_head local; /* struct snic_local.node */
	bool scheduled; /* in the list of a CPU, or being drained by one */
	bool linger; /* this and node: owned by the CPU that has scheduled it */
	struct list_head node;
	struct snic_host *host; /* NULL once it is gone; of others under RCU */
	struct snic_txqs *all;
	/* Bytes, and SNIC_TXQ_HOST while there is a host: at 0 nobody refers to the queue. */
	atomic_t inflight ____cacheline_aligned_in_smp;
} ____cacheline_aligned_in_smp;

#define SNIC_TXQ_HOST 1

/* The queues of a device. They outlive it while a netdev's driver keeps frames. */
struct snic_txqs {
	struct snic_txq q[SNIC_TXQS];
	atomic_t used; /* queues somebody refers to */
	struct rcu_head rcu;
};

struct snic_txqs *snic_txqs_create(struct snic_host *host);
/* Nothing is sent any more. Waits for the frames in the network stack, but not long. Sleeps. */
void snic_txqs_destroy(struct snic_txqs *all);
/* Append; softirqs are off. The lists are left empty. */
void snic_txq_add(struct snic_txq *q, struct sk_buff_head *wire, struct list_head *local);
enum snic_txq_next {
	SNIC_TXQ_RELEASED, /* empty: whoever adds to it next drains it */
	SNIC_TXQ_MORE, /* not empty */
	/*
	 * Empty, but what was sent may wait in this CPU's receive backlog, where a
	 * virtual netdev puts it. Another CPU that sent now would overtake it: this
	 * CPU keeps the queue until it has been through its receive softirq.
	 */
	SNIC_TXQ_LINGER,
};

/*
 * Send what is queued now, or a batch of it, and add to *cost what that was, in
 * bytes. Only a released queue is not the CPU's any more.
 */
enum snic_txq_next snic_txq_drain(struct snic_txq *q, u32 *cost);

/* Account @bytes until snic_txq_uncharge(). */
static inline void snic_txq_charge(struct snic_txq *q, u32 bytes)
{
	atomic_add(bytes, &q->inflight);
}

void snic_txq_uncharge(struct snic_txq *q, u32 bytes);

static inline bool snic_txq_full(const struct snic_txq *q)
{
	return atomic_read(&q->inflight) >= SNIC_TXQ_LIMIT;
}

#endif
