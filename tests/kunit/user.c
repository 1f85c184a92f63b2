// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Users of a device: one for all contexts of a user ID, while there are any. */
#include <kunit/test.h>

#include "drv/user.c"

#define ALICE KUIDT_INIT(1000)
#define BOB KUIDT_INIT(1001)
/* What init_user_ns has last, and what stands for nobody known. */
#define LAST KUIDT_INIT((uid_t)-2)
#define UNKNOWN KUIDT_INIT((uid_t)-1)

static int user_init(struct kunit *test)
{
	struct sirdma_users *users = kunit_kzalloc(test, sizeof(*users), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, users);
	sirdma_users_init(users);
	test->priv = users;
	return 0;
}

static void user_exit(struct kunit *test)
{
	if (test->priv)
		sirdma_users_fini(test->priv);
}

static void contexts_of_a_user_share_what_it_has(struct kunit *test)
{
	struct sirdma_users *users = test->priv;
	struct sirdma_user *first = sirdma_user_get(users, ALICE), *second, *other;

	KUNIT_ASSERT_FALSE(test, IS_ERR(first));
	second = sirdma_user_get(users, ALICE);
	other = sirdma_user_get(users, BOB);
	KUNIT_EXPECT_PTR_EQ(test, second, first);
	KUNIT_EXPECT_PTR_NE(test, other, first);
	atomic_set(&first->ahs, 7);
	KUNIT_EXPECT_EQ(test, atomic_read(&second->ahs), 7);
	KUNIT_EXPECT_EQ(test, atomic_read(&other->ahs), 0);
	sirdma_user_put(users, other);
	/* The first context goes, and the second one has its objects still. */
	sirdma_user_put(users, first);
	KUNIT_EXPECT_EQ(test, atomic_read(&second->ahs), 7);
	KUNIT_EXPECT_PTR_EQ(test, sirdma_user_get(users, ALICE), second);
	sirdma_user_put(users, second);
	atomic_set(&second->ahs, 0);
	sirdma_user_put(users, second);
	KUNIT_EXPECT_TRUE(test, xa_empty(&users->by_uid));
}

static void any_user_id_has_one(struct kunit *test)
{
	struct sirdma_users *users = test->priv;
	const kuid_t uids[] = {GLOBAL_ROOT_UID, ALICE, LAST, UNKNOWN};
	struct sirdma_user *user[ARRAY_SIZE(uids)];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(uids); i++) {
		user[i] = sirdma_user_get(users, uids[i]);
		KUNIT_ASSERT_FALSE(test, IS_ERR(user[i]));
		KUNIT_EXPECT_TRUE(test, uid_eq(user[i]->uid, uids[i]));
	}
	for (i = 0; i < ARRAY_SIZE(uids); i++)
		sirdma_user_put(users, user[i]);
	KUNIT_EXPECT_TRUE(test, xa_empty(&users->by_uid));
}

static struct kunit_case user_cases[] = {
	KUNIT_CASE(contexts_of_a_user_share_what_it_has),
	KUNIT_CASE(any_user_id_has_one),
	{},
};

static struct kunit_suite user_suite = {
	.name = "sirdma_user",
	.init = user_init,
	.exit = user_exit,
	.test_cases = user_cases,
};
kunit_test_suite(user_suite);
