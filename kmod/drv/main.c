// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/module.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>

#include "device.h"
#include "doorbell.h"
#include "identity.h"
#include "link.h"
#include "netdev.h"
#include "odp.h"

struct workqueue_struct *sirdma_upkeep_wq;
struct workqueue_struct *sirdma_rescue_wq;
struct workqueue_struct *sirdma_urgent_wq;

static int __init sirdma_init(void)
{
	int err;

	sirdma_upkeep_wq = alloc_workqueue("sirdma_upkeep", WQ_UNBOUND | WQ_SYSFS, 0);
	if (!sirdma_upkeep_wq)
		return -ENOMEM;
	sirdma_rescue_wq = alloc_workqueue("sirdma_rescue",
					   WQ_HIGHPRI | WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_SYSFS, 0);
	if (!sirdma_rescue_wq) {
		err = -ENOMEM;
		goto err_upkeep;
	}
	sirdma_urgent_wq = alloc_workqueue("sirdma_urgent", WQ_HIGHPRI | WQ_UNBOUND | WQ_SYSFS, 0);
	if (!sirdma_urgent_wq) {
		err = -ENOMEM;
		goto err_rescue;
	}
	err = sirdma_identity_init();
	if (err)
		goto err_urgent;
	err = sirdma_netdev_init();
	if (err)
		goto err_identity;
	sirdma_link_init();
	return 0;

err_identity:
	sirdma_identity_fini();
err_urgent:
	destroy_workqueue(sirdma_urgent_wq);
err_rescue:
	destroy_workqueue(sirdma_rescue_wq);
err_upkeep:
	destroy_workqueue(sirdma_upkeep_wq);
	return err;
}

static void __exit sirdma_exit(void)
{
	sirdma_link_fini();
	/* Programs that use a device get an event, and EIO from then on. */
	sirdma_identity_unregister_devices();
	sirdma_netdev_fini();
	sirdma_identity_fini();
	sirdma_odp_exit();
	destroy_workqueue(sirdma_urgent_wq);
	destroy_workqueue(sirdma_rescue_wq);
	destroy_workqueue(sirdma_upkeep_wq);
}

module_init(sirdma_init);
module_exit(sirdma_exit);

MODULE_DESCRIPTION("Software RDMA NIC: driver");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_ALIAS_RDMA_LINK("sirdma");
MODULE_ALIAS_RDMA_LINK("sirdma_irdma");
