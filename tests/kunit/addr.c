// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Whose an address is: devices, namespaces, VRFs. */
#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <linux/inetdevice.h>
#include <linux/slab.h>
#include <net/l3mdev.h>
#include "sirdma/qpctx.h"

/* This kernel may have no VRFs: the test says which netdev is in one. */
static struct net_device *in_vrf;
#define l3mdev_master_ifindex_rcu(ndev) ((ndev) == in_vrf ? 77 : 0)
/* And which netdev stands above that of device 1. */
static struct net_device *above;
#define netdev_walk_all_upper_dev_rcu(ndev, fn, priv) walk_above(ndev, fn, priv)
static int walk_above(struct net_device *ndev,
		      int (*fn)(struct net_device *, struct netdev_nested_priv *),
		      struct netdev_nested_priv *priv);

static bool no_memory;
static void *addr_zalloc(size_t size, gfp_t gfp)
{
	return no_memory ? NULL : kzalloc(size, gfp);
}
#undef kzalloc
#define kzalloc addr_zalloc

/* Other suites stand in for these. */
#define snic_addr_is_mine addr_is_mine
#define snic_addr_find addr_find
#define snic_addr_init addr_notifier_init
#define snic_addr_exit addr_notifier_exit
#include "host/addr.c"

#define NODES 3

/* Devices 0 and 1 have an address each; device 2 has that of device 1 again. */
static struct addr_node {
	struct snic_host host;
	struct snic_dev dev;
	struct snic_sgid sgid, second;
} * nodes;

bool snic_sgid_read(struct snic_dev *dev, u32 idx, struct snic_sgid *out)
{
	const struct addr_node *node = container_of(dev, struct addr_node, dev);

	*out = idx ? node->second : node->sgid;
	return out->valid;
}

static int walk_above(struct net_device *ndev,
		      int (*fn)(struct net_device *, struct netdev_nested_priv *),
		      struct netdev_nested_priv *priv)
{
	return above && ndev == nodes[1].host.ndev ? fn(above, priv) : 0;
}

static int addr_init(struct kunit *test)
{
	u32 i;

	in_vrf = NULL;
	above = NULL;
	no_memory = false;
	nodes = kunit_kcalloc(test, NODES, sizeof(*nodes), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nodes);
	for (i = 0; i < NODES; i++) {
		struct addr_node *node = &nodes[i];

		INIT_LIST_HEAD(&node->host.addrs);
		node->host.dev = &node->dev;
		node->host.ndev = alloc_etherdev(0);
		KUNIT_ASSERT_NOT_NULL(test, node->host.ndev);
		eth_hw_addr_set(node->host.ndev, (u8[ETH_ALEN]){2, 0, 0, 0, 0, i});
		node->dev.cfg.max_sgids = 2;
		node->dev.sgids_gen = 1;
		node->sgid.valid = i < 2;
		node->sgid.ip.b[0] = 0xfd;
		node->sgid.ip.b[15] = min(i, 1u);
		ether_addr_copy(node->sgid.mac, node->host.ndev->dev_addr);
		snic_addr_sync(&node->host);
	}
	return 0;
}

static void addr_exit(struct kunit *test)
{
	u32 i;

	for (i = 0; nodes && i < NODES; i++) {
		snic_addr_flush(&nodes[i].host);
		if (nodes[i].host.ndev)
			free_netdev(nodes[i].host.ndev);
	}
}

static struct snic_host *find_ip(u32 from, const struct sirdma_ip *to)
{
	struct snic_host *host = &nodes[from].host, *found;

	rcu_read_lock();
	found = snic_addr_find(host, &nodes[from].sgid.ip, host->ndev->dev_addr, to, false, 0);
	rcu_read_unlock();
	return found;
}

/* The device that packets of device @from to the address of @to reach without a wire. */
static struct snic_host *find(u32 from, u32 to)
{
	return find_ip(from, &nodes[to].sgid.ip);
}

static void sync(u32 node)
{
	nodes[node].dev.sgids_gen++;
	snic_addr_sync(&nodes[node].host);
}

/* @ndev enters the VRF; the netdev that was there leaves it. */
static void enslave(struct net_device *ndev)
{
	static struct net_device vrf = {.priv_flags = IFF_L3MDEV_MASTER};
	struct netdev_notifier_changeupper_info info = {.upper_dev = &vrf};

	in_vrf = ndev;
	snic_addr_event(NULL, NETDEV_CHANGEUPPER, &info);
}

static void another_device_of_the_namespace_is_found(struct kunit *test)
{
	KUNIT_EXPECT_PTR_EQ(test, find(0, 0), &nodes[0].host);
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[1].host);
	nodes[1].sgid.ip.b[14] = 9;
	KUNIT_EXPECT_NULL(test, find(0, 1));
}

