// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <rdma/ib_verbs.h>

#include "device.h"
#include "identity.h"
#include "sirdma/abi.h"

static DEFINE_MUTEX(identity_lock); /* protects the two variables below */
static unsigned int irdma_devices; /* devices of ours that have irdma's identity */
static bool irdma_loading; /* irdma.ko is being loaded, or is loaded */

/* Was irdma.ko loaded before this module? */
static bool irdma_is_loaded(void)
{
	struct kobject *irdma = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, "irdma");

	if (!irdma)
		return false;
	kobject_put(irdma);
	return true;
}

static int irdma_try_claim(void)
{
	int err = 0;

	mutex_lock(&identity_lock);
	if (irdma_loading || irdma_is_loaded())
		err = -EBUSY;
	else
		irdma_devices++;
	mutex_unlock(&identity_lock);
	return err;
}

int sirdma_irdma_claim(void)
{
	int err = irdma_try_claim();

	if (err)
		pr_warn("sirdma: irdma is loaded, so no other device can have its identity\n");
	return err;
}

void sirdma_irdma_release(void)
{
	mutex_lock(&identity_lock);
	irdma_devices--;
	mutex_unlock(&identity_lock);
}

static int identity_module_event(struct notifier_block *nb, unsigned long state, void *data)
{
	const struct module *mod = data;
	int err = 0;

	if (strcmp(mod->name, "irdma"))
		return NOTIFY_DONE;
	mutex_lock(&identity_lock);
	if (state == MODULE_STATE_COMING && irdma_devices)
		err = -EBUSY;
	else
		irdma_loading = state != MODULE_STATE_GOING;
	mutex_unlock(&identity_lock);
	if (err)
		pr_warn("sirdma: irdma is not loaded while a link of type sirdma_irdma exists\n");
	return notifier_from_errno(err);
}

static struct notifier_block identity_module_notifier = {
	.notifier_call = identity_module_event,
};

static struct sirdma_dev *dev_get_by_driver(struct net_device *ndev, enum rdma_driver_id id)
{
	struct ib_device *ibdev = ib_device_get_by_netdev(ndev, id);

	if (!ibdev)
		return NULL;
	if (ibdev->ops.owner == THIS_MODULE)
		return to_sdev(ibdev);
	ib_device_put(ibdev);
	return NULL;
}

struct sirdma_dev *sirdma_dev_get_by_netdev(struct net_device *ndev)
{
	struct sirdma_dev *dev = dev_get_by_driver(ndev, (enum rdma_driver_id)SIRDMA_DRIVER_ID);

	return dev ? dev : dev_get_by_driver(ndev, RDMA_DRIVER_IRDMA);
}

void sirdma_identity_unregister_devices(void)
{
	ib_unregister_driver((enum rdma_driver_id)SIRDMA_DRIVER_ID);
	/* While irdma.ko is loaded, all devices of its identity are its own. */
	if (!irdma_try_claim()) {
		ib_unregister_driver(RDMA_DRIVER_IRDMA);
		sirdma_irdma_release();
	}
}

int sirdma_identity_init(void)
{
	return register_module_notifier(&identity_module_notifier);
}

void sirdma_identity_fini(void)
{
	unregister_module_notifier(&identity_module_notifier);
}
