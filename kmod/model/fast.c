// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Fast registration. */
#include "fast.h"

#include "qp.h"

#define FAST_RIGHTS \
	(SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE | SIRDMA_ACCESS_REMOTE_READ | \
	 SIRDMA_ACCESS_REMOTE_WRITE | SIRDMA_ACCESS_REMOTE_ATOMIC)

u32 snic_fast_alloc(struct snic_dev *dev, const struct sirdma_cqp_stag *cmd)
{
	u64 stag = le64_to_cpu(cmd->stag), list = le64_to_cpu(cmd->first_pble);
	u32 idx = SIRDMA_GET(SIRDMA_CQP_STAG_IDX, stag), status;
	u64 first = SIRDMA_GET(SIRDMA_CQP_FIRST_PBLE, list);
	u64 blocks = SIRDMA_GET(SIRDMA_CQP_STAG_BLOCKS, list);
	struct snic_fast *fast;

	if (first + 2 * blocks > READ_ONCE(dev->hmc.pble_count))
		return SIRDMA_CQP_BAD_ADDRESS;
	fast = port_alloc_charged(sizeof(*fast));
	if (!fast)
		return SIRDMA_CQP_NO_MEMORY;
	fast->pd = snic_stag_pd(cmd);
	fast->first_pble = (u32)first;
	fast->blocks = (u32)blocks;
	snic_slot_init(&fast->mr.slot, SNIC_SLOT_FAST, SIRDMA_GET(SIRDMA_CQP_STAG_KEY, stag));
	status = snic_table_status(snic_table_insert(&dev->mrs, idx, &fast->mr.slot.obj));
	if (status)
		port_free(fast);
	return status;
}

/* The slot that @sqe names, if @qp may register with it. The caller is a reader of the table. */
static struct snic_fast *fast_find(struct snic_qp *qp, const struct snic_sqe *sqe)
{
	struct snic_obj *obj = snic_table_at(&qp->dev->mrs, sqe->reg.stag >> SNIC_STAG_KEY_BITS);
	struct snic_slot *slot = obj ? container_of(obj, struct snic_slot, obj) : NULL;
	struct snic_fast *fast;

	if (!slot || snic_slot_kind(slot) != SNIC_SLOT_FAST)
		return NULL;
	fast = container_of(container_of(slot, struct snic_mr, slot), struct snic_fast, mr);
	return fast->pd == qp->pd ? fast : NULL;
}

/*
 * Fill the mapping that @sqe describes. Returns false if @sqe contradicts itself, or if its list is
 * too long.
 */
static bool fast_map(const struct snic_fast *fast, const struct snic_sqe *sqe,
		     struct snic_mapping *map)
{
	u32 shift = snic_hpage_shift(sqe->reg.hpage);

	if (!shift || !sqe->reg.len || sqe->reg.va + sqe->reg.len < sqe->reg.va ||
	    (sqe->reg.rights & ~FAST_RIGHTS) || !snic_access_consistent(sqe->reg.rights))
		return false;
	*map = (struct snic_mapping){
		.base = sqe->reg.va,
		.len = sqe->reg.len,
		.first_pble = fast->first_pble,
		.first_block_off = sqe->reg.va & ((1ull << shift) - 1),
		.pd = fast->pd,
		.access = sqe->reg.rights | SIRDMA_ACCESS_LOCAL_READ,
		.level = 1,
		.block_shift = shift,
	};
	return snic_map_blocks(map) <= fast->blocks;
}

/*
 * Copy @count entries. A kernel consumer chose their addresses. Returns false if one of them is no
 * address of a block.
 */
static bool fast_copy(struct snic_dev *dev, __le64 *to, const __le64 *from, u32 count, u32 shift)
{
	u64 addr;
	u32 i;

	for (i = 0; i < count; i++) {
		addr = le64_to_cpu(READ_ONCE(from[i]));
		if ((addr & ((1ull << shift) - 1)) ||
		    !port_dma_ptr_checked(dev->dma, addr, 1u << shift))
			return false;
		WRITE_ONCE(to[i], cpu_to_le64(addr));
	}
	return true;
}

/* Copy the list that the driver wrote. The caller is a reader of HMC space. */
static bool fast_copy_list(struct snic_dev *dev, const struct snic_fast *fast,
			   const struct snic_mapping *map)
{
	u32 blocks = (u32)snic_map_blocks(map), i, count;
	const __le64 *from;
	__le64 *to;

	for (i = 0; i < blocks; i += count) {
		count = blocks - i;
		from = snic_pbles_at(dev, fast->first_pble + fast->blocks + i, &count);
		to = from ? snic_pbles_at(dev, fast->first_pble + i, &count) : NULL;
		if (!to || !fast_copy(dev, to, from, count, map->block_shift))
			return false;
	}
	return true;
}

/*
 * The caller is a reader of the table and of HMC space: a slot without references stays until the
 * reader ends.
 */
static bool fast_reg(struct snic_qp *qp, const struct snic_sqe *sqe)
{
	struct snic_fast *fast = fast_find(qp, sqe);
	struct snic_mapping map;
	u8 old;

	/* A region must be invalid before it is registered anew (IBTA 10.6.4.4). */
	if (!fast || !fast_map(fast, sqe, &map) || !snic_slot_claim(&fast->mr.slot))
		return false;
	/* From here on commands neither free the slot nor give its PBLEs to others. */
	old = snic_slot_key(&fast->mr.slot);
	if (!fast_copy_list(qp->dev, fast, &map)) {
		snic_slot_unclaim(&fast->mr.slot, old);
		return false;
	}
	fast->mr.map = map;
	snic_slot_publish(&fast->mr.slot, sqe->reg.stag & SNIC_SLOT_KEY);
	return true;
}

bool snic_fast_reg(struct snic_qp *qp, const struct snic_sqe *sqe)
{
	bool done;

	port_rcu_read_lock();
	done = fast_reg(qp, sqe);
	port_rcu_read_unlock();
	if (!done)
		snic_stat_inc(qp->dev, SIRDMA_STAT_MR_BAD_FAST_REG);
	return done;
}
