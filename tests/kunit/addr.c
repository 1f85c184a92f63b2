// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Whose an address is: devices, namespaces, VRFs. */
#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <net/l3mdev.h>
#include "sirdma/qpctx.h"

/* This kernel may have no VRFs: the test says which netdev is in one. */
static struct net_device *in_vrf;
#define l3mdev_master_ifindex_rcu(ndev) ((ndev) == in_vrf ? 77 : 0)

/* Other suites stand in for these. */
#define snic_addr_is_mine addr_is_mine
#define snic_addr_find addr_find
#include "host/addr.c"

#define NODES 3

/* Devices 0 and 1 have an address each; device 2 has that of device 1 again. */
static struct addr_node {
	struct snic_host host;
	struct snic_dev dev;
	struct snic_sgid sgid;
} * nodes;

bool snic_sgid_read(struct snic_dev *dev, u32 idx, struct snic_sgid *out)
{
	*out = container_of(dev, struct addr_node, dev)->sgid;
	return out->valid;
}

static int addr_init(struct kunit *test)
{
	u32 i;

	in_vrf = NULL;
	nodes = kunit_kcalloc(test, NODES, sizeof(*nodes), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nodes);
	for (i = 0; i < NODES; i++) {
		struct addr_node *node = &nodes[i];

		INIT_LIST_HEAD(&node->host.addrs);
		node->host.dev = &node->dev;
		node->host.ndev = alloc_etherdev(0);
		KUNIT_ASSERT_NOT_NULL(test, node->host.ndev);
		eth_hw_addr_set(node->host.ndev, (u8[ETH_ALEN]){2, 0, 0, 0, 0, i});
		node->dev.cfg.max_sgids = 1;
		node->dev.tables_gen = 1;
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

/* The device to which what device @from sends to the address of @to goes locally. */
static struct snic_host *find(u32 from, u32 to)
{
	struct snic_host *host = &nodes[from].host, *found;

	rcu_read_lock();
	found = snic_addr_find(host, &nodes[to].sgid.ip, false, 0, host->ndev->dev_addr);
	rcu_read_unlock();
	return found;
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
	in_vrf = nodes[1].host.ndev;
	KUNIT_EXPECT_NULL(test, find(0, 1));
	KUNIT_EXPECT_NULL(test, find(1, 0));
	/* Within one they do. */
	KUNIT_EXPECT_PTR_EQ(test, find(1, 1), &nodes[1].host);
	in_vrf = nodes[2].host.ndev;
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[1].host);
}

static void one_address_in_two_vrfs_is_two(struct kunit *test)
{
	nodes[2].sgid.valid = true;
	nodes[2].dev.tables_gen++;
	snic_addr_sync(&nodes[2].host);
	in_vrf = nodes[2].host.ndev;
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[1].host);
	in_vrf = nodes[1].host.ndev;
	KUNIT_EXPECT_PTR_EQ(test, find(0, 1), &nodes[2].host);
}

static struct kunit_case addr_cases[] = {
	KUNIT_CASE(another_device_of_the_namespace_is_found),
	KUNIT_CASE(devices_in_different_vrfs_do_not_meet),
	KUNIT_CASE(one_address_in_two_vrfs_is_two),
	{},
};

static struct kunit_suite addr_suite = {
	.name = "sirdma_addr",
	.init = addr_init,
	.exit = addr_exit,
	.test_cases = addr_cases,
};
kunit_test_suite(addr_suite);
