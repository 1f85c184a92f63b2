/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Destination MAC addresses: the device's ARP table, filled from the kernel's
 * neighbours and kept fresh by their events.
 */
#ifndef SIRDMA_DRV_NEIGH_H
#define SIRDMA_DRV_NEIGH_H

#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "route.h"

#define SIRDMA_NEIGH_HASH_BITS 8

struct sirdma_dev;

/* One entry of the device's table, shared by all QPs of one user, source and destination. */
struct sirdma_arp {
	struct hlist_node node; /* entry of the hash by next hop and netdev */
	struct sirdma_route_key key;
	struct sirdma_ip nexthop;
	u32 idx; /* index in the device's table */
	u32 users; /* number of QPs that refer to the entry */
	kuid_t uid; /* the user of these QPs; INVALID_UID: consumers in the kernel */
	bool dirty; /* the device does not have this mac yet */
	u8 mac[ETH_ALEN];
};

struct sirdma_neigh_table {
	struct mutex lock; /* serialises users, creation, removal and commands */
	spinlock_t hash_lock; /* protects hash, and nexthop, mac, dirty of each entry */
	DECLARE_HASHTABLE(hash, SIRDMA_NEIGH_HASH_BITS);
	u32 count;
	unsigned long expected; /* jiffies of the last sirdma_neigh_expect() */
	wait_queue_head_t wait; /* woken by each neighbour event */
	atomic_t events; /* number of neighbour events so far */
	struct notifier_block netevent;
	struct work_struct update; /* work that programs dirty entries */
	struct delayed_work refresh; /* work that looks routes and neighbours up again */
};

int sirdma_neigh_init(struct sirdma_dev *dev);
void sirdma_neigh_fini(struct sirdma_dev *dev);

/*
 * Resolve @key for a QP of user @uid (INVALID_UID: of a kernel consumer), waiting a bounded time for
 * the neighbour, and hold its entry. Returns -ETIMEDOUT or -EHOSTUNREACH if the neighbour does not
 * answer, -ENETUNREACH and others if there is no route, -EINTR, or -ENOMEM without memory or if the
 * user has its share of the entries (sirdma_share_is_fair()).
 */
struct sirdma_arp *sirdma_arp_get(struct sirdma_dev *dev, const struct sirdma_route_key *key,
				  kuid_t uid);
void sirdma_arp_put(struct sirdma_dev *dev, struct sirdma_arp *arp);
/* Copy the MAC that the entry's next hop has now. @mac: ETH_ALEN bytes */
void sirdma_arp_copy_mac(struct sirdma_dev *dev, const struct sirdma_arp *arp, u8 *mac);
/*
 * A QP left RESET, so it will soon need a neighbour. The core resolves that neighbour
 * before it calls the driver; if the resolution fails, this call is the only sign that
 * the failure concerns a QP.
 */
void sirdma_neigh_expect(struct sirdma_dev *dev);
/* Look up routes and neighbours again soon: an address changed, or the device lacks an entry. */
void sirdma_neigh_refresh(struct sirdma_dev *dev);

#endif
