// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <rdma/rdma_netlink.h>

#include "device.h"
#include "identity.h"
#include "link.h"

static int sirdma_link_add(const char *name, struct net_device *ndev, bool irdma)
{
	struct sirdma_dev *old;
	int err;

	if (ndev->type != ARPHRD_ETHER || ndev->addr_len != ETH_ALEN || is_vlan_dev(ndev)) {
		netdev_warn(ndev, "sirdma needs an Ethernet netdev that is not a VLAN\n");
		return -EINVAL;
	}
	old = sirdma_dev_get_by_netdev(ndev);
	if (old) {
		netdev_warn(ndev, "already has the sirdma device %s\n", dev_name(&old->ibdev.dev));
		ib_device_put(&old->ibdev);
		return -EEXIST;
	}
	err = sirdma_dev_add(name, ndev, irdma);
	if (err)
		netdev_warn(ndev, "cannot make a sirdma device: %d\n", err);
	return err;
}

static int sirdma_newlink(const char *name, struct net_device *ndev)
{
	return sirdma_link_add(name, ndev, false);
}

static int sirdma_newlink_irdma(const char *name, struct net_device *ndev)
{
	return sirdma_link_add(name, ndev, true);
}

static struct rdma_link_ops sirdma_link_ops = {
	.type = "sirdma",
	.newlink = sirdma_newlink,
};

static struct rdma_link_ops sirdma_irdma_link_ops = {
	.type = "sirdma_irdma",
	.newlink = sirdma_newlink_irdma,
};

void sirdma_link_init(void)
{
	rdma_link_register(&sirdma_link_ops);
	rdma_link_register(&sirdma_irdma_link_ops);
}

void sirdma_link_fini(void)
{
	rdma_link_unregister(&sirdma_irdma_link_ops);
	rdma_link_unregister(&sirdma_link_ops);
}
