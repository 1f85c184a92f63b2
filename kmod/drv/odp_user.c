// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "odp_user.h"

#include <linux/err.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>
#include <linux/xarray.h>

#include "device.h"

/* Works of a user's regions that run side by side. Each may wait for a page fault. Not tuned. */
#define ODP_USER_WORKS 64
/* The pages of all users, as a multiple of the machine's. Not tuned. */
#define ODP_USERS_SHARE 4

static DEFINE_MUTEX(odp_users_lock); /* protects all below, and the members of users */
static DEFINE_XARRAY(odp_users); /* user ID -> struct sirdma_odp_user */
static u64 odp_users_pages;

/* The last work of the user may be the caller of sirdma_odp_user_put(), so it cannot do this itself. */
static void sirdma_odp_user_end(struct work_struct *work)
{
	struct sirdma_odp_user *user = container_of(work, struct sirdma_odp_user, end);

	destroy_workqueue(user->wq);
	destroy_workqueue(user->frees);
	kfree(user);
}

/* The caller holds the lock. */
static struct sirdma_odp_user *sirdma_odp_user_create(kuid_t uid)
{
	struct sirdma_odp_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);

	if (!user)
		return NULL;
	user->uid = uid;
	INIT_WORK(&user->end, sirdma_odp_user_end);
	user->wq = alloc_workqueue("sirdma_odp", WQ_UNBOUND, ODP_USER_WORKS);
	if (!user->wq)
		goto err_free;
	user->frees = alloc_workqueue("sirdma_odp_free", WQ_UNBOUND, 0);
	if (!user->frees)
		goto err_wq;
	if (xa_err(xa_store(&odp_users, __kuid_val(uid), user, GFP_KERNEL)))
		goto err_frees;
	return user;

err_frees:
	destroy_workqueue(user->frees);
err_wq:
	destroy_workqueue(user->wq);
err_free:
	kfree(user);
	return NULL;
}

/* May a user who has @has pages have @pages more? The caller holds the lock. */
static bool sirdma_odp_user_may(u64 has, u64 pages)
{
	const u64 most = totalram_pages();

	return pages <= most - min(most, has) && odp_users_pages + pages <= most * ODP_USERS_SHARE;
}

struct sirdma_odp_user *sirdma_odp_user_get(kuid_t uid, u64 pages)
{
	struct sirdma_odp_user *user;

	mutex_lock(&odp_users_lock);
	user = xa_load(&odp_users, __kuid_val(uid));
	if (!sirdma_odp_user_may(user ? user->pages : 0, pages))
		user = NULL;
	else if (!user)
		user = sirdma_odp_user_create(uid);
	if (user) {
		user->regions++;
		user->pages += pages;
		odp_users_pages += pages;
	}
	mutex_unlock(&odp_users_lock);
	return user ?: ERR_PTR(-ENOMEM);
}

void sirdma_odp_user_put(struct sirdma_odp_user *user, u64 pages)
{
	mutex_lock(&odp_users_lock);
	user->pages -= pages;
	odp_users_pages -= pages;
	if (!--user->regions) {
		xa_erase(&odp_users, __kuid_val(user->uid));
		queue_work(sirdma_upkeep_wq, &user->end);
		wake_up_var(&odp_users);
	}
	mutex_unlock(&odp_users_lock);
}

bool sirdma_odp_user_charge(struct sirdma_odp_user *user, u64 pages)
{
	bool may;

	mutex_lock(&odp_users_lock);
	may = sirdma_odp_user_may(user->pages, pages);
	if (may) {
		user->pages += pages;
		odp_users_pages += pages;
	}
	mutex_unlock(&odp_users_lock);
	return may;
}

void sirdma_odp_user_uncharge(struct sirdma_odp_user *user, u64 pages)
{
	mutex_lock(&odp_users_lock);
	user->pages -= pages;
	odp_users_pages -= pages;
	mutex_unlock(&odp_users_lock);
}

void sirdma_odp_users_wait(void)
{
	if (!xa_empty(&odp_users))
		pr_info("sirdma: page faults for regions that are gone have not ended yet\n");
	wait_var_event(&odp_users, xa_empty(&odp_users));
	/* The works that end the users are queued: who erased the last one holds the lock meanwhile. */
	mutex_lock(&odp_users_lock);
	mutex_unlock(&odp_users_lock);
}
