// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/etherdevice.h>
#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/arp.h>
#include <net/ip6_route.h>
#include <net/l3mdev.h>
#include <net/ndisc.h>
#include <net/route.h>

#include "compat/ip6_route.h"
#include "route.h"

static void sirdma_ip_from_v4(struct sirdma_ip *ip, __be32 addr)
{
	ipv6_addr_set_v4mapped(addr, (struct in6_addr *)ip);
}

static __be32 sirdma_ip_to_v4(const struct sirdma_ip *ip)
{
	return ((const struct in6_addr *)ip)->s6_addr32[3];
}

bool sirdma_neigh_ip(const struct neighbour *neigh, struct sirdma_ip *ip)
{
	switch (neigh->tbl->family) {
	case AF_INET:
		sirdma_ip_from_v4(ip, *(const __be32 *)neigh->primary_key);
		return true;
	case AF_INET6:
		memcpy(ip, neigh->primary_key, sizeof(*ip));
		return true;
	default:
		return false;
	}
}

static int sirdma_neigh_read(struct neighbour *neigh, struct sirdma_nexthop *hop)
{
	u8 state = READ_ONCE(neigh->nud_state);

	if (!sirdma_neigh_ip(neigh, &hop->ip) || neigh->dev->addr_len != ETH_ALEN)
		return -EHOSTUNREACH;
	hop->failed = state & NUD_FAILED;
	if (state & NUD_VALID) {
		neigh_ha_snapshot((char *)hop->mac, neigh, neigh->dev);
		hop->valid = is_valid_ether_addr(hop->mac);
	}
	/*
	 * Start to resolve or confirm the neighbour: our packets bypass the stack, which would do
	 * so.
	 */
	neigh_event_send(neigh, NULL);
	return 0;
}

static int sirdma_neigh_of_route(struct dst_entry *dst, const void *daddr,
				 struct sirdma_nexthop *hop)
{
	struct neighbour *neigh;
	int err;

	neigh = dst_neigh_lookup(dst, daddr);
	if (IS_ERR_OR_NULL(neigh))
		return neigh ? PTR_ERR(neigh) : -EHOSTUNREACH;
	err = sirdma_neigh_read(neigh, hop);
	neigh_release(neigh);
	return err;
}

/* The destination is an address of this host: the MAC is that of its netdev. */
static int sirdma_nexthop_local(const struct net_device *owner, const struct sirdma_ip *dst,
				struct sirdma_nexthop *hop)
{
	if (!owner || owner->addr_len != ETH_ALEN)
		return -EADDRNOTAVAIL;
	hop->ip = *dst;
	ether_addr_copy(hop->mac, owner->dev_addr);
	hop->valid = true;
	return 0;
}

/* The index of the VRF of packets that leave by @ifindex; 0: none. Under RCU. */
static int sirdma_vrf(struct net *net, int ifindex)
{
	struct net_device *ndev = dev_get_by_index_rcu(net, ifindex);

	return ndev ? l3mdev_master_ifindex_rcu(ndev) : 0;
}

static bool sirdma_netdev_has_v4(const struct net_device *ndev, __be32 addr)
{
	const struct in_device *in_dev = __in_dev_get_rcu(ndev);
	const struct in_ifaddr *ifa;

	if (!in_dev)
		return false;
	in_dev_for_each_ifa_rcu(ifa, in_dev) {
		if (ifa->ifa_local == addr)
			return true;
	}
	return false;
}

/* The netdev that has @addr in the VRF. Another VRF may have the address as well. Under RCU. */
static const struct net_device *sirdma_owner_v4(struct net *net, int vrf, __be32 addr)
{
	struct net_device *ndev = __ip_dev_find(net, addr, false);

	if (ndev && l3mdev_master_ifindex_rcu(ndev) == vrf)
		return ndev;
	for_each_netdev_rcu(net, ndev) {
		if (l3mdev_master_ifindex_rcu(ndev) == vrf && sirdma_netdev_has_v4(ndev, addr))
			return ndev;
	}
	return NULL;
}

static int sirdma_local_v4(struct net *net, const struct sirdma_route_key *key,
			   struct sirdma_nexthop *hop)
{
	int err;

	rcu_read_lock();
	err = sirdma_nexthop_local(sirdma_owner_v4(net, sirdma_vrf(net, key->ifindex),
						   sirdma_ip_to_v4(&key->dst)),
				   &key->dst, hop);
	rcu_read_unlock();
	return err;
}

static int sirdma_route_v4(struct net *net, const struct sirdma_route_key *key,
			   struct sirdma_nexthop *hop)
{
	struct flowi4 fl4 = {
		.daddr = sirdma_ip_to_v4(&key->dst),
		.saddr = sirdma_ip_to_v4(&key->src),
		.flowi4_oif = key->ifindex,
	};
	struct rtable *rt;
	int err;

