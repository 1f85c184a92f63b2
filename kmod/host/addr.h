/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which device of a network namespace owns an IP address: the source address
 * tables of all devices, hashed.
 */
#ifndef SNIC_HOST_ADDR_H
#define SNIC_HOST_ADDR_H

#include <linux/if_ether.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include "sirdma/qpctx.h"

struct snic_host;

struct snic_addr {
	struct hlist_node hash;
	struct list_head node; /* snic_host.addrs */
	struct snic_host *host;
	struct sirdma_ip ip;
	u8 mac[ETH_ALEN]; /* of the netdev that has the address: ours or one above it */
	u16 vlan_id;
	bool has_vlan;
	struct rcu_head rcu;
};

/* The model's tables may have changed: follow them. Sleeps. */
void snic_addr_sync(struct snic_host *host);
void snic_addr_flush(struct snic_host *host);
/*
 * Is @ip, reached through @vlan_id or untagged, an address of @host? With @mac, only
 * one whose netdev has that MAC address. Under RCU.
 */
bool snic_addr_is_mine(const struct snic_host *host, const struct sirdma_ip *ip, bool has_vlan,
		       u16 vlan_id, const u8 *mac);
/*
 * The device that has @ip in the namespace and the VRF of the netdev of @host, or above
 * it, whose MAC address is @src_mac: @host itself, if it can be. Under RCU.
 */
struct snic_host *snic_addr_find(struct snic_host *host, const struct sirdma_ip *ip, bool has_vlan,
				 u16 vlan_id, const u8 *src_mac);

#endif
