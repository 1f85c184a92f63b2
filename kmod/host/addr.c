// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "addr.h"

#include <linux/etherdevice.h>
#include <linux/hashtable.h>
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>
#include <net/l3mdev.h>
#include <net/net_namespace.h>
#include "dev.h"
#include "model/dev.h"

static DEFINE_HASHTABLE(snic_addrs, 8);
/* Protects changes of the table and of the hosts' lists of addresses. */
static DEFINE_MUTEX(snic_addrs_lock);

/*
 * The table has the addresses of this host's netdevs, whose number the kernel limits: a weak hash
 * suffices.
 */
static __always_inline u32 snic_addr_hash(const struct sirdma_ip *ip)
{
	u32 words[4];

	memcpy(words, ip->b, sizeof(words));
	return words[0] ^ words[1] ^ words[2] ^ words[3];
}

/* A link-local address (fe80::/10) has a meaning on one link only. */
static bool snic_addr_is_link_local(const struct sirdma_ip *ip)
{
	return ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80;
}

static __always_inline bool snic_addr_equal(const struct snic_addr *addr,
					    const struct sirdma_ip *ip, bool has_vlan, u16 vlan_id)
{
	return !memcmp(&addr->ip, ip, sizeof(*ip)) && addr->has_vlan == has_vlan &&
	       (!has_vlan || addr->vlan_id == vlan_id);
}

/* The core makes a GID of ifa_address, which differs from ifa_local only where a peer is named. */
static bool snic_netdev_has_v4(const struct net_device *ndev, __be32 ip)
{
	const struct in_device *in_dev = __in_dev_get_rcu(ndev);
	const struct in_ifaddr *ifa;

	if (!in_dev)
		return false;
	in_dev_for_each_ifa_rcu(ifa, in_dev) {
		if (ifa->ifa_address == ip)
			return true;
	}
	return false;
}

static bool snic_netdev_has_v6(const struct net_device *ndev, const struct in6_addr *ip)
{
#if IS_ENABLED(CONFIG_IPV6)
	const struct inet6_dev *in6_dev = __in6_dev_get(ndev);
	const struct inet6_ifaddr *ifa;

	if (!in6_dev)
		return false;
	/* A tentative address counts, too: it is in our table already. */
	list_for_each_entry_rcu(ifa, &in6_dev->addr_list, if_list) {
		if (ipv6_addr_equal(&ifa->addr, ip))
			return true;
	}
#endif
	return false;
}

static int snic_first_lower_vlan(struct net_device *lower, struct netdev_nested_priv *priv)
{
	if (is_vlan_dev(lower))
		*(u16 *)priv->data = vlan_dev_vlan_id(lower);
	return true;
}

/*
 * The VLAN that the core gives to the GIDs of @ndev (rdma_read_gid_l2_fields()): the VLAN of @ndev,
 * or that of the first netdev below it. 0: there is none.
 */
static u16 snic_netdev_vlan(struct net_device *ndev)
{
	u16 vlan_id = 0;
	struct netdev_nested_priv priv = {.data = &vlan_id};

	if (is_vlan_dev(ndev))
		return vlan_dev_vlan_id(ndev);
	netdev_walk_all_lower_dev_rcu(ndev, snic_first_lower_vlan, &priv);
	return vlan_id;
}

struct snic_owner {
	const struct snic_addr *addr;
	const struct net_device *ndev;
};

/* Does @ndev have the address and its MAC address? True ends the search. */
static int snic_owner_check(struct net_device *ndev, struct netdev_nested_priv *priv)
{
	struct snic_owner *owner = priv->data;
	const struct snic_addr *addr = owner->addr;
	const struct in6_addr *ip = (const struct in6_addr *)&addr->ip;

	if (snic_netdev_vlan(ndev) != (addr->has_vlan ? addr->vlan_id : 0))
		return false;
	if (!(ipv6_addr_v4mapped(ip) ? snic_netdev_has_v4(ndev, ip->s6_addr32[3]) :
				       snic_netdev_has_v6(ndev, ip)))
		return false;
	owner->ndev = ndev;
	return ether_addr_equal_unaligned(ndev->dev_addr, addr->mac);
}

/*
 * Find the netdev that has the address, and with it namespace and VRF. It is the host's netdev or
 * one above it: a VLAN, a bond, an IPVLAN, which may all have one MAC address. An address that no
 * netdev has, such as the core's default GID, counts as one of the host's netdev.
 */
static void snic_addr_place(struct snic_addr *addr)
{
	struct net_device *ndev = addr->host->ndev;
	struct snic_owner owner = {.addr = addr, .ndev = ndev};
	struct netdev_nested_priv priv = {.data = &owner};

	rcu_read_lock();
	if (!snic_owner_check(ndev, &priv))
		netdev_walk_all_upper_dev_rcu(ndev, snic_owner_check, &priv);
	WRITE_ONCE(addr->net, dev_net(owner.ndev));
	WRITE_ONCE(addr->vrf, l3mdev_master_ifindex_rcu(owner.ndev));
	rcu_read_unlock();
}

/* When a netdev enters or leaves a VRF, the addresses of it and of netdevs below it follow. */
static int snic_addr_event(struct notifier_block *nb, unsigned long event, void *info)
{
	const struct netdev_notifier_changeupper_info *upper = info;
	struct snic_addr *addr;
	int bucket;

	if (event != NETDEV_CHANGEUPPER || !netif_is_l3_master(upper->upper_dev))
		return NOTIFY_DONE;
	mutex_lock(&snic_addrs_lock);
	hash_for_each(snic_addrs, bucket, addr, hash)
		snic_addr_place(addr);
	mutex_unlock(&snic_addrs_lock);
	return NOTIFY_DONE;
}

