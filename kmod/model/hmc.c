// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Host memory cache: segment descriptors, page descriptors, PBLE reads. */
#include "hmc.h"
#include "dev.h"

static struct snic_sd *hmc_sd(struct snic_hmc *hmc, u32 idx)
{
	struct snic_sd *group;

	if (idx >= SIRDMA_HMC_MAX_SD)
		return NULL;
	group = port_rcu_deref(hmc->sds[idx / SNIC_SD_GROUP]);
	return group ? &group[idx % SNIC_SD_GROUP] : NULL;
}

int snic_hmc_init(struct snic_dev *dev)
{
	port_mutex_init(&dev->hmc.lock);
	port_lock_init(&dev->hmc.pd_lock);
	return 0;
}

/* Drop the translation of @sd. The caller holds hmc->lock. */
static void sd_clear(struct snic_sd *sd)
{
	struct snic_hmc_pds *pds = sd->pds;

	WRITE_ONCE(sd->block, NULL);
	port_rcu_assign(sd->pds, NULL);
	if (pds)
		port_free_rcu(pds, rcu);
}

void snic_hmc_reset(struct snic_dev *dev)
{
	struct snic_hmc *hmc = &dev->hmc;
	struct snic_sd *sd;
	u32 i;

	port_mutex_lock(&hmc->lock);
	WRITE_ONCE(hmc->pble_count, 0);
	WRITE_ONCE(hmc->av_count, 0);
	for (i = 0; i < SIRDMA_HMC_MAX_SD; i++) {
		sd = hmc_sd(hmc, i);
		if (sd)
			sd_clear(sd);
	}
	port_mutex_unlock(&hmc->lock);
}

void snic_hmc_fini(struct snic_dev *dev)
{
	u32 i;

	snic_hmc_reset(dev);
	for (i = 0; i < ARRAY_SIZE(dev->hmc.sds); i++) {
		port_free(dev->hmc.sds[i]);
		dev->hmc.sds[i] = NULL;
	}
}

/* One entry of an update: checked and allocated, not committed. */
struct snic_sd_update {
	struct snic_sd *sd;
	void *block;
	struct snic_hmc_pds *pds;
};

static u32 sd_group_make(struct snic_hmc *hmc, u32 idx)
{
	struct snic_sd *group;

	if (hmc_sd(hmc, idx))
		return SIRDMA_CQP_OK;
	group = port_alloc(SNIC_SD_GROUP * sizeof(*group));
	if (!group)
		return SIRDMA_CQP_NO_MEMORY;
	port_rcu_assign(hmc->sds[idx / SNIC_SD_GROUP], group);
	return SIRDMA_CQP_OK;
}

static u32 sd_prepare(struct snic_dev *dev, const struct sirdma_sd_entry *entry,
		      struct snic_sd_update *update)
{
	u64 cmd = le64_to_cpu(entry->cmd), data = le64_to_cpu(entry->data);
	u32 idx = SIRDMA_GET(SIRDMA_SDCMD_SDIDX, cmd), status;
	u64 addr = data & SIRDMA_SDDATA_ADDR;
	void *table;

	if (!(cmd & SIRDMA_SDCMD_VALID) || !(cmd & SIRDMA_SDCMD_WR))
		return SIRDMA_CQP_BAD_PARAM;
	if (idx >= dev->cfg.max_sds)
		return SIRDMA_CQP_BAD_INDEX;
	status = sd_group_make(&dev->hmc, idx);
	if (status)
		return status;
	update->sd = hmc_sd(&dev->hmc, idx);
	if (!(data & SIRDMA_SDDATA_VALID))
		return SIRDMA_CQP_OK;
	if (data & SIRDMA_SDDATA_DIRECT) {
		update->block = port_dma_ptr(dev->dma, addr, SIRDMA_HMC_SD_SIZE);
		return update->block ? SIRDMA_CQP_OK : SIRDMA_CQP_BAD_ADDRESS;
	}
	table = port_dma_ptr(dev->dma, addr, SIRDMA_PAGE_SIZE);
	if (!table)
		return SIRDMA_CQP_BAD_ADDRESS;
	update->pds = port_alloc(sizeof(*update->pds));
	if (!update->pds)
		return SIRDMA_CQP_NO_MEMORY;
	update->pds->table = table;
	return SIRDMA_CQP_OK;
}

