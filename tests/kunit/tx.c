// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Bursts to frames, and the queues that frames are charged to. */
#include <kunit/test.h>
#include <linux/etherdevice.h>
#include "model/frame.h"
#include "sirdma/stats.h"

/* Tracepoints belong to the module that is tested. */
#define SNIC_HOST_TRACE_H
#define trace_snic_tx(ndev, burst, accepted, is_local) \
	((void)(ndev), (void)(burst), (void)(accepted), (void)(is_local))

/* Periods end when a test says so, however long it takes. */
static unsigned int watched;
#define queue_delayed_work(wq, work, delay) ((void)(delay), watched++)

/* As if there were others to overtake this one. */
#undef num_online_cpus
#define num_online_cpus() 2U

/* The CPU that sends, as a test says. */
static int test_cpu;
#undef smp_processor_id
#define smp_processor_id() test_cpu

/* A netdev that keeps what it is given. */
static struct sk_buff_head kept;

/* Stand-ins for the rest of the host, which count. */
static struct {
	u32 pended;
	u32 scheduled;
	u32 resumed;
	u32 tail; /* of the backlog */
	u32 passed; /* the last number that has left it */
	bool is_virtual; /* the netdev, which puts frames into the backlog */
	u32 order[64];
	u64 stats[SIRDMA_STAT_COUNT];
} seen;

#define dev_queue_xmit(skb) \
	(seen.tail += seen.is_virtual, __skb_queue_tail(&kept, (skb)), NETDEV_TX_OK)

/* The headroom of a netdev grows while a frame for it is made. */
static u16 growth;
#define skb_reserve(skb, len) (host->ndev->needed_headroom += growth, skb_reserve(skb, len))

#include "host/charge.c"
#include "host/tx.c"
#include "host/txq.c"

#define QPN 17
#define PACKETS 4
#define PAYLOAD 1024
#define MAX_QPS 4096
#define BULK 65536 /* what a QP sends at a time */
#define HALF (SNIC_TXQ_LIMIT / 2)
#define WAITING 8 /* QPs that share the queue */

struct tx_fixture {
	struct snic_host host;
	struct snic_flow flow;
	struct snic_burst burst;
	u8 payload[PACKETS * PAYLOAD];
};

void snic_cpu_pend(struct snic_txq *q)
{
	seen.pended++;
}

void snic_cpu_schedule(void)
{
	seen.scheduled++;
}

u32 snic_cpu_backlog_tail(void)
{
	return seen.tail;
}

bool snic_cpu_passed(u32 last, bool lingers)
{
	return (s32)(seen.passed - last) >= 0;
}

void snic_stat_add(struct snic_dev *dev, enum sirdma_stat id, u64 n)
{
	seen.stats[id] += n;
}

struct snic_host *snic_addr_find(const struct snic_host *host, const struct sirdma_ip *from,
				 const u8 *src_mac, const struct sirdma_ip *to, bool has_vlan,
				 u16 vlan_id)
{
	return NULL;
}

u32 snic_local_build(struct snic_txq *q, struct snic_burst *burst, struct list_head *list)
{
	return 0;
}

u32 snic_local_deliver(struct snic_host *host, struct snic_local *local)
{
	return local->bytes;
}

/*
 * What the model does with a queue pair that is resumed: it sends one burst, and if it wants more
 * asks again.
 */
void snic_tx_resume(struct snic_dev *dev, u32 qpn)
{
	struct tx_fixture *f = (struct tx_fixture *)dev;

	if (seen.resumed < ARRAY_SIZE(seen.order))
		seen.order[seen.resumed] = qpn;
	seen.resumed++;
	if (!snic_host_tx_room(&f->host, qpn))
		return;
	snic_txq_charge(snic_host_txq(&f->host, qpn), BULK);
	snic_host_tx_room(&f->host, qpn);
}

