// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory regions: registration, checks, and the bytes behind an address. */
#include "mw.h"
#include "dev.h"
#include "fast.h"

#define MR_LONGEST_RUN (1ull << 30)

#define SPARSE_TABLE_BITS 9
_Static_assert(1u << SPARSE_TABLE_BITS == SIRDMA_PBLE_PER_LEAF, "entries of a table");
/* Where a table or a leaf of a sparse list may begin. */
#define SPARSE_TABLE_IDX (SIRDMA_PBLE_LEAF_IDX & ~(u64)(SIRDMA_PBLE_PER_LEAF - 1))

/* The length of a region of all memory: all bytes but the very last, so that its end does not wrap. */
#define MR_ALL_BYTES (~0ull)

static bool mr_is_of_all_memory(const struct snic_mr *mr)
{
	return mr->map.len == MR_ALL_BYTES;
}

static u64 block_size(const struct snic_mr *mr)
{
	return 1ull << mr->map.block_shift;
}

/* The meaning of a PBLE that is not what its place in the list asks for. */
static enum snic_mem mr_no_block(struct snic_dev *dev, u64 entry)
{
	if (entry & SIRDMA_PBLE_ABSENT)
		return SNIC_MEM_ABSENT;
	if (entry & SIRDMA_PBLE_ERROR)
		return SNIC_MEM_ERROR;
	snic_stat_inc(dev, SIRDMA_STAT_HMC_FAULTS);
	return SNIC_MEM_FAULT;
}

/* Read the PBLE that names block @block of a sparse list, or the entry at which its tables end. */
static enum snic_mem mr_read_sparse(struct snic_dev *dev, u32 table, u64 block, u64 *entry)
{
	u32 shift = SIRDMA_PBL_SPARSE_BITS;

	for (;;) {
		shift -= SPARSE_TABLE_BITS;
		if (!snic_pble_read(dev, table + (block >> shift) % SIRDMA_PBLE_PER_LEAF, entry))
			return SNIC_MEM_FAULT;
		if (!shift)
			return SNIC_MEM_OK;
		if (*entry & ~SPARSE_TABLE_IDX)
			return mr_no_block(dev, *entry);
		table = *entry;
	}
}

/* Read the PBLE that names block @block, for levels 1 and 2. */
static enum snic_mem mr_read_pble(struct snic_dev *dev, const struct snic_mr *mr, u64 block,
				  u64 *entry)
{
	u32 idx = mr->map.first_pble;
	u64 leaf;

	block += mr->map.first_block;
	if (mr->map.sparse)
		return mr_read_sparse(dev, idx, block, entry);
	if (mr->map.level == 1) {
		idx += block;
	} else {
		if (!snic_pble_read(dev, idx + block / SIRDMA_PBLE_PER_LEAF, &leaf))
			return SNIC_MEM_FAULT;
		if (unlikely(leaf & ~SIRDMA_PBLE_LEAF_IDX)) {
			snic_stat_inc(dev, SIRDMA_STAT_HMC_FAULTS);
			return SNIC_MEM_FAULT;
		}
		idx = leaf + block % SIRDMA_PBLE_PER_LEAF;
	}
	return snic_pble_read(dev, idx, entry) ? SNIC_MEM_OK : SNIC_MEM_FAULT;
}

/* DMA address of block @block. */
static enum snic_mem mr_block(struct snic_dev *dev, const struct snic_mr *mr, u64 block, u64 *addr)
{
	enum snic_mem mem = mr_read_pble(dev, mr, block, addr);

	if (unlikely(mem != SNIC_MEM_OK))
		return mem;
	if (likely(!(*addr & (block_size(mr) - 1))))
		return SNIC_MEM_OK;
	return mr_no_block(dev, *addr);
}

