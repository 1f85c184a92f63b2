// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "txq.h"

#include <linux/bitfield.h>
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include "cpu.h"
#include "dev.h"
#include "local.h"
#include "model/packet.h"
#include "tx.h"

static int snic_txq_init(struct snic_txq *q, struct snic_host *host, struct snic_txqs *all)
{
	spin_lock_init(&q->lock);
	__skb_queue_head_init(&q->wire);
	INIT_LIST_HEAD(&q->local);
	q->host = host;
	q->all = all;
	q->now = snic_charge_create(q);
	q->before = snic_charge_create(q);
	return q->now && q->before ? 0 : -ENOMEM;
}

/* Softirqs are off, or the caller ensures that no period can end. */
static u32 snic_txq_inflight(const struct snic_txq *q)
{
	return snic_charge_bytes(READ_ONCE(q->now)) + snic_charge_bytes(READ_ONCE(q->before));
}

static void snic_txq_wake(struct snic_txq *q)
{
	struct snic_txqs *all = q->all;
	unsigned int bit = q - all->q;

	if (!test_bit(bit, &all->wake) && !test_and_set_bit(bit, &all->wake))
		snic_cpu_schedule();
}

/* End a period, and write off the bytes that were sent before it. */
static void snic_txq_age(struct snic_txq *q)
{
	struct snic_charge *old = q->before, *fresh = old;
	u32 kept = snic_charge_bytes(old);
	bool wake;

	if (kept) {
		fresh = snic_charge_create(q);
		if (!fresh)
			return;
	}
	spin_lock_bh(&q->lock);
	WRITE_ONCE(q->before, q->now);
	WRITE_ONCE(q->now, fresh);
	smp_mb(); /* as in snic_txq_watch() */
	wake = q->wait_head && snic_txq_inflight(q) < SNIC_TXQ_RESUME;
	spin_unlock_bh(&q->lock);
	if (kept) {
		snic_stat_add(q->host->dev, SIRDMA_STAT_TX_WRITTEN_OFF, kept);
		snic_charge_drop(old);
	}
	/* A CPU that freed a frame or began to wait may have read one charge twice above. */
	if (wake)
		snic_txq_wake(q);
}

static void snic_txqs_watch(struct snic_txqs *all)
{
	if (!delayed_work_pending(&all->age))
		queue_delayed_work(snic_wq, &all->age, msecs_to_jiffies(SNIC_TXQ_PERIOD_MS));
}

static void snic_txqs_age(struct work_struct *work)
{
	struct snic_txqs *all = container_of(work, struct snic_txqs, age.work);
	bool waiting = false;
	unsigned int i;

	for (i = 0; i < SNIC_TXQS; i++) {
		if (!READ_ONCE(all->q[i].wait_head))
			continue;
		snic_txq_age(&all->q[i]);
		waiting = true;
	}
	/* No CPU still charges the bytes that the end of the next period writes off. */
	synchronize_rcu();
	if (waiting)
		snic_txqs_watch(all);
}

static void snic_txqs_drop_charges(struct snic_txqs *all)
{
	unsigned int i;

	for (i = 0; i < SNIC_TXQS; i++) {
		snic_charge_drop(all->q[i].now);
		snic_charge_drop(all->q[i].before);
	}
}

static void snic_txqs_free(struct snic_txqs *all)
{
	kvfree(all->readable);
	kvfree(all->wait_next);
	kvfree(all);
}

/* So many elements fill cache lines. */
#define SNIC_READABLE_ALIGN (SMP_CACHE_BYTES / sizeof(u32))

static_assert(SNIC_READABLE_ALIGN * sizeof(struct snic_txq_readable) % SMP_CACHE_BYTES == 0);

struct snic_txqs *snic_txqs_create(struct snic_host *host, u32 max_qps)
{
	struct snic_txqs *all = kvzalloc(sizeof(*all), GFP_KERNEL);
	const u32 qps = ALIGN(DIV_ROUND_UP(max_qps, SNIC_TXQS), SNIC_READABLE_ALIGN);
	unsigned int i;
	int err = 0;

	if (!all)
		return NULL;
	INIT_DELAYED_WORK(&all->age, snic_txqs_age);
	all->wait_next = kvcalloc(max_qps, sizeof(*all->wait_next), GFP_KERNEL);
	all->readable = kvcalloc(qps * SNIC_TXQS, sizeof(*all->readable), GFP_KERNEL);
	if (!all->wait_next || !all->readable)
		err = -ENOMEM;
	for (i = 0; i < SNIC_TXQS && !err; i++) {
		all->q[i].readable = all->readable + i * qps;
		err = snic_txq_init(&all->q[i], host, all);
	}
	if (err) {
		snic_txqs_drop_charges(all);
		snic_txqs_free(all);
		return NULL;
	}
	return all;
}