static int tx_init(struct kunit *test)
{
	struct tx_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	memset(&seen, 0, sizeof(seen));
	watched = 0;
	test_cpu = 0;
	__skb_queue_head_init(&kept);
	f->host.ndev = alloc_etherdev(0);
	KUNIT_ASSERT_NOT_NULL(test, f->host.ndev);
	f->host.txqs = snic_txqs_create(&f->host, MAX_QPS);
	KUNIT_ASSERT_NOT_NULL(test, f->host.txqs);
	f->host.dev = (struct snic_dev *)f;
	f->flow.is_v4 = true;
	f->burst.flow = &f->flow;
	f->burst.qpn = QPN;
	f->burst.npkts = PACKETS;
	for (i = 0; i < PACKETS; i++) {
		f->burst.pkts[i].hdr_len = sizeof(struct sirdma_bth);
		f->burst.pkts[i].payload_len = PAYLOAD;
	}
	f->burst.nsegs = 1;
	f->burst.segs[0] = (struct snic_seg){f->payload, sizeof(f->payload)};
	return 0;
}

static void tx_exit(struct kunit *test)
{
	struct tx_fixture *f = test->priv;

	if (!f)
		return;
	if (f->host.txqs)
		snic_txqs_destroy(f->host.txqs);
	if (f->host.ndev)
		free_netdev(f->host.ndev);
}

static u32 tx(struct tx_fixture *f)
{
	u32 n;

	local_bh_disable();
	n = snic_tx(&f->host, &f->burst);
	local_bh_enable();
	return n;
}

/* The frames that wait for a CPU, which is done with the queue. */
static void take_frames(struct tx_fixture *f, struct sk_buff_head *frames)
{
	struct snic_txq *q = snic_host_txq(&f->host, QPN);

	__skb_queue_head_init(frames);
	skb_queue_splice_tail_init(&q->wire, frames);
	q->scheduled = false;
}

static u32 charged(struct tx_fixture *f)
{
	return snic_txq_inflight(snic_host_txq(&f->host, QPN));
}

static void frames_are_charged_until_the_stack_frees_them(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct sk_buff_head frames;
	struct sk_buff *skb;
	u32 truesize = 0;

	KUNIT_EXPECT_EQ(test, tx(f), PACKETS);
	KUNIT_EXPECT_EQ(test, seen.pended, 1);
	take_frames(f, &frames);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&frames), PACKETS);
	skb_queue_walk(&frames, skb) truesize += skb->truesize;
	KUNIT_EXPECT_EQ(test, charged(f), truesize);
	/* Whatever the stack did to it, what was charged comes back. */
	skb = skb_peek(&frames);
	KUNIT_EXPECT_EQ(test, pskb_expand_head(skb, 4096, 4096, GFP_KERNEL), 0);
	skb->truesize += 12345;
	__skb_queue_purge(&frames);
	KUNIT_EXPECT_EQ(test, charged(f), 0);
}

static void the_headroom_may_grow_while_a_frame_is_made(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct sk_buff_head frames;

	growth = 128;
	KUNIT_EXPECT_EQ(test, tx(f), PACKETS);
	growth = 0;
	KUNIT_EXPECT_EQ(test, f->host.ndev->needed_headroom, PACKETS * 128);
	take_frames(f, &frames);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&frames), PACKETS);
	__skb_queue_purge(&frames);
}

static void a_frame_uses_the_memory_of_frames_that_are_gone(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct sk_buff *first, *second;
	struct sk_buff_head frames;
	void *memory = NULL;
	u32 i;

	f->burst.npkts = 2;
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, tx(f), 2);
		take_frames(f, &frames);
		first = skb_peek(&frames);
		second = skb_peek_next(first, &frames);
		KUNIT_EXPECT_TRUE(test, first->head_frag);
		KUNIT_EXPECT_TRUE(test, second->head_frag);
		KUNIT_EXPECT_TRUE(test, second->head >= (u8 *)(skb_shinfo(first) + 1));
		if (i)
			KUNIT_EXPECT_PTR_EQ(test, (void *)first->head, memory);
		memory = first->head;
		__skb_queue_purge(&frames);
	}
}

