// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets in: everything a packet claims is checked here or named as unchecked
 * before requester or responder believe it (IBTA 9.6.1).
 */
#include "super.h"
#include "transport.h"

/* Packets and payload bytes of one QP in a row, before others that wait for its lock get it. */
#define RX_TURN_PKTS 64u
#define RX_TURN_BYTES 65536u

static bool pkey_match(u16 mine, u16 theirs)
{
	/* Same partition, and not both limited members (IBTA 10.9.3). */
	return ((mine ^ theirs) & 0x7fff) == 0 && ((mine | theirs) & 0x8000);
}

/* Has the QP come to the state, and not beyond it, in which it takes such packets? */
static bool rx_state_ok(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	return pkt->flags & SNIC_PKT_RESP ? snic_qp_can_send(qp) : snic_qp_can_receive(qp);
}

/* Is the opcode of the QP's transport, and no response to what this device never asks for? */
static bool rx_opcode_ok(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	const u16 foreign = SNIC_PKT_RESP | SNIC_PKT_UNSUPPORTED;

	return (pkt->opcode & SIRDMA_BTH_TRANSPORT) == qp->transport->bth &&
	       (pkt->flags & (SNIC_PKT_REQ | SNIC_PKT_RESP)) && (pkt->flags & foreign) != foreign;
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
	return qp->transport->admit(qp, pkt, rx, why);
}

static void rx_one(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	if (pkt->flags & SNIC_PKT_RESP)
		qp->transport->rx_response(qp, pkt, rx);
	else
		qp->transport->rx_request(qp, pkt, rx);
}

/* A super-packet that came before in part, or too soon: each of its packets by itself. */
static void rx_split(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx)
{
	struct snic_pkt part;
	u32 i;

	for (i = 0; i < pkt->npkts && rx_state_ok(qp, pkt); i++) {
		snic_super_part(pkt, snic_qp_mtu(qp), i, &part);
		rx_one(qp, &part, rx);
	}
}

static void rx_dispatch(struct snic_rx_turn *turn, struct snic_qp *qp, const struct snic_pkt *pkt,
			const struct snic_rx_pkt *rx)
{
	turn->pkts += pkt->npkts;
	turn->bytes += pkt->payload_len;
	if ((rx->traffic_class & 3) == 3)
		snic_stat_inc(qp->dev, SIRDMA_STAT_RX_ECN);
	/* Who sends packets of another MTU is told so by the first. */
	if (PORT_WIRE_IN_MEMORY && pkt->npkts > 1 &&
	    pkt->npkts == snic_qp_pkts(qp, pkt->payload_len) && qp->transport->fits &&
	    !qp->transport->fits(qp, pkt))
		rx_split(qp, pkt, rx);
	else
		rx_one(qp, pkt, rx);
	if (qp->transport->rx_done)
		qp->transport->rx_done(qp, pkt, rx->more);
}

void snic_turn_end(struct snic_rx_turn *turn)
{
	struct snic_qp *qp = turn->qp;

	if (!qp)
		return;
	if (turn->pkts) {
		snic_stat_add(turn->dev, SIRDMA_STAT_RX_PKTS, turn->pkts);
		snic_stat_add(turn->dev, SIRDMA_STAT_RX_BYTES, turn->bytes);
	}
	snic_qp_drop_mr(qp);
	port_unlock_over(&qp->lock);
	snic_qp_put(qp);
	turn->qp = NULL;
}

/* The QP of @qpn, locked: that of the last packet, but for its share of one turn. */
static struct snic_qp *rx_turn_qp(struct snic_rx_turn *turn, u32 qpn)
{
	struct snic_qp *qp = turn->qp;

	if (qp && qp->obj.id == qpn && turn->pkts < RX_TURN_PKTS && turn->bytes < RX_TURN_BYTES)
		return qp;
	snic_turn_end(turn);
	qp = snic_qp_get(turn->dev, qpn);
	if (!qp)
		return NULL;
	port_lock_over(&qp->lock);
	turn->qp = qp;
	turn->pkts = 0;
	turn->bytes = 0;
	return qp;
}

void snic_turn_rx(struct snic_rx_turn *turn, const struct snic_rx_pkt *rx)
{
	enum sirdma_stat why;
	struct snic_pkt pkt;
	struct snic_qp *qp;

	if (!snic_pkt_parse(rx, &pkt, &why)) {
		snic_stat_inc(turn->dev, why);
		return;
	}
	qp = rx_turn_qp(turn, pkt.qpn);
	if (!qp)
		snic_stat_inc(turn->dev, SIRDMA_STAT_RX_NO_QP);
	else if (rx_admit(qp, &pkt, rx, &why))
		rx_dispatch(turn, qp, &pkt, rx);
	else
		snic_stat_inc(turn->dev, why);
}

bool snic_rx_has_qp(struct snic_dev *dev, const struct snic_rx_pkt *rx)
{
	struct sirdma_bth bth;

	memcpy(&bth, rx->segs[0].ptr, sizeof(bth));
	if (snic_table_has(&dev->qps, be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK))
		return true;
	snic_stat_inc(dev, SIRDMA_STAT_RX_NO_QP);
	return false;
}

void snic_rx(struct snic_dev *dev, const struct snic_rx_pkt *rx)
{
	struct snic_rx_turn turn = {.dev = dev};

	snic_turn_rx(&turn, rx);
	snic_turn_end(&turn);
}
