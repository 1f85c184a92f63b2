// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "addr.h"

#include <linux/etherdevice.h>
#include <linux/hashtable.h>
#include <linux/if_vlan.h>
#include <linux/jhash.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <net/l3mdev.h>
#include <net/net_namespace.h>
#include "dev.h"
#include "model/dev.h"

static DEFINE_HASHTABLE(snic_addrs, 8);
/* Protects changes of the table and of the hosts' lists of addresses. */
static DEFINE_MUTEX(snic_addrs_lock);

static u32 snic_addr_hash(const struct sirdma_ip *ip)
{
	u32 words[4];

	memcpy(words, ip->b, sizeof(words));
	return jhash2(words, ARRAY_SIZE(words), 0);
}

/* fe80::/10: means something on one link only. */
static bool snic_addr_is_link_local(const struct sirdma_ip *ip)
{
	return ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80;
}

static bool snic_addr_equal(const struct snic_addr *addr, const struct sirdma_ip *ip, bool has_vlan,
			    u16 vlan_id)
{
	return !memcmp(&addr->ip, ip, sizeof(*ip)) && addr->has_vlan == has_vlan &&
	       (!has_vlan || addr->vlan_id == vlan_id);
}

static void snic_addr_remove(struct snic_addr *addr)
{
	hash_del_rcu(&addr->hash);
	list_del(&addr->node);
	kfree_rcu(addr, rcu);
}

/* Move the entry for @sgid to @keep, or make it there. */
static int snic_addr_keep(struct snic_host *host, const struct snic_sgid *sgid,
			  struct list_head *keep)
{
	struct snic_addr *addr;

	list_for_each_entry(addr, &host->addrs, node) {
		if (snic_addr_equal(addr, &sgid->ip, sgid->has_vlan, sgid->vlan_id) &&
		    !memcmp(addr->mac, sgid->mac, sizeof(addr->mac))) {
			list_move_tail(&addr->node, keep);
			return 0;
		}
	}
	addr = kzalloc(sizeof(*addr), GFP_KERNEL);
	if (!addr)
		return -ENOMEM;
	addr->host = host;
	addr->ip = sgid->ip;
	memcpy(addr->mac, sgid->mac, sizeof(addr->mac));
	addr->has_vlan = sgid->has_vlan;
	addr->vlan_id = sgid->vlan_id;
	list_add_tail(&addr->node, keep);
	hash_add_rcu(snic_addrs, &addr->hash, snic_addr_hash(&addr->ip));
	return 0;
}

void snic_addr_sync(struct snic_host *host)
{
	struct snic_addr *addr, *next;
	struct snic_sgid sgid;
	LIST_HEAD(keep);
	u32 i, gen;
	int err = 0;

	if (READ_ONCE(host->addrs_gen) == READ_ONCE(host->dev->tables_gen))
		return;
	mutex_lock(&snic_addrs_lock);
	gen = READ_ONCE(host->dev->tables_gen);
	for (i = 0; i < host->dev->cfg.max_sgids; i++)
		if (snic_sgid_read(host->dev, i, &sgid))
			err = err ?: snic_addr_keep(host, &sgid, &keep);
	list_for_each_entry_safe(addr, next, &host->addrs, node)
		snic_addr_remove(addr);
	list_splice(&keep, &host->addrs);
	/* An address that found no memory is looked at again with the next command. */
	if (!err)
		WRITE_ONCE(host->addrs_gen, gen);
	mutex_unlock(&snic_addrs_lock);
}

void snic_addr_flush(struct snic_host *host)
{
	struct snic_addr *addr, *next;

	mutex_lock(&snic_addrs_lock);
	list_for_each_entry_safe(addr, next, &host->addrs, node)
		snic_addr_remove(addr);
	mutex_unlock(&snic_addrs_lock);
}

bool snic_addr_is_mine(const struct snic_host *host, const struct sirdma_ip *ip, bool has_vlan,
		       u16 vlan_id, const u8 *mac)
{
	struct snic_addr *addr;

	hash_for_each_possible_rcu(snic_addrs, addr, hash, snic_addr_hash(ip))
		if (addr->host == host && snic_addr_equal(addr, ip, has_vlan, vlan_id) &&
		    (!mac || ether_addr_equal_unaligned(addr->mac, mac)))
			return true;
	return false;
}

/* The netdev that has addresses with @mac and the VLAN: that of @host, or one above it. */
static struct net_device *snic_addr_netdev(const struct snic_host *host, bool has_vlan, u16 vlan_id,
					   const u8 *mac)
{
	struct net_device *ndev = host->ndev, *upper;
	struct list_head *iter;

	if (has_vlan)
		return __vlan_find_dev_deep_rcu(ndev, htons(ETH_P_8021Q), vlan_id);
	if (ether_addr_equal_unaligned(ndev->dev_addr, mac))
		return ndev;
	netdev_for_each_upper_dev_rcu(ndev, upper, iter) {
		if (ether_addr_equal_unaligned(upper->dev_addr, mac))
			return upper;
	}
	return ndev;
}

/* Index of the VRF it is in, 0: none. */
static int snic_addr_vrf(const struct snic_host *host, bool has_vlan, u16 vlan_id, const u8 *mac)
{
	struct net_device *ndev = snic_addr_netdev(host, has_vlan, vlan_id, mac);
	int vrf = 0;

	/* A bond or a bridge has the addresses of its ports. */
	while (ndev && !vrf) {
		vrf = l3mdev_master_ifindex_rcu(ndev);
		ndev = netdev_master_upper_dev_get_rcu(ndev);
	}
	return vrf;
}

struct snic_host *snic_addr_find(struct snic_host *host, const struct sirdma_ip *ip, bool has_vlan,
				 u16 vlan_id, const u8 *src_mac)
{
	bool link_local = snic_addr_is_link_local(ip);
	struct snic_host *found = NULL;
	struct snic_addr *addr;

	hash_for_each_possible_rcu(snic_addrs, addr, hash, snic_addr_hash(ip)) {
		if (!snic_addr_equal(addr, ip, has_vlan, vlan_id))
			continue;
		if (addr->host != host &&
		    (link_local || !net_eq(dev_net(addr->host->ndev), dev_net(host->ndev))))
			continue;
		/* Only addresses of this machine come here: others pay nothing for VRFs. */
		if (snic_addr_vrf(addr->host, has_vlan, vlan_id, addr->mac) !=
		    snic_addr_vrf(host, has_vlan, vlan_id, src_mac))
			continue;
		if (addr->host == host)
			return host;
		found = addr->host;
	}
	return found;
}