u64 snic_mr_error_mark(struct snic_dev *dev, const struct snic_mr *mr, u64 va)
{
	u64 off = va - mr->map.base + mr->map.first_block_off, entry;

	if (mr_block(dev, mr, off >> mr->map.block_shift, &entry) != SNIC_MEM_ERROR)
		return 0; /* the driver has written the entry again */
	return entry;
}

enum sirdma_ae_code snic_mr_faulted(struct snic_dev *dev, int err)
{
	snic_stat_inc(dev, err == -EAGAIN ? SIRDMA_STAT_MR_ABSENT : SIRDMA_STAT_PAGE_ERRORS);
	return err == -EAGAIN ? SIRDMA_AE_NONE : SIRDMA_AE_AMP_BOUNDS_VIOLATION;
}

/* The driver vouches for none of this memory: check each address. */
static noinline enum snic_mem mr_run_checked(struct snic_dev *dev, u64 va, u32 len,
					     struct snic_run *run)
{
	run->va = va;
	run->ptr = port_dma_ptr_checked(dev->dma, va, len);
	run->len = run->ptr ? len : 0;
	return run->ptr ? SNIC_MEM_OK : SNIC_MEM_FAULT;
}

enum snic_mem snic_mr_run(struct snic_dev *dev, const struct snic_mr *mr, u64 va, u32 len,
			  struct snic_run *run)
{
	/*
	 * A region of level 0 is contiguous. The length of a run is limited so that it fits a u32.
	 */
	u64 block = mr->map.level ? block_size(mr) : MR_LONGEST_RUN;
	u64 in_region = va - mr->map.base, off = in_region + mr->map.first_block_off;
	u64 in_block = off & (block - 1), before = min(in_block, in_region);
	u64 size = before + min(block - in_block, mr->map.len - in_region);
	u64 addr = mr->map.addr + off - in_block;
	enum snic_mem mem;

	run->len = 0;
	if (unlikely(mr->map.level == SNIC_LEVEL_ALL))
		return mr_run_checked(dev, va, len, run);
	if (mr->map.level) {
		mem = mr_block(dev, mr, off >> mr->map.block_shift, &addr);
		if (mem != SNIC_MEM_OK)
			return mem;
	}
	run->va = va - before;
	run->ptr = port_dma_ptr(dev->dma, addr + in_block - before, (u32)size);
	if (unlikely(!run->ptr))
		return SNIC_MEM_FAULT;
	run->len = (u32)size;
	return SNIC_MEM_OK;
}

/*
 * The rule that the access breaks, if any. The rules are checked in the order key, PD, rights,
 * bounds.
 */
static enum sirdma_ae_code mr_check(const struct snic_mr *mr, u32 stag, u32 pd, u32 qpn, u64 va,
				    u64 len, u8 access, enum sirdma_stat *stat)
{
	u64 off = va - mr->map.base;

	if (snic_slot_key(&mr->slot) != (stag & ((1u << SNIC_STAG_KEY_BITS) - 1))) {
		*stat = SIRDMA_STAT_MR_INVALID_KEY;
		return SIRDMA_AE_AMP_BAD_STAG_KEY;
	}
	if (mr->map.pd != pd && !snic_mw_is_of_qp(mr, pd, qpn)) {
		*stat = SIRDMA_STAT_MR_BAD_PD;
		return mr->map.pd == SNIC_PD_OF_QP ? SIRDMA_AE_AMP_BAD_QP : SIRDMA_AE_AMP_BAD_PD;
	}
	if ((mr->map.access & access) != access) {
		*stat = SIRDMA_STAT_MR_BAD_ACCESS;
		return SIRDMA_AE_AMP_RIGHTS_VIOLATION;
	}
	if (!len)
		return SIRDMA_AE_NONE;
	*stat = SIRDMA_STAT_MR_BAD_RANGE;
	if (va + len - 1 < va)
		return SIRDMA_AE_AMP_TO_WRAP;
	/* base + len does not wrap, so an address below base gives an offset beyond len. */
	if (off >= mr->map.len || len > mr->map.len - off)
		return SIRDMA_AE_AMP_BOUNDS_VIOLATION;
	return SIRDMA_AE_NONE;
}

