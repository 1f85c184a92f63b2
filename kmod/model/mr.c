// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory regions: registration, checks, and the bytes behind an address. */
#include "mr.h"
#include "dev.h"

#define STAG_KEY_BITS 8

static u64 block_size(const struct snic_mr *mr)
{
	return 1ull << mr->block_shift;
}

static u64 block_count(const struct snic_mr *mr)
{
	return (mr->first_block_off + mr->len + block_size(mr) - 1) >> mr->block_shift;
}

/* Index of the PBLE that names block @block; levels 1 and 2. */
static bool mr_pble(struct snic_dev *dev, const struct snic_mr *mr, u64 block, u32 *idx)
{
	u64 leaf;

	if (mr->level == 1) {
		*idx = mr->first_pble + block;
		return true;
	}
	if (!snic_pble_read(dev, mr->first_pble + block / SIRDMA_PBLE_PER_LEAF, &leaf))
		return false;
	if (unlikely(leaf & ~SIRDMA_PBLE_LEAF_IDX)) {
		snic_stat_inc(dev, SIRDMA_STAT_HMC_FAULTS);
		return false;
	}
	*idx = leaf + block % SIRDMA_PBLE_PER_LEAF;
	return true;
}

/* DMA address of block @block. */
static bool mr_block(struct snic_dev *dev, const struct snic_mr *mr, u64 block, u64 *addr)
{
	u32 idx;

	if (!mr_pble(dev, mr, block, &idx) || !snic_pble_read(dev, idx, addr))
		return false;
	if (unlikely(*addr & (block_size(mr) - 1))) {
		snic_stat_inc(dev, SIRDMA_STAT_HMC_FAULTS);
		return false;
	}
	return true;
}

void *snic_mr_ptr(struct snic_dev *dev, const struct snic_mr *mr, u64 va, u32 len, u32 *run)
{
	u64 off = va - mr->base + mr->first_block_off;
	u64 in_block = off & (block_size(mr) - 1), addr;

	if (mr->level == 0) {
		*run = len;
		return mr->all_memory ? port_dma_ptr_checked(dev->dma, va, len) :
					port_dma_ptr(dev->dma, mr->addr + off, len);
	}
	if (!mr_block(dev, mr, off >> mr->block_shift, &addr))
		return NULL;
	*run = min_t(u64, len, block_size(mr) - in_block);
	return port_dma_ptr(dev->dma, addr + in_block, *run);
}

/* Which rule the access breaks, if any: key before PD before rights before bounds. */
static enum sirdma_ae_code mr_check(const struct snic_mr *mr, u32 stag, u32 pd, u64 va, u64 len,
				    u8 access, enum sirdma_stat *stat)
{
	u64 off = va - mr->base;

	if (mr->key != (stag & ((1u << STAG_KEY_BITS) - 1))) {
		*stat = SIRDMA_STAT_MR_INVALID_KEY;
		return SIRDMA_AE_AMP_BAD_STAG_KEY;
	}
	if (mr->pd != pd) {
		*stat = SIRDMA_STAT_MR_BAD_PD;
		return SIRDMA_AE_AMP_BAD_PD;
	}
	if ((mr->access & access) != access) {
		*stat = SIRDMA_STAT_MR_BAD_ACCESS;
		return SIRDMA_AE_AMP_RIGHTS_VIOLATION;
	}
	if (!len)
		return SIRDMA_AE_NONE;
	*stat = SIRDMA_STAT_MR_BAD_RANGE;
	if (va + len - 1 < va)
		return SIRDMA_AE_AMP_TO_WRAP;
	/* base + len does not wrap, so an address below base gives an offset beyond len. */
	if (off >= mr->len || len > mr->len - off)
		return SIRDMA_AE_AMP_BOUNDS_VIOLATION;
	return SIRDMA_AE_NONE;
}

struct snic_mr *snic_mr_get(struct snic_dev *dev, u32 stag, u32 pd, u64 va, u64 len, u8 access,
			    enum sirdma_ae_code *ae)
{
	u32 idx = stag >> STAG_KEY_BITS;
	struct snic_obj *obj = snic_table_get(&dev->mrs, idx);
	enum sirdma_stat stat;
	struct snic_mr *mr;

	if (unlikely(!obj)) {
		snic_stat_inc(dev, SIRDMA_STAT_MR_INVALID_KEY);
		*ae = idx < dev->cfg.max_mrs ? SIRDMA_AE_AMP_UNALLOCATED_STAG :
					       SIRDMA_AE_AMP_BAD_STAG_INDEX;
		return NULL;
	}
	mr = container_of(obj, struct snic_mr, obj);
	*ae = mr_check(mr, stag, pd, va, len, access, &stat);
	if (likely(*ae == SIRDMA_AE_NONE))
		return mr;
	snic_stat_inc(dev, stat);
	snic_mr_put(mr);
	return NULL;
}

