/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Users with regions on demand, by their real user ID, of all devices. A page fault of a user may take
 * for ever, because memory can be a file of a server that does not answer. So each user has a
 * workqueue of his own, and the user outlives regions, contexts and devices until his last fault has
 * ended.
 */
#ifndef SIRDMA_DRV_ODP_USER_H
#define SIRDMA_DRV_ODP_USER_H

#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

struct sirdma_odp_user {
	kuid_t uid;
	u32 regions;
	u64 pages; /* of all regions */
	struct workqueue_struct *wq; /* finds the pages of the regions */
	struct work_struct end;
};

/*
 * The user @uid, for one more region of @pages pages. Regions on demand pin nothing, but each of their
 * pages takes 24 bytes of the kernel's memory, which no limit of the process covers. So those of one
 * user have no more pages than the machine, and those of all users four times as many. Those of an
 * implicit region are charged as it gets them. Returns ERR_PTR(-ENOMEM) beyond that, or without memory.
 * Sleeps.
 */
struct sirdma_odp_user *sirdma_odp_user_get(kuid_t uid, u64 pages);
/* Drop the user for one region of @pages pages. Sleeps. */
void sirdma_odp_user_put(struct sirdma_odp_user *user, u64 pages);
/* Charge @pages more pages to a user with a region. Returns false beyond the same limits. Sleeps. */
bool sirdma_odp_user_charge(struct sirdma_odp_user *user, u64 pages);
void sirdma_odp_user_uncharge(struct sirdma_odp_user *user, u64 pages);
/* Wait until there is no user. The module calls this when there is no device. */
void sirdma_odp_users_wait(void);

#endif
