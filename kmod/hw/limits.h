/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Identity and limits of a device, as applications query them. */
#ifndef SIRDMA_HW_LIMITS_H
#define SIRDMA_HW_LIMITS_H

#include "hw.h"

/* A locally administered OUI: this project has no vendor id. */
#define SIRDMA_VENDOR_ID 0x025352
#define SIRDMA_VENDOR_PART_ID 1
#define SIRDMA_FW_MAJOR 2
#define SIRDMA_FW_MINOR 0

/*
 * Capabilities of every device: RC_RNR_NAK_GEN, MEM_WINDOW, XRC and MEM_WINDOW_TYPE_2B of enum
 * ib_device_cap_flags and enum ibv_device_cap_flags.
 */
#define SIRDMA_VERBS_DEVICE_CAPS (1u << 12 | 1u << 17 | 1u << 20 | 1u << 24)
/* Further ones of enum ib_device_cap_flags, which only ibv_query_device_ex() reports */
#define SIRDMA_VERBS_DEVICE_FLUSH_GLOBAL (1ull << 38)
#define SIRDMA_VERBS_DEVICE_ATOMIC_WRITE (1ull << 40)

/* Capabilities of every queue pair, for the answer to create_qp (sirdma/abi.h). */
#define SIRDMA_QP_CAPS (SIRDMA_QP_CAP_WRITE_IMM | SIRDMA_QP_CAP_SEND_IMM | SIRDMA_QP_CAP_ROCE)

/*
 * Capabilities of every port: CM_SUP of enum ib_port_capability_mask_bits and of enum
 * ibv_port_cap_flags.
 */
#define SIRDMA_VERBS_PORT_CAPS (1u << 16)

/*
 * Device memory is memory of the host, so its size is a choice: much more than devices of silicon
 * have (256 KiB), and little for a host.
 */
#define SIRDMA_DM_BYTES (16u << 20) /* of all users */
#define SIRDMA_MAX_DM_SIZE (SIRDMA_DM_BYTES / 2) /* of one user */
#define SIRDMA_MAX_DM_LOG_ALIGN SIRDMA_PAGE_SHIFT

#define SIRDMA_PKEY_TABLE_LEN 1 /* the default partition alone */

struct sirdma_limits {
	u64 max_mr_size; /* bytes */
	u64 max_dm_size; /* bytes that one user may have */
	u32 max_qp;
	u32 max_qp_wr;
	u32 max_sge; /* fragments of a send and of a receive */
	u32 max_sge_rd;
	u32 max_cq;
	u32 max_cqe; /* completions; a ring has more elements */
	u32 max_srq;
	u32 max_srq_wr;
	u32 max_mr; /* regions and windows together */
	u32 max_pd;
	u32 max_ah; /* address handles of all users together */
	u32 max_mcast_grp;
	u32 max_mcast_qp_attach; /* queue pairs in one group */
	u32 max_total_mcast_qp_attach;
	u32 max_qp_rd_atom;
	u32 max_qp_init_rd_atom;
	u32 max_res_rd_atom;
};

void sirdma_hw_limits(const struct sirdma_hw *hw, struct sirdma_limits *limits);

struct sirdma_port_limits {
	u32 max_mtu; /* enum ib_mtu */
	u32 active_mtu; /* enum ib_mtu; 0: the port carries none */
	u32 max_msg_sz; /* bytes */
	u16 pkey_tbl_len;
	u8 max_vl_num;
};

/* @bytes: the L3 MTU of the port */
void sirdma_hw_port_limits(u32 bytes, struct sirdma_port_limits *port);
/* Elements of the largest CQ ring. The index in the shadow area cannot name more. */
u32 sirdma_max_cq_elements(const struct sirdma_hw *hw);
/*
 * The quanta of the ring of a shared receive queue. 0: the application asks for none, or for more
 * than the device has.
 */
u32 sirdma_srq_ring_quanta(u32 max_wr, u32 max_sge);

/* Numbers of enum ib_srq_attr_mask and enum ibv_srq_attr_mask */
#define SIRDMA_SRQ_MAX_WR (1u << 0)
#define SIRDMA_SRQ_LIMIT (1u << 1)
/*
 * May the attributes in @mask of a shared receive queue of @max_wr requests change? Returns 0,
 * -EINVAL, or -EOPNOTSUPP, and in *why the reason for a log line.
 */
int sirdma_srq_modify_check(u32 mask, u32 limit, u32 max_wr, const char **why);

