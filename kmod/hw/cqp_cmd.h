/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One function per command. Each sleeps, and returns 0 or the errno of sirdma_cqp_exec(). */
#ifndef SIRDMA_HW_CQP_CMD_H
#define SIRDMA_HW_CQP_CMD_H

#include "hw.h"

/*
 * @ctx_pa: DMA address of a filled struct sirdma_qp_ctx. The QP starts in RESET. After -ENOMEM see
 * sirdma_cqp_make_room(): @ctx_pa may be memory that other tasks wait for.
 */
int sirdma_cqp_create_qp(struct sirdma_hw *hw, u32 qpn, u64 ctx_pa);
struct sirdma_cqp_modify_qp_params {
	u32 qpn;
	u64 ctx_pa;
	enum sirdma_qp_state cur; /* must match the device's */
	enum sirdma_qp_state next;
	bool check_cur;
};
int sirdma_cqp_modify_qp(struct sirdma_hw *hw, const struct sirdma_cqp_modify_qp_params *params);
int sirdma_cqp_destroy_qp(struct sirdma_hw *hw, u32 qpn);
/* The device writes the current context to @ctx_pa. */
int sirdma_cqp_upload_ctx(struct sirdma_hw *hw, u32 qpn, u64 ctx_pa);
int sirdma_cqp_flush_wqes(struct sirdma_hw *hw, u32 qpn, bool sq, bool rq);

struct sirdma_cqp_cq_params {
	u32 cq_id;
	u32 entries; /* elements of 32 bytes */
	u32 ceq_id;
	bool no_events; /* the CQ has no CEQ, and raises no events */
	u64 cookie; /* of 63 bits; cq_event and async_event contain it */
	u64 shadow_pa;
	u64 pa; /* address, when !vmap */
	u32 first_pble; /* index of a level-1 list, when vmap */
	bool vmap;
	bool is_ccq;
	bool elem_64b;
	bool timestamps;
};
/*
 * This function and sirdma_cqp_reg_mr() may reclaim memory: the caller holds nothing that other
 * tasks wait for.
 */
int sirdma_cqp_create_cq(struct sirdma_hw *hw, const struct sirdma_cqp_cq_params *params);
/*
 * Give the CQ another ring. @params names cq_id, entries and the place of the ring. The device
 * writes nothing to the old ring afterwards; the first completion in the new one is the next after
 * it.
 */
int sirdma_cqp_resize_cq(struct sirdma_hw *hw, const struct sirdma_cqp_cq_params *params);
/*
 * Let the event of the armed CQ wait for @count completions, and for @period_us at most. 0 in one of
 * them ends that. -EINVAL: a value is beyond SIRDMA_MAX_CQ_COUNT or SIRDMA_MAX_CQ_PERIOD.
 */
int sirdma_cqp_moderate_cq(struct sirdma_hw *hw, u32 cq_id, u32 count, u32 period_us);
int sirdma_cqp_destroy_cq(struct sirdma_hw *hw, u32 cq_id);

struct sirdma_cqp_srq_params {
	u32 srq_id;
	u64 cookie; /* the events contain it */
	u32 wqes; /* power of two */
	u32 stride_shift; /* log2 of the quanta of a WQE */
	u32 pd;
	u64 shadow_pa;
	u64 pa; /* address, when !vmap */
	u32 first_pble; /* index of a level-1 list, when vmap */
	bool vmap;
	bool xrc; /* a queue of domain xrcd, whose completions go to cq_id */
	u32 xrcd;
	u32 cq_id;
};
int sirdma_cqp_create_srq(struct sirdma_hw *hw, const struct sirdma_cqp_srq_params *params);
/*
 * Ask for one event when fewer than @limit WQEs are left, which may be at once; 0: ask for no
 * event.
 */
int sirdma_cqp_arm_srq(struct sirdma_hw *hw, u32 srq_id, u32 limit);
/* limit: 0 when the event has come, or when the driver asked for none. */
int sirdma_cqp_query_srq(struct sirdma_hw *hw, u32 srq_id, u32 *limit);
/* Returns -EBUSY if queue pairs use the queue. */
int sirdma_cqp_destroy_srq(struct sirdma_hw *hw, u32 srq_id);

/* enum sirdma_hpage_size of blocks of this size, or -EINVAL. */
int sirdma_hpage_size(u8 block_shift);