static void devices_in_different_vrfs_do_not_meet(struct kunit *test)
{
	enslave(nodes[1].host.ndev);
	KUNIT_EXPECT_NULL(test, find(0, 1));
	KUNIT_EXPECT_NULL(test, find(1, 0));
	/* Within one they do. */
	KUNIT_EXPECT_PTR_EQ(test, find(1, 1), &nodes[1].host);
	enslave(nodes[2].host.ndev);
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[1].host);
}

static void one_address_in_two_vrfs_is_two(struct kunit *test)
{
	nodes[2].sgid.valid = true;
	sync(2);
	enslave(nodes[2].host.ndev);
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[1].host);
	enslave(nodes[1].host.ndev);
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[2].host);
}

static const u8 mapped[16] = {[10] = 0xff, [11] = 0xff, 10, 80, 0, 1};

/* A netdev above that of device 1, with its MAC address as an IPVLAN has it, has the address. */
static void stack(struct kunit *test)
{
	struct in_ifaddr *ifa = kunit_kzalloc(test, sizeof(*ifa), GFP_KERNEL);
	struct in_device *in_dev = kunit_kzalloc(test, sizeof(*in_dev), GFP_KERNEL);

	above = alloc_etherdev(0);
	KUNIT_ASSERT_NOT_NULL(test, above);
	KUNIT_ASSERT_NOT_NULL(test, ifa);
	KUNIT_ASSERT_NOT_NULL(test, in_dev);
	eth_hw_addr_set(above, nodes[1].host.ndev->dev_addr);
	memcpy(&ifa->ifa_address, &mapped[12], sizeof(ifa->ifa_address));
	rcu_assign_pointer(in_dev->ifa_list, ifa);
	rcu_assign_pointer(above->ip_ptr, in_dev);
	/* The netdev of device 1 keeps its own address. */
	nodes[1].second = nodes[1].sgid;
	memcpy(nodes[1].sgid.ip.b, mapped, sizeof(mapped));
	sync(1);
}

static void unstack(void)
{
	RCU_INIT_POINTER(above->ip_ptr, NULL);
	dev_net_set(above, &init_net);
	free_netdev(above);
	above = NULL;
}

static void an_address_is_in_the_vrf_of_the_netdev_that_has_it(struct kunit *test)
{
	stack(test);
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[1].host);
	enslave(above);
	KUNIT_EXPECT_NULL(test, find(0, 1));
	KUNIT_EXPECT_NULL(test, find(1, 0));
	KUNIT_EXPECT_PTR_EQ(test, find(1, 1), &nodes[1].host);
	/* Here it is not, although a netdev with its MAC address is. */
	enslave(nodes[1].host.ndev);
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[1].host);
	unstack();
}

static void an_address_is_in_the_namespace_of_the_netdev_that_has_it(struct kunit *test)
{
	static char elsewhere;

	stack(test);
	dev_net_set(above, (struct net *)&elsewhere);
	sync(1);
	KUNIT_EXPECT_NULL(test, find(0, 1));
	KUNIT_EXPECT_NULL(test, find(1, 0));
	/* Namespaces above one netdev meet there, whatever VRFs they have. */
	enslave(above);
	KUNIT_EXPECT_PTR_EQ(test, find_ip(1, &nodes[1].second.ip), &nodes[1].host);
	unstack();
}

static void an_address_without_memory_costs_no_other_its_entry(struct kunit *test)
{
	nodes[1].second = nodes[1].sgid;
	nodes[1].sgid.ip.b[14] = 9;
	no_memory = true;
	sync(1);
	KUNIT_EXPECT_NULL(test, find(0, 1));
	KUNIT_EXPECT_PTR_EQ(test, find_ip(0, &nodes[1].second.ip), &nodes[1].host);
	no_memory = false;
	snic_addr_sync(&nodes[1].host);
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[1].host);
}

static struct kunit_case addr_cases[] = {
	KUNIT_CASE(another_device_of_the_namespace_is_found),
	KUNIT_CASE(devices_in_different_vrfs_do_not_meet),
	KUNIT_CASE(one_address_in_two_vrfs_is_two),
	KUNIT_CASE(an_address_is_in_the_vrf_of_the_netdev_that_has_it),
	KUNIT_CASE(an_address_is_in_the_namespace_of_the_netdev_that_has_it),
	KUNIT_CASE(an_address_without_memory_costs_no_other_its_entry),
	{},
};

static struct kunit_suite addr_suite = {
	.name = "sirdma_addr",
	.init = addr_init,
	.exit = addr_exit,
	.test_cases = addr_cases,
};
kunit_test_suite(addr_suite);
