// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Packets to devices of this host: in buffers, or with their payload by reference. */
#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/module.h>

/* Tracepoints belong to the module that is tested. */
#define SNIC_HOST_TRACE_H
#define trace_snic_rx(ndev, pkt) ((void)(ndev), (void)(pkt))

#include "model/frame.c"
#include "model/icrc.c"
#include "port/kernel_crc32.c"
#include "host/charge.c"
static void *copy_kept(void *to, const void *from, size_t len);
#define memmove copy_kept
#include "host/local.c"
#undef memmove
#include "host/txq.c"

#define QPN 17
#define OTHER_QPN (QPN + SNIC_TXQS) /* of the same queue */
#define PACKETS 16
#define PAYLOAD 2048
#define BYTES (PACKETS * PAYLOAD)
#define PSN 0xfffffc /* wraps within a burst */
#define MAX_QPS 128

struct local_fixture {
	struct snic_host host;
	struct snic_flow flow;
	struct snic_burst burst;
	struct list_head list;
	u8 payload[BYTES];
	u8 received[BYTES];
};

/* Stand-ins for the rest of the host, and for the model, which copies what it is given. */
static struct {
	struct local_fixture *f;
	bool refuses; /* snic_burst_keep() */
	u32 keeps;
	u32 puts;
	u32 packets;
	u32 pulled;
	u32 lost; /* packets whose payload could not be pulled */
	u32 bytes;
	u32 bad; /* packets with wrong headers or lengths */
	u32 unmarked; /* copies of which whoever finishes payload could not know */
	u64 stats[SIRDMA_STAT_COUNT];
} seen;

static struct snic_cpu cpu;

#define COPY_OF(qpn, psn) \
	(SNIC_COPYING | FIELD_PREP(SNIC_COPYING_QPN, (qpn)) | FIELD_PREP(SNIC_COPYING_PSN, (psn)))

/* In place of memmove() in snic_local_pull() */
static void *copy_kept(void *to, const void *from, size_t len)
{
	const struct snic_burst *burst = &seen.f->burst;
	u64 copy = COPY_OF(burst->qpn, (PSN + seen.packets - 1) & SIRDMA_PSN_MASK);

	if (burst->side == SNIC_RESPONDER)
		copy |= SNIC_COPYING_RESPONSE;
	seen.unmarked += snic_host_txq(&seen.f->host, burst->qpn)->copying != copy;
	return memcpy(to, from, len);
}

struct workqueue_struct *snic_wq;

struct snic_cpu *snic_cpu_this(void)
{
	return &cpu;
}

void snic_cpu_pend(struct snic_txq *q) {}

void snic_cpu_schedule(void) {}

u32 snic_cpu_backlog_tail(void)
{
	return 0;
}

bool snic_cpu_passed(u32 last, bool lingers)
{
	return true;
}

void snic_tx_xmit(struct snic_host *host, struct sk_buff *skb)
{
	kfree_skb(skb);
}

void snic_tx_resume(struct snic_dev *dev, u32 qpn) {}

void snic_stat_add(struct snic_dev *dev, enum sirdma_stat id, u64 n)
{
	seen.stats[id] += n;
}

struct snic_host *snic_addr_find(const struct snic_host *host, const struct sirdma_ip *from,
				 const u8 *src_mac, const struct sirdma_ip *to, bool has_vlan,
				 u16 vlan_id)
{
	return &seen.f->host;
}

bool snic_burst_keep(struct snic_burst *burst, struct snic_kept *kept)
{
	if (seen.refuses)
		return false;
	seen.keeps++;
	kept->count = SNIC_KEPT_MAX;
	return true;
}

void snic_kept_put(struct snic_kept *kept)
{
	seen.puts += kept->count == SNIC_KEPT_MAX;
}

