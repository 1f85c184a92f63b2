// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>

#include "device.h"
#include "identity.h"
#include "netdev.h"
#include "port.h"
#include "trace.h"

void sirdma_netdev_sync(struct sirdma_dev *dev)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.element.port_num = 1,
	};
	bool up;

	dev->bus->ops->link_update(dev->bus);
	up = sirdma_port_is_up(dev);
	event.event = up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR;
	if (up ? test_and_set_bit(SIRDMA_DEV_PORT_UP, &dev->flags) :
		 !test_and_clear_bit(SIRDMA_DEV_PORT_UP, &dev->flags))
		return;
	trace_sirdma_port(dev, up, dev->ndev->mtu);
	ib_dispatch_event(&event);
}

void sirdma_report_port_event(struct ib_device *ibdev, struct net_device *ndev, unsigned long event)
{
	sirdma_netdev_sync(to_sdev(ibdev));
}

/* @upper is above the netdev of the device @priv->data. */
static int sirdma_netdev_mac_recheck(struct net_device *upper, struct netdev_nested_priv *priv)
{
	sirdma_gid_mac_changed(priv->data, upper);
	return 0;
}

/*
 * Until now the notifier did not find the device: the core gave no references to it. Neighbours and
 * groups have missed nothing, because the core destroys all queue pairs before it moves a device.
 * RTNL keeps events out, whose newer state would be overwritten by what was read before them.
 */
int sirdma_enable_driver(struct ib_device *ibdev)
{
	struct sirdma_dev *dev = to_sdev(ibdev);
	struct netdev_nested_priv priv = {.data = dev};

	rtnl_lock();
	sirdma_netdev_sync(dev);
	sirdma_gid_mac_changed(dev, dev->ndev);
	rcu_read_lock();
	netdev_walk_all_upper_dev_rcu(dev->ndev, sirdma_netdev_mac_recheck, &priv);
	rcu_read_unlock();
	rtnl_unlock();
	return 0;
}

static void sirdma_netdev_changed(struct sirdma_dev *dev, unsigned long event)
{
	switch (event) {
	case NETDEV_UNREGISTER:
		/*
		 * The notifier holds RTNL, which unregistration takes as well, so queue the
		 * unregistration.
		 */
		ib_unregister_device_queued(&dev->ibdev);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEMTU:
	case NETDEV_CHANGEADDR:
		sirdma_netdev_sync(dev);
		break;
	}
}

/*
 * The netdev @priv->data has a new MAC. @lower is that netdev, or one below it: below a VLAN,
 * for example.
 */
static int sirdma_netdev_mac_changed(struct net_device *lower, struct netdev_nested_priv *priv)
{
	struct sirdma_dev *dev = sirdma_dev_get_by_netdev(lower);

	if (!dev)
		return 0;
	sirdma_gid_mac_changed(dev, priv->data);
	/* The kernel forgot the neighbours. A query for them shows peers our new MAC. */
	sirdma_neigh_refresh(dev);
	ib_device_put(&dev->ibdev);
	return 0;
}

/*
 * @priv->data, which is @lower or above it, may have got an inet6_dev that is no member of groups.
 */
static int sirdma_netdev_rejoin(struct net_device *lower, struct netdev_nested_priv *priv)
{
	struct sirdma_dev *dev = sirdma_dev_get_by_netdev(lower);

	if (!dev)
		return 0;
	sirdma_mcast_rejoin(dev);
	ib_device_put(&dev->ibdev);
	return 0;
}

static int sirdma_netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(info);
	struct netdev_nested_priv priv = {.data = ndev};
	struct sirdma_dev *dev;

	dev = sirdma_dev_get_by_netdev(ndev);
	if (dev) {
		sirdma_netdev_changed(dev, event);
		ib_device_put(&dev->ibdev);
	}
	if (event == NETDEV_CHANGEADDR) {
		sirdma_netdev_mac_changed(ndev, &priv);
		netdev_walk_all_lower_dev(ndev, sirdma_netdev_mac_changed, &priv);
	}
	if (event == NETDEV_CHANGEMTU || event == NETDEV_UP) {
		sirdma_netdev_rejoin(ndev, &priv);
		netdev_walk_all_lower_dev(ndev, sirdma_netdev_rejoin, &priv);
	}
	return NOTIFY_DONE;
}

static struct notifier_block sirdma_netdev_notifier = {
	.notifier_call = sirdma_netdev_event,
};

int sirdma_netdev_init(void)
{
	return register_netdevice_notifier(&sirdma_netdev_notifier);
}

void sirdma_netdev_fini(void)
{
	unregister_netdevice_notifier(&sirdma_netdev_notifier);
}
