/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast groups. While a queue pair is attached to one, each netdev that has an address of
 * the device is a member of it, by IGMP or MLD: an attachment names no source address, so it
 * does not say which of them it is meant for.
 */
#ifndef SIRDMA_DRV_MCAST_H
#define SIRDMA_DRV_MCAST_H

#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

struct sirdma_dev;
struct sirdma_mcast_link;

struct sirdma_mcast_members {
	struct mutex lock; /* serializes attach, detach and sync; outside RTNL */
	struct list_head groups; /* list of struct sirdma_membership */
	struct sirdma_mcast_link *links; /* netdevs that may be members */
	struct ib_event_handler events;
	struct work_struct sync; /* the device's addresses or the state of its netdevs changed */
};

int sirdma_mcast_members_init(struct sirdma_dev *dev);
void sirdma_mcast_members_fini(struct sirdma_dev *dev);
/* Make netdevs that have lost memberships join again, a moment later. The caller may hold RTNL. */
void sirdma_mcast_rejoin(struct sirdma_dev *dev);

int sirdma_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int sirdma_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

#endif
