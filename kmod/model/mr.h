/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions: keys, bounds, rights, protection domains, and their bytes. */
#ifndef SNIC_MR_H
#define SNIC_MR_H

#include "run.h"
#include "slot.h"
#include "sirdma/cqe.h"
#include "sirdma/cqp.h"

struct snic_dev;

/* The memory that a VALID slot describes. */
struct snic_mapping {
	u64 base; /* first address: a VA, or 0 if zero-based */
	u64 len; /* base + len does not wrap */
	union {
		u64 addr; /* level 0: DMA address of the first block */
		struct {
			u64 first_pble : 28; /* levels 1 and 2 */
			u64 first_block : 36; /* of the list; not 0 for a window only */
		};
	};
	u32 first_block_off : 30; /* offset of the first byte in its block */
	/* level 0: each access asks whether there is memory; another: entries of the page list change */
	u32 may_fault : 1;
	u32 sparse : 1; /* level 2: the list is sparse (sirdma/hmc.h) */
	u32 pd : 18; /* the number of a PD, or SNIC_PD_OF_QP */
	u32 access : 7; /* SIRDMA_ACCESS_* */
	u32 level : 2; /* level of the page list, or SNIC_LEVEL_ALL */
	u32 block_shift : 5; /* log2 of the bytes of a block: 12, 21 or 30 */
};

static inline u64 snic_map_blocks(const struct snic_mapping *map)
{
	return (map->first_block_off + map->len + (1ull << map->block_shift) - 1) >>
	       map->block_shift;
}

#define SNIC_STAG_KEY_BITS 8 /* the lowest bits of a stag; the others are the index of its slot */

/* The protection domain that a command names. */
static inline u32 snic_stag_pd(const struct sirdma_cqp_stag *cmd)
{
	return SIRDMA_GET(SIRDMA_CQP_STAG_PDID_LO, le64_to_cpu(cmd->len_pd)) |
	       SIRDMA_GET(SIRDMA_CQP_STAG_PDID_HI, le64_to_cpu(cmd->pd_hi)) << 18;
}

#define SNIC_LEVEL_ALL 3 /* the region is all memory: addresses are DMA addresses */
#define SNIC_PD_OF_QP 0x3ffff /* no number of a PD: a type 2 window, which belongs to one QP */

/* A lookup reads this one cache line only. */
struct snic_mr {
	struct snic_slot slot;
	struct snic_mapping map;
};

SIRDMA_STATIC_ASSERT(sizeof(struct snic_mr) <= 64, "one cache line");

/*
 * The region of @stag if [va, va + len) may be used with all of @access by @pd;
 * *ae = SIRDMA_AE_NONE. Else NULL and *ae names the violation (one of
 * SIRDMA_AE_AMP_*), counted. A zero @len checks key, PD and rights only.
 * Pair with snic_mr_put(). Never sleeps.
 *
 * snic_mr_get_qp() does the same for QP @qpn, which may also use the windows that it bound.
 */
struct snic_mr *snic_mr_get_qp(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn, u64 va, u64 len,
			       u8 access, enum sirdma_ae_code *ae);

/* As snic_mr_get_qp(), but a violation is neither counted nor named. */
struct snic_mr *snic_mr_try_qp(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn, u64 va, u64 len,
			       u8 access);

static inline struct snic_mr *snic_mr_get(struct snic_dev *dev, u32 stag, u32 pd, u64 va, u64 len,
					  u8 access, enum sirdma_ae_code *ae)
{
	return snic_mr_get_qp(dev, stag, pd, 0, va, len, access, ae);
}

static inline void snic_mr_put(struct snic_mr *mr)
{
	snic_slot_put(&mr->slot);
}

enum snic_invalidate {
	SNIC_INVALIDATE_DONE, /* the key was invalid already */
	SNIC_INVALIDATE_STARTED, /* nobody uses the memory by the key once the callback is called */
	SNIC_INVALIDATE_BUSY, /* the slot is about to change its state: try again at once */
	SNIC_INVALIDATE_REFUSED,
};

/* The operation that invalidates a key */
enum snic_inv_why {
	SNIC_INV_LOCAL, /* LOCAL_INV, or the end of a READ_LOC_INV */
	SNIC_INV_REMOTE, /* the SEND_INV of the peer */
	SNIC_INV_REBIND, /* BIND_MW of a type 1 window; only this operation ends its binding */
};

