// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Small WRITEs that are received in a batch behind one that they have most in common with.
 * snic_small_write() has checked that one, so that a comparison with it is enough. Of the region,
 * to which the batch keeps a reference, only the state may have changed.
 */
#include "mr.h"
#include "rx_batch.h"
#include "stream.h"
#include "transport.h"

/*
 * Does a WRITE with this header follow the last one? snic_reliable_rx_done() may have failed the QP
 * since, or another QP may have invalidated the key.
 */
static bool stream_follows(const struct snic_rx_batch *batch, __be64 bth, __be64 rkey_len, u32 psn)
{
	const struct snic_qp *qp = batch->qp;

	return bth == batch->last.bth && rkey_len == batch->last.rkey_len && psn == qp->resp.epsn &&
	       qp->state == SIRDMA_QPS_RTS && snic_small_may_recv(qp) && batch->mem.mr &&
	       snic_slot_valid(&batch->mem.mr->slot);
}

/* @n WRITEs like the last one were received. Without an acknowledgement nothing is to be done for them. */
static void stream_done(struct snic_rx_batch *batch, u32 n, bool more)
{
	const struct snic_rx_last *last = &batch->last;

	snic_rx_batch_count(batch, n, n * (last->len + last->hlen), n * last->payload_len);
	if (snic_resp_pending(batch->qp) || batch->qp->resp.owed)
		snic_reliable_rx_done(batch->qp, false, more);
}

bool snic_rx_batch_try_write(struct snic_rx_batch *batch, const u8 *data, u32 len, u8 traffic_class,
			     bool more)
{
	const struct snic_rx_last *last = &batch->last;
	struct snic_small_words h;
	u32 psn;
	u8 *to;

	if (!last->len || len != last->len || traffic_class != last->traffic_class ||
	    !snic_rx_batch_has_room(batch))
		return false;
	memcpy(&h, data, sizeof(h)); /* the sender may change it meanwhile */
	psn = be32_to_cpu(h.apsn);
	if (!stream_follows(batch, h.bth, h.rkey_len, psn & SIRDMA_PSN_MASK))
		return false;
	to = snic_run_at(&batch->mem.run, be64_to_cpu(h.va), last->payload_len);
	if (!to)
		return false;
	memcpy(to, data + sizeof(h), last->payload_len);
	snic_small_written(batch->qp, 1, psn & SIRDMA_BTH_ACKREQ);
	stream_done(batch, 1, more);
	return true;
}

/*
 * Copy up to @n payloads of @len bytes to their places in @run. Returns how many, from the first
 * on; the next is elsewhere. A program that sees one sees those before. @len is a constant where
 * that makes the loop shorter.
 */
static __always_inline u32 stream_place(const struct snic_run run,
					const struct snic_stream_write *write, u32 n, u32 len)
{
	u32 i, ends = run.len >= len ? run.len - len + 1 :
				       0; /* of the offsets at which @len bytes fit */
	u64 off;

	for (i = 0; i < n; i++, write++) {
		off = be64_to_cpu(READ_ONCE(write->va)) - run.va;
		if (off >= ends)
			break;
		smp_wmb(); /* this barrier pairs with that of the program that reads the memory */
		memcpy(run.ptr + off, write->data, len);
	}
	return i;
}

u32 snic_rx_batch_try_stream(struct snic_rx_batch *batch, const struct snic_stream *stream,
			     u8 traffic_class, bool more)
{
	u32 n, len = batch->last.payload_len;

	if (!batch->last.len || len > SNIC_STREAM_PAYLOAD ||
	    traffic_class != batch->last.traffic_class || !snic_rx_batch_has_room(batch) ||
	    !stream_follows(batch, stream->bth, stream->rkey_len, stream->psn))
		return 0;
	n = min(stream->count, RX_BATCH_PKTS - batch->pkts);
	n = len == sizeof(u64) ? stream_place(batch->mem.run, stream->writes, n, sizeof(u64)) :
				 stream_place(batch->mem.run, stream->writes, n, len);
	if (!n)
		return 0;
	snic_small_written(batch->qp, n, stream->ackreq && n == stream->count);
	stream_done(batch, n, more || n < stream->count);
	return n;
}
