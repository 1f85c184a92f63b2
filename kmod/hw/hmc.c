// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Host memory cache, driver side. */
#include "hmc.h"
#include "cqp_cmd.h"
#include "hw.h"

#define SD_OFFSET(off) ((u32)((off) & (SIRDMA_HMC_SD_SIZE - 1)))

int sirdma_hmc_init(struct sirdma_hw *hw, u32 max_sds)
{
	struct sirdma_hmc *hmc = &hw->hmc;

	memset(hmc, 0, sizeof(*hmc));
	if (!max_sds || max_sds > SIRDMA_HMC_MAX_SD)
		return -EINVAL;
	port_mutex_init(&hmc->lock);
	hmc->max_sds = max_sds;
	return 0;
}

static struct sirdma_hmc_sd *sd_get(const struct sirdma_hmc *hmc, u32 idx)
{
	struct sirdma_hmc_sd **group;

	if (idx >= hmc->max_sds)
		return NULL;
	/* This load pairs with sd_make(): a group is zeroed before it is visible. */
	group = smp_load_acquire(&hmc->groups[idx / SIRDMA_HMC_SD_GROUP]);
	if (!group)
		return NULL;
	/* This load pairs with sd_set(). */
	return smp_load_acquire(&group[idx % SIRDMA_HMC_SD_GROUP]);
}

static void sd_set(struct sirdma_hmc *hmc, u32 idx, struct sirdma_hmc_sd *sd)
{
	/*
	 * This store pairs with sd_get(), which may run without the lock: the segment is complete
	 * before it is visible.
	 */
	smp_store_release(&hmc->groups[idx / SIRDMA_HMC_SD_GROUP][idx % SIRDMA_HMC_SD_GROUP], sd);
}

/* Tell the device that segment @idx exists, or, with @valid false, that it is about to go. */
static int sd_update(struct sirdma_hw *hw, u32 idx, const struct sirdma_hmc_sd *sd, bool valid)
{
	u64 data = sd->block.pa & SIRDMA_SDDATA_ADDR;
	struct sirdma_sd_entry entry = {
		.cmd = cpu_to_le64(SIRDMA_SDCMD_VALID | SIRDMA_SDCMD_WR |
				   SIRDMA_PREP(SIRDMA_SDCMD_SDIDX, idx)),
	};

	data |= SIRDMA_PREP(SIRDMA_SDDATA_BPCOUNT, SIRDMA_HMC_PD_PER_SD);
	if (sd->direct)
		data |= SIRDMA_SDDATA_DIRECT;
	if (valid)
		data |= SIRDMA_SDDATA_VALID;
	entry.data = cpu_to_le64(data);
	return sirdma_cqp_update_sds(hw, &entry, 1);
}

static void page_unback(struct sirdma_hw *hw, struct sirdma_hmc_sd *sd, u32 page)
{
	hw->bus->ops->dma_free(hw->bus, &sd->pages[page]);
	memset(&sd->pages[page], 0, sizeof(sd->pages[page]));
	sd->num_pages--;
	hw->hmc.backed_bytes -= SIRDMA_PAGE_SIZE;
}

static void sd_free(struct sirdma_hw *hw, struct sirdma_hmc_sd *sd)
{
	u32 page;

	if (sd->direct)
		hw->hmc.backed_bytes -= SIRDMA_HMC_SD_SIZE;
	for (page = 0; sd->pages && page < SIRDMA_HMC_PD_PER_SD; page++)
		if (sd->pages[page].va)
			page_unback(hw, sd, page);
	hw->bus->ops->dma_free(hw->bus, &sd->block);
	port_free(sd->pages);
	port_free(sd);
}

void sirdma_hmc_fini(struct sirdma_hw *hw)
{
	struct sirdma_hmc *hmc = &hw->hmc;
	struct sirdma_hmc_sd *sd;
	u32 i;

	for (i = 0; i < hmc->max_sds; i++) {
		sd = sd_get(hmc, i);
		if (sd)
			sd_free(hw, sd);
	}
	for (i = 0; i < ARRAY_SIZE(hmc->groups); i++) {
		port_free(hmc->groups[i]);
		hmc->groups[i] = NULL;
	}
	hmc->direct_sds = 0;
	hmc->paged_sds = 0;
}

/* Allocate a segment, a direct one if @direct. Returns NULL without memory. */
static struct sirdma_hmc_sd *sd_alloc(struct sirdma_hw *hw, bool direct)
{
	struct sirdma_hmc_sd *sd = port_alloc(sizeof(*sd));

	if (!sd)
		return NULL;
	sd->direct = direct;
	if (!direct) {
		sd->pages = port_alloc(SIRDMA_HMC_PD_PER_SD * sizeof(*sd->pages));
		if (!sd->pages)
			goto err_free_sd;
	}
	if (hw->bus->ops->dma_alloc(hw->bus, direct ? SIRDMA_HMC_SD_SIZE : SIRDMA_PAGE_SIZE,
				    &sd->block))
		goto err_free_pages;
	if (direct)
		hw->hmc.backed_bytes += SIRDMA_HMC_SD_SIZE;
	return sd;

err_free_pages:
	port_free(sd->pages);
err_free_sd:
	port_free(sd);
	return NULL;
}

