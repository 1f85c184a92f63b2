/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions: keys, bounds, rights, protection domains, and their bytes. */
#ifndef SNIC_MR_H
#define SNIC_MR_H

#include "slot.h"
#include "sirdma/cqe.h"
#include "sirdma/cqp.h"

struct snic_dev;

/* The memory that a VALID slot describes. */
struct snic_mapping {
	u64 base; /* first address: VA, or 0 when zero based */
	u64 len; /* base + len does not wrap */
	union {
		u64 addr; /* level 0: DMA address of the first block */
		struct {
			u32 first_pble; /* levels 1 and 2 */
			u32 first_block; /* of the list; not 0 for a window only */
		};
	};
	u32 first_block_off; /* offset of the first byte in its block */
	u32 pd : 18; /* or SNIC_PD_OF_QP */
	u32 access : 7; /* SIRDMA_ACCESS_* */
	u32 level : 2; /* of its page list, or SNIC_LEVEL_ALL */
	u32 block_shift : 5; /* 12, 21, 30 */
};

static inline u64 snic_map_blocks(const struct snic_mapping *map)
{
	return (map->first_block_off + map->len + (1ull << map->block_shift) - 1) >>
	       map->block_shift;
}

#define SNIC_STAG_KEY_BITS 8 /* of a stag, the lowest; the others are the index of its slot */

/* The protection domain of a command. */
static inline u32 snic_stag_pd(const struct sirdma_cqp_stag *cmd)
{
	return SIRDMA_GET(SIRDMA_CQP_STAG_PDID_LO, le64_to_cpu(cmd->len_pd)) |
	       SIRDMA_GET(SIRDMA_CQP_STAG_PDID_HI, le64_to_cpu(cmd->pd_hi)) << 18;
}

#define SNIC_LEVEL_ALL 3 /* all memory: addresses are DMA addresses */
#define SNIC_PD_OF_QP 0x3ffff /* no PD's number: a type 2 window, which is one QP's */

/* One cache line, all that a lookup reads. */
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
	SNIC_INVALIDATE_DONE, /* the key is invalid already */
	SNIC_INVALIDATE_STARTED, /* nobody uses the memory by the key once the callback is called */
	SNIC_INVALIDATE_BUSY, /* the slot is about to change its state: try again at once */
	SNIC_INVALIDATE_REFUSED,
};

/* Who invalidates a key */
enum snic_inv_why {
	SNIC_INV_LOCAL, /* LOCAL_INV, or the end of a READ_LOC_INV */
	SNIC_INV_REMOTE, /* the peer's SEND_INV */
	SNIC_INV_REBIND, /* BIND_MW of a window of type 1, which only this ends */
};

/*
 * Invalidate @stag for QP @qpn of @pd. A key of a region that is invalid already is no error (its
 * PD is not checked then, since nothing changes); that of a window is. @callback as in
 * snic_slot_invalidate(): it may be called at once. REFUSED: counted.
 */
enum snic_invalidate snic_mr_invalidate(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn,
					enum snic_inv_why why, struct snic_slot_callback *callback);

/* Would that be refused? False: yes, counted. Nothing changes. */
bool snic_mr_may_invalidate(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn, enum snic_inv_why why);

enum snic_mem {
	SNIC_MEM_OK,
	SNIC_MEM_ABSENT, /* the driver has no memory there at present: try again later */
	SNIC_MEM_FAULT, /* an HMC fault, or no memory at that address */
};

/*
 * *p: the bytes at @va; *run (≤ @len): how many of them are contiguous. [va, va + len) was
 * checked by snic_mr_get(). The pointer may be used until snic_mr_put(), and no longer: by
 * the last reference a driver knows that memory is its own again, also memory that a PBLE
 * named before (sirdma/hmc.h).
 */
enum snic_mem snic_mr_ptr(struct snic_dev *dev, const struct snic_mr *mr, u64 va, u32 len, void **p,
			  u32 *run);

/*
 * CQP handlers. ALLOC_STAG allocates a FREE slot, of a region (fast.h) or of a window. REG_MR makes
 * that of a region VALID; for an index without a slot it does both. QUERY_STAG returns the rights, level
 * and page size of a region or bound window as the header bits of REG_MR (SIRDMA_CQP_STAG_ARIGHTS, _ATOMICS, _LPBLSIZE,
 * _HPAGESIZE, _ALL_MEMORY, _MR).
 */
u32 snic_cqp_alloc_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_reg_mr(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_dealloc_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_query_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
/* log2 of the bytes of a block; 0: @hpage is no enum sirdma_hpage_size. */
u32 snic_hpage_shift(u32 hpage);
/* False: the rights contradict each other (IBTA 10.6.3.1). */
static inline bool snic_access_consistent(u32 access)
{
	return !(access & (SIRDMA_ACCESS_REMOTE_WRITE | SIRDMA_ACCESS_REMOTE_ATOMIC)) ||
	       (access & SIRDMA_ACCESS_LOCAL_WRITE);
}
/* Device teardown: free every region. */
void snic_mr_destroy_all(struct snic_dev *dev);

#endif