/* snic_mr_get_qp(), but *stat is not counted. */
static __always_inline struct snic_mr *mr_find(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn,
					       u64 va, u64 len, u8 access, enum sirdma_ae_code *ae,
					       enum sirdma_stat *stat)
{
	u32 idx = stag >> SNIC_STAG_KEY_BITS;
	struct snic_slot *slot = snic_slot_get(&dev->mrs, idx);
	struct snic_mr *mr;

	if (unlikely(!slot)) {
		*stat = SIRDMA_STAT_MR_INVALID_KEY;
		*ae = idx >= dev->cfg.max_mrs	     ? SIRDMA_AE_AMP_BAD_STAG_INDEX :
		      snic_table_has(&dev->mrs, idx) ? SIRDMA_AE_AMP_INVALID_STAG :
						       SIRDMA_AE_AMP_UNALLOCATED_STAG;
		return NULL;
	}
	mr = container_of(slot, struct snic_mr, slot);
	*ae = mr_check(mr, stag, pd, qpn, va, len, access, stat);
	if (likely(*ae == SIRDMA_AE_NONE))
		return mr;
	snic_mr_put(mr);
	return NULL;
}

struct snic_mr *snic_mr_get_qp(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn, u64 va, u64 len,
			       u8 access, enum sirdma_ae_code *ae)
{
	enum sirdma_stat stat;
	struct snic_mr *mr = mr_find(dev, stag, pd, qpn, va, len, access, ae, &stat);

	if (unlikely(!mr))
		snic_stat_inc(dev, stat);
	return mr;
}

struct snic_mr *snic_mr_try_qp(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn, u64 va, u64 len,
			       u8 access)
{
	enum sirdma_ae_code ae;
	enum sirdma_stat stat;

	return mr_find(dev, stag, pd, qpn, va, len, access, &ae, &stat);
}

/*
 * Check the invalidation of a window. BIND_MW ends the binding of type 1; only its queue pair ends
 * type 2.
 */
static bool mr_check_invalidate_mw(const struct snic_mr *mr, u32 pd, u32 qpn, enum snic_inv_why why)
{
	if (mr->map.pd == SNIC_PD_OF_QP)
		return snic_mw_is_of_qp(mr, pd, qpn);
	/* The index may name another window since the queue pair found its own. */
	return why == SNIC_INV_REBIND && mr->map.pd == pd;
}

/* May QP @qpn of @pd invalidate @mr? The rules are checked in the order key, kind, rights, PD. */
static bool mr_check_invalidate(const struct snic_mr *mr, u32 stag, u32 pd, u32 qpn,
				enum snic_inv_why why, enum sirdma_stat *stat)
{
	const u8 rights = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			  SIRDMA_ACCESS_REMOTE_ATOMIC;

	*stat = SIRDMA_STAT_MR_INVALID_KEY;
	if (snic_slot_key(&mr->slot) != (stag & SNIC_SLOT_KEY))
		return false;
	*stat = SIRDMA_STAT_MR_BAD_INVALIDATE;
	if (snic_slot_is_window(&mr->slot))
		return mr_check_invalidate_mw(mr, pd, qpn, why);
	if (snic_slot_kind(&mr->slot) == SNIC_SLOT_FIXED)
		return false;
	/* Without remote rights the stag is no R_Key. */
	if (why == SNIC_INV_REMOTE && !(mr->map.access & rights))
		return false;
	*stat = SIRDMA_STAT_MR_BAD_PD;
	return mr->map.pd == pd;
}

