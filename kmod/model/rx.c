// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Received packets: find the QP, check the headers (IBTA 9.6.1) and give the packet to
 * the QP's transport.
 */
#include "cnp.h"
#include "frame.h"
#include "mcast.h"
#include "rx_batch.h"
#include "small.h"
#include "super.h"
#include "transport.h"

static bool pkey_match(u16 mine, u16 theirs)
{
	/* Same partition, and not both limited members (IBTA 10.9.3). */
	return ((mine ^ theirs) & ~SIRDMA_PKEY_FULL_MEMBER) == 0 &&
	       ((mine | theirs) & SIRDMA_PKEY_FULL_MEMBER);
}

/* Does the QP accept such packets in its state? */
static bool rx_state_ok(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	return pkt->flags & SNIC_PKT_RESP ? snic_qp_can_send(qp) : snic_qp_can_receive(qp);
}

/*
 * Does the opcode belong to the QP's transport? A response must be to an operation this device
 * sends.
 */
static bool rx_opcode_ok(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	const u16 foreign = SNIC_PKT_RESP | SNIC_PKT_UNSUPPORTED;

	if (unlikely((pkt->opcode & SIRDMA_BTH_TRANSPORT) != qp->transport->bth))
		return snic_is_cnp(pkt) && snic_cnp_admit(qp, pkt);
	return (pkt->flags & (SNIC_PKT_REQ | SNIC_PKT_RESP)) && (pkt->flags & foreign) != foreign;
}

/* Is the packet one for this QP, from its peer? */
static bool rx_admit(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx,
		     enum sirdma_stat *why)
{
	*why = SIRDMA_STAT_RX_BAD_OPCODE;
	if (!rx_opcode_ok(qp, pkt))
		return false;
	*why = SIRDMA_STAT_RX_BAD_STATE;
	if (!rx_state_ok(qp, pkt))
		return false;
	*why = SIRDMA_STAT_RX_BAD_PKEY;
	if (!pkey_match(qp->pkey, pkt->pkey))
		return false;
	return snic_transport_call(qp, admit, qp, pkt, rx, why);
}

static void rx_one(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	if (pkt->flags & SNIC_PKT_RESP)
		snic_transport_call(qp, rx_response, qp, pkt, rx);
	else
		snic_transport_call(qp, rx_request, qp, pkt, rx);
}

/*
 * A part of the super-packet is a duplicate or out of sequence: handle each of its packets alone.
 */
static void rx_split(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	struct snic_pkt part;
	u32 i;

	for (i = 0; i < pkt->npkts && rx_state_ok(qp, pkt); i++) {
		snic_super_part(pkt, snic_qp_mtu(qp), i, &part);
		rx_one(qp, &part, rx);
	}
}

/* Bytes of the frames that carried @pkt. */
static u32 rx_frame_bytes(const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	u32 bytes = rx->len + pkt->npkts * snic_frame_hlen(rx->is_v4, rx->vlan_id != 0);

	if (PORT_WIRE_IN_MEMORY && pkt->npkts > 1)
		bytes += snic_super_saved(pkt);
	return bytes;
}

static void rx_count(struct snic_rx_batch *batch, const struct snic_pkt *pkt,
		     const struct snic_rx_pkt *rx)
{
	batch->frames += pkt->npkts;
	batch->frame_bytes += rx_frame_bytes(pkt, rx);
	if (snic_is_marked(rx))
		snic_stat_inc(batch->dev, SIRDMA_STAT_RX_ECN);
}

/* PSN up to which the QP has what @pkt is part of: it moves when @pkt is what the QP expects. */
static u32 rx_progress(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	return pkt->flags & SNIC_PKT_RESP ? qp->req.una : qp->resp.epsn;
}

static void rx_dispatch(struct snic_rx_batch *batch, struct snic_qp *qp, const struct snic_pkt *pkt,
			const struct snic_rx_pkt *rx)
{
	bool marked = unlikely(snic_is_marked(rx)) && pkt->flags & SNIC_PKT_PAYLOAD &&
		      snic_is_reliable(qp);
	u32 before = marked ? rx_progress(qp, pkt) : 0;

	batch->pkts += pkt->npkts;
	batch->bytes += pkt->payload_len;
	if (!(pkt->flags & SNIC_PKT_RESP))
		batch->request_bytes += pkt->payload_len;
	if (unlikely(snic_is_cnp(pkt))) {
		snic_cnp_rx(qp);
		return;
	}
	/*
	 * A super-packet that was cut for another MTU stays whole: the length check of the
	 * transport refuses it.
	 */
	if (PORT_WIRE_IN_MEMORY && pkt->npkts > 1 &&
	    pkt->npkts == snic_qp_pkts(qp, pkt->payload_len) && snic_transport_op(qp, fits) &&
	    !snic_transport_call(qp, fits, qp, pkt))
		rx_split(qp, pkt, rx);
	else
		rx_one(qp, pkt, rx);
	if (unlikely(marked) && rx_progress(qp, pkt) != before)
		snic_cnp_marked(qp, pkt);
	if (snic_transport_op(qp, rx_done))
		snic_transport_call(qp, rx_done, qp, pkt->flags & SNIC_PKT_RESP, rx->more);
}

void snic_rx_batch_end(struct snic_rx_batch *batch)
{
	struct snic_qp *qp = batch->qp;

	if (!qp)
		return;
	if (PORT_WIRE_IN_MEMORY)
		batch->last.len = 0;
	if (batch->frames) {
		snic_stat_add(batch->dev, SIRDMA_STAT_RX_PKTS, batch->frames);
		snic_stat_add(batch->dev, SIRDMA_STAT_RX_BYTES, batch->frame_bytes);
	}
	snic_qp_put_rx_mr(qp);
	qp->rx_mem = NULL;
	port_unlock_over(&qp->lock);
	snic_qp_put(qp);
	batch->qp = NULL;
}

