// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Events of the netdev, also while the device is not registered. */
#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <rdma/ib_verbs.h>

/* Tracepoints belong to the module that is tested. */
#define SIRDMA_DRV_TRACE_H
#define trace_sirdma_port(dev, up, mtu) ((void)(up))

/* Other suites have the real ones, or stand-ins of their own. */
#define sirdma_gid_mac_changed netdev_test_gid_mac_changed
#define sirdma_neigh_refresh netdev_test_neigh_refresh
#define sirdma_mcast_rejoin netdev_test_mcast_rejoin

/* What the device and the RDMA core are told. */
static struct {
	u32 updates; /* of the link's state */
	u32 without_rtnl; /* of them */
	u32 macs;
	u32 events;
	enum ib_event_type last_event;
	u32 removals;
} calls;

static void count_event(const struct ib_event *event)
{
	calls.events++;
	calls.last_event = event->event;
}

#define ib_dispatch_event(event) count_event(event)
#define ib_unregister_device_queued(ibdev) ((void)(ibdev), calls.removals++)

#include "drv/netdev.c"

static struct sirdma_dev *device; /* that the netdev has */
static bool port_is_up;

/* As the RDMA core, which gives no references while it moves the device. */
struct sirdma_dev *sirdma_dev_get_by_netdev(struct net_device *ndev)
{
	return ndev == device->ndev && ib_device_try_get(&device->ibdev) ? device : NULL;
}

bool sirdma_port_is_up(const struct sirdma_dev *dev)
{
	return port_is_up;
}

void sirdma_gid_mac_changed(struct sirdma_dev *dev, const struct net_device *ndev)
{
	calls.macs++;
}

void sirdma_neigh_refresh(struct sirdma_dev *dev) {}
void sirdma_mcast_rejoin(struct sirdma_dev *dev) {}

static void link_update(struct sirdma_bus *bus)
{
	calls.updates++;
	calls.without_rtnl += !rtnl_is_locked();
}

static const struct sirdma_bus_ops bus_ops = {
	.link_update = link_update,
};
static struct sirdma_bus bus = {
	.ops = &bus_ops,
};

static int netdev_init(struct kunit *test)
{
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->ndev = alloc_etherdev(0);
	KUNIT_ASSERT_NOT_NULL(test, dev->ndev);
	dev->bus = &bus;
	refcount_set(&dev->ibdev.refcount, 1);
	test->priv = dev;
	device = dev;
	port_is_up = true;
	set_bit(SIRDMA_DEV_PORT_UP, &dev->flags);
	memset(&calls, 0, sizeof(calls));
	return 0;
}

static void netdev_exit(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;

	if (dev)
		free_netdev(dev->ndev);
}

static void netdev_event(struct sirdma_dev *dev, unsigned long event)
{
	struct netdev_notifier_info info = {.dev = dev->ndev};

	rtnl_lock();
	sirdma_netdev_event(NULL, event, &info);
	rtnl_unlock();
}

static void events_reach_the_device(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;

	netdev_event(dev, NETDEV_CHANGEMTU);
	KUNIT_EXPECT_EQ(test, calls.updates, 1);
	KUNIT_EXPECT_EQ(test, calls.events, 0);
	netdev_event(dev, NETDEV_CHANGEADDR);
	KUNIT_EXPECT_EQ(test, calls.macs, 1);
	port_is_up = false;
	netdev_event(dev, NETDEV_DOWN);
	KUNIT_EXPECT_EQ(test, calls.events, 1);
	KUNIT_EXPECT_EQ(test, calls.last_event, IB_EVENT_PORT_ERR);
	netdev_event(dev, NETDEV_UNREGISTER);
	KUNIT_EXPECT_EQ(test, calls.removals, 1);
	KUNIT_EXPECT_EQ(test, refcount_read(&dev->ibdev.refcount), 1);
}

static void events_during_a_move_are_made_up_for(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;

	refcount_set(&dev->ibdev.refcount, 0);
	port_is_up = false;
	netdev_event(dev, NETDEV_CHANGEMTU);
	netdev_event(dev, NETDEV_CHANGEADDR);
	netdev_event(dev, NETDEV_DOWN);
	KUNIT_ASSERT_EQ(test, calls.updates, 0);
	KUNIT_ASSERT_EQ(test, calls.macs, 0);

	refcount_set(&dev->ibdev.refcount, 1);
	KUNIT_EXPECT_EQ(test, sirdma_enable_driver(&dev->ibdev), 0);
	KUNIT_EXPECT_EQ(test, calls.updates, 1);
	KUNIT_EXPECT_EQ(test, calls.without_rtnl, 0);
	KUNIT_EXPECT_EQ(test, calls.macs, 1);
	KUNIT_EXPECT_EQ(test, calls.events, 1);
	KUNIT_EXPECT_EQ(test, calls.last_event, IB_EVENT_PORT_ERR);
}

static struct kunit_case netdev_cases[] = {
	KUNIT_CASE(events_reach_the_device),
	KUNIT_CASE(events_during_a_move_are_made_up_for),
	{},
};

static struct kunit_suite netdev_suite = {
	.name = "sirdma_netdev",
	.init = netdev_init,
	.exit = netdev_exit,
	.test_cases = netdev_cases,
};
kunit_test_suite(netdev_suite);