/* The same for a slot without users: its mapping may change meanwhile. */
static bool mr_check_unused(u32 stag, u64 word, enum sirdma_stat *stat)
{
	*stat = SIRDMA_STAT_MR_INVALID_KEY;
	if (!word || snic_slot_word_state(word) == SNIC_SLOT_REMOVED ||
	    (word & SNIC_SLOT_KEY) != (stag & SNIC_SLOT_KEY))
		return false;
	*stat = SIRDMA_STAT_MR_BAD_INVALIDATE;
	/* A window that is not bound has no key that could become invalid. */
	if (snic_slot_word_kind(word) == SNIC_SLOT_WINDOW &&
	    snic_slot_word_state(word) == SNIC_SLOT_FREE)
		return false;
	return snic_slot_word_kind(word) != SNIC_SLOT_FIXED;
}

static enum snic_invalidate mr_invalidate_unused(struct snic_dev *dev, u32 stag)
{
	u64 word = snic_slot_peek(&dev->mrs, stag >> SNIC_STAG_KEY_BITS);
	enum sirdma_stat stat;

	if (!mr_check_unused(stag, word, &stat)) {
		snic_stat_inc(dev, stat);
		return SNIC_INVALIDATE_REFUSED;
	}
	return snic_slot_word_state(word) == SNIC_SLOT_FREE ? SNIC_INVALIDATE_DONE :
							      SNIC_INVALIDATE_BUSY;
}

enum snic_invalidate snic_mr_invalidate(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn,
					enum snic_inv_why why, struct snic_slot_callback *callback)
{
	enum snic_invalidate ret = SNIC_INVALIDATE_STARTED;
	u32 idx = stag >> SNIC_STAG_KEY_BITS;
	struct snic_slot *slot = snic_slot_get(&dev->mrs, idx);
	bool draining = false;
	enum sirdma_stat stat;

	if (!slot) {
		slot = snic_slot_get_draining(&dev->mrs, idx);
		draining = true;
	}
	if (!slot)
		return mr_invalidate_unused(dev, stag);
	if (!mr_check_invalidate(container_of(slot, struct snic_mr, slot), stag, pd, qpn, why,
				 &stat)) {
		snic_stat_inc(dev, stat);
		ret = SNIC_INVALIDATE_REFUSED;
	} else if (draining) {
		snic_slot_wait(slot, callback);
	} else if (!snic_slot_invalidate(slot, callback)) {
		ret = SNIC_INVALIDATE_BUSY; /* another caller was faster */
		if (snic_slot_has_windows(slot)) {
			snic_stat_inc(dev, SIRDMA_STAT_MR_BAD_INVALIDATE);
			ret = SNIC_INVALIDATE_REFUSED;
		}
	}
	snic_slot_put(slot);
	return ret;
}

bool snic_mr_may_invalidate(struct snic_dev *dev, u32 stag, u32 pd, u32 qpn, enum snic_inv_why why)
{
	u32 idx = stag >> SNIC_STAG_KEY_BITS;
	struct snic_slot *slot = snic_slot_get(&dev->mrs, idx);
	enum sirdma_stat stat;
	bool may;

	if (!slot)
		slot = snic_slot_get_draining(&dev->mrs, idx);
	if (!slot)
		return mr_invalidate_unused(dev, stag) != SNIC_INVALIDATE_REFUSED;
	may = mr_check_invalidate(container_of(slot, struct snic_mr, slot), stag, pd, qpn, why,
				  &stat);
	if (!may)
		snic_stat_inc(dev, stat);
	snic_slot_put(slot);
	return may;
}