/* Wait for the CPU that has scheduled the queue. It needs the queue for a short time only. */
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
		bytes += snic_txq_inflight(&all->q[i]);
	return bytes;
}

/* Frames leave the stack within this time, unless the netdev stands still. */
#define SNIC_TXQS_DRAIN_TIMEOUT_MS 1000

void snic_txqs_destroy(struct snic_txqs *all)
{
	struct net_device *ndev = all->q[0].host->ndev;
	unsigned long end;
	unsigned int i;
	u32 left;

	for (i = 0; i < SNIC_TXQS; i++)
		snic_txq_wait_released(&all->q[i]);
	cancel_delayed_work_sync(&all->age);
	end = jiffies + msecs_to_jiffies(SNIC_TXQS_DRAIN_TIMEOUT_MS);
	while ((left = snic_txqs_inflight(all)) && time_before(jiffies, end))
		usleep_range(1000, 2000);
	if (left)
		netdev_info(ndev,
			    "sirdma_nic: stays loaded while the netdev keeps %u bytes of frames\n",
			    left);
	snic_txqs_drop_charges(all);
	/* snic_txq_uncharge() looks at the queue under RCU. */
	synchronize_rcu();
	snic_txqs_free(all);
}

static bool snic_txq_full(const struct snic_txq *q)
{
	return snic_txq_inflight(q) >= SNIC_TXQ_LIMIT;
}

/* The caller holds the lock. */
static void snic_txq_wait(struct snic_txq *q, u32 qpn)
{
	u32 *next = q->all->wait_next;

	if (next[qpn])
		return;
	next[qpn] = SNIC_TXQ_LAST;
	if (q->wait_head)
		next[q->wait_tail] = qpn;
	else
		WRITE_ONCE(q->wait_head, qpn);
	q->wait_tail = qpn;
}

/* The caller holds the lock, and a QP waits. */
static u32 snic_txq_next_waiting(struct snic_txq *q)
{
	u32 *next = q->all->wait_next, qpn = q->wait_head;

	WRITE_ONCE(q->wait_head, next[qpn] == SNIC_TXQ_LAST ? 0 : next[qpn]);
	next[qpn] = 0;
	return qpn;
}

/* QPs wait: the end of a period wakes them, or a frame that is freed. */
static void snic_txq_watch(struct snic_txq *q)
{
	/* The barrier pairs with the full barrier of the subtraction in snic_txq_uncharge(). */
	smp_mb();
	if (snic_txq_inflight(q) < SNIC_TXQ_RESUME)
		snic_txq_wake(q);
	else
		snic_txqs_watch(q->all);
}

bool snic_txq_room(struct snic_txq *q, u32 qpn)
{
	bool room, served;

	if (likely(!READ_ONCE(q->wait_head) && !snic_txq_full(q)))
		return true;
	spin_lock(&q->lock);
	room = !snic_txq_full(q) && (!q->wait_head || q->resumed == qpn);
	if (q->resumed == qpn)
		q->resumed = 0;
	if (!room)
		snic_txq_wait(q, qpn);
	served = q->serving;
	spin_unlock(&q->lock);
	/* A CPU that serves the queue checks the list again. */
	if (room || served)
		return room;
	snic_txq_watch(q);
	return false;
}

/*
 * The number of QPs that one call resumes before other queues are served, if there is time. Each may
 * send two bursts of 64 KiB (SNIC_HOLD_BURSTS), so sixteen of them can take a millisecond.
 */
#define SNIC_TXQ_SERVE 16

/* Resume QPs until @end, one at least. */
static void snic_txq_serve(struct snic_txq *q, u64 end)
{
	u32 n = 0, qpn;
	bool in_time = true, more, full;

	spin_lock(&q->lock);
	if (q->serving) {
		spin_unlock(&q->lock);
		return;
	}
	q->serving = true;
	while (in_time && n++ < SNIC_TXQ_SERVE && q->wait_head && !snic_txq_full(q)) {
		qpn = snic_txq_next_waiting(q);
		q->resumed = qpn;
		spin_unlock(&q->lock);
		snic_tx_resume(q->host->dev, qpn);
		in_time = ktime_get_ns() < end;
		spin_lock(&q->lock);
	}
	q->resumed = 0;
	q->serving = false;
	full = snic_txq_full(q);
	more = q->wait_head;
	spin_unlock(&q->lock);
	if (!more)
		return;
	if (!full)
		snic_txq_wake(q);
	else
		snic_txq_watch(q); /* other CPUs left QPs to us that had begun to wait */
}

