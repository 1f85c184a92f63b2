/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One device model on one netdev. */
#ifndef SNIC_HOST_DEV_H
#define SNIC_HOST_DEV_H

#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/workqueue.h>
#include "bus.h"
#include "defer.h"
#include "model/snic.h"
#include "txq.h"

struct snic_host {
	struct snic_bus bus;
	struct snic_dev *dev;
	struct net_device *ndev;
	netdevice_tracker ndev_tracker;
	struct list_head node; /* entry of snic_hosts */
	struct list_head addrs; /* list of struct snic_addr.node */
	DECLARE_BITMAP(vlans, VLAN_N_VID); /* VLANs in which the host has an address */
	u32 addrs_gen; /* value of the model's sgids_gen when addrs was read */
	struct nf_hook_ops hook;
	struct snic_qpset deferred; /* QPs that need snic_qp_run() */
	struct snic_qpset background; /* QPs that need it in the thread of low priority */
	struct kthread_work background_work;
	struct work_struct gsi_work; /* runs the GSI QP */
	struct snic_txqs *txqs;
};

/* Work of all hosts that is not urgent. */
extern struct workqueue_struct *snic_wq;
/* All hosts. They change under snic_hosts_lock; readers walk them under RCU. */
extern struct list_head snic_hosts;

static inline struct snic_host *snic_host_of(struct sirdma_bus *bus)
{
	return container_of(bus, struct snic_host, bus.base);
}

static inline struct snic_txq *snic_host_txq(struct snic_host *host, u32 qpn)
{
	return &host->txqs->q[qpn % SNIC_TXQS];
}

#endif
