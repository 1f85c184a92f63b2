// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cnp.h"

#include "window.h"
#include "xmit.h"

/*
 * A QP sends at most one CNP in 2^16 ns (66 us). DCQCN (Zhu et al., SIGCOMM 2015), by which hardware reduces its
 * rate, has 50 us.
 */
#define CNP_INTERVAL_SHIFT 16

/* A CNP has the traffic class of the acknowledgements, but the network must not mark it. */
static void cnp_send(struct snic_qp *qp)
{
	static const u8 reserved[SIRDMA_CNP_LEN];
	struct snic_tx tx __uninitialized;
	struct snic_tx_pkt *pkt;
	struct snic_path path;

	snic_path_refresh(qp->dev, &qp->path);
	if (!qp->path.src_ok || !qp->path.dst_ok)
		return;
	path = qp->path;
	path.flow.traffic_class &= (u8)~SIRDMA_ECN_MASK;
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
	u16 interval = (u16)(port_now_ns(qp->dev->clock) >> CNP_INTERVAL_SHIFT);

	if (pkt->flags & SNIC_PKT_RESP)
		snic_win_congested(qp);
	/* While the host has no room the next marked packet will do. */
	if (qp->resp.cnp_interval == interval || qp->tx_stalled)
		return;
	qp->resp.cnp_interval = interval;
	cnp_send(qp);
}

bool snic_cnp_admit(const struct snic_qp *qp, const struct snic_pkt *pkt)
{
	u8 ecn = qp->path.flow.traffic_class & SIRDMA_ECN_MASK;

	return snic_is_reliable(qp) && ecn && ecn != SIRDMA_ECN_CE && !pkt->payload_len &&
	       pkt->npkts == 1;
}

void snic_cnp_rx(struct snic_qp *qp)
{
	snic_stat_inc(qp->dev, SIRDMA_STAT_CNPS_RCVD);
	snic_win_congested(qp);
}
