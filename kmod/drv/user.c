// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "user.h"

#include <linux/cred.h>
#include <linux/err.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

void sirdma_users_init(struct sirdma_users *users)
{
	mutex_init(&users->lock);
	xa_init(&users->by_uid);
}

void sirdma_users_fini(struct sirdma_users *users)
{
	WARN_ON(!xa_empty(&users->by_uid));
	xa_destroy(&users->by_uid);
}

/* The caller holds the lock. */
static struct sirdma_user *sirdma_user_create(struct sirdma_users *users, kuid_t uid)
{
	struct sirdma_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
	int err;

	if (!user)
		return ERR_PTR(-ENOMEM);
	user->uid = uid;
	err = xa_err(xa_store(&users->by_uid, __kuid_val(uid), user, GFP_KERNEL));
	if (!err)
		return user;
	kfree(user);
	return ERR_PTR(err);
}

kuid_t sirdma_user_id(void)
{
	struct user_namespace *ns = current_user_ns();
	kuid_t uid = current_uid(), root;

	for (; ns->parent; ns = ns->parent) {
		uid = ns->owner;
		root = make_kuid(ns, 0);
		if (uid_eq(uid, GLOBAL_ROOT_UID) && uid_valid(root))
			uid = root;
	}
	return uid;
}

struct sirdma_user *sirdma_user_get(struct sirdma_users *users, kuid_t uid)
{
	struct sirdma_user *user;

	mutex_lock(&users->lock);
	user = xa_load(&users->by_uid, __kuid_val(uid));
	if (!user)
		user = sirdma_user_create(users, uid);
	if (!IS_ERR(user))
		user->contexts++;
	mutex_unlock(&users->lock);
	return user;
}

void sirdma_user_put(struct sirdma_users *users, struct sirdma_user *user)
{
	mutex_lock(&users->lock);
	if (!--user->contexts) {
		WARN_ON(atomic_read(&user->ahs) || atomic_read(&user->doorbell_load) ||
			user->dm_bytes);
		xa_erase(&users->by_uid, __kuid_val(user->uid));
		kfree(user);
	}
	mutex_unlock(&users->lock);
}