void snic_rx_batch_add(struct snic_rx_batch *batch, const struct snic_rx_pkt *pkt)
{
	const u8 *hdr = pkt->segs[0].ptr;
	u32 hlen = sizeof(struct sirdma_bth), len = pkt->len - hlen - SIRDMA_ICRC_LEN;
	struct snic_seg_iter it = {
		.seg = pkt->segs + pkt->by_reference,
		.off = pkt->by_reference ? 0 : hlen,
	};
	u32 i, sum = 0;

	for (i = 0; i < pkt->nsegs; i++)
		sum += pkt->segs[i].len;
	seen.bad += sum != pkt->len || pkt->segs[0].len < hlen || hdr[0] != (u8)seen.packets ||
		    seen.bytes + len > BYTES;
	seen.packets++;
	if (seen.bytes + len > BYTES)
		return;
	if (!pkt->by_reference) {
		snic_seg_copy(&it, seen.f->received + seen.bytes, len);
	} else if (snic_local_pull(&seen.f->host, &it, seen.f->received + seen.bytes, len)) {
		seen.pulled++;
	} else {
		seen.lost++;
		return;
	}
	seen.bytes += len;
}

void snic_rx_batch_end(struct snic_rx_batch *batch) {}

/* A burst of @npkts packets with @len bytes each. */
static void shape(struct local_fixture *f, u32 npkts, u32 len)
{
	u32 i;

	f->burst.npkts = npkts;
	for (i = 0; i < npkts; i++) {
		f->burst.pkts[i].hdr[0] = i;
		f->burst.pkts[i].bth.apsn = cpu_to_be32((PSN + i) & SIRDMA_PSN_MASK);
		f->burst.pkts[i].hdr_len = sizeof(struct sirdma_bth);
		f->burst.pkts[i].payload_len = len;
	}
}

static int local_init(struct kunit *test)
{
	struct local_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	memset(&seen, 0, sizeof(seen));
	seen.f = f;
	f->host.txqs = snic_txqs_create(&f->host, MAX_QPS);
	KUNIT_ASSERT_NOT_NULL(test, f->host.txqs);
	INIT_LIST_HEAD(&f->list);
	f->burst.flow = &f->flow;
	f->burst.qpn = QPN;
	f->burst.una = PSN;
	f->burst.regions = (struct snic_mrc *)f; /* only snic_burst_keep() looks into it */
	shape(f, PACKETS, PAYLOAD);
	for (i = 0; i < BYTES; i++)
		f->payload[i] = i * 7 + i / 256;
	f->burst.nsegs = 1;
	f->burst.segs[0] = (struct snic_seg){f->payload, BYTES};
	return 0;
}

static void local_exit(struct kunit *test)
{
	struct local_fixture *f = test->priv;

	if (!f)
		return;
	snic_local_drop_cache(&cpu);
	if (f->host.txqs)
		snic_txqs_destroy(f->host.txqs);
}

static u32 build(struct local_fixture *f)
{
	u32 bytes;

	local_bh_disable();
	bytes = snic_local_build(snic_host_txq(&f->host, f->burst.qpn), &f->burst, &f->list);
	local_bh_enable();
	return bytes;
}

/* Deliver all buffers. Returns how many there were. */
static u32 deliver(struct local_fixture *f)
{
	struct snic_local *local, *next;
	u32 n = 0;

	local_bh_disable();
	list_for_each_entry_safe(local, next, &f->list, node) {
		list_del(&local->node);
		snic_local_deliver(&f->host, local);
		n++;
	}
	local_bh_enable();
	return n;
}

static void expect_payload(struct kunit *test, bool pulled)
{
	struct local_fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, seen.packets, f->burst.npkts);
	KUNIT_EXPECT_EQ(test, seen.bad, 0);
	KUNIT_EXPECT_EQ(test, seen.pulled, pulled ? f->burst.npkts : 0);
	KUNIT_EXPECT_EQ(test, seen.lost, 0);
	KUNIT_EXPECT_EQ(test, seen.unmarked, 0);
	KUNIT_EXPECT_EQ(test, snic_host_txq(&f->host, QPN)->copying, 0);
	KUNIT_EXPECT_EQ(test, seen.bytes, BYTES);
	KUNIT_EXPECT_EQ(test, seen.puts, seen.keeps);
	KUNIT_EXPECT_PTR_EQ(test, cpu.delivering, NULL);
}

static void forget_packets(void)
{
	seen.packets = 0;
	seen.pulled = 0;
	seen.lost = 0;
	seen.bytes = 0;
}

