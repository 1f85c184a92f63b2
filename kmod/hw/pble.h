/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * PBLE allocator: runs of physical buffer list entries in HMC space.
 *
 * Chunks of one segment (2 MiB of HMC space, 262144 PBLEs) are added on demand.
 * In a chunk a run is found by halving, as in a buddy allocator, and then cut to
 * the exact length: a list costs 8 bytes per block and nothing for rounding. A
 * list of level 1 is one run; of level 2 a root run whose entries name leaves of
 * SIRDMA_PBLE_PER_LEAF, which lie in as few runs as can be had.
 */
#ifndef SIRDMA_HW_PBLE_H
#define SIRDMA_HW_PBLE_H

#include "port/port.h"
#include "sirdma/hmc.h"

struct sirdma_hw;

#define SIRDMA_PBLE_PER_CHUNK (SIRDMA_HMC_SD_SIZE / SIRDMA_PBLE_SIZE)
/* A root is one run: the longest list. */
#define SIRDMA_PBL_MAX_BLOCKS (SIRDMA_PBLE_PER_CHUNK * SIRDMA_PBLE_PER_LEAF)

struct sirdma_pble_chunk;

struct sirdma_pble_pool {
	struct port_mutex lock; /* protects everything below */
	struct sirdma_pble_chunk **chunks; /* [table_size], by segment; NULL: not in use */
	u32 table_size;
	u32 num_chunks; /* in use */
	u32 max_chunks;
	u64 in_use; /* PBLEs */
	u64 allocs_l1;
	u64 allocs_l2;
	u64 failures; /* exhaustion */
};

struct sirdma_pble_run {
	u32 first; /* PBLE index */
	u32 count;
	u32 start; /* which entry of the list the first one is */
};

struct sirdma_pbl {
	union {
		u64 addr; /* level 0: the first block */
		u32 first; /* PBLE index. Level 1: the list; level 2: its root, an entry a leaf */
	};
	struct sirdma_pble_run *runs; /* level 2: the leaves, in order of the list */
	u32 count; /* blocks */
	u32 num_runs : 22;
	u32 level : 2; /* 0: contiguous, no entries; 1; 2 */
	u32 block_shift : 8; /* of the blocks, for the owner */
};

int sirdma_pble_init(struct sirdma_hw *hw);
void sirdma_pble_fini(struct sirdma_hw *hw);

/*
 * Room for @count block addresses. Level 1 when one run can be had; level 2,
 * unless @level1_only, for longer lists and when only scattered runs are left.
 * 0; -ENOMEM (counted) or the error of the device, and nothing leaks; -EINVAL
 * for a count of 0 or beyond what a list can name.
 */
int sirdma_pbl_alloc(struct sirdma_hw *hw, u32 count, bool level1_only, struct sirdma_pbl *pbl);
/* Describe @count contiguous blocks from @addr: level 0, nothing allocated. */
void sirdma_pbl_set_contiguous(struct sirdma_pbl *pbl, u64 addr, u32 count);
/*
 * Where entry @i (0 .. count-1) of a list is, and in *n how many from it on lie
 * together. NULL for a level 0 and beyond the end. For writing with WRITE_ONCE():
 * the device may look.
 */
__le64 *sirdma_pbl_entries(struct sirdma_hw *hw, const struct sirdma_pbl *pbl, u32 i, u32 *n);
/* First PBLE index the device is given; levels 1 and 2. */
u32 sirdma_pbl_first(const struct sirdma_pbl *pbl);
/* The device must no longer use the list. Leaves an empty level 0. */
void sirdma_pbl_free(struct sirdma_hw *hw, struct sirdma_pbl *pbl);

#endif