struct sirdma_cqp_reg_mr_params {
	u32 stag; /* index << 8 | key */
	u32 pd;
	u64 va; /* address (IOVA) of the first byte */
	u64 len;
	u8 access; /* SIRDMA_ACCESS_* */
	u8 block_shift; /* log2 of the bytes of a block: 12, 21 or 30 */
	/*
	 * Level 0: addr is used, otherwise first_pble. SIRDMA_PBL_LEVEL_SPARSE: the region has all
	 * addresses that the list can name; va and len are 0
	 */
	u8 level;
	u64 addr;
	u32 first_pble;
	bool zero_based;
	bool all_memory; /* the region is addressed by DMA address; va, len, level and addr are 0 */
	bool may_fault; /* the memory may be missing (SIRDMA_CQP_STAG_MAY_FAULT); the list is not sparse */
	bool replace; /* the region exists: it gets all this in place of what it has */
};
/*
 * Register a region, or replace one. When a replacement has succeeded, no data path uses the former
 * memory; when the device has refused it, the region is as it was. -EBUSY: windows are bound to it.
 */
int sirdma_cqp_reg_mr(struct sirdma_hw *hw, const struct sirdma_cqp_reg_mr_params *params);
/*
 * Invalidate the region and wait until no data path uses it. -EBUSY: windows are bound to it, or a
 * work request registers it at this very moment.
 */
int sirdma_cqp_dealloc_stag(struct sirdma_hw *hw, u32 stag);

struct sirdma_cqp_alloc_mr_params {
	u32 stag; /* fast registration changes its lowest byte, the key */
	u32 pd;
	u32 first_pble; /* index of 2 * blocks entries: the device's list, then the driver's */
	u32 blocks;
};
/*
 * Allocate a region for fast registration. This function, too, may reclaim memory.
 * sirdma_cqp_dealloc_stag() needs the index only.
 */
int sirdma_cqp_alloc_mr(struct sirdma_hw *hw, const struct sirdma_cqp_alloc_mr_params *params);

struct sirdma_cqp_alloc_mw_params {
	u32 stag; /* a bind changes its lowest byte, the key */
	u32 pd;
	bool type1;
};
/* Allocate a window. This function, too, may reclaim memory. */
int sirdma_cqp_alloc_mw(struct sirdma_hw *hw, const struct sirdma_cqp_alloc_mw_params *params);
/*
 * Free the window with the index of @stag, bound or not, and wait until no data path uses it.
 * Returns -EBUSY if a queue pair binds it at this very moment.
 */
int sirdma_cqp_dealloc_mw(struct sirdma_hw *hw, u32 stag);

int sirdma_cqp_set_arp(struct sirdma_hw *hw, u32 idx, const u8 mac[6]);
int sirdma_cqp_clear_arp(struct sirdma_hw *hw, u32 idx);

struct sirdma_cqp_sgid_params {
	u32 idx;
	struct sirdma_ip ip;
	u8 mac[6];
	bool has_vlan;
	u16 vlan_id;
};
int sirdma_cqp_set_sgid(struct sirdma_hw *hw, const struct sirdma_cqp_sgid_params *params);
int sirdma_cqp_clear_sgid(struct sirdma_hw *hw, u32 idx);

struct sirdma_cqp_mcast_params {
	u32 id;
	struct sirdma_ip ip;
	const u32 *qpns;
	u32 count; /* SIRDMA_MCAST_MAX_QPS at most */
};
/*
 * @op: SIRDMA_CQP_CREATE_MCAST_GRP, _MODIFY_ or _DESTROY_. Each uses the parameters that it needs.
 */
int sirdma_cqp_mcast(struct sirdma_hw *hw, enum sirdma_cqp_op op,
		     const struct sirdma_cqp_mcast_params *params);

int sirdma_cqp_create_ceq(struct sirdma_hw *hw, u32 id, u64 pa, u32 entries);
int sirdma_cqp_destroy_ceq(struct sirdma_hw *hw, u32 id);
int sirdma_cqp_create_aeq(struct sirdma_hw *hw, u64 pa, u32 entries);
int sirdma_cqp_destroy_aeq(struct sirdma_hw *hw);
int sirdma_cqp_update_sds(struct sirdma_hw *hw, const struct sirdma_sd_entry *entries, u32 count);
int sirdma_cqp_query_fpm(struct sirdma_hw *hw, struct sirdma_fpm_query *out);
int sirdma_cqp_commit_fpm(struct sirdma_hw *hw, const struct sirdma_fpm_commit *commit);
/* @stats: SIRDMA_STAT_COUNT values. */
int sirdma_cqp_gather_stats(struct sirdma_hw *hw, u64 *stats);

#endif
