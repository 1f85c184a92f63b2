/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A device that fails stays dead: it is reset, so that it uses no memory any
 * more, every command fails with -EIO from then on, applications are told by
 * IB_EVENT_DEVICE_FATAL, and the link goes away as if it had been deleted.
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

/* The device said that it failed, or does not answer. Any context. */
void sirdma_dev_fatal(struct sirdma_dev *dev);
/*
 * A command that frees device state failed with @err. When this returns, the
 * device has forgotten every object, and the memory under it may go. Sleeps.
 */
void sirdma_dev_fail(struct sirdma_dev *dev, int err);

#endif
