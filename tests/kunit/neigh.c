// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Destination addresses in the device's table, when commands fail. */
#include <kunit/test.h>

/* Tracepoints belong to the module that is tested. */
#define SIRDMA_DRV_TRACE_H
#define trace_sirdma_arp_set(dev, idx, ip, mac, err) ((void)(mac))
#define trace_sirdma_arp_clear(dev, idx, ip, err) ((void)(err))
#define trace_sirdma_neigh_start(dev, key) ((void)(key))
#define trace_sirdma_neigh_done(dev, key, hop, err) ((void)(hop))

/* Another suite has the real one. */
#define sirdma_route_lookup neigh_test_route_lookup

/* The module that is tested has its own. */
#define sirdma_rescue_wq system_long_wq

#include "drv/neigh.c"

/* Stand-ins for the device's table, and for the kernel's routes and neighbours. */
static struct {
	u8 mac[ETH_ALEN];
	u32 commands;
	int fail;
} device;

static struct sirdma_nexthop nexthop;

int sirdma_cqp_set_arp(struct sirdma_hw *hw, u32 idx, const u8 mac[6])
{
	device.commands++;
	if (device.fail)
		return device.fail;
	memcpy(device.mac, mac, ETH_ALEN);
	return 0;
}

int sirdma_cqp_clear_arp(struct sirdma_hw *hw, u32 idx)
{
	return 0;
}

int sirdma_route_lookup(struct net *net, const struct sirdma_route_key *key,
			struct sirdma_nexthop *hop)
{
	*hop = nexthop;
	return 0;
}

static const u8 old_mac[ETH_ALEN] = {2, 0, 0, 0, 0, 1};
static const u8 new_mac[ETH_ALEN] = {2, 0, 0, 0, 0, 2};
static const struct sirdma_route_key key = {.ifindex = 7};

#define ENTRIES 16 /* of the device's table */

static int neigh_init(struct kunit *test)
{
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->ndev = alloc_etherdev(0);
	KUNIT_ASSERT_NOT_NULL(test, dev->ndev);
	KUNIT_ASSERT_EQ(test, sirdma_idpool_init(&dev->hw.arp_ids, 0, ENTRIES), 0);
	KUNIT_ASSERT_EQ(test, sirdma_neigh_init(dev), 0);
	test->priv = dev;
	memset(&device, 0, sizeof(device));
	nexthop.valid = true;
	memcpy(nexthop.mac, old_mac, ETH_ALEN);
	return 0;
}

static void neigh_exit(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;

	if (!dev)
		return;
	sirdma_neigh_fini(dev);
	sirdma_idpool_fini(&dev->hw.arp_ids);
	free_netdev(dev->ndev);
}

/* The periodic work, now and not by itself. */
static void refresh(struct sirdma_dev *dev)
{
	cancel_delayed_work_sync(&dev->neighs.refresh);
	sirdma_neigh_refresh_work(&dev->neighs.refresh.work);
	cancel_delayed_work_sync(&dev->neighs.refresh);
}

/* An entry that the device has with its old MAC. */
static struct sirdma_arp *entry(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;
	struct sirdma_arp *arp = sirdma_arp_get(dev, &key, INVALID_UID);

	KUNIT_ASSERT_FALSE(test, IS_ERR(arp));
	cancel_delayed_work_sync(&dev->neighs.refresh);
	KUNIT_EXPECT_EQ(test, device.commands, 1);
	KUNIT_EXPECT_MEMEQ(test, device.mac, old_mac, ETH_ALEN);
	memcpy(nexthop.mac, new_mac, ETH_ALEN);
	return arp;
}

static void mac_that_the_device_refused_is_sent_again(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;
	struct sirdma_arp *arp = entry(test);

	device.fail = -ENOMEM;
	refresh(dev);
	KUNIT_EXPECT_EQ(test, device.commands, 2);
	KUNIT_EXPECT_MEMEQ(test, device.mac, old_mac, ETH_ALEN);

	device.fail = 0;
	refresh(dev);
	KUNIT_EXPECT_EQ(test, device.commands, 3);
	KUNIT_EXPECT_MEMEQ(test, device.mac, new_mac, ETH_ALEN);

	/* Nothing is left to do. */
	refresh(dev);
	KUNIT_EXPECT_EQ(test, device.commands, 3);
	sirdma_arp_put(dev, arp);
}

static void nobody_gets_an_entry_whose_mac_the_device_refused(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;
	struct sirdma_arp *arp = entry(test), *second;

	device.fail = -ENOMEM;
	second = sirdma_arp_get(dev, &key, INVALID_UID);
	KUNIT_EXPECT_PTR_EQ(test, second, (struct sirdma_arp *)ERR_PTR(-ENOMEM));
	KUNIT_EXPECT_EQ(test, arp->users, 1);

	device.fail = 0;
	second = sirdma_arp_get(dev, &key, INVALID_UID);
	KUNIT_EXPECT_PTR_EQ(test, second, arp);
	KUNIT_EXPECT_EQ(test, arp->users, 2);
	KUNIT_EXPECT_MEMEQ(test, device.mac, new_mac, ETH_ALEN);
	sirdma_arp_put(dev, arp);
	sirdma_arp_put(dev, arp);
}

static void take(struct sirdma_dev *dev, kuid_t uid, struct sirdma_arp *arps[], u32 *count)
{
	struct sirdma_route_key to = key;
	struct sirdma_arp *arp;

	for (;;) {
		to.dst.b[15] = *count;
		arp = sirdma_arp_get(dev, &to, uid);
		if (IS_ERR(arp))
			return;
		arps[(*count)++] = arp;
	}
}

static void one_user_leaves_entries_to_others(struct kunit *test)
{
	const kuid_t alice = KUIDT_INIT(1000), bob = KUIDT_INIT(1001);
	struct sirdma_dev *dev = test->priv;
	struct sirdma_arp *arps[ENTRIES], *again;
	u32 count = 0, i;

	take(dev, alice, arps, &count);
	KUNIT_EXPECT_EQ(test, count, ENTRIES / 2);
	take(dev, bob, arps, &count);
	KUNIT_EXPECT_EQ(test, count, ENTRIES / 2 + ENTRIES / 4);
	/* An entry that is there costs nothing more, and nobody keeps one of another user. */
	again = sirdma_arp_get(dev, &arps[0]->key, alice);
	KUNIT_EXPECT_PTR_EQ(test, again, arps[0]);
	sirdma_arp_put(dev, again);
	again = sirdma_arp_get(dev, &arps[0]->key, bob);
	KUNIT_EXPECT_PTR_EQ(test, again, (struct sirdma_arp *)ERR_PTR(-ENOMEM));
	/* Consumers in the kernel have no limit. */
	take(dev, INVALID_UID, arps, &count);
	KUNIT_EXPECT_EQ(test, count, ENTRIES);
	cancel_delayed_work_sync(&dev->neighs.refresh);
	for (i = 0; i < count; i++)
		sirdma_arp_put(dev, arps[i]);
	KUNIT_EXPECT_EQ(test, dev->neighs.count, 0);
}

static struct kunit_case neigh_cases[] = {
	KUNIT_CASE(mac_that_the_device_refused_is_sent_again),
	KUNIT_CASE(nobody_gets_an_entry_whose_mac_the_device_refused),
	KUNIT_CASE(one_user_leaves_entries_to_others),
	{},
};

static struct kunit_suite neigh_suite = {
	.name = "sirdma_neigh",
	.init = neigh_init,
	.exit = neigh_exit,
	.test_cases = neigh_cases,
};
kunit_test_suite(neigh_suite);