u32 snic_hmc_update_sds(struct snic_dev *dev, const struct sirdma_sd_entry *entries, u32 count)
{
	struct snic_sd_update updates[SIRDMA_CQP_SDS_MAX] = {};
	u32 i, status = SIRDMA_CQP_OK;

	if (!count || count > ARRAY_SIZE(updates))
		return SIRDMA_CQP_BAD_PARAM;
	port_mutex_lock(&dev->hmc.lock);
	for (i = 0; i < count && !status; i++)
		status = sd_prepare(dev, &entries[i], &updates[i]);
	for (i = 0; i < count; i++) {
		if (status) {
			port_free(updates[i].pds);
			continue;
		}
		sd_clear(updates[i].sd);
		/* Pairs with the dereferences in snic_pble_read(). */
		port_rcu_assign(updates[i].sd->block, updates[i].block);
		port_rcu_assign(updates[i].sd->pds, updates[i].pds);
	}
	port_mutex_unlock(&dev->hmc.lock);
	return status;
}

u32 snic_hmc_max_pbles(struct snic_dev *dev)
{
	u64 max = (u64)dev->cfg.max_sds * (SIRDMA_HMC_SD_SIZE / SIRDMA_PBLE_SIZE);

	return min_t(u64, max, SIRDMA_CQP_FIRST_PBLE + 1);
}

u32 snic_hmc_max_avs(struct snic_dev *dev)
{
	u64 max = (u64)dev->cfg.max_sds * (SIRDMA_HMC_SD_SIZE / sizeof(struct sirdma_av));

	return (u32)min_t(u64, max, SIRDMA_WQE_AHID + 1);
}

/* Does an array of @count elements of @size bytes at @base fit HMC space? */
static bool array_fits(struct snic_dev *dev, u64 base, u32 count, u32 size)
{
	u64 space = (u64)dev->cfg.max_sds * SIRDMA_HMC_SD_SIZE;

	return base <= space && (u64)count * size <= space - base;
}

u32 snic_hmc_commit(struct snic_dev *dev, const struct snic_hmc_layout *layout)
{
	struct snic_hmc *hmc = &dev->hmc;

	if (layout->pble_count > snic_hmc_max_pbles(dev) ||
	    layout->av_count > snic_hmc_max_avs(dev) ||
	    !array_fits(dev, layout->pble_base, layout->pble_count, SIRDMA_PBLE_SIZE) ||
	    !array_fits(dev, layout->av_base, layout->av_count, sizeof(struct sirdma_av)))
		return SIRDMA_CQP_BAD_PARAM;
	/* Indices that objects use would then name other memory. The CCQ uses no index. */
	if (dev->qps.count || dev->mrs.count || dev->cqs.count > (dev->cqp.ccq ? 1 : 0))
		return SIRDMA_CQP_BAD_STATE;
	port_mutex_lock(&hmc->lock);
	hmc->pble_base = layout->pble_base;
	hmc->av_base = layout->av_base;
	/* This store pairs with snic_pble_read(), which reads the count before the base. */
	smp_store_release(&hmc->pble_count, layout->pble_count);
	/* This store pairs with av_at(), which also reads the count before the base. */
	smp_store_release(&hmc->av_count, layout->av_count);
	port_mutex_unlock(&hmc->lock);
	return SIRDMA_CQP_OK;
}

void snic_hmc_invalidate_pd(struct snic_dev *dev, u32 val)
{
	struct snic_sd *sd = hmc_sd(&dev->hmc, SIRDMA_GET(SIRDMA_PMPDINV_SDIDX, val));
	u32 pd = SIRDMA_GET(SIRDMA_PMPDINV_PDIDX, val);
	struct snic_hmc_pds *pds;

	if (!sd)
		return;
	port_rcu_read_lock();
	pds = port_rcu_deref(sd->pds);
	if (pds) {
		port_lock(&dev->hmc.pd_lock);
		WRITE_ONCE(pds->pages[pd], NULL);
		port_unlock(&dev->hmc.pd_lock);
	}
	port_rcu_read_unlock();
}

/*
 * Read page descriptor @pd and cache it. The lock orders this against an invalidation: either this
 * function reads the new descriptor, or the invalidation drops the cached one.
 */
static noinline void *hmc_fill(struct snic_dev *dev, struct snic_hmc_pds *pds, u32 pd)
{
	void *page = NULL;
	u64 desc;

	port_lock(&dev->hmc.pd_lock);
	desc = le64_to_cpu(READ_ONCE(pds->table[pd]));
	if (desc & SIRDMA_PD_VALID)
		page = port_dma_ptr(dev->dma, desc & SIRDMA_PD_ADDR, SIRDMA_PAGE_SIZE);
	WRITE_ONCE(pds->pages[pd], page);
	port_unlock(&dev->hmc.pd_lock);
	return page;
}

/*
 * The address of HMC byte @off of a paged segment, or NULL if the byte is not backed. The caller
 * holds port_rcu_read_lock().
 */
static inline void *hmc_paged(struct snic_dev *dev, struct snic_sd *sd, u32 off)
{
	struct snic_hmc_pds *pds = port_rcu_deref(sd->pds);
	u32 pd = off / SIRDMA_PAGE_SIZE;
	u8 *page;

	if (!pds)
		return NULL;
	page = READ_ONCE(pds->pages[pd]);
	if (unlikely(!page))
		page = hmc_fill(dev, pds, pd);
	return page ? page + off % SIRDMA_PAGE_SIZE : NULL;
}

