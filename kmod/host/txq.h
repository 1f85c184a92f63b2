/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transmit queues between the model and the wire. QPs of a device are spread
 * over them by number, so the packets of one QP stay in order: at any time at
 * most one CPU drains a queue, and the frames of a queue that are under way are in one transmit
 * queue of the netdev (struct snic_txq.xps_cpu).
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
#include <linux/workqueue.h>
#include "charge.h"
#include "model/qp_side.h"

struct snic_host;

/* snic_txqs.wake has a bit for each; an unsigned long may have no more than 32. Not tuned. */
#define SNIC_TXQS 32
/*
 * A queue is full when this many bytes are queued here or on their way through the network
 * stack, and not written off. QPs that want to send then wait in a list, and so do QPs that
 * come while the list is not empty: first come, first served. The first QP sends one burst
 * and goes to the end of the list.
 *
 * The limit is two windows of a QP (SNIC_DEFAULT_WINDOW), since a frame takes about twice the
 * memory of its payload. Over a netdev that sends each 10 ms (scripts/accept fairness) one QP then
 * has 40 MB/s, and 16 MB/s with half of the limit; with GSO 48, and 25 with a quarter.
 *
 * The list is served when half of the queue is free, so that one wakeup is for several bursts,
 * which may be short. When 6000 QPs send 1 KiB each over 100 Mbit/s (verbs_fairness -n 6000 -m 4
 * -s 1024, qdisc tbf, no GSO), that is 900 wakeups instead of 8100, and 41 % of a processor instead
 * of 44 %. With messages of 16 KiB and more there is no difference.
 */
#define SNIC_TXQ_LIMIT (1024 * 1024)
#define SNIC_TXQ_RESUME (SNIC_TXQ_LIMIT / 2)
#define SNIC_TXQ_LAST (~0u) /* in wait_next: the end of the list */
/*
 * While QPs wait, bytes that are charged for longer than one of these periods are written off
 * before the second period ends: a netdev that is only slow has sent them by then.
 */
#define SNIC_TXQ_PERIOD_MS 1000

struct snic_txq {
	spinlock_t lock; /* protects the fields up to serving; taken inside QP locks */
	struct sk_buff_head wire;
	struct list_head local; /* list of struct snic_local.node */
	/*
	 * The CPU whose transmit queue of the netdev the frames take (XPS). It becomes the CPU that
	 * sends only when no frame of this queue is under way, since frames in another transmit
	 * queue could overtake those: the rule of TCP (skb->ooo_okay).
	 */
	int xps_cpu;
	bool scheduled; /* in the list of a CPU, or being drained by one */
	bool linger; /* from here to node: owned by the CPU that has scheduled it */
	bool past_backlog; /* all frames have left the backlog of linger_cpu */
	u32 last; /* the highest number of its frames in the backlog of linger_cpu (backlog.h) */
	u32 waited; /* past_backlog: snic_cpu.waited when that was found */
	int linger_cpu;
	struct list_head node;
	/*
	 * This word changes when QPs wait and when periods end. Senders and destructors of frames
	 * read it.
	 */
	u32 wait_head ____cacheline_aligned_in_smp; /* of a list in snic_txqs.wait_next, or 0 */
	u32 wait_tail;
	u32 resumed; /* the QP that may send a burst, 0: none */
	bool serving; /* a CPU resumes QPs that wait */
	struct snic_charge *now; /* charge of this period; this and before are under RCU */
	struct snic_charge *before; /* charge of the period before */
	struct snic_host *host;
	struct snic_txqs *all;
	/* The packet whose kept payload is being copied (snic_local_pull()): SNIC_COPYING; 0: none */
	u64 copying ____cacheline_aligned_in_smp;
	struct snic_txq_readable *readable; /* of its QPs, by their number / SNIC_TXQS */
} ____cacheline_aligned_in_smp;

