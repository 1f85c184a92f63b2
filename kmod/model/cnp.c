// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cnp.h"

#include "window.h"
#include "xmit.h"

/*
 * A QP sends at most one CNP in each interval of so many nanoseconds, as a power of two: 66 us. DCQCN (Zhu et al.,
 * SIGCOMM 2015), by which hardware reduces its rate, has 50 us.
 */
#define CNP_INTERVAL_SHIFT 16

/* It has the traffic class of the acknowledgements, but the network must not mark it. */
static void cnp_send(struct snic_qp *qp)
{
	static const u8 reserved[SIRDMA_CNP_LEN];
	struct snic_tx tx __uninitialized;
	struct snic_tx_pkt *pkt;
	struct snic_path path;

	snic_path_refresh(qp->dev, &qp->path);
	path = qp->path;
	path.flow.traffic_class &= (u8)~SIRDMA_ECN;
	snic_tx_begin(&tx, qp, &path, SIRDMA_ACCESS_REMOTE_READ);
	pkt = snic_tx_packet(&tx);
	snic_pkt_bth(pkt, SIRDMA_BTH_CNP | SIRDMA_BTH_CNP_OPERATION, qp->pkey, qp->dest_qpn, 0, 0);
	pkt->bth.qpn |= cpu_to_be32(SIRDMA_BTH_BECN);
	snic_pkt_append(pkt, reserved, sizeof(reserved));
	if (snic_tx_end(&tx))
		snic_stat_inc(qp->dev, SIRDMA_STAT_CNPS_SENT);
}

void snic_cnp_marked(struct snic_qp *qp, const struct snic_pkt *pkt)
{
	u16 slot = (u16)(port_now_ns(qp->dev->clock) >> CNP_INTERVAL_SHIFT);

	/* The requester's window limits the responses as well. */
	if (pkt->flags & SNIC_PKT_RESP)
		snic_win_congested(qp);
	/* While the host has no room the next marked packet will do. */
	if (qp->resp.cnp_slot == slot || qp->tx_stalled)
		return;
	qp->resp.cnp_slot = slot;
	cnp_send(qp);
}

void snic_cnp_rx(struct snic_qp *qp)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_CNPS_RCVD);
	snic_win_congested(qp);
}