static inline bool hmc_read_paged(struct snic_dev *dev, struct snic_sd *sd, u32 off, u64 *val)
{
	const __le64 *word;

	port_rcu_read_lock();
	word = hmc_paged(dev, sd, off);
	if (word)
		*val = le64_to_cpu(READ_ONCE(*word));
	port_rcu_read_unlock();
	return word;
}

bool snic_pble_read(struct snic_dev *dev, u32 idx, u64 *val)
{
	struct snic_hmc *hmc = &dev->hmc;
	struct snic_sd *sd;
	const u8 *block;
	u64 addr;
	u32 off;

	/* This load pairs with the release in snic_hmc_commit(). */
	if (unlikely(idx >= smp_load_acquire(&hmc->pble_count)))
		goto fault;
	addr = hmc->pble_base + (u64)idx * SIRDMA_PBLE_SIZE;
	off = addr % SIRDMA_HMC_SD_SIZE;
	sd = hmc_sd(hmc, addr / SIRDMA_HMC_SD_SIZE);
	if (unlikely(!sd))
		goto fault;
	block = port_rcu_deref(sd->block);
	if (likely(block)) {
		*val = le64_to_cpu(READ_ONCE(*(const __le64 *)(block + off)));
		return true;
	}
	if (likely(hmc_read_paged(dev, sd, off, val)))
		return true;
fault:
	snic_stat_inc(dev, SIRDMA_STAT_HMC_FAULTS);
	return false;
}

/*
 * The address of byte @addr of HMC space, or NULL if the byte is not backed. The caller holds
 * port_rcu_read_lock().
 */
static void *hmc_at(struct snic_dev *dev, u64 addr)
{
	struct snic_sd *sd = hmc_sd(&dev->hmc, addr / SIRDMA_HMC_SD_SIZE);
	u32 off = addr % SIRDMA_HMC_SD_SIZE;
	u8 *block;

	if (unlikely(!sd))
		return NULL;
	block = port_rcu_deref(sd->block);
	return block ? block + off : hmc_paged(dev, sd, off);
}

__le64 *snic_pbles_at(struct snic_dev *dev, u32 idx, u32 *count)
{
	struct snic_hmc *hmc = &dev->hmc;
	/* This load pairs with the release in snic_hmc_commit(). */
	u32 pbles = smp_load_acquire(&hmc->pble_count);
	u64 addr = hmc->pble_base + (u64)idx * SIRDMA_PBLE_SIZE;
	__le64 *first = NULL;

	if (likely(idx < pbles && *count <= pbles - idx))
		first = hmc_at(dev, addr);
	if (unlikely(!first)) {
		snic_stat_inc(dev, SIRDMA_STAT_HMC_FAULTS);
		return NULL;
	}
	*count =
		min_t(u32, *count, (SIRDMA_PAGE_SIZE - addr % SIRDMA_PAGE_SIZE) / SIRDMA_PBLE_SIZE);
	return first;
}

/* Address vectors */

/* The caller holds port_rcu_read_lock(). */
static const struct sirdma_av *av_at(struct snic_dev *dev, u32 idx)
{
	struct snic_hmc *hmc = &dev->hmc;

	/* This load pairs with the release in snic_hmc_commit(). */
	if (unlikely(idx >= smp_load_acquire(&hmc->av_count)))
		return NULL;
	return hmc_at(dev, hmc->av_base + (u64)idx * sizeof(struct sirdma_av));
}

bool snic_av_ctrl(struct snic_dev *dev, u32 idx, u64 *ctrl)
{
	const struct sirdma_av *av;

	port_rcu_read_lock();
	av = av_at(dev, idx);
	if (likely(av))
		*ctrl = le64_to_cpu(READ_ONCE(av->ctrl));
	port_rcu_read_unlock();
	return av;
}

bool snic_av_read(struct snic_dev *dev, u32 idx, struct sirdma_av *out)
{
	const struct sirdma_av *av;
	bool valid = false;
	__le64 ctrl;

	port_rcu_read_lock();
	av = av_at(dev, idx);
	if (av) {
		ctrl = READ_ONCE(av->ctrl);
		smp_rmb(); /* the other words are as new as this one: pairs with the driver's */
		memcpy(out, av, sizeof(*out));
		smp_rmb(); /* and as old: pairs with the driver's, which clears it first */
		valid = (le64_to_cpu(ctrl) & SIRDMA_AV_VALID) && ctrl == READ_ONCE(av->ctrl);
		out->ctrl = ctrl;
	}
	port_rcu_read_unlock();
	return valid;
}