static void payload_of_a_long_burst_is_copied_once(struct kunit *test)
{
	struct local_fixture *f = test->priv;
	u32 bytes = build(f);

	/* It is charged as if it had been copied. */
	KUNIT_EXPECT_EQ(test, bytes,
			PACKETS * (u32)(ALIGN(PAYLOAD + SIRDMA_ICRC_LEN, SNIC_LOCAL_ALIGN) +
					sizeof(struct snic_local_pkt)));
	KUNIT_EXPECT_EQ(test, list_first_entry(&f->list, struct snic_local, node)->bytes, bytes);
	KUNIT_EXPECT_EQ(test, seen.keeps, 1);
	KUNIT_EXPECT_EQ(test, seen.puts, 0);
	f->payload[3] ^= 1; /* nobody has read it yet */
	KUNIT_EXPECT_EQ(test, deliver(f), 1);
	expect_payload(test, true);
	KUNIT_EXPECT_EQ(test, memcmp(f->received, f->payload, BYTES), 0);
}

static void payload_that_may_not_be_kept_is_copied_twice(struct kunit *test)
{
	struct local_fixture *f = test->priv;

	seen.refuses = true;
	build(f);
	KUNIT_EXPECT_EQ(test, seen.keeps, 0);
	f->payload[3] ^= 1;
	deliver(f);
	f->payload[3] ^= 1;
	expect_payload(test, false);
	KUNIT_EXPECT_EQ(test, memcmp(f->received, f->payload, BYTES), 0);
}

static void short_payload_is_not_kept(struct kunit *test)
{
	static const struct {
		u32 npkts;
		u32 len;
		bool keeps;
	} bursts[] = {
		{1, SNIC_LOCAL_KEEP_MIN - 1, false},
		{1, SNIC_LOCAL_KEEP_MIN, true},
		{16, SNIC_LOCAL_KEEP_PKT_MIN - 1, false},
		{16, SNIC_LOCAL_KEEP_PKT_MIN, true},
		{SNIC_BURST_PKTS, 8, false},
	};
	struct local_fixture *f = test->priv;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bursts); i++) {
		forget_packets();
		seen.keeps = 0;
		seen.puts = 0;
		shape(f, bursts[i].npkts, bursts[i].len);
		build(f);
		KUNIT_EXPECT_EQ(test, seen.keeps, bursts[i].keeps);
		deliver(f);
		KUNIT_EXPECT_EQ(test, seen.bad, 0);
		KUNIT_EXPECT_EQ(test, seen.lost, 0);
		KUNIT_EXPECT_EQ(test, seen.bytes, bursts[i].npkts * bursts[i].len);
		KUNIT_EXPECT_EQ(test, memcmp(f->received, f->payload, seen.bytes), 0);
	}
}

/* Headers of up to seven acknowledgements, or of a short burst that is kept, need no large buffer. */
static void short_bursts_have_small_buffers(struct kunit *test)
{
	struct local_fixture *f = test->priv;

	shape(f, 7, 0);
	build(f);
	KUNIT_EXPECT_FALSE(test, list_first_entry(&f->list, struct snic_local, node)->large);
	deliver(f);
	forget_packets();
	shape(f, 2, 4096);
	build(f);
	KUNIT_EXPECT_EQ(test, seen.keeps, 1);
	KUNIT_EXPECT_FALSE(test, list_first_entry(&f->list, struct snic_local, node)->large);
	deliver(f);
	KUNIT_EXPECT_EQ(test, seen.bad, 0);
	KUNIT_EXPECT_EQ(test, memcmp(f->received, f->payload, 8192), 0);
}

/* A packet whose payload is no whole number of words ends with padding and an ICRC, all zero. */
static void packet_by_reference_has_its_padding(struct kunit *test)
{
	struct local_fixture *f = test->priv;
	struct snic_local_pkt *pkt;
	struct snic_local *local;

	shape(f, 1, 4097);
	f->burst.pkts[0].pad = 3;
	build(f);
	local = list_first_entry(&f->list, struct snic_local, node);
	pkt = (void *)local + SNIC_LOCAL_HLEN + SNIC_LOCAL_KEPT_LEN;
	KUNIT_EXPECT_EQ(test, pkt->len, f->burst.pkts[0].hdr_len + 4097 + 3 + SIRDMA_ICRC_LEN);
	KUNIT_ASSERT_EQ(test, pkt->nsegs, 3);
	KUNIT_EXPECT_EQ(test, pkt->segs[2].len, 3 + SIRDMA_ICRC_LEN);
	KUNIT_EXPECT_PTR_EQ(test, memchr_inv(pkt->segs[2].ptr, 0, pkt->segs[2].len), NULL);
	deliver(f);
}

