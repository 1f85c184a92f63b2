// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "txq.h"

#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include "cpu.h"
#include "dev.h"
#include "local.h"
#include "tx.h"

void snic_txq_init(struct snic_txq *q, struct snic_host *host)
{
	spin_lock_init(&q->lock);
	__skb_queue_head_init(&q->wire);
	INIT_LIST_HEAD(&q->local);
	q->host = host;
	atomic_set(&q->inflight, 0);
}

void snic_txq_add(struct snic_txq *q, struct sk_buff_head *wire, struct list_head *local)
{
	bool mine;

	spin_lock(&q->lock);
	skb_queue_splice_tail_init(wire, &q->wire);
	list_splice_tail_init(local, &q->local);
	mine = !q->scheduled;
	q->scheduled = true;
	spin_unlock(&q->lock);
	if (mine)
		snic_cpu_pend(q);
}

/* Frames given to the netdev before others have a turn, and what one counts at least. */
#define SNIC_TXQ_BATCH 64
#define SNIC_FRAME_MIN_COST 4096

static u32 snic_txq_send_wire(struct snic_txq *q, struct sk_buff_head *wire)
{
	struct sk_buff *skb;
	u32 cost = 0, n;

	for (n = 0; n < SNIC_TXQ_BATCH && (skb = __skb_dequeue(wire)); n++) {
		cost += max_t(u32, skb->len, SNIC_FRAME_MIN_COST);
		snic_tx_xmit(q->host, skb);
	}
	return cost;
}

static u32 snic_txq_send_local(struct snic_txq *q, struct list_head *list)
{
	struct snic_local *local, *next;
	u32 bytes = 0;

	list_for_each_entry_safe(local, next, list, node) {
		bytes += local->bytes;
		snic_local_deliver(q->host, local);
	}
	if (bytes)
		snic_txq_uncharge(q, bytes);
	return bytes;
}

/* Sent now, or before and the receive softirq ran out of time: its bit is set again then. */
static bool snic_txq_must_linger(const struct snic_txq *q, bool sends)
{
	if (num_online_cpus() == 1)
		return false;
	return sends || (q->linger && (local_softirq_pending() & BIT(NET_RX_SOFTIRQ)));
}

enum snic_txq_next snic_txq_drain(struct snic_txq *q, u32 *cost)
{
	enum snic_txq_next next;
	struct sk_buff_head wire;
	LIST_HEAD(local);

	__skb_queue_head_init(&wire);
	spin_lock(&q->lock);
	skb_queue_splice_init(&q->wire, &wire);
	list_splice_init(&q->local, &local);
	spin_unlock(&q->lock);

	q->linger = snic_txq_must_linger(q, !skb_queue_empty(&wire));
	*cost += snic_txq_send_wire(q, &wire);
	*cost += snic_txq_send_local(q, &local);

	spin_lock(&q->lock);
	skb_queue_splice(&wire, &q->wire);
	if (!skb_queue_empty(&q->wire) || !list_empty(&q->local))
		next = SNIC_TXQ_MORE;
	else
		next = q->linger ? SNIC_TXQ_LINGER : SNIC_TXQ_RELEASED;
	q->scheduled = next != SNIC_TXQ_RELEASED;
	spin_unlock(&q->lock);
	return next;
}

bool snic_txq_idle(struct snic_txq *q)
{
	bool idle;

	spin_lock_bh(&q->lock);
	idle = !q->scheduled && !atomic_read(&q->inflight);
	spin_unlock_bh(&q->lock);
	return idle;
}

void snic_txq_uncharge(struct snic_txq *q, u32 bytes)
{
	struct snic_host *host = q->host;

	/* The host may be destroyed once nothing is in flight, after a grace period. */
	rcu_read_lock();
	/* Fully ordered against snic_tx_stall(): one of the two sees the other. */
	if (atomic_sub_return(bytes, &q->inflight) < SNIC_TXQ_RESUME &&
	    !snic_qpset_empty(&host->stalled))
		snic_cpu_schedule();
	rcu_read_unlock();
}
