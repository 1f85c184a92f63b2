/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Runs: contiguous memory of a region. Most messages of a stream of small messages lie in the same
 * run as the message before, so bursts and batches keep the run that they used last, and do not
 * look into the page list again. A run may be used as long as its user keeps the reference to the
 * region.
 */
#ifndef SNIC_RUN_H
#define SNIC_RUN_H

#include "port/port.h"

struct snic_mr;

struct snic_run {
	u64 va; /* address of the first byte */
	u8 *ptr;
	u32 len; /* 0: there is no run */
};

/* The bytes at @va. NULL if not all of [va, va + len) are in the run, or if @len is 0. */
static inline u8 *snic_run_at(const struct snic_run *run, u64 va, u32 len)
{
	u64 off = va - run->va;

	return off < run->len && len - 1 < run->len - off ? run->ptr + off : NULL;
}

/* The bytes at @va, which is in the run. *n: how many of the @len bytes the run has. */
static inline u8 *snic_run_some(const struct snic_run *run, u64 va, u32 len, u32 *n)
{
	u32 off = (u32)(va - run->va), left = run->len - off;

	*n = len < left ? len : left; /* not min(), which C++ defines differently */
	return run->ptr + off;
}

/* The region in which received packets were placed last, with its reference, and the run. */
struct snic_rx_mem {
	struct snic_mr *mr; /* NULL: there is no region */
	u32 stag;
	u32 pd; /* PD that the region was checked for */
	struct snic_run run;
};

#endif