static void burst_without_regions_is_not_kept(struct kunit *test)
{
	struct local_fixture *f = test->priv;

	f->burst.regions = NULL;
	build(f);
	KUNIT_EXPECT_EQ(test, seen.keeps, 0);
	deliver(f);
	expect_payload(test, false);
}

/* Each packet has two or three pieces, all of which are in one buffer. */
static void burst_of_many_pieces_fits_a_buffer(struct kunit *test)
{
	const u32 piece = BYTES / SNIC_BURST_SEGS, packet = BYTES / SNIC_BURST_PKTS;
	struct local_fixture *f = test->priv;
	u32 i;

	shape(f, SNIC_BURST_PKTS, packet);
	/* Pieces in an order that no two of them are next to each other. The ends of packets cut some. */
	f->burst.nsegs = SNIC_BURST_SEGS;
	for (i = 0; i < SNIC_BURST_SEGS; i++)
		f->burst.segs[i] = (struct snic_seg){f->payload + (i ^ 1) * piece, piece};
	f->burst.pkts[0].payload_len -= piece / 2;
	f->burst.pkts[SNIC_BURST_PKTS - 1].payload_len += piece / 2;
	build(f);
	KUNIT_EXPECT_LE(test, list_first_entry(&f->list, struct snic_local, node)->used,
			SNIC_LOCAL_ROOM(true));
	KUNIT_EXPECT_EQ(test, deliver(f), 1);
	expect_payload(test, true);
	for (i = 0; i < SNIC_BURST_SEGS; i++)
		KUNIT_EXPECT_EQ(
			test, memcmp(f->received + i * piece, f->payload + (i ^ 1) * piece, piece),
			0);
}

static void finished_payload_is_lost(struct kunit *test)
{
	struct local_fixture *f = test->priv;

	build(f);
	snic_local_finish_kept(&f->host, QPN, SNIC_REQUESTER);
	deliver(f);
	KUNIT_EXPECT_EQ(test, seen.packets, PACKETS);
	KUNIT_EXPECT_EQ(test, seen.lost, PACKETS);
	KUNIT_EXPECT_EQ(test, seen.bytes, 0);
	KUNIT_EXPECT_EQ(test, seen.puts, 1);
	/* Payload that is sent afterwards is not. */
	forget_packets();
	build(f);
	deliver(f);
	expect_payload(test, true);
}

static void payload_of_other_queue_pairs_is_not_lost(struct kunit *test)
{
	struct local_fixture *f = test->priv;

	build(f);
	snic_local_finish_kept(&f->host, OTHER_QPN, SNIC_REQUESTER);
	deliver(f);
	expect_payload(test, true);
}

static void requests_and_responses_are_finished_separately(struct kunit *test)
{
	struct local_fixture *f = test->priv;

	build(f);
	snic_local_finish_kept(&f->host, QPN, SNIC_RESPONDER);
	deliver(f);
	expect_payload(test, true);
	forget_packets();
	f->burst.side = SNIC_RESPONDER;
	build(f);
	snic_local_finish_kept(&f->host, QPN, SNIC_REQUESTER);
	deliver(f);
	expect_payload(test, true);
	forget_packets();
	build(f);
	snic_local_finish_kept(&f->host, QPN, SNIC_RESPONDER);
	deliver(f);
	KUNIT_EXPECT_EQ(test, seen.lost, PACKETS);
}

/* The first five packets are acknowledged, which may be a lie. */
static void payload_of_acknowledged_requests_is_lost(struct kunit *test)
{
	const u32 una = (PSN + 5) & SIRDMA_PSN_MASK;
	struct local_fixture *f = test->priv;

	build(f);
	snic_local_finish_kept_before(&f->host, QPN, una);
	deliver(f);
	KUNIT_EXPECT_EQ(test, seen.lost, 5);
	KUNIT_EXPECT_EQ(test, seen.pulled, PACKETS - 5);
	KUNIT_EXPECT_EQ(test, memcmp(f->received, f->payload + 5 * PAYLOAD, seen.bytes), 0);

	/* The PSNs of responses are those of the peer's requests. */
	forget_packets();
	f->burst.side = SNIC_RESPONDER;
	f->burst.una = SNIC_UNA_KNOWN;
	build(f);
	deliver(f);
	expect_payload(test, true);

	/* The next connection begins with any PSN. */
	forget_packets();
	f->burst.side = SNIC_REQUESTER;
	f->burst.una = PSN;
	build(f);
	deliver(f);
	expect_payload(test, true);
}