/* Decode the access rights of a command. Returns false if they contradict each other. */
static bool mr_decode_access(u64 hdr, u32 *access)
{
	const u8 remote = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			  SIRDMA_ACCESS_REMOTE_ATOMIC | SIRDMA_ACCESS_REMOTE_FLUSH;

	/* All regions may be read locally (IBTA 10.6.3.1), windows may not. */
	*access = SIRDMA_GET(SIRDMA_CQP_STAG_ARIGHTS, hdr) | SIRDMA_ACCESS_LOCAL_READ;
	if (hdr & SIRDMA_CQP_STAG_ATOMICS)
		*access |= SIRDMA_ACCESS_REMOTE_ATOMIC;
	if (hdr & SIRDMA_CQP_STAG_FLUSH)
		*access |= SIRDMA_ACCESS_REMOTE_FLUSH;
	if ((*access & remote) && !(hdr & SIRDMA_CQP_STAG_REMACCENABLED))
		return false;
	return snic_access_consistent(*access);
}

u32 snic_hpage_shift(u32 hpage)
{
	static const u8 shifts[] = {
		[SIRDMA_HPAGE_4K] = 12,
		[SIRDMA_HPAGE_2M] = 21,
		[SIRDMA_HPAGE_1G] = 30,
	};

	return hpage < ARRAY_SIZE(shifts) ? shifts[hpage] : 0;
}

/* A region of all memory: its command must not name an address or a length. */
static u32 mr_decode_all_memory(const struct sirdma_cqp_stag *cmd, struct snic_mapping *map)
{
	u64 hdr = le64_to_cpu(cmd->hdr);

	if (map->level || map->len || cmd->va || cmd->addr || !(hdr & SIRDMA_CQP_STAG_VABASED) ||
	    (hdr & SIRDMA_CQP_STAG_REPLACE))
		return SIRDMA_CQP_BAD_PARAM;
	/* To the device the addresses of a process are contiguous memory, which level 0 describes. */
	if (!map->may_fault)
		map->level = SNIC_LEVEL_ALL;
	map->len = MR_ALL_BYTES;
	return SIRDMA_CQP_OK;
}

/* A region of all addresses that a sparse list can name: its command must name none. */
static u32 mr_decode_sparse(const struct sirdma_cqp_stag *cmd, struct snic_mapping *map)
{
	u64 hdr = le64_to_cpu(cmd->hdr);
	u64 first_pble = SIRDMA_GET(SIRDMA_CQP_FIRST_PBLE, le64_to_cpu(cmd->first_pble));

	if (map->len || cmd->va || cmd->addr || !(hdr & SIRDMA_CQP_STAG_VABASED) ||
	    map->block_shift != SIRDMA_PAGE_SHIFT || (hdr & SIRDMA_CQP_STAG_REPLACE) ||
	    (hdr & SIRDMA_CQP_STAG_ALL_MEMORY))
		return SIRDMA_CQP_BAD_PARAM;
	if (first_pble & ~SPARSE_TABLE_IDX)
		return SIRDMA_CQP_BAD_ADDRESS;
	map->level = 2;
	map->sparse = true;
	map->len = SIRDMA_PBL_SPARSE_BYTES;
	map->first_pble = first_pble;
	return SIRDMA_CQP_OK;
}

static u32 mr_decode(struct snic_dev *dev, const struct sirdma_cqp_stag *cmd,
		     struct snic_mapping *map)
{
	u64 hdr = le64_to_cpu(cmd->hdr), len_pd = le64_to_cpu(cmd->len_pd);
	u64 va = le64_to_cpu(cmd->va), block;
	u32 shift = snic_hpage_shift(SIRDMA_GET(SIRDMA_CQP_STAG_HPAGESIZE, hdr));
	u32 level = SIRDMA_GET(SIRDMA_CQP_STAG_LPBLSIZE, hdr), pd, access;