/*
 * Check a request for device memory, as applications make it. Returns 0, or -EINVAL with *why set
 * for a log line.
 */
int sirdma_dm_check(u64 length, u32 log_align, const char **why);
/*
 * May a user who has @mine of a resource get @n more, of which @left is free? A user may grow while
 * others could get as much: the first greedy user gets half of all, the next one half of the rest.
 * So a few greedy users leave some to a later one.
 */
static inline bool sirdma_share_is_fair(u64 left, u64 mine, u64 n)
{
	return n <= left && mine + n <= left - n;
}

/*
 * May a user who has @mine of @limit get one more, if all users have @used? The share is rounded up, so
 * that somebody may have the last one.
 */
static inline bool sirdma_one_more_is_fair(u32 limit, u32 used, u32 mine)
{
	return used < limit && sirdma_share_is_fair((u64)limit - used + 1, mine, 1);
}

/*
 * May a user who has @mine bytes of device memory get @bytes more (sirdma_share_is_fair())? @used:
 * what all users have.
 */
bool sirdma_dm_is_fair(u64 used, u64 mine, u64 bytes);
/*
 * Check a region of the @length bytes from @offset on in device memory of @size bytes. Returns as
 * sirdma_region_check() does.
 */
int sirdma_dm_region_check(u64 size, u64 offset, u64 length, u32 access, const char **why);

struct sirdma_alloc_ucontext_resp;
/*
 * Tell a provider the limits that it computes ring sizes from, and the features that every driver
 * has. The driver adds its own values: the doorbell page, whether it kicks, and numbers of objects.
 */
void sirdma_hw_context(const struct sirdma_hw *hw, struct sirdma_alloc_ucontext_resp *resp);

/* Fill the fields that struct ib_device_attr and struct ibv_device_attr have in common. */
#define SIRDMA_LIMITS_TO_VERBS(attr, limits) \
	do { \
		(attr)->hw_ver = SIRDMA_HW_VERSION; \
		(attr)->vendor_id = SIRDMA_VENDOR_ID; \
		(attr)->vendor_part_id = SIRDMA_VENDOR_PART_ID; \
		(attr)->max_mr_size = (limits)->max_mr_size; \
		(attr)->max_qp = (int)(limits)->max_qp; \
		(attr)->max_qp_wr = (int)(limits)->max_qp_wr; \
		(attr)->max_sge_rd = (int)(limits)->max_sge_rd; \
		(attr)->max_cq = (int)(limits)->max_cq; \
		(attr)->max_cqe = (int)(limits)->max_cqe; \
		(attr)->max_srq = (int)(limits)->max_srq; \
		(attr)->max_srq_wr = (int)(limits)->max_srq_wr; \
		(attr)->max_srq_sge = (int)(limits)->max_sge; \
		(attr)->max_mr = (int)(limits)->max_mr; \
		(attr)->max_mw = (int)(limits)->max_mr; \
		(attr)->max_pd = (int)(limits)->max_pd; \
		(attr)->max_ah = (int)(limits)->max_ah; \
		(attr)->max_mcast_grp = (int)(limits)->max_mcast_grp; \
		(attr)->max_mcast_qp_attach = (int)(limits)->max_mcast_qp_attach; \
		(attr)->max_total_mcast_qp_attach = (int)(limits)->max_total_mcast_qp_attach; \
		(attr)->max_qp_rd_atom = (int)(limits)->max_qp_rd_atom; \
		(attr)->max_qp_init_rd_atom = (int)(limits)->max_qp_init_rd_atom; \
		(attr)->max_res_rd_atom = (int)(limits)->max_res_rd_atom; \
		(attr)->max_pkeys = SIRDMA_PKEY_TABLE_LEN; \
	} while (0)

/*
 * Fill the fields that struct ib_port_attr and struct ibv_port_attr have in common. The MTUs are
 * of two enumerations, so they are copied as numbers.
 */
#define SIRDMA_PORT_LIMITS_TO_VERBS(attr, port) \
	do { \
		memcpy(&(attr)->max_mtu, &(port)->max_mtu, sizeof(u32)); \
		memcpy(&(attr)->active_mtu, &(port)->active_mtu, sizeof(u32)); \
		(attr)->max_msg_sz = (port)->max_msg_sz; \
		(attr)->pkey_tbl_len = (port)->pkey_tbl_len; \
		(attr)->max_vl_num = (port)->max_vl_num; \
	} while (0)

#endif
