/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the driver adds to uverbs' ioctl interface: the numbers are in sirdma/abi.h. */
#ifndef SIRDMA_DRV_UAPI_H
#define SIRDMA_DRV_UAPI_H

#include <rdma/uverbs_ioctl.h>

/* ib_device.driver_def */
extern const struct uapi_definition sirdma_uapi[];

#endif
