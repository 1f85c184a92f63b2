// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The table of transports, and the functions that connected transports share. */
#include "transport.h"

static const struct snic_transport *const transports[] = {
	[SIRDMA_QPT_RC] = &snic_rc,	      [SIRDMA_QPT_UC] = &snic_uc,
	[SIRDMA_QPT_UD] = &snic_ud,	      [SIRDMA_QPT_XRC_INI] = &snic_xrc_ini,
	[SIRDMA_QPT_XRC_TGT] = &snic_xrc_tgt,
};

const struct snic_transport *snic_transport(u8 qp_type)
{
	return qp_type < ARRAY_SIZE(transports) ? transports[qp_type] : NULL;
}

static bool same_ip(const struct sirdma_ip *a, const struct sirdma_ip *b)
{
	return !memcmp(a->b, b->b, sizeof(a->b));
}

bool snic_is_from_peer(struct snic_qp *qp, const struct snic_rx_pkt *rx)
{
	const struct snic_flow *flow = &qp->path.flow;

	snic_path_refresh(qp->dev, &qp->path);
	/* The same addresses may exist in other VLANs. */
	return qp->path.src_ok && same_ip(&rx->dst_ip, &flow->src_ip) &&
	       same_ip(&rx->src_ip, &flow->dst_ip) &&
	       rx->vlan_id == (flow->has_vlan ? flow->vlan_id : 0);
}

bool snic_connected_admit(struct snic_qp *qp, const struct snic_pkt *pkt,
			  const struct snic_rx_pkt *rx, enum sirdma_stat *why)
{
	*why = SIRDMA_STAT_RX_BAD_GID;
	return snic_is_from_peer(qp, rx);
}

void snic_connected_recv_start(struct snic_qp *qp)
{
	qp->resp.epsn = qp->rq_psn;
	qp->resp.msn = 0;
}
