/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One function per command. Each sleeps, and returns 0 or the errno of sirdma_cqp_exec(). */
#ifndef SIRDMA_HW_CQP_CMD_H
#define SIRDMA_HW_CQP_CMD_H

#include "hw.h"

/*
 * @ctx_pa: DMA address of a filled struct sirdma_qp_ctx. The QP starts in RESET. After
 * -ENOMEM see sirdma_cqp_make_room(): @ctx_pa may be memory that others wait for.
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
	u32 entries; /* 32-byte elements */
	u32 ceq_id;
	u64 ctx; /* driver cookie, bit 0 clear: comes back in cq_event and async_event */
	u64 shadow_pa;
	u64 pa; /* when !vmap */
	u32 first_pble; /* when vmap; level 1 */
	bool vmap;
	bool is_ccq;
	bool elem_64b;
	bool timestamps;
};
/* This and sirdma_cqp_reg_mr() may reclaim memory: hold nothing that others wait for. */
int sirdma_cqp_create_cq(struct sirdma_hw *hw, const struct sirdma_cqp_cq_params *params);
/*
 * Give the CQ another ring, by cq_id, entries and the ring's place. The device writes nothing
 * to the old ring afterwards; the first completion in the new one is the next after it.
 */
int sirdma_cqp_resize_cq(struct sirdma_hw *hw, const struct sirdma_cqp_cq_params *params);
int sirdma_cqp_destroy_cq(struct sirdma_hw *hw, u32 cq_id);

struct sirdma_cqp_srq_params {
	u32 srq_id;
	u64 cookie; /* comes back in events */
	u32 wqes; /* power of two */
	u32 stride_shift; /* log2 of the quanta of a WQE */
	u32 pd;
	u64 shadow_pa;
	u64 pa; /* when !vmap */
	u32 first_pble; /* when vmap; level 1 */
	bool vmap;
};
int sirdma_cqp_create_srq(struct sirdma_hw *hw, const struct sirdma_cqp_srq_params *params);
/* Ask for one event when fewer than @limit WQEs are left, which may be at once; 0: for none. */
int sirdma_cqp_arm_srq(struct sirdma_hw *hw, u32 srq_id, u32 limit);
/* *limit: 0 when the event came, or none was asked for. */
int sirdma_cqp_query_srq(struct sirdma_hw *hw, u32 srq_id, u32 *limit);
/* -EBUSY: queue pairs use it. */
int sirdma_cqp_destroy_srq(struct sirdma_hw *hw, u32 srq_id);

/* enum sirdma_hpage_size of blocks of this size, or -EINVAL. */
int sirdma_hpage_size(u8 block_shift);

struct sirdma_cqp_reg_mr_params {
	u32 stag; /* index << 8 | key */
	u32 pd;
	u64 va; /* iova of the first byte */
	u64 len;
	u8 access; /* SIRDMA_ACCESS_* */
	u8 block_shift; /* 12, 21, 30 */
	u8 level; /* 0: addr, else first_pble */
	u64 addr;
	u32 first_pble;
	bool zero_based;
	bool all_memory; /* by DMA address; va, len, level and addr are 0 */
};
int sirdma_cqp_reg_mr(struct sirdma_hw *hw, const struct sirdma_cqp_reg_mr_params *params);
/*
 * Invalidate the region and wait until no data path uses it. -EBUSY: windows are bound to it, or a work
 * request registers it at this very moment.
 */
int sirdma_cqp_dealloc_stag(struct sirdma_hw *hw, u32 stag);

struct sirdma_cqp_alloc_mr_params {
	u32 stag; /* of its key fast registration changes the lowest byte */
	u32 pd;
	u32 first_pble; /* of 2 * blocks: the device's list, then the driver's */
	u32 blocks;
};
/*
 * A region for fast registration. Also this may reclaim memory. sirdma_cqp_dealloc_stag() needs the
 * index only.
 */
int sirdma_cqp_alloc_mr(struct sirdma_hw *hw, const struct sirdma_cqp_alloc_mr_params *params);

struct sirdma_cqp_alloc_mw_params {
	u32 stag; /* of its key a bind changes the lowest byte */
	u32 pd;
	bool type1;
};
/* Also this may reclaim memory. */
int sirdma_cqp_alloc_mw(struct sirdma_hw *hw, const struct sirdma_cqp_alloc_mw_params *params);
/*
 * Free the window with the index of @stag, bound or not, and wait until no data path uses it.
 * -EBUSY: a queue pair binds it at this very moment.
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
	u32 count; /* at most SIRDMA_MCAST_MAX_QPS */
};
/* @op: SIRDMA_CQP_CREATE_MCAST_GRP, _MODIFY_ or _DESTROY_, of which each takes what it needs. */
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
