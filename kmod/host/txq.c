// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "txq.h"

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include "cpu.h"
#include "dev.h"
#include "local.h"
#include "tx.h"

static void snic_txq_init(struct snic_txq *q, struct snic_host *host, struct snic_txqs *all)
{
	spin_lock_init(&q->lock);
	__skb_queue_head_init(&q->wire);
	INIT_LIST_HEAD(&q->local);
	q->host = host;
	q->all = all;
	atomic_set(&q->inflight, SNIC_TXQ_HOST);
}

struct snic_txqs *snic_txqs_create(struct snic_host *host)
{
	struct snic_txqs *all = kvzalloc(sizeof(*all), GFP_KERNEL);
	unsigned int i;

	if (!all)
		return NULL;
	atomic_set(&all->used, SNIC_TXQS);
	for (i = 0; i < SNIC_TXQS; i++)
		snic_txq_init(&all->q[i], host, all);
	return all;
}

static void snic_txqs_free(struct rcu_head *rcu)
{
	kvfree(container_of(rcu, struct snic_txqs, rcu));
	module_put(THIS_MODULE);
}

/* This machine's own part: a CPU that has the queue scheduled is soon done. */
static void snic_txq_wait_released(struct snic_txq *q)
{
	bool scheduled;

	do {
		spin_lock_bh(&q->lock);
		scheduled = q->scheduled;
		spin_unlock_bh(&q->lock);
		if (scheduled)
			usleep_range(1000, 2000);
	} while (scheduled);
}

static u32 snic_txqs_inflight(struct snic_txqs *all)
{
	u32 bytes = 0;
	unsigned int i;

	for (i = 0; i < SNIC_TXQS; i++)
		bytes += atomic_read(&all->q[i].inflight) - SNIC_TXQ_HOST;
	return bytes;
}

/* Frames leave the stack within this, unless the netdev stands still. */
#define SNIC_TXQS_PATIENCE_MS 1000

void snic_txqs_destroy(struct snic_txqs *all)
{
	struct net_device *ndev = all->q[0].host->ndev;
	unsigned long end;
	unsigned int i;
	u32 left;

	for (i = 0; i < SNIC_TXQS; i++)
		snic_txq_wait_released(&all->q[i]);
	end = jiffies + msecs_to_jiffies(SNIC_TXQS_PATIENCE_MS);
	while ((left = snic_txqs_inflight(all)) && time_before(jiffies, end))
		usleep_range(1000, 2000);
	for (i = 0; i < SNIC_TXQS; i++)
		WRITE_ONCE(all->q[i].host, NULL);
	/* snic_txq_uncharge() looks at the queue and its host under RCU. */
	synchronize_rcu();
	if (!left) {
		kvfree(all);
		return;
	}
	netdev_info(ndev, "sirdma_nic: stays loaded while the netdev keeps %u bytes of frames\n",
		    left);
	/* The last frame frees the queues, by code of this module. */
	__module_get(THIS_MODULE);
	for (i = 0; i < SNIC_TXQS; i++)
		snic_txq_uncharge(&all->q[i], SNIC_TXQ_HOST);
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

void snic_txq_uncharge(struct snic_txq *q, u32 bytes)
{
	struct snic_host *host;
	int left;

	/* What is found here lives for a grace period more. */
	rcu_read_lock();
	/* Fully ordered against snic_tx_stall(): one of the two sees the other. */
	left = atomic_sub_return(bytes, &q->inflight);
	host = READ_ONCE(q->host);
	if (!left) {
		if (atomic_dec_and_test(&q->all->used))
			call_rcu(&q->all->rcu, snic_txqs_free);
	} else if (left < SNIC_TXQ_RESUME && host && !snic_qpset_empty(&host->stalled)) {
		snic_cpu_schedule();
	}
	rcu_read_unlock();
}
