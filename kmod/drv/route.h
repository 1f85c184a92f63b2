/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Routes and neighbours: from a pair of addresses to the MAC of the next hop. */
#ifndef SIRDMA_DRV_ROUTE_H
#define SIRDMA_DRV_ROUTE_H

#include <linux/if_ether.h>
#include <net/neighbour.h>
#include <net/net_namespace.h>
#include "sirdma/qpctx.h"

struct sirdma_route_key {
	struct sirdma_ip src;
	struct sirdma_ip dst;
	int ifindex; /* netdev of the source address */
};

struct sirdma_nexthop {
	struct sirdma_ip ip; /* address of the neighbour: the destination or a gateway */
	u8 mac[ETH_ALEN];
	bool valid; /* mac is known */
	bool failed; /* the neighbour did not answer earlier; it is being asked again */
};

/* The address of @neigh in the form of struct sirdma_ip. Returns false for a foreign family. */
bool sirdma_neigh_ip(const struct neighbour *neigh, struct sirdma_ip *ip);
/*
 * Look up the next hop of @key, without waiting. The kernel asks a neighbour that is unknown or
 * stale, and the answer raises a neighbour event. Returns 0, -ENETUNREACH, -EHOSTUNREACH and other
 * errnos of the routing code, or -EINVAL for a multicast or broadcast destination.
 */
int sirdma_route_lookup(struct net *net, const struct sirdma_route_key *key,
			struct sirdma_nexthop *hop);

#endif