/* Rights as the command spells them, or false when they contradict each other. */
static bool mr_decode_access(u64 hdr, u8 *access)
{
	const u8 remote = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			  SIRDMA_ACCESS_REMOTE_ATOMIC;
	const u8 modify = SIRDMA_ACCESS_REMOTE_WRITE | SIRDMA_ACCESS_REMOTE_ATOMIC;

	*access = SIRDMA_GET(SIRDMA_CQP_STAG_ARIGHTS, hdr);
	if (hdr & SIRDMA_CQP_STAG_ATOMICS)
		*access |= SIRDMA_ACCESS_REMOTE_ATOMIC;
	if ((*access & remote) && !(hdr & SIRDMA_CQP_STAG_REMACCENABLED))
		return false;
	/* IBTA 10.6.3.1: who lets peers modify a region must be allowed to modify it. */
	return !(*access & modify) || (*access & SIRDMA_ACCESS_LOCAL_WRITE);
}

/* The region of all memory: its command names no part of it. */
static u32 mr_decode_all_memory(const struct sirdma_cqp_stag *cmd, struct snic_mr *mr)
{
	u64 hdr = le64_to_cpu(cmd->hdr);

	if (mr->level || mr->len || cmd->va || cmd->addr || !(hdr & SIRDMA_CQP_STAG_VABASED))
		return SIRDMA_CQP_BAD_PARAM;
	mr->all_memory = true;
	/* All but the very last byte, so that the end does not wrap. */
	mr->len = ~0ull;
	return SIRDMA_CQP_OK;
}

static u32 mr_decode(struct snic_dev *dev, const struct sirdma_cqp_stag *cmd, struct snic_mr *mr)
{
	static const u8 shifts[] = {
		[SIRDMA_HPAGE_4K] = 12,
		[SIRDMA_HPAGE_2M] = 21,
		[SIRDMA_HPAGE_1G] = 30,
	};
	u64 hdr = le64_to_cpu(cmd->hdr), len_pd = le64_to_cpu(cmd->len_pd);
	u64 va = le64_to_cpu(cmd->va), stag = le64_to_cpu(cmd->stag);
	u32 hpage = SIRDMA_GET(SIRDMA_CQP_STAG_HPAGESIZE, hdr);

	mr->obj.id = SIRDMA_GET(SIRDMA_CQP_STAG_IDX, stag);
	mr->key = SIRDMA_GET(SIRDMA_CQP_STAG_KEY, stag);
	mr->len = SIRDMA_GET(SIRDMA_CQP_STAG_LEN, len_pd);
	mr->pd = SIRDMA_GET(SIRDMA_CQP_STAG_PDID_LO, len_pd) |
		 SIRDMA_GET(SIRDMA_CQP_STAG_PDID_HI, le64_to_cpu(cmd->pd_hi)) << 18;
	mr->level = SIRDMA_GET(SIRDMA_CQP_STAG_LPBLSIZE, hdr);
	if (!mr->obj.id || mr->obj.id >= dev->cfg.max_mrs || mr->pd >= dev->cfg.max_pds)
		return SIRDMA_CQP_BAD_INDEX;
	if (!(hdr & SIRDMA_CQP_STAG_MR) || mr->level > 2 || hpage >= ARRAY_SIZE(shifts) ||
	    !mr_decode_access(hdr, &mr->access))
		return SIRDMA_CQP_BAD_PARAM;
	mr->block_shift = shifts[hpage];
	if (hdr & SIRDMA_CQP_STAG_ALL_MEMORY)
		return mr_decode_all_memory(cmd, mr);
	if (!mr->len)
		return SIRDMA_CQP_BAD_PARAM;
	mr->first_block_off = va & (block_size(mr) - 1);
	if (hdr & SIRDMA_CQP_STAG_VABASED)
		mr->base = va;
	else if (va >= block_size(mr))
		return SIRDMA_CQP_BAD_PARAM;
	if (mr->base + mr->len < mr->base)
		return SIRDMA_CQP_BAD_PARAM;
	mr->addr = le64_to_cpu(cmd->addr);
	mr->first_pble = SIRDMA_GET(SIRDMA_CQP_FIRST_PBLE, le64_to_cpu(cmd->first_pble));
	return SIRDMA_CQP_OK;
}

/*
 * Does the list resolve? Its ranges are checked in full, its first and last
 * block by looking them up; each access resolves its block again anyway.
 */
