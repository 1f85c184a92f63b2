/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address vectors of address handles: indices, and the array in the last segment of HMC
 * space. Pages are backed as they are needed. Kernel consumers create address handles in
 * atomic context, where no page can be backed: SIRDMA_AV_RESERVE - 1 backed vectors are kept free for
 * them, which users do not get.
 */
#ifndef SIRDMA_HW_AV_H
#define SIRDMA_HW_AV_H

#include "path.h"
#include "port/port.h"
#include "sirdma/av.h"
#include "sirdma/hmc.h"

struct sirdma_hw;

/* The vectors of one segment. */
#define SIRDMA_MAX_AVS (SIRDMA_HMC_SD_SIZE / (u32)sizeof(struct sirdma_av))
/*
 * Indices that only kernel consumers get, so that users cannot keep the CM from answering. The CM has
 * one vector for each message that it has sent and that is not answered, and a program that connects a
 * thousand times may send as many messages before the thread that backs pages has run. So as many vectors
 * are backed ahead. Index 0, which is never used, is one of them.
 */
#define SIRDMA_AV_RESERVE 1024u
/*
 * sirdma_av_fill() backs so many more, so that it is not due at each address handle: four pages. With the
 * reserve they take 84 KiB of the host's memory for each device.
 */
#define SIRDMA_AV_AHEAD (4 * SIRDMA_AV_PER_PAGE)

struct sirdma_av_table {
	struct port_irq_lock lock; /* protects used[] and the counts */
	struct port_mutex grow; /* serializes the backing of pages */
	u64 *used; /* bitmap of the used indices */
	u64 base; /* HMC byte of vector 0 */
	u32 limit; /* indices 1 .. limit-1; 0: the device has none */
	u32 backed; /* all indices below this one are backed */
	u32 hint; /* index where the search for a free one begins */
	u32 count; /* number of vectors in use */
	u32 seq; /* number of the latest write */
};

/*
 * The largest number of vectors that all users may have together; the others are for kernel
 * consumers.
 */
u32 sirdma_av_user_limit(const struct sirdma_hw *hw);

enum sirdma_av_consumer {
	SIRDMA_AV_USER,
	SIRDMA_AV_KERNEL, /* the caller may sleep */
	SIRDMA_AV_ATOMIC, /* the caller is a kernel consumer that must not sleep */
};

/*
 * May a consumer that has @mine vectors have another one (sirdma_share_is_fair(), limits.h)? A
 * consumer is one user with all its contexts, or the kernel as a whole, which always gets
 * SIRDMA_AV_RESERVE. Any context, no lock.
 */
bool sirdma_av_is_fair(const struct sirdma_hw *hw, enum sirdma_av_consumer who, u32 mine);
/* The largest number of vectors that one user may have. */
u32 sirdma_av_one_user_limit(const struct sirdma_hw *hw);

int sirdma_av_init(struct sirdma_hw *hw, u64 base);
void sirdma_av_fini(struct sirdma_hw *hw);
/*
 * Back pages until SIRDMA_AV_RESERVE + SIRDMA_AV_AHEAD vectors are free. Returns 0, or the error of
 * sirdma_hmc_back(). Sleeps.
 */
int sirdma_av_fill(struct sirdma_hw *hw);
/* Are fewer than SIRDMA_AV_RESERVE - 1 backed vectors free, and can more be backed? Any context. */
bool sirdma_av_low(struct sirdma_hw *hw);

struct sirdma_av_params {
	struct sirdma_path path;
	u8 mac[6]; /* MAC address of the next hop */
	u16 sgid_idx; /* index in the device's SGID table */
	u32 pd; /* protection domain of those who may use the vector */
};
/*
 * Make a vector of @params; *idx: its index. With SIRDMA_AV_ATOMIC the caller may be in any
 * context; otherwise the function sleeps. Returns 0; -ENOMEM if no vector is left, or in atomic
 * context if none is backed; -EOPNOTSUPP if the device has none; or the error of sirdma_hmc_back().
 */
int sirdma_av_create(struct sirdma_hw *hw, const struct sirdma_av_params *params,
		     enum sirdma_av_consumer who, u32 *idx);
/* Destroy a vector. Messages that name it from now on fail. Any context. */
void sirdma_av_destroy(struct sirdma_hw *hw, u32 idx);

#endif