static void what_the_netdev_cannot_take_is_not_sent(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct sk_buff_head frames;

	/* The path MTU of a queue pair was allowed when it was larger. */
	f->host.ndev->mtu = SNIC_IPV4_HLEN + SNIC_UDP_HLEN + sizeof(struct sirdma_bth) + PAYLOAD +
			    SIRDMA_ICRC_LEN - 1;
	f->burst.pkts[0].payload_len = 100;
	KUNIT_EXPECT_EQ(test, tx(f), PACKETS);
	take_frames(f, &frames);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&frames), 1);
	__skb_queue_purge(&frames);
	KUNIT_EXPECT_EQ(test, seen.stats[SIRDMA_STAT_TX_OVER_MTU], PACKETS - 1);
	f->host.ndev->mtu++;
	KUNIT_EXPECT_EQ(test, tx(f), PACKETS);
	take_frames(f, &frames);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&frames), PACKETS);
	__skb_queue_purge(&frames);
}

static void frames_that_a_netdev_keeps_outlive_the_device(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct sk_buff_head frames;
	unsigned int users;

	KUNIT_EXPECT_EQ(test, tx(f), PACKETS);
	take_frames(f, &frames);
	users = module_refcount(THIS_MODULE);
	snic_txqs_destroy(f->host.txqs);
	f->host.txqs = NULL;
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), users + 1);
	__skb_queue_purge(&frames);
	rcu_barrier();
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), users);
}

/* The @i-th queue pair of the queue of QPN; the later ones have lower numbers. */
static u32 qpn_at(u32 i)
{
	return QPN + SNIC_TXQS * (WAITING - i);
}

/* A full queue, for which eight queue pairs wait that each have much to send. */
static struct snic_txq *crowd(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = snic_host_txq(&f->host, QPN);
	u32 i;

	KUNIT_EXPECT_TRUE(test, snic_host_tx_room(&f->host, QPN));
	snic_txq_charge(q, SNIC_TXQ_LIMIT);
	for (i = 0; i < WAITING; i++)
		KUNIT_EXPECT_FALSE(test, snic_host_tx_room(&f->host, qpn_at(i)));
	return q;
}

static void serve(struct tx_fixture *f)
{
	local_bh_disable();
	snic_txqs_serve(f->host.txqs, ~0ull);
	local_bh_enable();
}

static void freed_frames_wake_nobody_before_half_the_queue_is_empty(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = crowd(test);
	u32 i, half = HALF / BULK;

	for (i = 0; i < half; i++) {
		snic_txq_uncharge(q->now, BULK);
		serve(f);
	}
	/* Exactly half of it is. */
	KUNIT_EXPECT_EQ(test, seen.scheduled, 0);
	KUNIT_EXPECT_EQ(test, seen.resumed, 0);
	/* From there on, one wake for all frames until the bottom half runs. */
	snic_txq_uncharge(q->now, BULK);
	snic_txq_uncharge(q->now, BULK);
	KUNIT_EXPECT_EQ(test, seen.scheduled, 1);
	serve(f);
	/* And no more queue pairs than there is room for. */
	KUNIT_EXPECT_EQ(test, seen.resumed, half + 2);
	snic_txq_uncharge(q->now, SNIC_TXQ_LIMIT);
}

static void first_come_is_first_served(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = crowd(test);
	u32 i, served;

	snic_txq_uncharge(q->now, HALF + BULK);
	/* There is room, but others came before. */
	KUNIT_EXPECT_FALSE(test, snic_host_tx_room(&f->host, QPN));
	serve(f);
	served = seen.resumed;
	KUNIT_EXPECT_EQ(test, served, HALF / BULK + 1);
	for (i = 0; i < WAITING; i++)
		KUNIT_EXPECT_EQ(test, seen.order[i], qpn_at(i));
	/* Who sent what it might and wants more is behind who did not yet. */
	snic_txq_uncharge(q->now, HALF + BULK);
	serve(f);
	KUNIT_EXPECT_EQ(test, seen.order[WAITING], QPN);
	for (i = WAITING + 1; i < min_t(u32, seen.resumed, 2 * WAITING + 1); i++)
		KUNIT_EXPECT_EQ(test, seen.order[i], qpn_at(i - WAITING - 1));
	snic_txq_uncharge(q->now, snic_txq_inflight(q));
}

