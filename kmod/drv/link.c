// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <rdma/rdma_netlink.h>

#include "device.h"
#include "link.h"
#include "sirdma/abi.h"

static int sirdma_newlink(const char *name, struct net_device *ndev)
{
	struct ib_device *old;
	int err;

	if (ndev->type != ARPHRD_ETHER || ndev->addr_len != ETH_ALEN || is_vlan_dev(ndev)) {
		netdev_warn(ndev, "sirdma needs an Ethernet netdev that is not a VLAN\n");
		return -EINVAL;
	}
	old = ib_device_get_by_netdev(ndev, (enum rdma_driver_id)SIRDMA_DRIVER_ID);
	if (old) {
		netdev_warn(ndev, "already has the sirdma device %s\n", dev_name(&old->dev));
		ib_device_put(old);
		return -EEXIST;
	}
	err = sirdma_dev_add(name, ndev);
	if (err)
		netdev_warn(ndev, "cannot make a sirdma device: %d\n", err);
	return err;
}

static struct rdma_link_ops sirdma_link_ops = {
	.type = "sirdma",
	.newlink = sirdma_newlink,
};

void sirdma_link_init(void)
{
	rdma_link_register(&sirdma_link_ops);
}

void sirdma_link_fini(void)
{
	rdma_link_unregister(&sirdma_link_ops);
}
