/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The netdev below a device: link state, MTU, MAC, removal. */
#ifndef SIRDMA_DRV_NETDEV_H
#define SIRDMA_DRV_NETDEV_H

struct ib_device;
struct net_device;
struct sirdma_dev;

int sirdma_netdev_init(void);
void sirdma_netdev_fini(void);
/*
 * Tell the device the state of the netdev, and tell applications whether the port went up or down.
 */
void sirdma_netdev_sync(struct sirdma_dev *dev);
/*
 * The RDMA core calls this when it has registered the device, and when it has moved the device to
 * another network namespace: make up for the events of the netdev that came before.
 */
int sirdma_enable_driver(struct ib_device *ibdev);
/* The RDMA core's notifier of netdevs calls this, with RTNL held, before or after ours. */
void sirdma_report_port_event(struct ib_device *ibdev, struct net_device *ndev,
			      unsigned long event);

#endif
