// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Address vectors, driver side. */
#include "av.h"
#include "hw.h"
#include "limits.h"
#include "qp_attr.h"
#include "sirdma/roce.h"

#define WORD_BITS 64
/* The second number that sirdma_udp_sport() folds, because the peer's QPN is not known yet. */
#define SPORT_SALT 0x9e3779u

int sirdma_av_init(struct sirdma_hw *hw, u64 base)
{
	struct sirdma_av_table *avs = &hw->avs;
	int err;

	memset(avs, 0, sizeof(*avs));
	port_irq_lock_init(&avs->lock);
	port_mutex_init(&avs->grow);
	if (!hw->caps.max_avs)
		return 0;
	avs->used = port_alloc((hw->caps.max_avs + WORD_BITS - 1) / WORD_BITS * sizeof(u64));
	if (!avs->used)
		return -ENOMEM;
	/* A work request without an address handle may hold the index 0. */
	avs->used[0] = 1;
	avs->base = base;
	avs->limit = hw->caps.max_avs;
	hw->hmc.av_sd = (u32)(base / SIRDMA_HMC_SD_SIZE);
	err = sirdma_av_fill(hw);
	if (err)
		sirdma_av_fini(hw);
	return err;
}

void sirdma_av_fini(struct sirdma_hw *hw)
{
	struct sirdma_av_table *avs = &hw->avs;

	if (avs->count)
		port_warn("%u address handles left behind", avs->count);
	port_free(avs->used);
	avs->used = NULL;
}

/* Is the vector backed and not in use? Index 0 is never used. */
static u32 av_free(const struct sirdma_av_table *avs)
{
	return avs->backed ? avs->backed - 1 - avs->count : 0;
}

/* Back one more page. Returns -ENOSPC if all pages are backed. */
static int av_grow(struct sirdma_hw *hw)
{
	struct sirdma_av_table *avs = &hw->avs;
	unsigned long flags;
	int err;

	if (avs->backed == avs->limit)
		return -ENOSPC;
	err = sirdma_hmc_back(hw, avs->base + (u64)avs->backed * sizeof(struct sirdma_av),
			      SIRDMA_PAGE_SIZE);
	if (err)
		return err;
	flags = port_irq_lock(&avs->lock);
	avs->backed = min(avs->backed + SIRDMA_AV_PER_PAGE, avs->limit);
	port_irq_unlock(&avs->lock, flags);
	return 0;
}

/* Back pages until @wanted vectors are free, or there are no more. */
static int av_fill(struct sirdma_hw *hw, u32 wanted)
{
	struct sirdma_av_table *avs = &hw->avs;
	int err = 0;

	port_mutex_lock(&avs->grow);
	while (!err && READ_ONCE(avs->backed) < READ_ONCE(avs->count) + 1 + wanted)
		err = av_grow(hw);
	port_mutex_unlock(&avs->grow);
	return err == -ENOSPC ? 0 : err;
}

int sirdma_av_fill(struct sirdma_hw *hw)
{
	return av_fill(hw, SIRDMA_AV_RESERVE + SIRDMA_AV_AHEAD);
}

bool sirdma_av_low(struct sirdma_hw *hw)
{
	struct sirdma_av_table *avs = &hw->avs;

	return READ_ONCE(avs->backed) < avs->limit &&
	       READ_ONCE(avs->backed) < READ_ONCE(avs->count) + SIRDMA_AV_RESERVE;
}

u32 sirdma_av_user_limit(const struct sirdma_hw *hw)
{
	return hw->avs.limit - min(hw->avs.limit, SIRDMA_AV_RESERVE);
}

u32 sirdma_av_one_user_limit(const struct sirdma_hw *hw)
{
	return (sirdma_av_user_limit(hw) + 1) / 2;
}

bool sirdma_av_is_fair(const struct sirdma_hw *hw, enum sirdma_av_consumer who, u32 mine)
{
	u32 used = READ_ONCE(hw->avs.count), limit = hw->avs.limit;

	/* sirdma_av_create() reports that there are none. */
	if (!limit)
		return true;
	if (who == SIRDMA_AV_USER)
		limit = sirdma_av_user_limit(hw);
	else if (mine < SIRDMA_AV_RESERVE)
		return true;
	return sirdma_one_more_is_fair(limit, used, mine);
}

/*
 * The caller holds the lock. Find a free index in [from, to) and mark it as used; 0: there is none.
 */
