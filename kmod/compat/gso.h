/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Software segmentation moved from netdevice.h to a header of its own in 6.5. */
#ifndef SIRDMA_COMPAT_GSO_H
#define SIRDMA_COMPAT_GSO_H

#include <linux/netdevice.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#include <net/gso.h>
#endif

#endif