bool snic_txqs_has_waiters(const struct snic_txqs *all)
{
	return READ_ONCE(all->wake);
}

bool snic_txqs_serve(struct snic_txqs *all, u64 end)
{
	unsigned int i, first = READ_ONCE(all->next);
	bool in_time = true;
	unsigned long wake;

	wake = xchg(&all->wake, 0);
	for_each_set_bit_wrap(i, &wake, SNIC_TXQS, first) {
		if (!in_time) {
			set_bit(i, &all->wake);
			continue;
		}
		snic_txq_serve(&all->q[i], end);
		in_time = ktime_get_ns() < end;
		WRITE_ONCE(all->next, (i + 1) % SNIC_TXQS);
	}
	return snic_txqs_has_waiters(all);
}

/*
 * The caller has changed what may be read of QP @qpn, which a copy that begins later sees. Returns the packet that
 * is being copied if it is one of that QP; 0: no copy is under way that began before the change.
 */
static u64 snic_txq_copying(struct snic_txq *q, u32 qpn)
{
	u64 copying;

	smp_mb(); /* pairs with snic_local_pull(): one of the two sees the other */
	/* pairs with the stores of snic_local_pull() */
	copying = smp_load_acquire(&q->copying);
	return FIELD_GET(SNIC_COPYING_QPN, copying) == qpn ? copying : 0;
}

static void snic_txq_wait_copied(struct snic_txq *q, u64 copying)
{
	/* pairs with the stores of snic_local_pull() */
	while (smp_load_acquire(&q->copying) == copying)
		cpu_relax();
}

void snic_txq_finish_kept(struct snic_txq *q, u32 qpn, enum snic_side side)
{
	struct snic_txq_readable *may = snic_txq_readable(q, qpn);
	u64 copying;

	WRITE_ONCE(may->gen[side], may->gen[side] + 1);
	copying = snic_txq_copying(q, qpn);
	if (copying && !!(copying & SNIC_COPYING_RESPONSE) == (side == SNIC_RESPONDER))
		snic_txq_wait_copied(q, copying);
}

void snic_txq_finish_kept_before(struct snic_txq *q, u32 qpn, u32 una)
{
	u64 copying;

	WRITE_ONCE(snic_txq_readable(q, qpn)->una, una);
	copying = snic_txq_copying(q, qpn);
	if (copying && !(copying & SNIC_COPYING_RESPONSE) &&
	    snic_psn_diff(FIELD_GET(SNIC_COPYING_PSN, copying), una) < 0)
		snic_txq_wait_copied(q, copying);
}

void snic_txq_add(struct snic_txq *q, struct sk_buff_head *wire, struct list_head *local, u32 bytes)
{
	bool mine;

	spin_lock(&q->lock);
	/* Are no other bytes charged than these? A charge that was written off counts as sent. */
	if (q->xps_cpu != smp_processor_id() && snic_txq_inflight(q) == bytes)
		WRITE_ONCE(q->xps_cpu, smp_processor_id());
	skb_queue_splice_tail_init(wire, &q->wire);
	list_splice_tail_init(local, &q->local);
	mine = !q->scheduled;
	q->scheduled = true;
	spin_unlock(&q->lock);
	if (mine)
		snic_cpu_pend(q);
}

/*
 * What a queue may send before another queue is drained: frames to the netdev, and the cost in bytes to
 * a device of this host, which takes them at once. The minimum cost of a frame. The frames are those of a
 * NAPI poll of a virtual netdev (NAPI_POLL_WEIGHT), the bytes those of a burst (SNIC_BURST_DEFAULT);
 * the cost lets a drain send 32 small frames (SNIC_DRAIN_COST). They were not tuned.
 */
#define SNIC_TXQ_BATCH 64
#define SNIC_TXQ_LOCAL_BATCH (64 * 1024)
#define SNIC_FRAME_MIN_COST 4096
/*
 * Bytes to a device of this host count as a quarter. If they count in full, the throughput of messages
 * of 1 MiB over a device's own loopback is 5 to 20 % lower (scripts/bench guest '*-1048576-loopback',
 * 2 CPUs: more of the work is left to the bottom half, which alternates with two programs that poll).
 * An eighth brings no more.
 */
#define SNIC_LOCAL_COST_SHIFT 2

/* Let the netdev choose its transmit queue as if CPU @cpu sent the frame. */
static void snic_txq_set_cpu(struct sk_buff *skb, int cpu)
{
#ifdef CONFIG_XPS
	skb->sender_cpu = cpu + 1; /* see netdev_core_pick_tx() */
#endif
}

