/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Source addresses. The core keeps a table of GIDs, the device a table of source
 * IP, MAC and VLAN. A QP or an address handle refers to a slot of the device's table and keeps
 * it while the address is gone, so that it works again when the address returns.
 */
#ifndef SIRDMA_DRV_GID_H
#define SIRDMA_DRV_GID_H

#include <linux/if_ether.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include "sirdma/qpctx.h"

#define SIRDMA_GID_TABLE_LEN 256
/* Room for addresses that are gone while QPs still refer to them. */
#define SIRDMA_GID_SLOTS (2 * SIRDMA_GID_TABLE_LEN)

struct sirdma_dev;

/* An index is unique within a namespace only, and a netdev above the device's may be in another one. */
struct sirdma_interface {
	const struct net *net; /* compared, never accessed */
	int ifindex;
};

struct sirdma_sgid {
	struct sirdma_ip ip;
	struct sirdma_interface interface; /* ifindex 0: the slot was never used */
	u32 users; /* number of QPs and address handles that refer to the slot; under use_lock */
	bool present; /* the core has the address now */
	bool has_vlan;
	bool dirty; /* the device does not have this mac yet */
	u16 vlan_id;
	u8 mac[ETH_ALEN];
};

struct sirdma_gid_table {
	struct mutex lock; /* protects everything but mac, dirty and users */
	spinlock_t mac_lock; /* protects interface for readers without the mutex, mac and dirty */
	/* Protects users, and by_gid for readers without the mutex. Any context. */
	spinlock_t use_lock;
	struct sirdma_sgid *slots; /* [SIRDMA_GID_SLOTS]; the index is the device's */
	struct sirdma_sgid *by_gid[SIRDMA_GID_TABLE_LEN]; /* slots by the core's index */
	struct delayed_work update; /* work that programs dirty slots, and repeats what failed */
};

int sirdma_gid_init(struct sirdma_dev *dev);
void sirdma_gid_fini(struct sirdma_dev *dev);

int sirdma_add_gid(const struct ib_gid_attr *attr, void **context);
int sirdma_del_gid(const struct ib_gid_attr *attr, void **context);

/*
 * The slot of @attr, held for a QP or an address handle. Returns ERR_PTR(-EADDRNOTAVAIL) if the
 * address is gone. Any context.
 */
struct sirdma_sgid *sirdma_sgid_get(struct sirdma_dev *dev, const struct ib_gid_attr *attr);
void sirdma_sgid_put(struct sirdma_dev *dev, struct sirdma_sgid *sgid);
u16 sirdma_sgid_index(struct sirdma_dev *dev, const struct sirdma_sgid *sgid);

/* @ndev has a new MAC. The caller may be in atomic context. */
void sirdma_gid_mac_changed(struct sirdma_dev *dev, const struct net_device *ndev);
/* Has @ndev an address of the device? Any context. */
bool sirdma_gid_on_interface(struct sirdma_dev *dev, const struct net_device *ndev);

#endif