static void everybody_waiting_is_served_when_the_queue_runs_empty(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = snic_host_txq(&f->host, QPN);
	u32 i, waiting = 3 * SNIC_TXQ_SERVE;

	snic_txq_charge(q, 2 * SNIC_TXQ_LIMIT);
	for (i = 1; i <= waiting; i++)
		KUNIT_EXPECT_FALSE(test, snic_host_tx_room(&f->host, QPN + SNIC_TXQS * i));
	for (i = 0; i < 100 && q->wait_head; i++) {
		snic_txq_uncharge(q->now, snic_txq_inflight(q));
		KUNIT_EXPECT_EQ(test, seen.scheduled, i + 1);
		serve(f);
		if (seen.resumed >= waiting)
			break;
	}
	KUNIT_EXPECT_GE(test, seen.resumed, waiting);
	snic_txq_uncharge(q->now, snic_txq_inflight(q));
}

static void queues_take_turns_when_there_is_no_time(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	u32 i, qpns = 0;
	bool more;

	for (i = 0; i < 3; i++) {
		snic_txq_charge(snic_host_txq(&f->host, QPN + i), SNIC_TXQ_LIMIT);
		KUNIT_EXPECT_FALSE(test, snic_host_tx_room(&f->host, QPN + i));
		snic_txq_uncharge(snic_host_txq(&f->host, QPN + i)->now, SNIC_TXQ_LIMIT);
	}
	for (i = 0; i < 3; i++) {
		local_bh_disable();
		more = snic_txqs_serve(f->host.txqs, 0);
		local_bh_enable();
		KUNIT_EXPECT_EQ(test, seen.resumed, i + 1);
		KUNIT_EXPECT_EQ(test, more, i < 2);
		qpns += seen.order[i];
	}
	KUNIT_EXPECT_EQ(test, qpns, 3 * QPN + 3);
	for (i = 0; i < 3; i++)
		snic_txq_uncharge(snic_host_txq(&f->host, QPN + i)->now, BULK);
}

/*
 * One that is resumed may send bursts of 64 KiB: those that wait at the same queue take turns as
 * well.
 */
static void one_queue_pair_is_resumed_when_there_is_no_time(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = crowd(test);
	u32 i;
	bool more;

	snic_txq_uncharge(q->now, SNIC_TXQ_LIMIT);
	for (i = 0; i < WAITING; i++) {
		local_bh_disable();
		more = snic_txqs_serve(f->host.txqs, 0);
		local_bh_enable();
		KUNIT_EXPECT_TRUE(test, more);
		KUNIT_EXPECT_EQ(test, seen.resumed, i + 1);
		KUNIT_EXPECT_EQ(test, seen.order[i], qpn_at(i));
	}
	snic_txq_uncharge(q->now, snic_txq_inflight(q));
}

static void end_period(struct tx_fixture *f)
{
	snic_txqs_age(&f->host.txqs->age.work);
}

static void frames_that_are_kept_are_charged_for_two_periods_at_most(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = crowd(test);
	struct snic_charge *kept = q->now, *recent;
	unsigned int users = module_refcount(THIS_MODULE);
	u32 i;

	KUNIT_EXPECT_GT(test, watched, 0);
	end_period(f);
	KUNIT_EXPECT_EQ(test, charged(f), SNIC_TXQ_LIMIT);
	KUNIT_EXPECT_EQ(test, seen.scheduled, 0);
	recent = snic_txq_charge(q, BULK);
	end_period(f);
	/* What was charged since then is not two periods old. */
	KUNIT_EXPECT_EQ(test, charged(f), BULK);
	KUNIT_EXPECT_EQ(test, seen.stats[SIRDMA_STAT_TX_WRITTEN_OFF], SNIC_TXQ_LIMIT);
	KUNIT_EXPECT_EQ(test, seen.scheduled, 1);
	serve(f);
	for (i = 0; i < WAITING; i++)
		KUNIT_EXPECT_EQ(test, seen.order[i], qpn_at(i));
	/* Freed after all, it makes no room a second time. */
	i = charged(f);
	snic_txq_uncharge(kept, SNIC_TXQ_LIMIT);
	KUNIT_EXPECT_EQ(test, charged(f), i);
	rcu_barrier();
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), users);
	snic_txq_uncharge(recent, BULK);
	KUNIT_EXPECT_EQ(test, charged(f), i - BULK);
	snic_txq_uncharge(q->now, charged(f));
}