/*
 * The caller has frames. Returns true if the netdev may have put some into this CPU's receive
 * backlog, as virtual netdevs do. Packets of others are before them, which only the backlog's own
 * numbers count.
 */
static bool snic_txq_send_wire(struct snic_txq *q, struct sk_buff_head *wire, u32 *cost)
{
	/* The charge does not change until these frames are freed. */
	const int cpu = READ_ONCE(q->xps_cpu);
	u32 before = snic_cpu_backlog_tail(), last, n;
	struct sk_buff *skb;

	for (n = 0; n < SNIC_TXQ_BATCH && (skb = __skb_dequeue(wire)); n++) {
		*cost += max_t(u32, skb->len, SNIC_FRAME_MIN_COST);
		snic_txq_set_cpu(skb, cpu);
		snic_tx_xmit(q->host, skb);
	}
	last = snic_cpu_backlog_tail();
	if (last == before)
		return false;
	q->last = last;
	q->linger_cpu = smp_processor_id();
	return true;
}

static u32 snic_txq_send_local(struct snic_txq *q, struct list_head *list)
{
	struct snic_local *local, *next;
	struct snic_charge *charge;
	u32 total = 0, bytes;

	list_for_each_entry_safe(local, next, list, node) {
		if (total >= SNIC_TXQ_LOCAL_BATCH)
			break;
		list_del(&local->node);
		charge = local->charge;
		bytes = local->bytes;
		total += snic_local_deliver(q->host, local);
		snic_txq_uncharge(charge, bytes);
	}
	return total;
}

/*
 * Are all frames of @q, which may have been in this CPU's receive backlog, past it, and past the
 * frames that had left it by then and had to wait for the bottom half? Frames that begin to wait
 * later do not matter, so that a flood of them cannot hold the queue.
 */
static bool snic_txq_passed(struct snic_txq *q, bool lingers)
{
	const struct snic_cpu *cpu = snic_cpu_this();

	if (!q->past_backlog) {
		if (!snic_cpu_passed(q->last, lingers))
			return false;
		q->past_backlog = true;
		q->waited = READ_ONCE(cpu->waited);
	}
	return (s32)(READ_ONCE(cpu->taken) - q->waited) >= 0;
}

/*
 * May frames of @q still be in this CPU's receive backlog, in cells behind it, or wait for the bottom
 * half? @entered: the netdev has just put some there. The backlog of a CPU that went offline has
 * moved to another one.
 */
static bool snic_txq_must_linger(struct snic_txq *q, bool entered)
{
	bool lingers = q->linger && q->linger_cpu == smp_processor_id();

	if (num_online_cpus() == 1)
		return false;
	if (entered)
		q->past_backlog = false;
	return (entered || lingers) && !snic_txq_passed(q, lingers);
}

enum snic_txq_next snic_txq_drain(struct snic_txq *q, u32 *cost)
{
	enum snic_txq_next next;
	struct sk_buff_head wire;
	LIST_HEAD(local);
	bool entered = false;

	__skb_queue_head_init(&wire);
	spin_lock(&q->lock);
	skb_queue_splice_init(&q->wire, &wire);
	list_splice_init(&q->local, &local);
	spin_unlock(&q->lock);

	if (!skb_queue_empty(&wire))
		entered = snic_txq_send_wire(q, &wire, cost);
	*cost += snic_txq_send_local(q, &local) >> SNIC_LOCAL_COST_SHIFT;
	q->linger = snic_txq_must_linger(q, entered);

	spin_lock(&q->lock);
	skb_queue_splice(&wire, &q->wire);
	list_splice(&local, &q->local);
	if (!skb_queue_empty(&q->wire) || !list_empty(&q->local))
		next = SNIC_TXQ_MORE;
	else
		next = q->linger ? SNIC_TXQ_LINGER : SNIC_TXQ_RELEASED;
	q->scheduled = next != SNIC_TXQ_RELEASED;
	spin_unlock(&q->lock);
	return next;
}

void snic_txq_uncharge(struct snic_charge *charge, u32 bytes)
{
	struct snic_txq *q;

	/* The queue found here lives for a grace period more. */
	rcu_read_lock();
	/* The store is fully ordered against snic_txq_room(): one of the two sees the other. */
	snic_charge_sub(charge, bytes);
	q = READ_ONCE(charge->q);
	if (q && READ_ONCE(q->wait_head) && snic_txq_inflight(q) < SNIC_TXQ_RESUME)
		snic_txq_wake(q);
	rcu_read_unlock();
}