static u32 mr_check_list(struct snic_dev *dev, const struct snic_mr *mr)
{
	u64 blocks = block_count(mr), entries = blocks, count = READ_ONCE(dev->hmc.pble_count);
	u64 last = mr->base + mr->len - 1, end;
	u32 run;

	if (mr->all_memory)
		return SIRDMA_CQP_OK;
	if (mr->level == 0) {
		end = mr->addr + mr->first_block_off + mr->len;
		if ((mr->addr & (block_size(mr) - 1)) || end < mr->addr)
			return SIRDMA_CQP_BAD_ADDRESS;
	} else {
		if (mr->level == 2)
			entries = (blocks + SIRDMA_PBLE_PER_LEAF - 1) / SIRDMA_PBLE_PER_LEAF;
		if (mr->first_pble >= count || entries > count - mr->first_pble)
			return SIRDMA_CQP_BAD_ADDRESS;
	}
	if (!snic_mr_ptr(dev, mr, mr->base, 1, &run) || !snic_mr_ptr(dev, mr, last, 1, &run))
		return SIRDMA_CQP_BAD_ADDRESS;
	return SIRDMA_CQP_OK;
}

static u32 mr_insert(struct snic_dev *dev, struct snic_mr *mr)
{
	switch (snic_table_insert(&dev->mrs, mr->obj.id, &mr->obj)) {
	case 0:
		return SIRDMA_CQP_OK;
	case -EBUSY:
		return SIRDMA_CQP_IN_USE;
	case -ENOMEM:
		return SIRDMA_CQP_NO_MEMORY;
	default:
		return SIRDMA_CQP_BAD_INDEX;
	}
}

u32 snic_cqp_reg_mr(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_stag *cmd = (const void *)wqe;
	struct snic_mr *mr;
	u32 status;

	mr = port_alloc_charged(sizeof(*mr));
	if (!mr)
		return SIRDMA_CQP_NO_MEMORY;
	snic_obj_init(&mr->obj);
	status = mr_decode(dev, cmd, mr);
	if (!status)
		status = mr_check_list(dev, mr);
	if (!status)
		status = mr_insert(dev, mr);
	if (status)
		port_free(mr);
	return status;
}

/* The region that index and key of a command name, referenced; else NULL. */
static struct snic_mr *mr_by_stag(struct snic_dev *dev, const struct sirdma_cqp_stag *cmd,
				  u32 *status)
{
	u64 stag = le64_to_cpu(cmd->stag);
	u32 idx = SIRDMA_GET(SIRDMA_CQP_STAG_IDX, stag);
	struct snic_obj *obj;
	struct snic_mr *mr;

	*status = idx && idx < dev->cfg.max_mrs ? SIRDMA_CQP_NO_OBJECT : SIRDMA_CQP_BAD_INDEX;
	obj = snic_table_get(&dev->mrs, idx);
	if (!obj)
		return NULL;
	mr = container_of(obj, struct snic_mr, obj);
	if (mr->key != SIRDMA_GET(SIRDMA_CQP_STAG_KEY, stag)) {
		snic_mr_put(mr);
		return NULL;
	}
	*status = SIRDMA_CQP_OK;
	return mr;
}

u32 snic_cqp_dealloc_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_mr *mr;
	u32 status;

	mr = mr_by_stag(dev, (const void *)wqe, &status);
	if (!mr)
		return status;
	snic_table_remove(&dev->mrs, mr->obj.id);
	snic_mr_put(mr);
	/* From here on no one finds the region; those who already did are waited for. */
	snic_obj_drain(&mr->obj);
	snic_revoke(dev);
	port_free_rcu(mr, obj.rcu);
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_query_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_mr *mr;
	u32 status, hpage;

	mr = mr_by_stag(dev, (const void *)wqe, &status);
	if (!mr)
		return status;
	hpage = mr->block_shift == 30 ? SIRDMA_HPAGE_1G :
		mr->block_shift == 21 ? SIRDMA_HPAGE_2M :
					SIRDMA_HPAGE_4K;
	*ret = SIRDMA_CQP_STAG_MR | SIRDMA_PREP(SIRDMA_CQP_STAG_ARIGHTS, mr->access) |
	       SIRDMA_PREP(SIRDMA_CQP_STAG_LPBLSIZE, mr->level) |
	       SIRDMA_PREP(SIRDMA_CQP_STAG_HPAGESIZE, hpage);
	if (mr->access & SIRDMA_ACCESS_REMOTE_ATOMIC)
		*ret |= SIRDMA_CQP_STAG_ATOMICS;
	if (mr->all_memory)
		*ret |= SIRDMA_CQP_STAG_ALL_MEMORY;
	snic_mr_put(mr);
	return SIRDMA_CQP_OK;
}

void snic_mr_destroy_all(struct snic_dev *dev)
{
	struct snic_obj *obj;
	struct snic_mr *mr;
	u32 id = 0;

	while ((obj = snic_table_next(&dev->mrs, &id))) {
		snic_table_remove(&dev->mrs, id);
		snic_obj_drain(obj);
		mr = container_of(obj, struct snic_mr, obj);
		port_free_rcu(mr, obj.rcu);
	}
}