static u32 av_find(struct sirdma_av_table *avs, u32 from, u32 to)
{
	u32 idx, bit;
	u64 free;

	for (idx = from; idx < to; idx = (idx / WORD_BITS + 1) * WORD_BITS) {
		bit = idx % WORD_BITS;
		free = ~avs->used[idx / WORD_BITS] & (~0ull << bit);
		if (!free)
			continue;
		idx += (u32)__builtin_ctzll(free) - bit;
		if (idx >= to)
			return 0;
		avs->used[idx / WORD_BITS] |= 1ull << (idx % WORD_BITS);
		return idx;
	}
	return 0;
}

/* Take a free index; 0: none. *seq: the number of its next write. */
static u32 av_take(struct sirdma_hw *hw, enum sirdma_av_consumer who, u32 *seq)
{
	struct sirdma_av_table *avs = &hw->avs;
	/* Users leave backed vectors to consumers that cannot sleep. Index 0 is one of the reserve. */
	const u32 kept = who == SIRDMA_AV_USER ? SIRDMA_AV_RESERVE - 1 : 0;
	unsigned long flags;
	u32 idx = 0;

	flags = port_irq_lock(&avs->lock);
	if (av_free(avs) > kept &&
	    (who != SIRDMA_AV_USER || avs->count < sirdma_av_user_limit(hw))) {
		idx = av_find(avs, avs->hint, avs->backed);
		if (!idx)
			idx = av_find(avs, 1, avs->hint);
	}
	if (idx) {
		avs->count++;
		avs->hint = idx + 1;
		*seq = ++avs->seq;
	}
	port_irq_unlock(&avs->lock, flags);
	return idx;
}

/* Could @who have a vector, once it is backed? */
static bool av_left(struct sirdma_hw *hw, enum sirdma_av_consumer who)
{
	const struct sirdma_av_table *avs = &hw->avs;

	return READ_ONCE(avs->count) <
	       (who == SIRDMA_AV_USER ? sirdma_av_user_limit(hw) : avs->limit - 1);
}

static void av_give(struct sirdma_av_table *avs, u32 idx)
{
	unsigned long flags;

	flags = port_irq_lock(&avs->lock);
	avs->used[idx / WORD_BITS] &= ~(1ull << (idx % WORD_BITS));
	avs->count--;
	port_irq_unlock(&avs->lock, flags);
}

static struct sirdma_av *av_at(struct sirdma_hw *hw, u32 idx)
{
	return sirdma_hmc_va(hw, hw->avs.base + (u64)idx * sizeof(struct sirdma_av));
}

static void av_write(struct sirdma_av *av, const struct sirdma_av_params *params, u32 idx, u32 seq)
{
	const struct sirdma_path *path = &params->path;

	/*
	 * sirdma_av_destroy() cleared ctrl: the device sees the cleared word before the words
	 * below. This pairs with snic_av_read().
	 */
	smp_wmb();
	av->mac = cpu_to_le64(sirdma_mac_to_word(params->mac));
	av->dst_ip = path->dst_ip;
	av->flow_label = cpu_to_le32(sirdma_path_flow_label(path));
	av->sgid_idx = cpu_to_le16(params->sgid_idx);
	av->udp_sport = cpu_to_le16(sirdma_udp_sport(path->flow_label, idx, SPORT_SALT));
	av->hop_limit = sirdma_path_hop_limit(path);
	av->traffic_class = path->traffic_class;
	av->vlan_prio = path->sl;
	smp_wmb(); /* pairs with snic_av_read() */
	WRITE_ONCE(av->ctrl, cpu_to_le64(SIRDMA_PREP(SIRDMA_AV_PD, params->pd) |
					 SIRDMA_PREP(SIRDMA_AV_SEQ, seq) | SIRDMA_AV_VALID));
}

int sirdma_av_create(struct sirdma_hw *hw, const struct sirdma_av_params *params,
		     enum sirdma_av_consumer who, u32 *idx)
{
	struct sirdma_av_table *avs = &hw->avs;
	u32 seq = 0;
	int err;

	if (!avs->limit)
		return -EOPNOTSUPP;
	*idx = av_take(hw, who, &seq);
	/* Another thread may take the vectors that this call has backed. */
	while (!*idx && who != SIRDMA_AV_ATOMIC && av_left(hw, who)) {
		err = av_fill(hw, who == SIRDMA_AV_USER ? SIRDMA_AV_RESERVE : 1);
		if (err)
			return err;
		*idx = av_take(hw, who, &seq);
	}
	if (!*idx)
		return -ENOMEM;
	av_write(av_at(hw, *idx), params, *idx, seq);
	return 0;
}

void sirdma_av_destroy(struct sirdma_hw *hw, u32 idx)
{
	WRITE_ONCE(av_at(hw, idx)->ctrl, 0);
	av_give(&hw->avs, idx);
}
