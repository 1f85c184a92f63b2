/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Fragments the CPU cannot read (device memory) came with 6.12. */
#ifndef SIRDMA_COMPAT_SKBUFF_H
#define SIRDMA_COMPAT_SKBUFF_H

#include <linux/skbuff.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
static inline bool skb_frags_readable(const struct sk_buff *skb)
{
	return true;
}
#endif

#endif