/* The end of a copy that another CPU makes. */
struct copy_end {
	struct hrtimer timer;
	struct snic_txq *q;
	bool ended;
};

static enum hrtimer_restart end_copy(struct hrtimer *timer)
{
	struct copy_end *end = container_of(timer, struct copy_end, timer);

	WRITE_ONCE(end->ended, true);
	smp_store_release(&end->q->copying, 0);
	return HRTIMER_NORESTART;
}

#define ANY_PSN (~0u)

/*
 * While @copying is copied, finish what is kept of requests of QPN: before @una, or all. Should that wait for the
 * end of the copy?
 */
static void finish_while(struct kunit *test, u64 copying, u32 una, bool should_wait)
{
	struct local_fixture *f = test->priv;
	struct copy_end end = {.q = snic_host_txq(&f->host, QPN)};
	bool waited;

	end.q->copying = copying;
	hrtimer_setup_on_stack(&end.timer, end_copy, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	/* Where it should not wait, a processor that is away for a moment does not end the copy. */
	hrtimer_start(&end.timer, ms_to_ktime(should_wait ? 5 : 1000), HRTIMER_MODE_REL_HARD);
	if (una == ANY_PSN)
		snic_local_finish_kept(&f->host, QPN, SNIC_REQUESTER);
	else
		snic_local_finish_kept_before(&f->host, QPN, una);
	waited = READ_ONCE(end.ended);
	hrtimer_cancel(&end.timer);
	end.q->copying = 0;
	destroy_hrtimer_on_stack(&end.timer);
	KUNIT_EXPECT_EQ(test, waited, should_wait);
}

static void only_a_copy_that_is_too_late_is_waited_for(struct kunit *test)
{
	finish_while(test, COPY_OF(QPN, 10), ANY_PSN, true);
	finish_while(test, COPY_OF(QPN, 10) | SNIC_COPYING_RESPONSE, ANY_PSN, false);
	finish_while(test, COPY_OF(OTHER_QPN, 10), ANY_PSN, false);
	finish_while(test, COPY_OF(QPN, 10), 10, false);
	finish_while(test, COPY_OF(QPN, 10), 11, true);
	finish_while(test, COPY_OF(QPN, 10) | SNIC_COPYING_RESPONSE, 11, false);
	finish_while(test, COPY_OF(OTHER_QPN, 10), 11, false);
	finish_while(test, COPY_OF(QPN, SIRDMA_PSN_MASK), 0, true);
	finish_while(test, 0, ANY_PSN, false);
}

static struct kunit_case local_cases[] = {
	KUNIT_CASE(payload_of_a_long_burst_is_copied_once),
	KUNIT_CASE(payload_that_may_not_be_kept_is_copied_twice),
	KUNIT_CASE(short_payload_is_not_kept),
	KUNIT_CASE(short_bursts_have_small_buffers),
	KUNIT_CASE(packet_by_reference_has_its_padding),
	KUNIT_CASE(burst_without_regions_is_not_kept),
	KUNIT_CASE(burst_of_many_pieces_fits_a_buffer),
	KUNIT_CASE(finished_payload_is_lost),
	KUNIT_CASE(payload_of_other_queue_pairs_is_not_lost),
	KUNIT_CASE(requests_and_responses_are_finished_separately),
	KUNIT_CASE(payload_of_acknowledged_requests_is_lost),
	KUNIT_CASE(only_a_copy_that_is_too_late_is_waited_for),
	{},
};

static struct kunit_suite local_suite = {
	.name = "sirdma_local",
	.init = local_init,
	.exit = local_exit,
	.test_cases = local_cases,
};
kunit_test_suite(local_suite);

MODULE_DESCRIPTION("tests of packets that sirdma_nic delivers on its own host");
MODULE_LICENSE("GPL");
