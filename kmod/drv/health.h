/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A device that failed does not recover: the driver resets it, so that it uses no memory any more,
 * every later command fails with -EIO, applications get IB_EVENT_DEVICE_FATAL, and the link is
 * removed as if it had been deleted.
 */
#ifndef SIRDMA_DRV_HEALTH_H
#define SIRDMA_DRV_HEALTH_H

#include <linux/types.h>

struct sirdma_dev;

void sirdma_health_init(struct sirdma_dev *dev);
/* The device is registered: watch it from now on. */
void sirdma_health_start(struct sirdma_dev *dev);
void sirdma_health_fini(struct sirdma_dev *dev);
bool sirdma_dev_failed(const struct sirdma_dev *dev);

/* The device reported a failure, or does not answer: schedule the steps above. Any context. */
void sirdma_dev_fail_async(struct sirdma_dev *dev);
/*
 * A command that frees device state failed with @err: reset the device at once, and schedule the
 * other steps. When this returns, the device has no object any more, and their memory may be freed.
 * Sleeps.
 */
void sirdma_dev_fail(struct sirdma_dev *dev, int err);

#endif
