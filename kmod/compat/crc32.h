/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * crc32_optimizations() came with 6.14, and with it a crc32_le() that uses the instructions of the
 * processor. Before that, crc32_le() takes eight bytes at a time from tables, on x86 at least.
 */
#ifndef SIRDMA_COMPAT_CRC32_H
#define SIRDMA_COMPAT_CRC32_H

#include <linux/crc32.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define CRC32_LE_OPTIMIZATION BIT(0)

static inline u32 crc32_optimizations(void)
{
	return 0;
}
#endif

#endif
