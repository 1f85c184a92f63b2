/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sparse page lists (sirdma/hmc.h): a tree of tables, whose leaves are lists of level 1 that the caller
 * allocates. A block is named by its index in the list, and a leaf by its first block. The caller
 * serializes all calls for one tree. Those that allocate sleep.
 */
#ifndef SIRDMA_HW_PBL_SPARSE_H
#define SIRDMA_HW_PBL_SPARSE_H

#include "pble.h"

/* Tables that the device may still read. */
struct sirdma_sparse_cut {
	u32 tables[2];
	u32 count;
};

/* Allocate a tree without leaves: *@root is its first PBLE. Returns as sirdma_pbl_alloc() does. */
int sirdma_sparse_alloc(struct sirdma_hw *hw, u32 *root);
/* Free the tables of a tree, but no leaf. The device does not use it any more. */
void sirdma_sparse_free(struct sirdma_hw *hw, u32 root);
/*
 * Add @leaf, of SIRDMA_PBLE_PER_LEAF entries, which are written, at @block. Returns 0, or an errno of
 * sirdma_pbl_try_alloc(); then the tree has no more leaves than before.
 */
int sirdma_sparse_link(struct sirdma_hw *hw, u32 root, u64 block, const struct sirdma_pbl *leaf);
/*
 * Take the leaf at @block away, and the tables that had no other. After a sirdma_pble_sync() the caller
 * frees the leaf, and the tables by sirdma_sparse_free_cut().
 */
void sirdma_sparse_unlink(struct sirdma_hw *hw, u32 root, u64 block, struct sirdma_sparse_cut *cut);
void sirdma_sparse_free_cut(struct sirdma_hw *hw, const struct sirdma_sparse_cut *cut);
/* The entry that ends the tables above @block: it names no table. NULL: there is a leaf. */
__le64 *sirdma_sparse_end(struct sirdma_hw *hw, u32 root, u64 block);

#endif