static struct notifier_block snic_addr_notifier = {
	.notifier_call = snic_addr_event,
};

int snic_addr_init(void)
{
	port_mutex_teach_lockdep(&snic_addrs_lock);
	return register_netdevice_notifier(&snic_addr_notifier);
}

void snic_addr_exit(void)
{
	unregister_netdevice_notifier(&snic_addr_notifier);
}

static void snic_addr_remove(struct snic_addr *addr)
{
	hash_del_rcu(&addr->hash);
	list_del(&addr->node);
	kfree_rcu(addr, rcu);
}

/* Move the entry for @sgid to @keep, or make a new entry there. */
static int snic_addr_keep(struct snic_host *host, const struct snic_sgid *sgid,
			  struct list_head *keep)
{
	struct snic_addr *addr;

	list_for_each_entry(addr, &host->addrs, node) {
		if (snic_addr_equal(addr, &sgid->ip, sgid->has_vlan, sgid->vlan_id) &&
		    !memcmp(addr->mac, sgid->mac, sizeof(addr->mac))) {
			snic_addr_place(addr);
			list_move_tail(&addr->node, keep);
			return 0;
		}
	}
	addr = kzalloc(sizeof(*addr), port_mutex_gfp(sizeof(*addr)));
	if (!addr)
		return -ENOMEM;
	addr->host = host;
	addr->ip = sgid->ip;
	memcpy(addr->mac, sgid->mac, sizeof(addr->mac));
	addr->has_vlan = sgid->has_vlan;
	addr->vlan_id = sgid->vlan_id;
	snic_addr_place(addr);
	list_add_tail(&addr->node, keep);
	hash_add_rcu(snic_addrs, &addr->hash, snic_addr_hash(&addr->ip));
	return 0;
}

void snic_addr_sync(struct snic_host *host)
{
	struct snic_addr *addr, *next;
	DECLARE_BITMAP(vlans, VLAN_N_VID);
	struct snic_sgid sgid;
	LIST_HEAD(keep);
	bool complete = true;
	u32 i, gen;

	if (READ_ONCE(host->addrs_gen) == READ_ONCE(host->dev->sgids_gen))
		return;
	bitmap_zero(vlans, VLAN_N_VID);
	mutex_lock(&snic_addrs_lock);
	gen = READ_ONCE(host->dev->sgids_gen);
	for (i = 0; i < host->dev->cfg.max_sgids; i++) {
		if (!snic_sgid_read(host->dev, i, &sgid))
			continue;
		if (snic_addr_keep(host, &sgid, &keep))
			complete = false;
		if (sgid.has_vlan)
			__set_bit(sgid.vlan_id, vlans);
	}
	/* A reader that sees half of the copy decides by the old set. */
	bitmap_copy(host->vlans, vlans, VLAN_N_VID);
	list_for_each_entry_safe(addr, next, &host->addrs, node)
		snic_addr_remove(addr);
	list_splice(&keep, &host->addrs);
	/* The next command tries again to add an address for which there was no memory. */
	if (complete)
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

/* The entry of @host for an address that it sends from, with @mac if there are several. */
static const struct snic_addr *snic_addr_own(const struct snic_host *host,
					     const struct sirdma_ip *ip, const u8 *mac,
					     bool has_vlan, u16 vlan_id)
{
	const struct snic_addr *addr, *found = NULL;

	hash_for_each_possible_rcu(snic_addrs, addr, hash, snic_addr_hash(ip)) {
		if (addr->host != host || !snic_addr_equal(addr, ip, has_vlan, vlan_id))
			continue;
		found = addr;
		if (ether_addr_equal_unaligned(addr->mac, mac))
			break;
	}
	return found;
}

/* Does @from reach @to without a wire? */
static bool snic_addr_meets(const struct snic_addr *from, const struct snic_addr *to)
{
	bool same_host = from->host == to->host;

	/*
	 * A wire brings no frame back to the netdev that sent it, so namespaces above one netdev
	 * meet here or nowhere.
	 */
	if (READ_ONCE(from->net) != READ_ONCE(to->net))
		return same_host;
	/* The index of a VRF means something within its namespace only. */
	return READ_ONCE(from->vrf) == READ_ONCE(to->vrf) &&
	       (same_host || !snic_addr_is_link_local(&to->ip));
}

struct snic_host *snic_addr_find(const struct snic_host *host, const struct sirdma_ip *from,
				 const u8 *src_mac, const struct sirdma_ip *to, bool has_vlan,
				 u16 vlan_id)
{
	const struct snic_addr *addr, *own = NULL;
	struct snic_host *found = NULL;

	hash_for_each_possible_rcu(snic_addrs, addr, hash, snic_addr_hash(to)) {
		if (!snic_addr_equal(addr, to, has_vlan, vlan_id))
			continue;
		/* Only traffic to an address of this machine needs the second lookup. */
		own = own ?: snic_addr_own(host, from, src_mac, has_vlan, vlan_id);
		if (!own)
			return NULL;
		if (!snic_addr_meets(own, addr))
			continue;
		if (addr->host == host)
			return addr->host;
		found = addr->host;
	}
	return found;
}
