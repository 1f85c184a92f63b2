/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A device: an ib_device, its driver core, and the tables of the Linux side. */
#ifndef SIRDMA_DRV_DEVICE_H
#define SIRDMA_DRV_DEVICE_H

#include <linux/netdevice.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "counters.h"
#include "dm.h"
#include "gid.h"
#include "hw/hw.h"
#include "mcast.h"
#include "neigh.h"
#include "odp.h"
#include "qpctx.h"
#include "user.h"

struct sirdma_dev {
	struct ib_device ibdev;
	struct net_device *ndev; /* the bus and ibdev hold a reference */
	struct sirdma_bus *bus;
	struct sirdma_hw hw;
	struct sirdma_qpctx_pool qpctx;
	struct xarray qps; /* QP number -> struct sirdma_qp, for events */
	struct xarray cqs; /* CQ number -> struct sirdma_cq, for events */
	struct xarray srqs; /* SRQ number -> struct sirdma_srq, for events */
	struct sirdma_gid_table gids;
	struct sirdma_neigh_table neighs;
	struct sirdma_mcast_members mcast;
	struct sirdma_counters counters;
	struct sirdma_users users;
	struct sirdma_dms dms;
	struct sirdma_odp odp;
	struct delayed_work health; /* polls the device's status */
	struct delayed_work fatal; /* work that removes a device that failed */
	struct work_struct kflush; /* has kernel consumers poll, after the reset of a failed device */
	struct work_struct ah_fill; /* work that makes more address vectors ready */
	atomic_t kernel_ahs; /* address handles of kernel consumers */
	unsigned long flags; /* SIRDMA_DEV_* bit numbers */
	bool irdma; /* the device has irdma's identity: identity.h */
};

/*
 * Report a request that the driver refuses. An application may repeat it at will, so the report
 * is a counter and a debug message, not a warning.
 */
#define sirdma_refused(dev, fmt, ...) \
	do { \
		struct sirdma_dev *__dev = (dev); \
		sirdma_count(&__dev->counters, SIRDMA_COUNTER_REQUESTS_REFUSED); \
		ibdev_dbg(&__dev->ibdev, fmt "\n", ##__VA_ARGS__); \
	} while (0)

/*
 * The workqueue of all devices for work that no program and no connection waits for: multicast addresses, and the end of
 * users of on-demand memory.
 */
extern struct workqueue_struct *sirdma_upkeep_wq;
/*
 * The one for work that storage needs to connect again while memory is short. It has a rescuer (WQ_MEM_RECLAIM). Its
 * work checks the health of devices and resets them, gives addresses and neighbours to them, backs address vectors, and
 * completes the requests of flushed queue pairs in the kernel. It waits neither for memory that storage has to write
 * out, nor for a lock whose holder does so. Its priority is high: a program that makes connections by rdma_cm in a loop
 * waits for some of it, and must not keep it from a processor.
 */
extern struct workqueue_struct *sirdma_rescue_wq;
/*
 * The one for doorbells, of high priority, as a program that rings them in a loop waits for them. Its work may wait for
 * locks of page tables, and runs many queue pairs (doorbell.c).
 */
extern struct workqueue_struct *sirdma_urgent_wq;

#define SIRDMA_DEV_FAILED 0 /* the device failed, see health.h, or is being removed */
#define SIRDMA_DEV_PORT_UP 1 /* the last port event was PORT_ACTIVE */
#define SIRDMA_DEV_RESET 2 /* the device failed and was reset: it completes nothing any more */

static inline struct sirdma_dev *to_sdev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct sirdma_dev, ibdev);
}

/* Make and register device @name on @ndev. @irdma: it has irdma's identity. */
int sirdma_dev_add(const char *name, struct net_device *ndev, bool irdma);

#endif
