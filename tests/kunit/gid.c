// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Source addresses in the device's table, when commands fail. */
#include <kunit/test.h>

/* Tracepoints belong to the module that is tested. */
#define SIRDMA_DRV_TRACE_H
#define trace_sirdma_gid_set(dev, i, ip, mac, err) ((void)(mac))
#define trace_sirdma_gid_clear(dev, i, ip, users, err) ((void)(err))

/* The module that is tested has its own. */
#define sirdma_rescue_wq system_long_wq

#include "drv/gid.c"

bool sirdma_dev_failed(const struct sirdma_dev *dev)
{
	return false;
}

#define SLOT 3
#define IFINDEX 7

/* Stand-in for the device's table. */
static struct {
	u8 mac[ETH_ALEN];
	u32 commands;
	int fail;
} device;

int sirdma_cqp_set_sgid(struct sirdma_hw *hw, const struct sirdma_cqp_sgid_params *params)
{
	device.commands++;
	if (device.fail)
		return device.fail;
	ether_addr_copy(device.mac, params->mac);
	return 0;
}

int sirdma_cqp_clear_sgid(struct sirdma_hw *hw, u32 idx)
{
	return 0;
}

static const u8 old_mac[ETH_ALEN] = {2, 0, 0, 0, 0, 1};
static const u8 new_mac[ETH_ALEN] = {2, 0, 0, 0, 0, 2};

static int gid_init(struct kunit *test)
{
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	struct sirdma_sgid *sgid;

	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_ASSERT_EQ(test, sirdma_gid_init(dev), 0);
	test->priv = dev;
	dev->ndev = alloc_etherdev(0);
	KUNIT_ASSERT_NOT_NULL(test, dev->ndev);
	dev->ndev->ifindex = IFINDEX;
	eth_hw_addr_set(dev->ndev, new_mac);
	sgid = &dev->gids.slots[SLOT];
	sgid->interface = sirdma_interface_of(dev->ndev);
	sgid->present = true;
	ether_addr_copy(sgid->mac, old_mac);
	memset(&device, 0, sizeof(device));
	ether_addr_copy(device.mac, old_mac);
	return 0;
}

static void gid_exit(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;

	if (!dev)
		return;
	sirdma_gid_fini(dev);
	if (dev->ndev)
		free_netdev(dev->ndev);
}

static void mac_that_the_device_refused_is_sent_again(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;

	device.fail = -ENOMEM;
	sirdma_gid_mac_changed(dev, dev->ndev);
	flush_delayed_work(&dev->gids.update);
	KUNIT_EXPECT_EQ(test, device.commands, 1);
	KUNIT_EXPECT_MEMEQ(test, device.mac, old_mac, ETH_ALEN);

	device.fail = 0;
	flush_delayed_work(&dev->gids.update);
	KUNIT_EXPECT_EQ(test, device.commands, 2);
	KUNIT_EXPECT_MEMEQ(test, device.mac, new_mac, ETH_ALEN);

	/* Nothing is left to do. */
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&dev->gids.update));
}

static void mac_of_an_address_that_is_gone_is_not_sent(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;

	dev->gids.slots[SLOT].present = false;
	sirdma_gid_mac_changed(dev, dev->ndev);
	flush_delayed_work(&dev->gids.update);
	KUNIT_EXPECT_EQ(test, device.commands, 0);
}

/* A netdev there may have the index that ours has here. */
static void mac_of_an_address_in_another_namespace_stays(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;
	struct sirdma_interface *on = &dev->gids.slots[SLOT].interface;

	on->net = (const struct net *)test;
	KUNIT_EXPECT_FALSE(test, sirdma_gid_on_interface(dev, dev->ndev));
	sirdma_gid_mac_changed(dev, dev->ndev);
	flush_delayed_work(&dev->gids.update);
	KUNIT_EXPECT_EQ(test, device.commands, 0);
	KUNIT_EXPECT_MEMEQ(test, dev->gids.slots[SLOT].mac, old_mac, ETH_ALEN);
}

static struct kunit_case gid_cases[] = {
	KUNIT_CASE(mac_that_the_device_refused_is_sent_again),
	KUNIT_CASE(mac_of_an_address_that_is_gone_is_not_sent),
	KUNIT_CASE(mac_of_an_address_in_another_namespace_stays),
	{},
};

static struct kunit_suite gid_suite = {
	.name = "sirdma_gid",
	.init = gid_init,
	.exit = gid_exit,
	.test_cases = gid_cases,
};
kunit_test_suite(gid_suite);
