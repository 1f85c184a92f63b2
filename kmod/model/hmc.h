/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Host memory cache: the device's view of HMC space, SD -> PD -> page.
 *
 * Data paths resolve addresses while segments are added. The driver withdraws a segment only when
 * no object uses its PBLEs any more, and each destroy command waits for the data paths that use the
 * object: so no reader is in a segment when the driver withdraws it.
 */
#ifndef SNIC_HMC_H
#define SNIC_HMC_H

#include "port/port.h"
#include "sirdma/av.h"
#include "sirdma/cqp.h"
#include "sirdma/hmc.h"
#include "sirdma/wqe.h"

struct snic_dev;

/* A paged segment: its table in host memory, and the cached page addresses. */
struct snic_hmc_pds {
	struct port_rcu rcu;
	const __le64 *table;
	void *pages[SIRDMA_HMC_PD_PER_SD]; /* PMPDINV clears an entry */
};

/* Cached translation of one segment. At most one of the two members is set. */
struct snic_sd {
	void *block; /* direct segment: the 2 MiB block */
	struct snic_hmc_pds *pds; /* paged segment */
};

#define SNIC_SD_GROUP 64

struct snic_hmc {
	struct port_mutex lock; /* protects updates of sds[] */
	struct port_lock pd_lock; /* protects fills and drops of cached pages; innermost */
	struct snic_sd *sds[SIRDMA_HMC_MAX_SD / SNIC_SD_GROUP]; /* groups, made on demand */
	u64 pble_base; /* byte offset of PBLE 0 in HMC space (COMMIT_FPM) */
	u32 pble_count; /* PBLEs committed */
	u64 av_base; /* the same for address vectors */
	u32 av_count;
};

int snic_hmc_init(struct snic_dev *dev);
void snic_hmc_fini(struct snic_dev *dev);
/* Device reset: drop every segment and the committed layout. */
void snic_hmc_reset(struct snic_dev *dev);
/*
 * Apply @count (at most SIRDMA_CQP_SDS_MAX) entries: all of them or none. Returns enum
 * sirdma_cqp_status.
 */
u32 snic_hmc_update_sds(struct snic_dev *dev, const struct sirdma_sd_entry *entries, u32 count);
/* Arrays in HMC space: first byte, and number of elements. */
struct snic_hmc_layout {
	u64 pble_base;
	u32 pble_count;
	u64 av_base;
	u32 av_count;
};
/* Execute COMMIT_FPM. Returns enum sirdma_cqp_status. */
u32 snic_hmc_commit(struct snic_dev *dev, const struct snic_hmc_layout *layout);
void snic_hmc_invalidate_pd(struct snic_dev *dev, u32 val); /* SIRDMA_PMPDINV_* */
/* The highest PBLE count that the HMC space of this device can hold and that a command can name. */
u32 snic_hmc_max_pbles(struct snic_dev *dev);
/*
 * Read PBLE @idx in one load, since the driver may write it meanwhile. Returns false, and counts
 * HMC_FAULTS, when the index is beyond the committed count, or when its SD, PD or page is not
 * valid.
 */
bool snic_pble_read(struct snic_dev *dev, u32 idx, u64 *val);
/*
 * The address of PBLE @idx. *@count is the number of PBLEs that the caller wants, and becomes the
 * number that are contiguous, which is at least one. NULL: see snic_pble_read(). The caller holds
 * port_rcu_read_lock().
 */
__le64 *snic_pbles_at(struct snic_dev *dev, u32 idx, u32 *count);
/*
 * The largest number of address vectors that the HMC space of this device can hold and that a WQE
 * can name.
 */
u32 snic_hmc_max_avs(struct snic_dev *dev);
/*
 * Read the first word of address vector @idx. Returns false as snic_pble_read() does, but counts
 * nothing.
 */
bool snic_av_ctrl(struct snic_dev *dev, u32 idx, u64 *ctrl);
/*
 * Copy an address vector. Returns false if it does not exist, is not valid, or is being written by
 * the driver.
 */
bool snic_av_read(struct snic_dev *dev, u32 idx, struct sirdma_av *out);

#endif