/*
 * The QP @qpn, locked. The batch keeps the QP of the last packet locked until it reaches its
 * limits.
 */
static struct snic_qp *rx_batch_qp(struct snic_rx_batch *batch, u32 qpn)
{
	struct snic_qp *qp = batch->qp;

	if (qp && qp->obj.id == qpn && snic_rx_batch_has_room(batch))
		return qp;
	snic_rx_batch_end(batch);
	qp = snic_qp_get(batch->dev, qpn);
	if (!qp)
		return NULL;
	port_lock_over(&qp->lock);
	batch->qp = qp;
	batch->mem.mr = NULL;
	batch->mem.run.len = 0;
	qp->rx_mem = &batch->mem;
	batch->pkts = 0;
	batch->bytes = 0;
	batch->frames = 0;
	batch->frame_bytes = 0;
	return qp;
}

/* Does the QP get the packet? @counted: the frame of the packet is counted already. */
static bool rx_to_qp(struct snic_rx_batch *batch, u32 qpn, const struct snic_pkt *pkt,
		     const struct snic_rx_pkt *rx, bool counted)
{
	struct snic_qp *qp = rx_batch_qp(batch, qpn);
	enum sirdma_stat why = SIRDMA_STAT_RX_NO_QP;

	if (!qp || !rx_admit(qp, pkt, rx, &why)) {
		snic_stat_inc(batch->dev, why);
		return false;
	}
	if (!counted)
		rx_count(batch, pkt, rx);
	rx_dispatch(batch, qp, pkt, rx);
	return true;
}

/*
 * Each QP of the group gets a copy or drops it, by its own state, P_Key and Q_Key. The QP
 * that sent the packet is no exception: receivers that do not want their own packets compare
 * the source, as IPoIB does.
 */
static void rx_to_group(struct snic_rx_batch *batch, const struct snic_pkt *pkt,
			const struct snic_rx_pkt *rx)
{
	u32 qpns[SIRDMA_MCAST_MAX_QPS], count, i;
	bool counted = false;

	count = snic_mcast_members(batch->dev, &rx->dst_ip, qpns);
	if (!count)
		snic_stat_inc(batch->dev, SIRDMA_STAT_RX_NO_GROUP);
	else
		batch->copies += count - 1;
	for (i = 0; i < count; i++)
		counted |= rx_to_qp(batch, qpns[i], pkt, rx, counted);
}

/* The multicast QP number and a multicast address must come together (IBTA 9.6.1.2). */
static bool rx_addressed(u32 qpn, const struct sirdma_ip *dst)
{
	return sirdma_ip_is_multicast(dst) == (qpn == SIRDMA_MCAST_QPN);
}

/* Receive @rx if it has a fast path (small.h). */
static bool rx_small(struct snic_rx_batch *batch, const struct snic_rx_pkt *rx)
{
	enum snic_small kind;
	struct snic_qp *qp;
	u32 qpn, bytes = 0;

	if (rx->len > SNIC_SMALL_MAX)
		return false;
	kind = snic_small_kind(rx, &qpn);
	if (kind == SNIC_SMALL_NONE)
		return false;
	qp = rx_batch_qp(batch, qpn);
	if (!qp)
		return false;
	if (kind == SNIC_SMALL_WRITE) {
		bytes = snic_small_write(batch, rx);
		if (!bytes)
			return false;
	} else if (!snic_small_ack(qp, rx)) {
		return false;
	}
	snic_rx_batch_count(batch, 1, rx->len + snic_frame_hlen(rx->is_v4, rx->vlan_id != 0),
			    bytes);
	snic_reliable_rx_done(qp, kind == SNIC_SMALL_ACK, rx->more);
	return true;
}

void snic_rx_batch_add(struct snic_rx_batch *batch, const struct snic_rx_pkt *rx)
{
	struct snic_pkt pkt __uninitialized;
	enum sirdma_stat why;

	if (PORT_WIRE_IN_MEMORY)
		batch->last.len = 0;
	if (rx_small(batch, rx))
		return;
	if (!snic_pkt_parse(rx, &pkt, &why))
		snic_stat_inc(batch->dev, why);
	else if (unlikely(!rx_addressed(pkt.qpn, &rx->dst_ip)))
		snic_stat_inc(batch->dev, SIRDMA_STAT_RX_BAD_GID);
	else if (unlikely(pkt.qpn == SIRDMA_MCAST_QPN))
		rx_to_group(batch, &pkt, rx);
	else
		rx_to_qp(batch, pkt.qpn, &pkt, rx, false);
}

bool snic_rx_has_qp(struct snic_dev *dev, const struct snic_rx_pkt *rx)
{
	enum sirdma_stat why = SIRDMA_STAT_RX_NO_QP;
	struct sirdma_bth bth;
	u32 qpn;

	memcpy(&bth, rx->segs[0].ptr, sizeof(bth));
	qpn = be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK;
	if (unlikely(qpn == SIRDMA_MCAST_QPN)) {
		if (snic_mcast_has(dev, &rx->dst_ip))
			return true;
		why = SIRDMA_STAT_RX_NO_GROUP;
	} else if (snic_table_has(&dev->qps, qpn)) {
		return true;
	}
	snic_stat_inc(dev, why);
	return false;
}

u32 snic_rx(struct snic_dev *dev, const struct snic_rx_pkt *rx)
{
	struct snic_rx_batch batch = {.dev = dev};

	snic_rx_batch_add(&batch, rx);
	snic_rx_batch_end(&batch);
	return batch.copies;
}
