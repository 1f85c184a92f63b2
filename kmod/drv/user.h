/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Users of a device: owners of user contexts, by their real user ID. Users, not contexts, share the
 * resources of which a device has few, because a user may open any number of contexts. All processes in a
 * user namespace are one user with its owner, as for the kernel's own limits (struct ucounts): the owner
 * may have a range of user IDs there (/etc/subuid), and has no more by that. Containers of root's are
 * users of their own, each by the user ID of its root.
 */
#ifndef SIRDMA_DRV_USER_H
#define SIRDMA_DRV_USER_H

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <linux/xarray.h>

struct sirdma_user {
	kuid_t uid;
	unsigned int contexts; /* under sirdma_users.lock */
	atomic_t ahs; /* number of address handles of all contexts, see sirdma_av_is_fair() */
	/*
	 * Queue pairs at the watched doorbell pages of all contexts, and the pages, see PAGE_LOAD in
	 * drv/doorbell.c. Looks at them are bounded for each user ID at each device; services of root
	 * share the bound of user 0.
	 */
	atomic_t doorbell_load;
	u64 dm_bytes; /* device memory of all contexts; under sirdma_dms.lock */
};

struct sirdma_users {
	struct mutex lock; /* protects by_uid and the counts of contexts */
	struct xarray by_uid; /* user ID -> struct sirdma_user */
};

void sirdma_users_init(struct sirdma_users *users);
/* All contexts are gone. */
void sirdma_users_fini(struct sirdma_users *users);
/* The user ID that the calling process counts for. */
kuid_t sirdma_user_id(void);
/*
 * The user @uid, for one more context. The caller drops the user by sirdma_user_put(). Returns
 * ERR_PTR(-ENOMEM) without memory. Sleeps.
 */
struct sirdma_user *sirdma_user_get(struct sirdma_users *users, kuid_t uid);
/* Drop the user for one context, which has no object left. */
void sirdma_user_put(struct sirdma_users *users, struct sirdma_user *user);

#endif
