/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Since 6.2 dma_buf_vmap_unlocked() takes the lock that its namesake wants held. Since 6.13 the
 * namespace of a module's symbols is a string.
 */
#ifndef COMPAT_DMA_BUF_H
#define COMPAT_DMA_BUF_H

#include <linux/dma-buf.h>
#include <linux/module.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define dma_buf_vmap_unlocked dma_buf_vmap
#define dma_buf_vunmap_unlocked dma_buf_vunmap
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define COMPAT_IMPORT_DMA_BUF() MODULE_IMPORT_NS(DMA_BUF)
#else
#define COMPAT_IMPORT_DMA_BUF() MODULE_IMPORT_NS("DMA_BUF")
#endif

#endif
