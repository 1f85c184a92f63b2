// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Contexts of users: which providers are let in, and what they are told of. */
#include <kunit/test.h>

/* Other suites have the real one, or stand-ins of their own. */
#define sirdma_hw_context ucontext_test_hw_context

#include "drv/ucontext.c"

void sirdma_hw_context(const struct sirdma_hw *hw, struct sirdma_alloc_ucontext_resp *resp)
{
	resp->feature_flags = SIRDMA_FEATURE_ATOMICS;
}

/* The flags that a provider with these bits in its request gets; 0: it is refused. */
static u32 features(struct sirdma_dev *dev, u32 version, u64 comp_mask)
{
	const struct sirdma_alloc_ucontext_req req = {
		.userspace_ver = version,
		.comp_mask = comp_mask,
	};
	struct sirdma_ucontext uctx = {};
	struct rdma_user_mmap_entry entry = {};
	struct sirdma_alloc_ucontext_resp resp = {};

	if (sirdma_uctx_check_request(dev, &req))
		return 0;
	uctx.db_entry = &entry;
	sirdma_uctx_fill_response(dev, &uctx, &resp);
	return resp.feature_flags;
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

static struct kunit_case ucontext_cases[] = {
	KUNIT_CASE(only_who_kicks_is_told_of_shared_receive_queues),
	{},
};

static struct kunit_suite ucontext_suite = {
	.name = "sirdma_ucontext",
	.test_cases = ucontext_cases,
};
kunit_test_suite(ucontext_suite);
