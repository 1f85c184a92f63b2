// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Addresses and neighbours. */
#include <kunit/test.h>
#include "drv/route.c"

static void ipv4_addresses_are_mapped_and_back(struct kunit *test)
{
	static const u8 mapped[16] = {[10] = 0xff, [11] = 0xff, 10, 77, 1, 2};
	__be32 addr = htonl(0x0a4d0102);
	struct sirdma_ip ip;

	memset(&ip, 0xee, sizeof(ip));
	sirdma_ip_from_v4(&ip, addr);
	KUNIT_EXPECT_MEMEQ(test, ip.b, mapped, sizeof(mapped));
	KUNIT_EXPECT_TRUE(test, sirdma_ip_is_v4(&ip));
	KUNIT_EXPECT_EQ(test, (__force u32)sirdma_ip_to_v4(&ip), (__force u32)addr);
}

static void other_addresses_are_not_ipv4(struct kunit *test)
{
	static const struct sirdma_ip others[] = {
		{.b = {[15] = 1}}, /* ::1 */
		{.b = {[12] = 10, 77, 1, 2}}, /* IPv4-compatible, which is not mapped */
		{.b = {0xfe, 0x80, [15] = 1}},
		{.b = {0xfd, [10] = 0xff, [11] = 0xff, 10, 77, 1, 2}},
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(others); i++)
		KUNIT_EXPECT_FALSE(test, sirdma_ip_is_v4(&others[i]));
}

static void neighbours_tell_their_address(struct kunit *test)
{
	static const struct in6_addr v6 = {.s6_addr = {0xfd, 0x77, [15] = 9}};
	static struct neigh_table arp = {.family = AF_INET}, nd = {.family = AF_INET6},
				  strange = {.family = AF_DECnet};
	struct neighbour *neigh;
	struct sirdma_ip ip;
	__be32 v4 = htonl(0x0a4d0109);

	neigh = kunit_kzalloc(test, sizeof(*neigh) + sizeof(v6), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, neigh);
	neigh->tbl = &arp;
	memcpy(neigh->primary_key, &v4, sizeof(v4));
	KUNIT_EXPECT_TRUE(test, sirdma_neigh_ip(neigh, &ip));
	KUNIT_EXPECT_TRUE(test, sirdma_ip_is_v4(&ip));
	KUNIT_EXPECT_EQ(test, (__force u32)sirdma_ip_to_v4(&ip), (__force u32)v4);

	neigh->tbl = &nd;
	memcpy(neigh->primary_key, &v6, sizeof(v6));
	KUNIT_EXPECT_TRUE(test, sirdma_neigh_ip(neigh, &ip));
	KUNIT_EXPECT_FALSE(test, sirdma_ip_is_v4(&ip));
	KUNIT_EXPECT_MEMEQ(test, ip.b, v6.s6_addr, sizeof(v6));

	neigh->tbl = &strange;
	KUNIT_EXPECT_FALSE(test, sirdma_neigh_ip(neigh, &ip));
}

static struct kunit_case route_cases[] = {
	KUNIT_CASE(ipv4_addresses_are_mapped_and_back),
	KUNIT_CASE(other_addresses_are_not_ipv4),
	KUNIT_CASE(neighbours_tell_their_address),
	{},
};

static struct kunit_suite route_suite = {
	.name = "sirdma_route",
	.test_cases = route_cases,
};
kunit_test_suite(route_suite);
