/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Users with regions on demand, of all devices, by the user ID of their contexts (user.h). A page fault of
 * a user may take for ever, because memory can be a file of a FUSE server that does not answer. So each
 * user has a workqueue, and the user outlives regions, contexts and devices until the last fault has
 * ended.
 *
 * A thread of the workqueue waits in handle_mm_fault(), where no signal reaches it. Neither the end of a
 * region nor the removal of a device waits for it. (mlx5 waits in both cases, and no signal ends its wait,
 * either.) The end of the module waits, because the fault returns to the module's text. That wait is over
 * when the server answers or exits, or when an administrator aborts the connection
 * (/sys/fs/fuse/connections/N/abort). ibv_advise_mr() with IBV_ADVISE_MR_FLAG_FLUSH faults in the task of
 * its caller. A fatal signal ends that fault, and the removal of the device waits for it, as for any call
 * of the verbs API.
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
	/* frees children, for which it may wait for invalidations of the user's memory */
	struct workqueue_struct *frees;
	struct work_struct end;
};

/*
 * The user @uid, for one more region of @pages pages. Regions on demand pin nothing, but they take memory
 * of the kernel, most of which no limit of the process covers: 3 KiB for an explicit region, which is
 * charged as 128 pages, and 24 bytes for each of its pages; and 10 to 25 KiB (by the kernel's version, see
 * verbs_odp_cost) for each child of an implicit one, which is charged as its 512 pages when it is made.
 * So the regions of one user have no more pages than the machine, which is up to 1.2 % of its memory, and
 * those of all users four times as many. Returns ERR_PTR(-ENOMEM) beyond that, or without memory. Sleeps.
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