/*
 * Invalidate @stag for QP @qpn of @pd. A key of a region that is invalid already is no error (its
 * PD is not checked then, since nothing changes); that of a window is. @callback as in
 * snic_slot_invalidate(): it may be called at once. REFUSED: counted.
 */
enum snic_invalidate snic_mr_invalidate(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn,
					enum snic_inv_why why, struct snic_slot_callback *callback);

/*
 * Returns true if the device would accept that invalidation. Returns false, and counts the refusal,
 * if it would not. Nothing changes.
 */
bool snic_mr_may_invalidate(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn, enum snic_inv_why why);

enum snic_mem {
	SNIC_MEM_OK,
	SNIC_MEM_ABSENT, /* the driver has no memory there now: the caller tries again later */
	SNIC_MEM_ERROR, /* the driver found no memory there: the access fails */
	SNIC_MEM_FAULT, /* an HMC fault, or no memory at that address */
};

/* Are all of [va, va + len) in the region? */
static inline bool snic_mr_covers(const struct snic_mr *mr, u64 va, u32 len)
{
	return va >= mr->map.base && va - mr->map.base <= mr->map.len &&
	       len <= mr->map.len - (va - mr->map.base);
}

/*
 * May memory of the region be missing without a page list that says so? Such a region has no runs:
 * port_dma_read() and port_dma_write() copy its bytes.
 */
static inline bool snic_mr_may_fault(const struct snic_mr *mr)
{
	return PORT_MEMORY_MAY_FAULT && unlikely(mr->map.may_fault) && !mr->map.level;
}

/* Does a reference to the region keep the memory at its addresses? */
static inline bool snic_mr_keeps_memory(const struct snic_mr *mr)
{
	return mr->map.level != SNIC_LEVEL_ALL && !mr->map.may_fault && !mr->map.sparse;
}

/* DMA address of @va, which is in @mr, a region of level 0. */
static inline u64 snic_mr_addr(const struct snic_mr *mr, u64 va)
{
	return mr->map.addr + mr->map.first_block_off + (va - mr->map.base);
}

/*
 * The violation after an access to a region that may fault returned @err, counted. SIRDMA_AE_NONE: the
 * memory is absent, and the caller tries again later.
 */
enum sirdma_ae_code snic_mr_faulted(struct snic_dev *dev, int err);

/*
 * The run of @mr that has @va: the part of one block that lies in the region; of level 0 the whole
 * region, up to 1 GiB of it; of a region of all memory [va, va + len). That range was checked by
 * snic_mr_get(). The run may be used until snic_mr_put(), and no longer: by the last reference a
 * driver knows that memory is its own again, also memory that a PBLE named before (sirdma/hmc.h).
 * Unless OK, @run is empty.
 */
enum snic_mem snic_mr_run(struct snic_dev *dev, const struct snic_mr *mr, u64 va, u32 len,
			  struct snic_run *run);
/*
 * snic_mr_run() returned SNIC_MEM_ERROR at @va: the entry, which names the QP whose access fails; 0: it
 * is no such mark any more.
 */
u64 snic_mr_error_mark(struct snic_dev *dev, const struct snic_mr *mr, u64 va);

/*
 * CQP handlers. ALLOC_STAG allocates a FREE slot, of a region (fast.h) or of a window. REG_MR makes
 * that of a region VALID; for an index without a slot it does both; with SIRDMA_CQP_STAG_REPLACE it
 * replaces a VALID one. QUERY_STAG returns the rights,
 * level and page size of a region or bound window as the header bits of REG_MR
 * (SIRDMA_CQP_STAG_ARIGHTS, _ATOMICS, _LPBLSIZE, _HPAGESIZE, _ALL_MEMORY, _MAY_FAULT, _MR).
 */
u32 snic_cqp_alloc_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_reg_mr(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_dealloc_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_query_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
/* log2 of the bytes of a block; 0 if @hpage is no enum sirdma_hpage_size. */
u32 snic_hpage_shift(u32 hpage);
/* Returns false if the rights contradict each other (IBTA 10.6.3.1). */
static inline bool snic_access_consistent(u32 access)
{
	return !(access & (SIRDMA_ACCESS_REMOTE_WRITE | SIRDMA_ACCESS_REMOTE_ATOMIC)) ||
	       (access & SIRDMA_ACCESS_LOCAL_WRITE);
}
/* Free every region at the device's teardown. */
void snic_mr_destroy_all(struct snic_dev *dev);

#endif
