/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Host memory cache: device objects that live in host memory.
 *
 * The device sees one linear HMC address space, cut into segments of 2 MiB. A
 * segment descriptor (SD) is direct (one 2 MiB block) or paged (a table of 512
 * page descriptors, each naming one 4 KiB page). The driver backs the space on demand and
 * tells the device by the command UPDATE_SDS; SIRDMA_REG_PMPDINV makes it read a changed
 * page descriptor again.
 * Structure source: irdma (hmc.h, hmc.c).
 */
#ifndef SIRDMA_HMC_H
#define SIRDMA_HMC_H

#include "bits.h"

#define SIRDMA_HMC_SD_SIZE 0x200000u /* bytes one SD covers */
#define SIRDMA_HMC_PD_PER_SD 512
#define SIRDMA_HMC_MAX_SD 4096 /* 8 GiB of HMC space: 1 Gi PBLEs */

/*
 * Objects in HMC space; the device keeps everything else on chip. The numbers are irdma's, which
 * has more.
 */
enum sirdma_hmc_obj {
	SIRDMA_HMC_OBJ_AV = 13, /* struct sirdma_av */
	SIRDMA_HMC_OBJ_PBLE = 14,
	SIRDMA_HMC_OBJ_MAX = 21,
};

/* One entry of UPDATE_SDS; the device keeps SDs in this form. */
struct sirdma_sd_entry {
	__le64 cmd; /* SIRDMA_SDCMD_* */
	__le64 data; /* address of the block or of the PD table, SIRDMA_SDDATA_* */
};
SIRDMA_SIZE_IS(struct sirdma_sd_entry, 16);
#define SIRDMA_SDCMD_SDIDX SIRDMA_MASK(11, 0)
#define SIRDMA_SDCMD_WR SIRDMA_BIT(31)
#define SIRDMA_SDCMD_VALID SIRDMA_BIT(63)
#define SIRDMA_SDDATA_VALID SIRDMA_BIT(0)
#define SIRDMA_SDDATA_DIRECT SIRDMA_BIT(1) /* else paged */
#define SIRDMA_SDDATA_BPCOUNT SIRDMA_MASK(11, 2) /* backing pages */
#define SIRDMA_SDDATA_ADDR SIRDMA_MASK(63, 12)

/* Page descriptor, 8 bytes, 512 to a PD table page. */
#define SIRDMA_PD_VALID SIRDMA_BIT(0)
#define SIRDMA_PD_ADDR SIRDMA_MASK(63, 12)

/*
 * Physical buffer list entry: the DMA address of one block (4 KiB, 2 MiB or
 * 1 GiB as the registration says). In the root of a two-level list an entry
 * holds the index of the first PBLE of a leaf (SIRDMA_PBLE_LEAF_IDX); each leaf
 * but the last has SIRDMA_PBLE_PER_LEAF entries.
 *
 * A sparse list is a tree of tables, of which most may be missing, for a region of all addresses of a
 * process. The root, two levels of tables below it and the leaves have SIRDMA_PBLE_PER_LEAF entries
 * each, and begin at a multiple of that, which is a page of HMC space:
 *
 *      bits of an address   47..39    38..30    29..21    20..12     11..0
 *                           root  ──▶ table ──▶ table ──▶ leaf   ──▶ byte of the block
 *                           one entry of it names
 *                           512 GiB   1 GiB     2 MiB     4 KiB
 *
 * An entry above the leaves is SIRDMA_PBLE_LEAF_IDX of the next table, or SIRDMA_PBLE_ABSENT or
 * SIRDMA_PBLE_ERROR for all that it names. The driver adds tables and leaves as the device asks for
 * blocks, and may take them away.
 */
#define SIRDMA_PBLE_SIZE 8
#define SIRDMA_PBLE_PER_LEAF 512
#define SIRDMA_PBLE_PER_PAGE (SIRDMA_PAGE_SIZE / SIRDMA_PBLE_SIZE)
#define SIRDMA_PBLE_LEAF_IDX SIRDMA_MASK(27, 0)
#define SIRDMA_PBLE_INVALID_IDX 0xffffffffu
#define SIRDMA_PBL_LEVEL_SPARSE 3 /* the level of a sparse list */
#define SIRDMA_PBL_SPARSE_BITS 36 /* blocks of 4 KiB: log2 of their number */
#define SIRDMA_PBL_SPARSE_BYTES (1ull << (SIRDMA_PBL_SPARSE_BITS + 12))
/*
 * The block has no memory for now: whoever needs it tries again, for a while. The entry is
 * written anew when it has, and a doorbell of a queue pair that sends or reads makes it
 * try at once.
 *
 * Entries of a region that is registered with SIRDMA_CQP_STAG_MAY_FAULT, and those of a sparse list, may
 * change at any time. The driver writes an entry in one store, and the device reads it in one load, anew for
 * each burst that it sends and each batch of packets that it receives. One that read the entry before it was
 * written may still be under way: the memory that an entry named stays the device's until a write of the
 * region's protection domain to SIRDMA_REG_PBLESYNC that followed has ended, or the region has, which is when
 * DEALLOC_STAG completes. Until then the driver does not give it to anybody else. The same holds for the tables
 * and leaves of a sparse list. Entries of the root of a two-level list do not change, nor do those of
 * a queue until it is destroyed. The device writes entries of its own lists of fast registration only
 * (ALLOC_STAG in cqp.h).
 */
#define SIRDMA_PBLE_ABSENT SIRDMA_BIT(0)
/*
 * The driver could not find memory for the block, which a queue pair asked for: the next access of
 * that one fails (prq.h), if it has the same generation still. For all others the block is absent.
 */
#define SIRDMA_PBLE_ERROR SIRDMA_BIT(1)
#define SIRDMA_PBLE_ERROR_QPN SIRDMA_MASK(35, 12)
#define SIRDMA_PBLE_ERROR_GEN SIRDMA_MASK(55, 36) /* SIRDMA_PRQ_GEN of the request */

/* Buffer of QUERY_FPM: the limits of the device. */
struct sirdma_fpm_query {
	__le32 max_qps;
	__le32 max_cqs;
	__le32 max_mrs;
	__le32 max_pds;
	__le32 max_pbles; /* highest PBLE count the HMC space may be grown to */
	__le32 max_sds;
	__le32 max_ceqs;
	__le32 max_arp;
	__le32 max_sgids;
	__le32 max_ahs;
	__le32 max_srqs;
	__le32 max_ird; /* inbound READs and atomics per QP */
	__le32 max_ord; /* outbound */
	__le32 max_cqe; /* elements of the largest CQ */
	__le32 max_mcast_grps;
	__le32 rsvd[17];
};
SIRDMA_SIZE_IS(struct sirdma_fpm_query, 128);

/* Buffer of COMMIT_FPM: where the array of each kind of object starts, and its length. */
struct sirdma_fpm_commit {
	struct {
		__le32 base; /* in units of SIRDMA_HMC_FPM_UNIT bytes of HMC space */
		__le32 count; /* 0: not in host memory */
	} obj[SIRDMA_HMC_OBJ_MAX];
};
SIRDMA_SIZE_IS(struct sirdma_fpm_commit, 168);
#define SIRDMA_HMC_FPM_UNIT 512

#endif