	pd = snic_stag_pd(cmd);
	if (pd >= dev->cfg.max_pds)
		return SIRDMA_CQP_BAD_INDEX;
	if (!(hdr & SIRDMA_CQP_STAG_MR) || !shift || !mr_decode_access(hdr, &access))
		return SIRDMA_CQP_BAD_PARAM;
	map->pd = pd;
	map->access = access;
	map->level = level;
	map->len = SIRDMA_GET(SIRDMA_CQP_STAG_LEN, len_pd);
	map->block_shift = shift;
	block = 1ull << map->block_shift;
	if (hdr & SIRDMA_CQP_STAG_MAY_FAULT) {
		if (level == SIRDMA_PBL_LEVEL_SPARSE ||
		    (!level && (!PORT_MEMORY_MAY_FAULT || !port_dma_may_fault(dev->dma))))
			return SIRDMA_CQP_BAD_PARAM;
		map->may_fault = true;
	}
	if (level == SIRDMA_PBL_LEVEL_SPARSE)
		return mr_decode_sparse(cmd, map);
	if (hdr & SIRDMA_CQP_STAG_ALL_MEMORY)
		return mr_decode_all_memory(cmd, map);
	/* A region may have no bytes. Then it has no page list either. */
	if (!map->len && level)
		return SIRDMA_CQP_BAD_PARAM;
	map->first_block_off = va & (block - 1);
	if (hdr & SIRDMA_CQP_STAG_VABASED)
		map->base = va;
	else if (va >= block)
		return SIRDMA_CQP_BAD_PARAM;
	if (map->base + map->len < map->base)
		return SIRDMA_CQP_BAD_PARAM;
	if (level)
		map->first_pble = SIRDMA_GET(SIRDMA_CQP_FIRST_PBLE, le64_to_cpu(cmd->first_pble));
	else
		map->addr = le64_to_cpu(cmd->addr);
	return SIRDMA_CQP_OK;
}

/* Is there memory at @va, or may there be memory later? */
static bool mr_resolves(struct snic_dev *dev, const struct snic_mr *mr, u64 va)
{
	struct snic_run run;

	return snic_mr_run(dev, mr, va, 1, &run) != SNIC_MEM_FAULT;
}

/*
 * Is the page list valid? The range of its PBLEs is checked, and its first and last block
 * are resolved. The other blocks are checked when they are accessed.
 */
static u32 mr_check_list(struct snic_dev *dev, const struct snic_mr *mr)
{
	u64 blocks = snic_map_blocks(&mr->map), entries = blocks,
	    count = READ_ONCE(dev->hmc.pble_count);
	u64 last = mr->map.base + mr->map.len - 1, end;

	if (mr->map.level == SNIC_LEVEL_ALL)
		return SIRDMA_CQP_OK;
	if (mr->map.level == 0) {
		end = mr->map.addr + mr->map.first_block_off + mr->map.len;
		if ((mr->map.addr & (block_size(mr) - 1)) || end < mr->map.addr)
			return SIRDMA_CQP_BAD_ADDRESS;
	} else {
		if (mr->map.sparse)
			entries = SIRDMA_PBLE_PER_LEAF;
		else if (mr->map.level == 2)
			entries = (blocks + SIRDMA_PBLE_PER_LEAF - 1) / SIRDMA_PBLE_PER_LEAF;
		if (mr->map.first_pble >= count || entries > count - mr->map.first_pble)
			return SIRDMA_CQP_BAD_ADDRESS;
	}
	if (snic_mr_may_fault(mr) || !mr->map.len)
		return SIRDMA_CQP_OK;
	if (!mr_resolves(dev, mr, mr->map.base) || !mr_resolves(dev, mr, last))
		return SIRDMA_CQP_BAD_ADDRESS;
	return SIRDMA_CQP_OK;
}

/*
 * The slot @idx, or NULL. The pointer stays valid: commands execute one at a time, and only
 * commands free slots.
 */
static struct snic_mr *mr_at(struct snic_dev *dev, u32 idx)
{
	struct snic_obj *obj = snic_table_at(&dev->mrs, idx);

	return obj ? container_of(obj, struct snic_mr, slot.obj) : NULL;
}

static u32 mr_check_idx(struct snic_dev *dev, u32 idx)
{
	return idx && idx < dev->cfg.max_mrs ? SIRDMA_CQP_OK : SIRDMA_CQP_BAD_INDEX;
}

