// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Contexts of users: which providers are let in, and what they are told of. */
#include <kunit/test.h>

/* Other suites have the real one, or stand-ins of their own. */
#define sirdma_hw_context ucontext_test_hw_context

#include "drv/ucontext.c"

void sirdma_hw_context(const struct sirdma_hw *hw, struct sirdma_alloc_ucontext_resp *resp)
{
	resp->feature_flags = SIRDMA_FEATURE_ATOMICS | SIRDMA_FEATURE_XRC;
	resp->comp_mask = SIRDMA_UCTX_MIN_HW_WQ_SIZE | SIRDMA_UCTX_CQ_FLAGS;
}

struct sirdma_doorbell *sirdma_doorbell_create(struct ib_ucontext *ibuctx)
{
	return ERR_PTR(-ENOMEM);
}

struct rdma_user_mmap_entry *sirdma_doorbell_entry(struct sirdma_doorbell *db)
{
	return NULL;
}

/* The answer to a provider with these bits in its request; no flags: it is refused. */
static struct sirdma_alloc_ucontext_resp answer(struct sirdma_dev *dev, u32 version, u64 comp_mask)
{
	const struct sirdma_alloc_ucontext_req req = {
		.userspace_ver = version,
		.comp_mask = comp_mask,
	};
	struct sirdma_ucontext uctx = {};
	struct rdma_user_mmap_entry entry = {};
	struct sirdma_alloc_ucontext_resp resp = {};

	if (sirdma_uctx_check_request(dev, &req))
		return resp;
	uctx.db_entry = &entry;
	uctx.kicks = comp_mask & SIRDMA_UCTX_KICK;
	uctx.raw_attrs = comp_mask & SIRDMA_UCTX_USE_RAW_ATTR;
	sirdma_uctx_fill_response(dev, &uctx, &resp);
	return resp;
}

static u64 features(struct sirdma_dev *dev, u32 version, u64 comp_mask)
{
	return answer(dev, version, comp_mask).feature_flags;
}

/*
 * The distributions' libirdma negotiates no kicks, and takes the feature for CQEs of 64 bytes,
 * which those of shared receive queues are not here.
 */
static void only_who_kicks_is_told_of_shared_receive_queues(struct kunit *test)
{
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	const u64 foreign[] = {0, SIRDMA_UCTX_USE_RAW_ATTR, ~SIRDMA_UCTX_KICK};
	u32 i, version;

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->ibdev.attrs.max_srq = 64;
	for (version = SIRDMA_ABI_MIN_USER_VERSION; version <= SIRDMA_ABI_VERSION; version++) {
		for (i = 0; i < ARRAY_SIZE(foreign); i++)
			KUNIT_EXPECT_FALSE(test,
					   features(dev, version, foreign[i]) & SIRDMA_FEATURE_SRQ);
		KUNIT_EXPECT_TRUE(test,
				  features(dev, version, SIRDMA_UCTX_KICK) & SIRDMA_FEATURE_SRQ);
	}
	dev->ibdev.attrs.max_srq = 0;
	KUNIT_EXPECT_TRUE(test, features(dev, SIRDMA_ABI_VERSION, SIRDMA_UCTX_KICK));
	KUNIT_EXPECT_FALSE(test, features(dev, SIRDMA_ABI_VERSION, SIRDMA_UCTX_KICK) &
					 SIRDMA_FEATURE_SRQ);
}

/* A device refuses providers that never kick, unless it has irdma's identity. */
static void identity_decides_who_is_let_in(struct kunit *test)
{
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_EXPECT_FALSE(test, features(dev, 4, 0));
	KUNIT_EXPECT_TRUE(test, features(dev, 4, SIRDMA_UCTX_KICK));
	dev->irdma = true;
	KUNIT_EXPECT_TRUE(test, features(dev, 4, 0));
	KUNIT_EXPECT_TRUE(test, features(dev, 5, SIRDMA_UCTX_KICK));
	KUNIT_EXPECT_FALSE(test, features(dev, SIRDMA_ABI_MIN_USER_VERSION - 1, 0));
	KUNIT_EXPECT_FALSE(test, features(dev, SIRDMA_ABI_VERSION + 1, 0));
}

/* It is told of nothing that irdma's interface does not have. */
static void who_never_kicks_is_told_of_no_extension(struct kunit *test)
{
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->irdma = true;
	dev->ibdev.attrs.max_srq = 64;
	KUNIT_EXPECT_EQ(test, features(dev, 5, 0), SIRDMA_FEATURE_ATOMICS);
	KUNIT_EXPECT_EQ(test, answer(dev, 4, 0).comp_mask, SIRDMA_UCTX_MIN_HW_WQ_SIZE);
	KUNIT_EXPECT_EQ(test, answer(dev, 5, SIRDMA_UCTX_USE_RAW_ATTR).comp_mask,
			SIRDMA_UCTX_MIN_HW_WQ_SIZE | SIRDMA_UCTX_USE_RAW_ATTR);
	KUNIT_EXPECT_EQ(test, answer(dev, 5, SIRDMA_UCTX_KICK).comp_mask,
			SIRDMA_UCTX_MIN_HW_WQ_SIZE | SIRDMA_UCTX_CQ_FLAGS | SIRDMA_UCTX_KICK |
				SIRDMA_UCTX_RING_POOL | SIRDMA_UCTX_KICK_METHOD);
}

static struct kunit_case ucontext_cases[] = {
	KUNIT_CASE(only_who_kicks_is_told_of_shared_receive_queues),
	KUNIT_CASE(identity_decides_who_is_let_in),
	KUNIT_CASE(who_never_kicks_is_told_of_no_extension),
	{},
};

static struct kunit_suite ucontext_suite = {
	.name = "sirdma_ucontext",
	.test_cases = ucontext_cases,
};
kunit_test_suite(ucontext_suite);
