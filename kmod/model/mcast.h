/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Multicast groups: the queue pairs that get a copy of packets to an address (IBTA 10.5). */
#ifndef SNIC_MCAST_H
#define SNIC_MCAST_H

#include "obj.h"
#include "sirdma/cqp.h"

struct snic_dev;

#define SNIC_MAX_MCAST_GRPS 2048
#define SNIC_MCAST_BUCKETS 512

struct snic_mcast {
	struct snic_obj obj;
	struct snic_mcast *next; /* next group of the bucket */
	struct sirdma_ip ip;
	u32 count;
	u32 qpns[SIRDMA_MCAST_MAX_QPS];
};

struct snic_mcast_table {
	struct port_lock lock; /* protects buckets[] and the groups in them; innermost */
	struct port_hash_key key; /* of the hash that chooses a bucket; constant */
	struct snic_mcast *buckets[SNIC_MCAST_BUCKETS]; /* groups by the hash of their address */
	struct snic_table groups; /* groups by number */
};

int snic_mcast_init(struct snic_mcast_table *table);
/* Destroy the groups. */
void snic_mcast_fini(struct snic_mcast_table *table);
/*
 * Copy the numbers of the queue pairs of group @ip. Returns how many there are; 0: there is no
 * group.
 */
u32 snic_mcast_members(struct snic_dev *dev, const struct sirdma_ip *ip,
		       u32 qpns[SIRDMA_MCAST_MAX_QPS]);
/* Destroy all groups at the device's teardown. */
void snic_mcast_destroy_all(struct snic_dev *dev);

u32 snic_cqp_create_mcast(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_modify_mcast(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_mcast(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);

#endif
