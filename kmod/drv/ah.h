/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address handles: address vectors of the device (hw/av.h). The next hop's MAC is the one that the
 * core resolved; the MAC does not change afterwards.
 */
#ifndef SIRDMA_DRV_AH_H
#define SIRDMA_DRV_AH_H

#include <rdma/ib_verbs.h>

#include "hw/path.h"

struct sirdma_dev;
struct sirdma_sgid;

struct sirdma_ah {
	struct ib_ah ibah;
	struct sirdma_sgid *sgid;
	struct rdma_ah_attr attr; /* without its sgid_attr, which ibah has */
	atomic_t *consumer_ahs; /* address handles of its consumer: see sirdma_av_is_fair() */
	u32 idx; /* of the address vector */
};

static inline struct sirdma_ah *to_sah(struct ib_ah *ibah)
{
	return container_of(ibah, struct sirdma_ah, ibah);
}

/*
 * Atomic context returns -EAGAIN when the vectors that are ready are used up: the driver then makes
 * more.
 */
int sirdma_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int sirdma_destroy_ah(struct ib_ah *ibah, u32 flags);
int sirdma_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);

static inline void sirdma_path_from_verbs(const struct rdma_ah_attr *attr, struct sirdma_path *path)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);

	memcpy(&path->dst_ip, &grh->dgid, sizeof(path->dst_ip));
	path->flow_label = grh->flow_label;
	path->hop_limit = grh->hop_limit;
	path->traffic_class = grh->traffic_class;
	path->port_num = rdma_ah_get_port_num(attr);
	path->sl = rdma_ah_get_sl(attr);
	path->has_grh = rdma_ah_get_ah_flags(attr) & IB_AH_GRH;
}

void sirdma_ah_init(struct sirdma_dev *dev);
void sirdma_ah_fini(struct sirdma_dev *dev);

#endif
