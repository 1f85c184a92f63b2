/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * PBLE allocator: runs of physical buffer list entries in HMC space.
 *
 * Chunks of one segment (2 MiB of HMC space, 262144 PBLEs) are added on demand.
 * In a chunk a run is found as in a buddy allocator, by power-of-two size, and then cut
 * to the exact length: a list costs 8 bytes per block and nothing for rounding. A
 * list of level 1 is one run. A list of level 2 is a root run, whose entries name leaves
 * of SIRDMA_PBLE_PER_LEAF entries; the leaves take as few runs as possible.
 */
#ifndef SIRDMA_HW_PBLE_H
#define SIRDMA_HW_PBLE_H

#include "port/port.h"
#include "sirdma/hmc.h"

struct sirdma_hw;

#define SIRDMA_PBLE_PER_CHUNK (SIRDMA_HMC_SD_SIZE / SIRDMA_PBLE_SIZE)
/* A root is one run, which limits the length of a list. */
#define SIRDMA_PBL_MAX_BLOCKS (SIRDMA_PBLE_PER_CHUNK * SIRDMA_PBLE_PER_LEAF)

struct sirdma_pble_chunk;

struct sirdma_pble_pool {
	struct port_mutex lock; /* protects everything below */
	struct sirdma_pble_chunk **chunks; /* [table_size], by segment; NULL: not in use */
	u32 table_size;
	u32 num_chunks; /* chunks in use */
	u32 max_chunks;
	u64 in_use; /* PBLEs in use */
	u64 allocs_l1;
	u64 allocs_l2;
	u64 failures; /* allocations that returned -ENOMEM */
};

struct sirdma_pble_run {
	u32 first; /* index of the PBLE */
	u32 count;
	u32 start; /* index in the list of the run's first entry */
};

/* A region has one, and its size counts: see the scenario "footprint". */
struct sirdma_pbl {
	union {
		u64 addr; /* level 0: address of the first block */
		struct {
			u32 first; /* PBLE index. Level 1: of the list; level 2: of the root */
			u32 num_runs;
		};
	};
	struct sirdma_pble_run *runs; /* level 2: the leaves, in order of the list */
	u32 count; /* blocks */
	u8 level; /* 0: contiguous, no entries; 1; 2 */
	u8 block_shift; /* log2 of the bytes of a block, for the owner */
	u16 access; /* for the owner: what the verbs API permits to a user's region */
};

int sirdma_pble_init(struct sirdma_hw *hw);
void sirdma_pble_fini(struct sirdma_hw *hw);

/*
 * Allocate a list for @count block addresses. It is of level 1 when one free run is long enough;
 * otherwise of level 2, unless @level1_only. Returns 0; -ENOMEM or the error of the device, with
 * nothing allocated; or -EINVAL if the count is 0 or too large for a list. Reclaims memory if there is
 * none, for as long as it takes: the caller must hold nothing that other tasks wait for.
 */
int sirdma_pbl_alloc(struct sirdma_hw *hw, u32 count, bool level1_only, struct sirdma_pbl *pbl);
/* The same for a caller that holds such a thing: it reclaims no memory. */
int sirdma_pbl_try_alloc(struct sirdma_hw *hw, u32 count, bool level1_only, struct sirdma_pbl *pbl);
/* Describe @count contiguous blocks from @addr: level 0, nothing allocated. */
void sirdma_pbl_set_contiguous(struct sirdma_pbl *pbl, u64 addr, u32 count);
/*
 * The address of entry @i (0 .. count-1) of a list. *n: how many entries are contiguous from that
 * entry on. NULL for level 0 and beyond the end. Write entries with WRITE_ONCE(): the device may
 * read them meanwhile.
 */
__le64 *sirdma_pbl_entries(struct sirdma_hw *hw, const struct sirdma_pbl *pbl, u32 i, u32 *n);
/* A walk over the entries of a list. It begins as {.pbl = the list, .next = the first entry}. */
struct sirdma_pbl_walk {
	const struct sirdma_pbl *pbl;
	u32 next;
	u32 left; /* contiguous entries from there on, if they were looked up */
	__le64 *entry;
};
/* The address of the next entry, as sirdma_pbl_entries() gives it. */
static inline __le64 *sirdma_pbl_next(struct sirdma_hw *hw, struct sirdma_pbl_walk *walk)
{
	if (!walk->left)
		walk->entry = sirdma_pbl_entries(hw, walk->pbl, walk->next, &walk->left);
	if (!walk->entry)
		return NULL;
	walk->left--;
	walk->next++;
	return walk->entry++;
}
/*
 * The PBLE index that the device gets: that of a list of level 1, or that of the root of level 2.
 */
u32 sirdma_pbl_first(const struct sirdma_pbl *pbl);
/* Free a list. The device does not use it any more. @pbl is then an empty list of level 0. */
void sirdma_pbl_free(struct sirdma_hw *hw, struct sirdma_pbl *pbl);

#endif
