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
/*
 * Bytes queued here or still on their way through the network stack. A queue with that many
 * is full. QPs that want to send then wait in a list, and so do those that come while it is
 * not empty: first come, first served. A QP whose turn it is sends one burst and waits behind
 * the others for the next.
 */
#define SNIC_TXQ_LIMIT (1024 * 1024)
#define SNIC_TXQ_RESUME (SNIC_TXQ_LIMIT / 2)
#define SNIC_TXQ_LAST (~0u)

struct snic_txq {
	spinlock_t lock; /* protects what is up to serving; taken inside QP locks */
	struct sk_buff_head wire;
	struct list_head local; /* struct snic_local.node */
	bool scheduled; /* in the list of a CPU, or being drained by one */
	u32 wait_head; /* QPs that wait for room, linked by snic_txqs.wait_next; 0: none */
	u32 wait_tail;
	u32 turn; /* QP whose turn it is to send a burst, 0: none */
	bool serving; /* a CPU resumes QPs that wait */
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
	/* Queues to be served by snic_txqs_serve(), a bit each. */
	unsigned long wake ____cacheline_aligned_in_smp;
	u32 next; /* the queue that is served first, so that each has its turn */
	u32 *wait_next; /* [max_qps]: QP that waits behind, SNIC_TXQ_LAST; 0: does not wait */
	atomic_t used; /* queues somebody refers to */
	struct rcu_head rcu;
};

struct snic_txqs *snic_txqs_create(struct snic_host *host, u32 max_qps);
/* Nothing is sent any more. Waits for the frames in the network stack, but not long. Sleeps. */
void snic_txqs_destroy(struct snic_txqs *all);
/* May QP @qpn send? If not it waits, and snic_tx_resume() follows. Softirqs are off. */
bool snic_txq_room(struct snic_txq *q, u32 qpn);
/*
 * Resume QPs that wait for queues that have room again: of one queue at least, of others
 * until ktime_get_ns() reaches @end. True when queues are left. Softirqs are off.
 */
bool snic_txqs_serve(struct snic_txqs *all, u64 end);
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

#endif