/* Those that began to wait while the queue was served, too. */
static void who_waits_behind_a_full_queue_is_watched(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = crowd(test);

	watched = 0;
	snic_txq_uncharge(q->now, HALF + BULK);
	serve(f);
	KUNIT_EXPECT_NE(test, q->wait_head, 0);
	KUNIT_EXPECT_GT(test, watched, 0);
	snic_txq_uncharge(q->now, snic_txq_inflight(q));
}

static void frames_that_go_in_time_are_never_written_off(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = crowd(test);
	struct snic_charge *charge[2] = {q->now};
	u32 i;

	end_period(f);
	for (i = 1; i < 10; i++) {
		charge[i % 2] = snic_txq_charge(q, SNIC_TXQ_LIMIT);
		snic_txq_uncharge(charge[(i - 1) % 2], SNIC_TXQ_LIMIT);
		end_period(f);
		KUNIT_EXPECT_EQ(test, charged(f), SNIC_TXQ_LIMIT);
	}
	KUNIT_EXPECT_EQ(test, seen.stats[SIRDMA_STAT_TX_WRITTEN_OFF], 0);
	snic_txq_uncharge(charge[(i - 1) % 2], SNIC_TXQ_LIMIT);
}

/* The model asks for no room for them. */
static void acknowledgements_pass_a_full_queue(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = crowd(test);
	struct sk_buff_head frames;

	f->burst.npkts = 1;
	f->burst.pkts[0].payload_len = 0;
	KUNIT_EXPECT_EQ(test, tx(f), 1);
	take_frames(f, &frames);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&frames), 1);
	__skb_queue_purge(&frames);
	snic_txq_uncharge(q->now, SNIC_TXQ_LIMIT);
}

/* Whatever others send. */
static void a_queue_is_released_when_its_own_frames_have_passed(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = snic_host_txq(&f->host, QPN);
	u32 cost = 0;

	local_bh_disable();
	q->scheduled = true;
	q->linger = true;
	q->last = 7;
	q->linger_cpu = smp_processor_id();
	seen.passed = 6;
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_LINGER);
	KUNIT_EXPECT_TRUE(test, q->scheduled);
	seen.passed = 7;
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_RELEASED);
	KUNIT_EXPECT_FALSE(test, q->scheduled);
	local_bh_enable();
}

/* Packets of others may be in the backlog: frames of ours are not unless they were put there now. */
static void a_queue_lingers_for_frames_in_the_backlog_only(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = snic_host_txq(&f->host, QPN);
	u32 cost = 0;

	seen.tail = 1000;
	seen.passed = 10;
	tx(f);
	local_bh_disable();
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_RELEASED);
	local_bh_enable();
	seen.is_virtual = true;
	tx(f);
	local_bh_disable();
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_LINGER);
	KUNIT_EXPECT_EQ(test, q->last, 1000 + PACKETS);
	seen.passed = 1000 + PACKETS - 1;
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_LINGER);
	local_bh_enable();
	/* Others that follow do not make it wait longer. */
	seen.is_virtual = false;
	tx(f);
	local_bh_disable();
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_LINGER);
	seen.passed++;
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_RELEASED);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, skb_queue_len(&kept), 3 * PACKETS);
	__skb_queue_purge(&kept);
}

/*
 * Frames that left the backlog before a frame of the queue, or with it, wait for the bottom half.
 * Others follow without end.
 */