/* Make a slot for REG_MR of an index that has none. */
static u32 mr_alloc(struct snic_dev *dev, u32 idx, u8 key, struct snic_mr **out)
{
	struct snic_mr *mr = port_alloc_charged(sizeof(*mr));
	u32 status;

	if (!mr)
		return SIRDMA_CQP_NO_MEMORY;
	snic_slot_init(&mr->slot, SNIC_SLOT_FIXED, key);
	status = snic_table_status(snic_table_insert(&dev->mrs, idx, &mr->slot.obj));
	if (status)
		port_free(mr);
	else
		*out = mr;
	return status;
}

u32 snic_cqp_alloc_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_stag *cmd = (const void *)wqe;
	u32 status = mr_check_idx(dev, SIRDMA_GET(SIRDMA_CQP_STAG_IDX, le64_to_cpu(cmd->stag)));

	if (status)
		return status;
	if (snic_stag_pd(cmd) >= dev->cfg.max_pds)
		return SIRDMA_CQP_BAD_INDEX;
	return le64_to_cpu(cmd->hdr) & SIRDMA_CQP_STAG_MR ? snic_fast_alloc(dev, cmd) :
							    snic_mw_alloc(dev, cmd);
}

/*
 * The slot that a command names by index and key, or NULL. Work requests change the key of windows
 * and of regions of fast registration, so commands name those by their index only.
 */
static struct snic_mr *mr_by_stag(struct snic_dev *dev, const struct sirdma_cqp_stag *cmd,
				  u32 *status)
{
	u64 stag = le64_to_cpu(cmd->stag);
	u32 idx = SIRDMA_GET(SIRDMA_CQP_STAG_IDX, stag);
	struct snic_mr *mr = mr_at(dev, idx);

	*status = mr_check_idx(dev, idx);
	if (*status)
		return NULL;
	if (mr &&
	    snic_slot_is_window(&mr->slot) != !!(le64_to_cpu(cmd->hdr) & SIRDMA_CQP_STAG_MR) &&
	    (snic_slot_kind(&mr->slot) != SNIC_SLOT_FIXED ||
	     snic_slot_key(&mr->slot) == SIRDMA_GET(SIRDMA_CQP_STAG_KEY, stag)))
		return mr;
	*status = SIRDMA_CQP_NO_OBJECT;
	return NULL;
}

/*
 * Replace the region that @cmd names by one with the mapping @map. Lookups find the former slot or
 * the new one, both VALID.
 */
