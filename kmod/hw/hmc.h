/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Host memory cache, driver side: backs HMC space by segments, direct (one
 * 2 MiB block) or paged.
 *
 * The first segment and that of the address vectors are paged and grow page by page, so that a
 * device with a handful of regions costs a few pages. Other segments are direct, which saves one
 * level of translation, or paged where no 2 MiB block is free.
 */
#ifndef SIRDMA_HW_HMC_H
#define SIRDMA_HW_HMC_H

#include "port/port.h"
#include "sirdma/bus.h"
#include "sirdma/hmc.h"

struct sirdma_hw;

struct sirdma_hmc_sd {
	struct sirdma_dma_mem block; /* direct: the block; paged: the PD table page */
	struct sirdma_dma_mem *pages; /* paged: [SIRDMA_HMC_PD_PER_SD], va NULL: not backed */
	u32 num_pages; /* paged segment: how many pages are backed */
	bool direct;
};

#define SIRDMA_HMC_SD_GROUP 64

struct sirdma_hmc {
	struct port_mutex lock; /* protects changes of groups[] and segments */
	/* Segments in groups made on demand; NULL: not backed. */
	struct sirdma_hmc_sd **groups[SIRDMA_HMC_MAX_SD / SIRDMA_HMC_SD_GROUP];
	u32 max_sds;
	u64 backed_bytes;
	u64 direct_sds;
	u64 paged_sds;
	u32 av_sd; /* segment of the address vectors, always paged; 0: none */
	bool force_paged; /* for tests and tuning: never try a 2 MiB block */
};

int sirdma_hmc_init(struct sirdma_hw *hw, u32 max_sds);
/* Free all segments without commands: the caller has reset the device. */
void sirdma_hmc_fini(struct sirdma_hw *hw);
/*
 * Back HMC bytes [off, off + len), which lie in one segment; a direct segment is backed as a whole.
 * Returns 0; -ENOMEM; -EINVAL beyond HMC space or the segment; or the error of the device. On
 * failure nothing has changed.
 */
int sirdma_hmc_back(struct sirdma_hw *hw, u64 off, u32 len);
/*
 * The CPU address of HMC byte @off, contiguous to the end of its 4 KiB page. NULL if the byte is
 * not backed. The caller keeps the segment from being released.
 */
void *sirdma_hmc_va(struct sirdma_hw *hw, u64 off);
/*
 * Tell the device that a segment is about to go, then free the segment. The segment stays when the
 * device refuses.
 */
int sirdma_hmc_release_sd(struct sirdma_hw *hw, u32 sd);

#endif
