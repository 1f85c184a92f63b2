// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Limits of device memory: what an application may ask for, and what is left to other users.
#include <gtest/gtest.h>

#include "c_api.hpp"

extern "C" {
#include "hw/access.h"
#include "hw/limits.h"
}

namespace
{

constexpr u64 all = SIRDMA_DM_BYTES;
constexpr u64 page = SIRDMA_PAGE_SIZE;
constexpr u32 rights = SIRDMA_VERBS_ZERO_BASED | SIRDMA_VERBS_LOCAL_WRITE;

int check(u64 length, u32 log_align)
{
	const char *why = nullptr;
	const int err = sirdma_dm_check(length, log_align, &why);

	EXPECT_EQ(err != 0, why != nullptr);
	return err;
}

int check_region(u64 size, u64 offset, u64 length, u32 access = rights)
{
	const char *why = nullptr;
	const int err = sirdma_dm_region_check(size, offset, length, access, &why);

	EXPECT_EQ(err != 0, why != nullptr);
	return err;
}

TEST(DeviceMemory, HasALengthAndAnAlignment)
{
	EXPECT_EQ(check(1, 0), 0);
	EXPECT_EQ(check(SIRDMA_MAX_DM_SIZE, SIRDMA_PAGE_SHIFT), 0);
	EXPECT_EQ(check(0, 0), -EINVAL);
	EXPECT_EQ(check(SIRDMA_MAX_DM_SIZE + 1, 0), -EINVAL);
	EXPECT_EQ(check(~u64{0}, 0), -EINVAL);
	EXPECT_EQ(check(1, SIRDMA_PAGE_SHIFT + 1), -EINVAL);
	EXPECT_EQ(check(1, ~u32{0}), -EINVAL);
}

TEST(DeviceMemory, OneUserGetsHalfOfItAndNoMore)
{
	u64 used = 0;

	EXPECT_TRUE(sirdma_dm_is_fair(0, 0, SIRDMA_MAX_DM_SIZE));
	EXPECT_FALSE(sirdma_dm_is_fair(0, 0, SIRDMA_MAX_DM_SIZE + page));
	while (sirdma_dm_is_fair(used, used, page))
		used += page;
	EXPECT_EQ(used, all / 2);
}

TEST(DeviceMemory, EachFurtherUserGetsHalfOfTheRest)
{
	u64 used = 0;

	for (int user = 0; user < 8; user++) {
		const u64 left = all - used;
		u64 mine = 0;

		while (sirdma_dm_is_fair(used, mine, page)) {
			used += page;
			mine += page;
		}
		EXPECT_EQ(mine, left / 2) << user;
		EXPECT_FALSE(sirdma_dm_is_fair(used, mine, page));
	}
	/* A user that came first may not grow when others have come. */
	EXPECT_FALSE(sirdma_dm_is_fair(used, all / 2, page));
	EXPECT_FALSE(sirdma_dm_is_fair(all, 0, page));
	EXPECT_FALSE(sirdma_dm_is_fair(all - page, 0, 2 * page));
}

TEST(DeviceMemory, RegionsLieWithinIt)
{
	EXPECT_EQ(check_region(100, 0, 100), 0);
	EXPECT_EQ(check_region(100, 99, 1), 0);
	EXPECT_EQ(check_region(100, 0, 0), 0);
	EXPECT_EQ(check_region(100, 100, 0), 0);
	EXPECT_EQ(check_region(100, 101, 0), -EINVAL);
	EXPECT_EQ(check_region(100, 100, 1), -EINVAL);
	EXPECT_EQ(check_region(100, 1, 100), -EINVAL);
	EXPECT_EQ(check_region(100, ~u64{0}, 2), -EINVAL);
	EXPECT_EQ(check_region(100, 2, ~u64{0}), -EINVAL);
}

TEST(DeviceMemory, RegionsAreZeroBasedAndHaveTheRightsOfOthers)
{
	EXPECT_EQ(check_region(100, 0, 8, SIRDMA_VERBS_ZERO_BASED), 0);
	EXPECT_EQ(check_region(100, 0, 8, rights | SIRDMA_VERBS_REMOTE_ATOMIC), 0);
	EXPECT_EQ(check_region(100, 0, 8, SIRDMA_VERBS_LOCAL_WRITE), -EINVAL);
	EXPECT_EQ(check_region(100, 0, 8, SIRDMA_VERBS_ZERO_BASED | SIRDMA_VERBS_REMOTE_WRITE),
		  -EINVAL);
	EXPECT_EQ(check_region(100, 0, 8, rights | 1u << 14), -EINVAL);
	EXPECT_EQ(check_region(100, 0, 8, rights | SIRDMA_VERBS_FLUSH_PERSISTENT), -EOPNOTSUPP);
}

} // namespace
