/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Host memory cache: the device's view of HMC space, SD -> PD -> page.
 *
 * Data paths resolve addresses while segments are added. The driver withdraws a segment
 * only when no object uses its PBLEs any more, and each destroy command waits for the
 * data paths that use the object: so no reader is inside a segment that is withdrawn.
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
	void *pages[SIRDMA_HMC_PD_PER_SD]; /* cleared by PMPDINV */
};

/* Cached translation of one segment; at most one of both is set. */
struct snic_sd {
	void *block; /* direct: the 2 MiB block */
	struct snic_hmc_pds *pds; /* paged */
};

#define SNIC_SD_GROUP 64

struct snic_hmc {
	struct port_mutex lock; /* protects updates of sds[] */
	struct port_lock pd_lock; /* protects fills and drops of cached pages; innermost */
	struct snic_sd *sds[SIRDMA_HMC_MAX_SD / SNIC_SD_GROUP]; /* groups, made on demand */
	u64 pble_base; /* byte offset of PBLE 0 in HMC space (COMMIT_FPM) */
	u32 pble_count; /* PBLEs committed */
	u64 av_base; /* the same of address vectors */
	u32 av_count;
};

int snic_hmc_init(struct snic_dev *dev);
void snic_hmc_fini(struct snic_dev *dev);
/* Device reset: drop every segment and the committed layout. */
void snic_hmc_reset(struct snic_dev *dev);
/* Apply @count ≤ SIRDMA_CQP_SDS_MAX entries, all or none; enum sirdma_cqp_status. */
u32 snic_hmc_update_sds(struct snic_dev *dev, const struct sirdma_sd_entry *entries, u32 count);
/* Arrays in HMC space: first byte, and number of elements. */
struct snic_hmc_layout {
	u64 pble_base;
	u32 pble_count;
	u64 av_base;
	u32 av_count;
};
/* COMMIT_FPM; enum sirdma_cqp_status. */
u32 snic_hmc_commit(struct snic_dev *dev, const struct snic_hmc_layout *layout);
void snic_hmc_invalidate_pd(struct snic_dev *dev, u32 val); /* SIRDMA_PMPDINV_* */
/* Highest PBLE count that HMC space of this device can hold and a command can name. */
u32 snic_hmc_max_pbles(struct snic_dev *dev);
/*
 * Read PBLE @idx, in one load: the driver may write it meanwhile. False, and HMC_FAULTS counts it, when the index is beyond the committed
 * count, or its SD, PD or page is not valid.
 */
bool snic_pble_read(struct snic_dev *dev, u32 idx, u64 *val);
/* Write PBLE @idx, which no other writes meanwhile. False: the same. */
bool snic_pble_write(struct snic_dev *dev, u32 idx, u64 val);
/* The most address vectors that HMC space of this device can hold and a WQE can name. */
u32 snic_hmc_max_avs(struct snic_dev *dev);
/* First word of address vector @idx. False: as snic_pble_read(), but nothing is counted. */
bool snic_av_ctrl(struct snic_dev *dev, u32 idx, u64 *ctrl);
/* Copy it. False: there is none, it is not valid, or the driver writes it. */
bool snic_av_read(struct snic_dev *dev, u32 idx, struct sirdma_av *out);

#endif