static u32 mr_replace(struct snic_dev *dev, const struct sirdma_cqp_stag *cmd,
		      const struct snic_mapping *map)
{
	struct snic_mr *old, *mr;
	u32 status;

	old = mr_by_stag(dev, cmd, &status);
	if (!old)
		return status;
	if (snic_slot_kind(&old->slot) != SNIC_SLOT_FIXED || old->map.level == SNIC_LEVEL_ALL ||
	    old->map.sparse)
		return SIRDMA_CQP_BAD_STATE;
	mr = port_alloc_charged(sizeof(*mr));
	if (!mr)
		return SIRDMA_CQP_NO_MEMORY;
	if (!snic_slot_seal(&old->slot)) {
		port_free(mr);
		return SIRDMA_CQP_IN_USE;
	}
	snic_slot_init(&mr->slot, SNIC_SLOT_FIXED, 0);
	snic_slot_claim(&mr->slot);
	mr->map = *map;
	snic_slot_publish(&mr->slot, snic_slot_key(&old->slot));
	snic_table_replace(&dev->mrs, old->slot.obj.id, &mr->slot.obj);
	snic_slot_remove(&old->slot);
	port_free_rcu(old, slot.obj.rcu);
	snic_finish_references(dev);
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_reg_mr(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_stag *cmd = (const void *)wqe;
	u64 stag = le64_to_cpu(cmd->stag);
	u32 idx = SIRDMA_GET(SIRDMA_CQP_STAG_IDX, stag), status;
	u8 key = SIRDMA_GET(SIRDMA_CQP_STAG_KEY, stag);
	struct snic_mr next = {}, *mr;

	status = mr_check_idx(dev, idx);
	if (!status)
		status = mr_decode(dev, cmd, &next.map);
	if (!status)
		status = mr_check_list(dev, &next);
	if (status)
		return status;
	if (le64_to_cpu(cmd->hdr) & SIRDMA_CQP_STAG_REPLACE)
		return mr_replace(dev, cmd, &next.map);
	mr = mr_at(dev, idx);
	if (!mr)
		status = mr_alloc(dev, idx, key, &mr);
	if (status)
		return status;
	if (snic_slot_is_window(&mr->slot) || !snic_slot_claim(&mr->slot))
		return SIRDMA_CQP_IN_USE;
	mr->map = next.map;
	snic_slot_publish(&mr->slot, key);
	return SIRDMA_CQP_OK;
}

/* Invalidate the slot, wait for its users, and free it. */
static bool mr_free(struct snic_dev *dev, struct snic_mr *mr)
{
	if (!snic_slot_remove(&mr->slot))
		return false;
	snic_table_remove(&dev->mrs, mr->slot.obj.id);
	port_free_rcu(mr, slot.obj.rcu);
	return true;
}

u32 snic_cqp_dealloc_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_mr *mr;
	u32 status;

	mr = mr_by_stag(dev, (const void *)wqe, &status);
	if (!mr)
		return status;
	if (!mr_free(dev, mr))
		return SIRDMA_CQP_IN_USE;
	snic_finish_references(dev);
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_query_stag(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_mr *mr;
	u32 status, hpage;

	mr = mr_by_stag(dev, (const void *)wqe, &status);
	if (!mr)
		return status;
	if (!snic_slot_valid(&mr->slot))
		return SIRDMA_CQP_BAD_STATE;
	hpage = mr->map.block_shift == 30 ? SIRDMA_HPAGE_1G :
		mr->map.block_shift == 21 ? SIRDMA_HPAGE_2M :
					    SIRDMA_HPAGE_4K;
	*ret = (snic_slot_is_window(&mr->slot) ? 0 : SIRDMA_CQP_STAG_MR) |
	       SIRDMA_PREP(SIRDMA_CQP_STAG_ARIGHTS, mr->map.access) |
	       SIRDMA_PREP(SIRDMA_CQP_STAG_HPAGESIZE, hpage);
	if (mr_is_of_all_memory(mr))
		*ret |= SIRDMA_CQP_STAG_ALL_MEMORY;
	else
		*ret |= SIRDMA_PREP(SIRDMA_CQP_STAG_LPBLSIZE,
				    mr->map.sparse ? SIRDMA_PBL_LEVEL_SPARSE : mr->map.level);
	if (mr->map.may_fault)
		*ret |= SIRDMA_CQP_STAG_MAY_FAULT;
	if (mr->map.access & SIRDMA_ACCESS_REMOTE_ATOMIC)
		*ret |= SIRDMA_CQP_STAG_ATOMICS;
	if (mr->map.access & SIRDMA_ACCESS_REMOTE_FLUSH)
		*ret |= SIRDMA_CQP_STAG_FLUSH;
	return SIRDMA_CQP_OK;
}

void snic_mr_destroy_all(struct snic_dev *dev)
{
	bool windows = true;
	u32 id;

	/* Destroy windows first, because they keep references to their regions. */
	do {
		for (id = 0; snic_table_next(&dev->mrs, &id); id++) {
			struct snic_mr *mr = mr_at(dev, id);

			if (snic_slot_is_window(&mr->slot) == windows)
				mr_free(dev, mr);
			port_cond_resched();
		}
		windows = !windows;
	} while (!windows);
}