static void a_flood_of_waiting_frames_does_not_hold_a_queue(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = snic_host_txq(&f->host, QPN);
	struct snic_cpu *cpu;
	u32 cost = 0, i;

	local_bh_disable();
	cpu = snic_cpu_this();
	cpu->waited = cpu->taken = ~0u - 1; /* the numbers wrap around */
	q->scheduled = true;
	q->linger = true;
	q->last = 7;
	q->linger_cpu = smp_processor_id();
	seen.passed = 6;
	cpu->waited += 3;
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_LINGER);
	seen.passed = 7;
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_LINGER);
		cpu->waited += 10;
		cpu->taken++;
	}
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_RELEASED);
	cpu->waited = cpu->taken = 0;
	q->linger = false;
	local_bh_enable();
}

static void drain(struct kunit *test, struct snic_txq *q)
{
	u32 cost = 0;

	local_bh_disable();
	KUNIT_EXPECT_EQ(test, snic_txq_drain(q, &cost), SNIC_TXQ_RELEASED);
	local_bh_enable();
}

/* Frames in another transmit queue of the netdev could overtake them. */
static void the_transmit_queue_changes_when_no_frame_is_under_way(struct kunit *test)
{
	struct tx_fixture *f = test->priv;
	struct snic_txq *q = snic_host_txq(&f->host, QPN);
	u32 i;

	test_cpu = 2;
	tx(f);
	KUNIT_EXPECT_EQ(test, q->xps_cpu, 2);
	/* They wait, or the netdev has them. */
	test_cpu = 1;
	tx(f);
	KUNIT_EXPECT_EQ(test, q->xps_cpu, 2);
	drain(test, q);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&kept), 2 * PACKETS);
	tx(f);
	drain(test, q);
	KUNIT_EXPECT_EQ(test, q->xps_cpu, 2);
	for (i = 1; i < 3 * PACKETS; i++)
		kfree_skb(__skb_dequeue(&kept));
	tx(f);
	drain(test, q);
	KUNIT_EXPECT_EQ(test, q->xps_cpu, 2);
	__skb_queue_purge(&kept);
	KUNIT_EXPECT_EQ(test, charged(f), 0);
	tx(f);
	KUNIT_EXPECT_EQ(test, q->xps_cpu, 1);
	drain(test, q);
#ifdef CONFIG_XPS
	KUNIT_EXPECT_EQ(test, skb_peek(&kept)->sender_cpu, 2);
#endif
	__skb_queue_purge(&kept);
}

static struct kunit_case tx_cases[] = {
	KUNIT_CASE(the_transmit_queue_changes_when_no_frame_is_under_way),
	KUNIT_CASE(frames_are_charged_until_the_stack_frees_them),
	KUNIT_CASE(the_headroom_may_grow_while_a_frame_is_made),
	KUNIT_CASE(a_frame_uses_the_memory_of_frames_that_are_gone),
	KUNIT_CASE(what_the_netdev_cannot_take_is_not_sent),
	KUNIT_CASE(frames_that_a_netdev_keeps_outlive_the_device),
	KUNIT_CASE(freed_frames_wake_nobody_before_half_the_queue_is_empty),
	KUNIT_CASE(first_come_is_first_served),
	KUNIT_CASE(everybody_waiting_is_served_when_the_queue_runs_empty),
	KUNIT_CASE(queues_take_turns_when_there_is_no_time),
	KUNIT_CASE(one_queue_pair_is_resumed_when_there_is_no_time),
	KUNIT_CASE(frames_that_are_kept_are_charged_for_two_periods_at_most),
	KUNIT_CASE(who_waits_behind_a_full_queue_is_watched),
	KUNIT_CASE(frames_that_go_in_time_are_never_written_off),
	KUNIT_CASE(acknowledgements_pass_a_full_queue),
	KUNIT_CASE(a_queue_is_released_when_its_own_frames_have_passed),
	KUNIT_CASE(a_queue_lingers_for_frames_in_the_backlog_only),
	KUNIT_CASE(a_flood_of_waiting_frames_does_not_hold_a_queue),
	{},
};

static struct kunit_suite tx_suite = {
	.name = "sirdma_tx",
	.init = tx_init,
	.exit = tx_exit,
	.test_cases = tx_cases,
};
kunit_test_suite(tx_suite);