/* @out gets the segment at @idx, which the function makes if there is none. */
static int sd_make(struct sirdma_hw *hw, u32 idx, struct sirdma_hmc_sd **out)
{
	struct sirdma_hmc *hmc = &hw->hmc;
	struct sirdma_hmc_sd ***group = &hmc->groups[idx / SIRDMA_HMC_SD_GROUP];
	struct sirdma_hmc_sd **made, *sd = NULL;
	int err;

	*out = sd_get(hmc, idx);
	if (*out)
		return 0;
	if (!*group) {
		made = port_alloc(SIRDMA_HMC_SD_GROUP * sizeof(*made));
		if (!made)
			return -ENOMEM;
		/* This load pairs with sd_get(). */
		smp_store_release(group, made);
	}
	if (idx && idx != hmc->av_sd && !hmc->force_paged)
		sd = sd_alloc(hw, true);
	if (!sd)
		sd = sd_alloc(hw, false);
	if (!sd)
		return -ENOMEM;
	err = sd_update(hw, idx, sd, true);
	if (err) {
		sd_free(hw, sd);
		return err;
	}
	if (sd->direct)
		hmc->direct_sds++;
	else
		hmc->paged_sds++;
	sd_set(hmc, idx, sd);
	*out = sd;
	return 0;
}

/* Write one page descriptor and invalidate the device's cached copy. */
static void pd_write(struct sirdma_hw *hw, u32 idx, struct sirdma_hmc_sd *sd, u32 page, u64 pd)
{
	__le64 *table = sd->block.va;

	WRITE_ONCE(table[page], cpu_to_le64(pd));
	sirdma_wr32(hw->bus, SIRDMA_REG_PMPDINV,
		    (u32)(SIRDMA_PREP(SIRDMA_PMPDINV_SDIDX, idx) |
			  SIRDMA_PREP(SIRDMA_PMPDINV_PDIDX, page)));
}

/* Back pages [first, last] of a paged segment. On failure free the pages that were added. */
static int pages_back(struct sirdma_hw *hw, u32 idx, struct sirdma_hmc_sd *sd, u32 first, u32 last)
{
	u64 added[SIRDMA_HMC_PD_PER_SD / 64] = {};
	u32 page;
	int err;

	for (page = first; page <= last; page++) {
		if (sd->pages[page].va)
			continue;
		err = hw->bus->ops->dma_alloc(hw->bus, SIRDMA_PAGE_SIZE, &sd->pages[page]);
		if (err) {
			sd->pages[page].va = NULL;
			goto err_unback;
		}
		added[page / 64] |= 1ull << (page % 64);
		sd->num_pages++;
		hw->hmc.backed_bytes += SIRDMA_PAGE_SIZE;
		pd_write(hw, idx, sd, page, sd->pages[page].pa | SIRDMA_PD_VALID);
	}
	return 0;

err_unback:
	while (page-- > first) {
		if (!(added[page / 64] & (1ull << (page % 64))))
			continue;
		pd_write(hw, idx, sd, page, 0);
		page_unback(hw, sd, page);
	}
	return err;
}

/* Withdraw segment @idx, which exists: tell the device first. */
static int sd_release(struct sirdma_hw *hw, u32 idx)
{
	struct sirdma_hmc *hmc = &hw->hmc;
	struct sirdma_hmc_sd *sd = sd_get(hmc, idx);
	int err;

	err = sd_update(hw, idx, sd, false);
	/* A dead queue means that the device was reset: the device keeps nothing. */
	if (err && !hw->cqp.dead) {
		port_warn("HMC segment %u: the device keeps it: %d", idx, err);
		return err;
	}
	if (sd->direct)
		hmc->direct_sds--;
	else
		hmc->paged_sds--;
	sd_set(hmc, idx, NULL);
	sd_free(hw, sd);
	return 0;
}

static int back_locked(struct sirdma_hw *hw, u32 idx, u32 off, u32 len)
{
	bool existed = sd_get(&hw->hmc, idx);
	struct sirdma_hmc_sd *sd;
	int err;

	err = sd_make(hw, idx, &sd);
	if (err || sd->direct)
		return err;
	err = pages_back(hw, idx, sd, off / SIRDMA_PAGE_SIZE, (off + len - 1) / SIRDMA_PAGE_SIZE);
	if (err && !existed)
		sd_release(hw, idx);
	return err;
}

int sirdma_hmc_back(struct sirdma_hw *hw, u64 off, u32 len)
{
	struct sirdma_hmc *hmc = &hw->hmc;
	u64 idx = off / SIRDMA_HMC_SD_SIZE;
	int err;

	if (idx >= hmc->max_sds || !len || len > SIRDMA_HMC_SD_SIZE - SD_OFFSET(off))
		return -EINVAL;
	port_mutex_lock(&hmc->lock);
	err = back_locked(hw, (u32)idx, SD_OFFSET(off), len);
	port_mutex_unlock(&hmc->lock);
	return err;
}

void *sirdma_hmc_va(struct sirdma_hw *hw, u64 off)
{
	u64 idx = off / SIRDMA_HMC_SD_SIZE;
	struct sirdma_hmc_sd *sd;
	u8 *page;

	sd = idx < hw->hmc.max_sds ? sd_get(&hw->hmc, (u32)idx) : NULL;
	if (!sd)
		return NULL;
	if (sd->direct)
		return (u8 *)sd->block.va + SD_OFFSET(off);
	page = sd->pages[SD_OFFSET(off) / SIRDMA_PAGE_SIZE].va;
	return page ? page + off % SIRDMA_PAGE_SIZE : NULL;
}

int sirdma_hmc_release_sd(struct sirdma_hw *hw, u32 sd)
{
	int err = 0;

	port_mutex_lock(&hw->hmc.lock);
	if (sd_get(&hw->hmc, sd))
		err = sd_release(hw, sd);
	port_mutex_unlock(&hw->hmc.lock);
	return err;
}