	rt = ip_route_output_key(net, &fl4);
	if (IS_ERR(rt))
		return PTR_ERR(rt);
	if (rt->rt_flags & (RTCF_MULTICAST | RTCF_BROADCAST))
		err = -EINVAL;
	else if (rt->rt_flags & RTCF_LOCAL)
		err = sirdma_local_v4(net, key, hop);
	else
		err = sirdma_neigh_of_route(&rt->dst, &fl4.daddr, hop);
	ip_rt_put(rt);
	return err;
}

#if IS_ENABLED(CONFIG_IPV6)
/* This is sirdma_owner_v4() for IPv6. With @scope, only that netdev counts. */
static const struct net_device *
sirdma_owner_v6(struct net *net, int vrf, const struct in6_addr *addr, struct net_device *scope)
{
	struct net_device *ndev = ipv6_dev_find(net, addr, scope);

	if (scope || (ndev && l3mdev_master_ifindex_rcu(ndev) == vrf))
		return ndev;
	for_each_netdev_rcu(net, ndev) {
		if (l3mdev_master_ifindex_rcu(ndev) == vrf && ipv6_chk_addr(net, addr, ndev, 1))
			return ndev;
	}
	return NULL;
}

static int sirdma_local_v6(struct net *net, const struct sirdma_route_key *key,
			   struct sirdma_nexthop *hop)
{
	const struct in6_addr *addr = (const struct in6_addr *)&key->dst;
	struct net_device *scope = NULL;
	int err;

	rcu_read_lock();
	/* A link-local address has a meaning on its own link only. */
	if (ipv6_addr_type(addr) & IPV6_ADDR_LINKLOCAL)
		scope = dev_get_by_index_rcu(net, key->ifindex);
	err = sirdma_nexthop_local(sirdma_owner_v6(net, sirdma_vrf(net, key->ifindex), addr, scope),
				   &key->dst, hop);
	rcu_read_unlock();
	return err;
}

static struct flowi6 sirdma_flow_v6(const struct sirdma_route_key *key)
{
	return (struct flowi6){
		.daddr = *(const struct in6_addr *)&key->dst,
		.saddr = *(const struct in6_addr *)&key->src,
		.flowi6_oif = key->ifindex,
	};
}

/* Does @dst leave by the netdev of the key, or, where that is a VRF, by one in it? */
static bool sirdma_dst_leaves_by(const struct dst_entry *dst, const struct sirdma_route_key *key)
{
	const struct net_device *ndev;
	bool leaves;

	rcu_read_lock();
	ndev = READ_ONCE(dst->dev);
	leaves = ndev->ifindex == key->ifindex || l3mdev_master_ifindex_rcu(ndev) == key->ifindex;
	rcu_read_unlock();
	return leaves;
}

/*
 * A lookup with a source address only prefers routes over the key's netdev; this one takes no other.
 * Packets leave by that netdev in any case, and neighbours of another link do not get them there.
 */
static int sirdma_strict_route_v6(struct net *net, const struct sirdma_route_key *key,
				  struct sirdma_nexthop *hop)
{
	struct flowi6 fl6 = sirdma_flow_v6(key);
	struct dst_entry *dst = ip6_route_output_flags(net, NULL, &fl6, RT6_LOOKUP_F_IFACE);
	int err = dst->error;

	if (!err)
		err = sirdma_neigh_of_route(dst, &fl6.daddr, hop);
	dst_release(dst);
	return err;
}

static int sirdma_route_v6(struct net *net, const struct sirdma_route_key *key,
			   struct sirdma_nexthop *hop)
{
	struct flowi6 fl6 = sirdma_flow_v6(key);
	struct dst_entry *dst;
	int err;

	if (ipv6_addr_is_multicast(&fl6.daddr))
		return -EINVAL;
	/* With ipv6.disable=1 the lookup of older kernels reads tables that do not exist. */
	if (!ipv6_mod_enabled())
		return -EAFNOSUPPORT;
	dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	if (IS_ERR(dst))
		return PTR_ERR(dst);
	if (dst_rt6_info(dst)->rt6i_flags & RTF_LOCAL)
		err = sirdma_local_v6(net, key, hop);
	else if (sirdma_dst_leaves_by(dst, key))
		err = sirdma_neigh_of_route(dst, &fl6.daddr, hop);
	else
		err = sirdma_strict_route_v6(net, key, hop);
	dst_release(dst);
	return err;
}
#else
static int sirdma_route_v6(struct net *net, const struct sirdma_route_key *key,
			   struct sirdma_nexthop *hop)
{
	return -EAFNOSUPPORT;
}
#endif

int sirdma_route_lookup(struct net *net, const struct sirdma_route_key *key,
			struct sirdma_nexthop *hop)
{
	*hop = (struct sirdma_nexthop){};
	if (sirdma_ip_is_v4(&key->dst) != sirdma_ip_is_v4(&key->src))
		return -EINVAL;
	return sirdma_ip_is_v4(&key->dst) ? sirdma_route_v4(net, key, hop) :
					    sirdma_route_v6(net, key, hop);
}
