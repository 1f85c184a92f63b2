/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices of a network namespace that own IP addresses: the source address tables of all
 * devices, hashed.
 */
#ifndef SNIC_HOST_ADDR_H
#define SNIC_HOST_ADDR_H

#include <linux/if_ether.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include "sirdma/qpctx.h"

struct net;
struct snic_host;

struct snic_addr {
	struct hlist_node hash;
	struct list_head node; /* snic_host.addrs */
	struct snic_host *host;
	struct sirdma_ip ip;
	u8 mac[ETH_ALEN]; /* MAC address of the netdev that has the address: ours or one above it */
	u16 vlan_id;
	bool has_vlan;
	/* Where that netdev is. Lookups compare the namespace, and do not access it. */
	const struct net *net;
	int vrf; /* index of the VRF, 0: none */
	struct rcu_head rcu;
};

int snic_addr_init(void);
void snic_addr_exit(void);

/* The model's tables may have changed: update the addresses. Sleeps. */
void snic_addr_sync(struct snic_host *host);
void snic_addr_flush(struct snic_host *host);
/*
 * Is @ip, reached through @vlan_id or untagged, an address of @host? With @mac, the netdev of the
 * address must have that MAC address. Call this under RCU.
 */
bool snic_addr_is_mine(const struct snic_host *host, const struct sirdma_ip *ip, bool has_vlan,
		       u16 vlan_id, const u8 *mac);
/*
 * The device that has @to in the namespace and the VRF of the netdev that has @from, an address of
 * @host with @src_mac: @host itself, if it can be. Both are reached through @vlan_id or untagged.
 * Call this under RCU.
 */
struct snic_host *snic_addr_find(const struct snic_host *host, const struct sirdma_ip *from,
				 const u8 *src_mac, const struct sirdma_ip *to, bool has_vlan,
				 u16 vlan_id);

#endif
