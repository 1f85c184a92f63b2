// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Paths to destinations. */
#include "path.h"

#include "dev.h"
#include "sirdma/av.h"

/* Make the next refresh rebuild the flow. */
static void path_expire(struct snic_dev *dev, struct snic_path *path)
{
	path->gen = READ_ONCE(dev->tables_gen) - 1;
}

void snic_path_init(struct snic_dev *dev, struct snic_path *path)
{
	path->flow.hop_limit = SIRDMA_DEFAULT_HOP_LIMIT;
	path->flow.udp_sport = SIRDMA_ROCE_UDP_SPORT_MIN;
	path_expire(dev, path);
}

void snic_path_set(struct snic_dev *dev, struct snic_path *path, const struct sirdma_qp_ctx *ctx)
{
	struct snic_flow *flow = &path->flow;

	flow->dst_ip = ctx->dst_ip;
	flow->flow_label = le32_to_cpu(ctx->flow_label);
	flow->udp_sport = le16_to_cpu(ctx->udp_sport);
	flow->hop_limit = ctx->hop_limit;
	flow->traffic_class = ctx->traffic_class;
	flow->vlan_prio = ctx->vlan_prio;
	path->sgid_idx = le16_to_cpu(ctx->sgid_idx);
	path->arp_idx = le16_to_cpu(ctx->arp_idx);
	path_expire(dev, path);
}

bool snic_path_set_av(struct snic_dev *dev, struct snic_path *path, const struct sirdma_av *av)
{
	struct snic_flow *flow = &path->flow;
	u16 sgid_idx = le16_to_cpu(av->sgid_idx);

	flow->dst_ip = av->dst_ip;
	flow->flow_label = le32_to_cpu(av->flow_label);
	flow->udp_sport = le16_to_cpu(av->udp_sport);
	flow->hop_limit = av->hop_limit;
	flow->traffic_class = av->traffic_class;
	flow->vlan_prio = av->vlan_prio;
	sirdma_mac_from_word(le64_to_cpu(av->mac), flow->dst_mac);
	if (path->mac_fixed && path->sgid_idx == sgid_idx) {
		/* Keep the source: reading it again would take a lock of the device. */
		path->dst_ok = flow->is_v4 == sirdma_ip_is_v4(&flow->dst_ip);
	} else {
		path->sgid_idx = sgid_idx;
		path->mac_fixed = true;
		path_expire(dev, path);
	}
	return flow->flow_label <= SIRDMA_MAX_FLOW_LABEL &&
	       flow->vlan_prio <= SIRDMA_MAX_VLAN_PRIO && flow->hop_limit &&
	       flow->udp_sport >= SIRDMA_ROCE_UDP_SPORT_MIN;
}

void snic_path_fill(const struct snic_path *path, struct sirdma_qp_ctx *ctx)
{
	const struct snic_flow *flow = &path->flow;

	ctx->dst_ip = flow->dst_ip;
	ctx->flow_label = cpu_to_le32(flow->flow_label);
	ctx->udp_sport = cpu_to_le16(flow->udp_sport);
	ctx->hop_limit = flow->hop_limit;
	ctx->traffic_class = flow->traffic_class;
	ctx->vlan_prio = flow->vlan_prio;
	ctx->sgid_idx = cpu_to_le16(path->sgid_idx);
	ctx->arp_idx = cpu_to_le16(path->arp_idx);
}

void snic_path_rebuild(struct snic_dev *dev, struct snic_path *path)
{
	struct snic_flow *flow = &path->flow;
	u32 gen = READ_ONCE(dev->tables_gen);
	struct snic_sgid sgid;

	/* Read the tables after the generation; pairs with the release in tables_changed(). */
	smp_rmb();
	path->gen = gen;
	path->src_ok = snic_sgid_read(dev, path->sgid_idx, &sgid);
	path->dst_ok = path->mac_fixed || snic_arp_read(dev, path->arp_idx, flow->dst_mac);
	if (!path->src_ok)
		return;
	flow->src_ip = sgid.ip;
	memcpy(flow->src_mac, sgid.mac, sizeof(flow->src_mac));
	flow->has_vlan = sgid.has_vlan;
	flow->vlan_id = sgid.vlan_id;
	flow->is_v4 = sirdma_ip_is_v4(&sgid.ip);
	/* Source and destination must be of one address family. */
	if (flow->is_v4 != sirdma_ip_is_v4(&flow->dst_ip))
		path->dst_ok = false;
}
