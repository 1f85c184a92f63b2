// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memberships of the netdevs, when memory is short. */
#include <kunit/test.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>

/* Other suites have stand-ins of their own. */
#define sirdma_cqp_make_room mcast_test_cqp_make_room
#define sirdma_dev_fail mcast_test_dev_fail

/* The module that is tested has its own. */
#define sirdma_upkeep_wq system_long_wq

static bool no_memory;

/* As the kernel's, which returns nothing. */
static void mcast_test_inc_group(struct in_device *in_dev, __be32 addr)
{
	if (!no_memory)
		ip_mc_inc_group(in_dev, addr);
}
#define ip_mc_inc_group mcast_test_inc_group

#include "drv/mcast.c"

int sirdma_mcast_attach(struct sirdma_hw *hw, const struct sirdma_ip *ip, u32 qpn, bool *first)
{
	*first = false;
	return -EINVAL;
}

int sirdma_mcast_detach(struct sirdma_hw *hw, const struct sirdma_ip *ip, u32 qpn, bool *last)
{
	*last = false;
	return -EINVAL;
}

bool sirdma_cqp_make_room(int err, u32 *tries)
{
	return false;
}

void sirdma_dev_fail(struct sirdma_dev *dev, int err) {}

static const struct sirdma_ip address = {{[10] = 0xff, 0xff, 239, 77, 1, 2}};

static __be32 address_v4(void)
{
	return ((const struct in6_addr *)&address)->s6_addr32[3];
}

/* The caller holds RTNL. How many programs and devices are members on the netdev? */
static u32 users(const struct in_device *in_dev)
{
	const struct ip_mc_list *im;

	for (im = rtnl_dereference(in_dev->mc_list); im; im = rtnl_dereference(im->next_rcu))
		if (im->multiaddr == address_v4())
			return im->users;
	return 0;
}

struct member {
	struct sirdma_mcast_members members;
	struct sirdma_mcast_link link;
	struct sirdma_membership group;
	struct in_device *in_dev;
};

/* The loopback netdev is a member for the device, once sirdma_membership_sync() has been called. */
static int mcast_init(struct kunit *test)
{
	struct member *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->members.links = &m->link;
	m->link.ndev = init_net.loopback_dev;
	m->link.wanted = true;
	m->group.ip = address;
	no_memory = false;
	rtnl_lock();
	m->in_dev = __in_dev_get_rtnl(m->link.ndev);
	rtnl_unlock();
	KUNIT_ASSERT_NOT_NULL(test, m->in_dev);
	test->priv = m;
	return 0;
}

static int sync(struct member *m)
{
	return sirdma_membership_sync(&m->members, &m->link, &m->group);
}

static void members_join_and_leave(struct kunit *test)
{
	struct member *m = test->priv;

	rtnl_lock();
	KUNIT_EXPECT_EQ(test, sync(m), 0);
	KUNIT_EXPECT_EQ(test, users(m->in_dev), 1);
	KUNIT_EXPECT_EQ(test, sync(m), 0);
	KUNIT_EXPECT_EQ(test, users(m->in_dev), 1);
	m->group.ended = true;
	KUNIT_EXPECT_EQ(test, sync(m), 0);
	KUNIT_EXPECT_EQ(test, users(m->in_dev), 0);
	rtnl_unlock();
}

static void join_without_memory_is_not_left(struct kunit *test)
{
	struct member *m = test->priv;

	rtnl_lock();
	no_memory = true;
	KUNIT_EXPECT_EQ(test, sync(m), -ENOMEM);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(m->group.joined, LINKS_MAX));
	KUNIT_EXPECT_EQ(test, users(m->in_dev), 0);

	/* Another program becomes a member, and stays one when the device's group ends. */
	no_memory = false;
	ip_mc_inc_group(m->in_dev, address_v4());
	KUNIT_EXPECT_EQ(test, users(m->in_dev), 1);
	m->group.ended = true;
	KUNIT_EXPECT_EQ(test, sync(m), 0);
	KUNIT_EXPECT_EQ(test, users(m->in_dev), 1);
	ip_mc_dec_group(m->in_dev, address_v4());
	KUNIT_EXPECT_EQ(test, users(m->in_dev), 0);
	rtnl_unlock();
}

static struct kunit_case mcast_cases[] = {
	KUNIT_CASE(members_join_and_leave),
	KUNIT_CASE(join_without_memory_is_not_left),
	{},
};

static struct kunit_suite mcast_suite = {
	.name = "sirdma_mcast",
	.init = mcast_init,
	.test_cases = mcast_cases,
};
kunit_test_suite(mcast_suite);
