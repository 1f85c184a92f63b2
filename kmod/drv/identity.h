/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which driver a device says it has. By default that is this one. A device of the link type
 * "sirdma_irdma" says irdma, so that the library of Intel's irdma drives it.
 *
 * irdma.ko takes each device of that identity for its own: its notifiers find an ib_device by netdev
 * and driver id, and use it as theirs. So this module and irdma.ko exclude each other while one of
 * them has such a device, or may have.
 */
#ifndef SIRDMA_DRV_IDENTITY_H
#define SIRDMA_DRV_IDENTITY_H

#include <linux/types.h>

struct net_device;
struct sirdma_dev;

/*
 * Keep irdma.ko out, once for each device that has its identity. Returns 0, or -EBUSY if irdma.ko is
 * loaded.
 */
int sirdma_irdma_claim(void);
void sirdma_irdma_release(void);

/* The device of this module on @ndev, or NULL. The caller drops the reference. */
struct sirdma_dev *sirdma_dev_get_by_netdev(struct net_device *ndev);
/* Unregister all devices of this module. No link can be added any more. */
void sirdma_identity_unregister_devices(void);

int sirdma_identity_init(void);
void sirdma_identity_fini(void);

#endif
