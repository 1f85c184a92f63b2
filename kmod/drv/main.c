// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/module.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>

#include "link.h"
#include "netdev.h"
#include "sirdma/abi.h"

static int __init sirdma_init(void)
{
	int err;

	err = sirdma_netdev_init();
	if (err)
		return err;
	sirdma_link_init();
	return 0;
}

static void __exit sirdma_exit(void)
{
	sirdma_link_fini();
	/* Devices without users go with the module; users hold a reference to it. */
	ib_unregister_driver((enum rdma_driver_id)SIRDMA_DRIVER_ID);
	sirdma_netdev_fini();
}

module_init(sirdma_init);
module_exit(sirdma_exit);

MODULE_DESCRIPTION("Software RDMA NIC: driver");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_ALIAS_RDMA_LINK("sirdma");