/* snic_txq.copying: QP and PSN of a packet, which may be a response. The first bit makes the word differ from 0. */
#define SNIC_COPYING BIT_ULL(63)
#define SNIC_COPYING_RESPONSE BIT_ULL(62)
#define SNIC_COPYING_QPN GENMASK_ULL(47, 24)
#define SNIC_COPYING_PSN GENMASK_ULL(23, 0)

/*
 * Which kept payload of a QP may be read: that of requests and of responses, if it was kept in their generation here, and of
 * requests only packets from a PSN on.
 */
struct snic_txq_readable {
	u32 gen[SNIC_SIDES];
	u32 una; /* the PSN */
};

/* The queues of a device. */
struct snic_txqs {
	struct snic_txq q[SNIC_TXQS];
	/* The queues that snic_txqs_serve() has to serve, a bit each. */
	unsigned long wake ____cacheline_aligned_in_smp;
	u32 next; /* the queue that is served first: round robin */
	u32 *wait_next; /* [max_qps]: QP that waits behind, SNIC_TXQ_LAST; 0: does not wait */
	struct snic_txq_readable *readable; /* of all queues */
	struct delayed_work age; /* ends a period, while QPs wait */
};

/* QPs of different queues, which different CPUs may work for, do not share cache lines of these. */
static inline struct snic_txq_readable *snic_txq_readable(const struct snic_txq *q, u32 qpn)
{
	return &q->readable[qpn / SNIC_TXQS];
}

struct snic_txqs *snic_txqs_create(struct snic_host *host, u32 max_qps);
/*
 * The model sends nothing any more. Wait for frames in the network stack, for at most a second.
 * Sleeps.
 */
void snic_txqs_destroy(struct snic_txqs *all);
/* May QP @qpn send? If not, the QP waits, and snic_tx_resume() follows. Softirqs are off. */
bool snic_txq_room(struct snic_txq *q, u32 qpn);
/* Do QPs wait for queues that have room again? */
bool snic_txqs_has_waiters(const struct snic_txqs *all);
/*
 * Resume QPs that wait for queues that have room again: one QP at least, others until ktime_get_ns()
 * reaches @end. Returns true if QPs are left. Softirqs are off.
 */
bool snic_txqs_serve(struct snic_txqs *all, u64 end);
/*
 * From the return on nobody reads payload that @q keeps now of QP @qpn: that of requests or responses, or
 * that of requests before @una. Their packets are lost. Calls for one QP do not overlap, also not with those
 * that keep.
 */
void snic_txq_finish_kept(struct snic_txq *q, u32 qpn, enum snic_side side);
void snic_txq_finish_kept_before(struct snic_txq *q, u32 qpn, u32 una);
/* Append packets that were charged as @bytes. Softirqs are off. The lists are empty afterwards. */
void snic_txq_add(struct snic_txq *q, struct sk_buff_head *wire, struct list_head *local,
		  u32 bytes);
enum snic_txq_next {
	SNIC_TXQ_RELEASED, /* the queue was empty: the CPU that adds to it next drains it */
	SNIC_TXQ_MORE, /* not empty */
	/*
	 * The queue is empty, but frames that were sent may wait in this CPU's receive backlog,
	 * where a virtual netdev puts them. Another CPU that sent now would overtake it: this CPU
	 * keeps the queue until the backlog is past it.
	 */
	SNIC_TXQ_LINGER,
};

/*
 * Send the packets that are queued now, or a batch of them, and add their cost in bytes to *cost.
 * The CPU still owns the queue, unless it was released.
 */
enum snic_txq_next snic_txq_drain(struct snic_txq *q, u32 *cost);

/* Account @bytes until snic_txq_uncharge(). Softirqs are off. */
static inline struct snic_charge *snic_txq_charge(struct snic_txq *q, u32 bytes)
{
	struct snic_charge *charge = READ_ONCE(q->now);

	atomic_add(bytes, &charge->bytes);
	return charge;
}

/* Callers may be in any context but a hardirq. */
void snic_txq_uncharge(struct snic_charge *charge, u32 bytes);

#endif
