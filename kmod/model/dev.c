// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The device: creation, registers, reset, port state. */
#include "dev.h"
#include "cq.h"
#include "cqp.h"
#include "mr.h"
#include "qp_cmd.h"
#include "srq.h"

#define LINK_MTU_MAX 0xffffu

static bool cfg_in_range(const char *name, u32 val, u32 low, u32 high)
{
	if (val >= low && val <= high)
		return true;
	port_warn("device configuration: %s is %u, not in %u..%u", name, val, low, high);
	return false;
}

static bool cfg_valid(const struct snic_config *cfg)
{
	return cfg_in_range("max_qps", cfg->max_qps, 3, 1u << 18) &&
	       cfg_in_range("max_cqs", cfg->max_cqs, 1, 1u << 19) &&
	       cfg_in_range("max_srqs", cfg->max_srqs, 2, 1u << 16) &&
	       cfg_in_range("max_mrs", cfg->max_mrs, 2, 1u << 24) &&
	       cfg_in_range("max_pds", cfg->max_pds, 1, SNIC_PD_OF_QP) &&
	       cfg_in_range("max_sds", cfg->max_sds, 1, SIRDMA_HMC_MAX_SD) &&
	       cfg_in_range("max_ceqs", cfg->max_ceqs, 1, 1023) &&
	       cfg_in_range("max_arp", cfg->max_arp, 1, 65536) &&
	       cfg_in_range("max_sgids", cfg->max_sgids, 1, 1024) &&
	       cfg_in_range("max_cqe", cfg->max_cqe, SIRDMA_MIN_CQ_ELEMENTS, 1u << 20);
}

static void dev_free(struct snic_dev *dev)
{
	port_stats_fini(&dev->stats);
	snic_hmc_fini(dev);
	snic_mcast_fini(&dev->mcasts);
	snic_table_fini(&dev->mrs);
	snic_domains_fini(dev);
	snic_table_fini(&dev->srqs);
	snic_table_fini(&dev->cqs);
	snic_table_fini(&dev->qps);
	port_free(dev->sgids);
	port_free(dev->arps);
	port_free(dev->ceqs);
	port_free(dev);
}

/* Allocate what dev_free() frees. The caller calls dev_free() after a failure as well. */
static int dev_alloc_tables(struct snic_dev *dev)
{
	const struct snic_config *cfg = &dev->cfg;

	dev->ceqs = port_alloc(cfg->max_ceqs * sizeof(*dev->ceqs));
	dev->arps = port_alloc(cfg->max_arp * sizeof(*dev->arps));
	dev->sgids = port_alloc(cfg->max_sgids * sizeof(*dev->sgids));
	if (!dev->ceqs || !dev->arps || !dev->sgids ||
	    port_stats_init(&dev->stats, SIRDMA_STAT_COUNT))
		return -ENOMEM;
	if (snic_table_init(&dev->qps, cfg->max_qps) || snic_table_init(&dev->cqs, cfg->max_cqs) ||
	    snic_table_init(&dev->srqs, cfg->max_srqs) || snic_mcast_init(&dev->mcasts) ||
	    snic_domains_init(dev))
		return -ENOMEM;
	return snic_table_init(&dev->mrs, cfg->max_mrs);
}

struct snic_dev *snic_dev_create(const struct snic_config *cfg, const struct snic_host_ops *ops,
				 struct snic_host *host, struct port_dma *dma,
				 struct port_clock *clock)
{
	struct snic_dev *dev;

	if (!cfg_valid(cfg))
		return NULL;
	dev = port_alloc(sizeof(*dev));
	if (!dev)
		goto err_memory;
	dev->cfg = *cfg;
	dev->ops = ops;
	dev->host = host;
	dev->dma = dma;
	dev->clock = clock;
	memcpy(dev->mac, cfg->mac, sizeof(dev->mac));
	port_mutex_init(&dev->reset);
	port_lock_init(&dev->addr_lock);
	port_lock_init(&dev->mw_lock);
	snic_cqp_init(dev);
	snic_hmc_init(dev);
	if (dev_alloc_tables(dev))
		goto err_free;
	snic_eq_init(dev);
	snic_prq_init(dev);
	dev->status = SIRDMA_STATUS_READY;
	return dev;

err_free:
	dev_free(dev);
err_memory:
	port_warn("device: out of memory");
	return NULL;
}

/*
 * Destroy all objects; the users of an object go before the object. The device accesses no host
 * memory after this function returns.
 */
static void dev_clear(struct snic_dev *dev)
{
	WRITE_ONCE(dev->status, 0);
	snic_cqp_stop(dev);
	snic_mcast_destroy_all(dev);
	snic_qp_destroy_all(dev);
	snic_srq_destroy_all(dev);
	snic_cq_destroy_all(dev);
	snic_mr_destroy_all(dev);
	snic_prq_reset(dev);
	snic_eq_reset(dev);
	snic_hmc_reset(dev);
	port_lock(&dev->addr_lock);
	memset(dev->arps, 0, dev->cfg.max_arp * sizeof(*dev->arps));
	memset(dev->sgids, 0, dev->cfg.max_sgids * sizeof(*dev->sgids));
	dev->tables_gen++;
	dev->sgids_gen++;
	port_unlock(&dev->addr_lock);
	WRITE_ONCE(dev->int_mask, 0);
	WRITE_ONCE(dev->cqp.ctx_low, 0);
}

void snic_dev_destroy(struct snic_dev *dev)
{
	dev_clear(dev);
	dev_free(dev);
}

static void dev_reset(struct snic_dev *dev)
{
	port_mutex_lock(&dev->reset);
	dev_clear(dev);
	WRITE_ONCE(dev->status, SIRDMA_STATUS_READY);
	port_mutex_unlock(&dev->reset);
}

void snic_dev_fault(struct snic_dev *dev)
{
	snic_fault(dev);
}

/* Registers */

static u32 mac_bytes(const u8 *mac, u32 first, u32 count)
{
	u32 i, val = 0;

	for (i = 0; i < count; i++)
		val |= (u32)mac[first + i] << (8 * i);
	return val;
}

u32 snic_reg_read(struct snic_dev *dev, u32 reg)
{
	switch (reg) {
	case SIRDMA_REG_ID:
		return SIRDMA_ID_MAGIC;
	case SIRDMA_REG_VERSION:
		return SIRDMA_HW_VERSION;
	case SIRDMA_REG_STATUS:
		return READ_ONCE(dev->status);
	case SIRDMA_REG_CCQPLOW:
		return READ_ONCE(dev->cqp.ctx_low);
	case SIRDMA_REG_CCQPSTATUS:
		return READ_ONCE(dev->cqp.status);
	case SIRDMA_REG_CQPTAIL:
		/* This load pairs with the release in cqp_complete(). */
		return smp_load_acquire(&dev->cqp.tail_reg);
	case SIRDMA_REG_CQPERRCODES:
		return READ_ONCE(dev->cqp.err_codes);
	case SIRDMA_REG_LINK:
		return READ_ONCE(dev->link);
	case SIRDMA_REG_MACLOW:
		return mac_bytes(dev->mac, 0, 4);
	case SIRDMA_REG_MACHIGH:
		return mac_bytes(dev->mac, 4, 2);
	case SIRDMA_REG_INT_MASK:
		return READ_ONCE(dev->int_mask);
	default:
		return 0;
	}
}

static void set_int_mask(struct snic_dev *dev, u32 mask)
{
	u32 old = READ_ONCE(dev->int_mask);

	WRITE_ONCE(dev->int_mask, mask);
	/*
	 * A masked vector raised no interrupt for its events: raise the interrupt now if the queue
	 * of the vector holds any.
	 */
	smp_mb();
	snic_eq_unmask(dev, old & ~mask);
}

void snic_reg_write(struct snic_dev *dev, u32 reg, u32 val)
{
	switch (reg) {
	case SIRDMA_REG_CTRL:
		if (val & SIRDMA_CTRL_RESET)
			dev_reset(dev);
		break;
	case SIRDMA_REG_CCQPLOW:
		WRITE_ONCE(dev->cqp.ctx_low, val);
		break;
	case SIRDMA_REG_CCQPHIGH:
		snic_cqp_start(dev, (u64)val << 32 | READ_ONCE(dev->cqp.ctx_low));
		break;
	case SIRDMA_REG_CQPDB:
		snic_cqp_ring(dev, val);
		break;
	case SIRDMA_REG_PMPDINV:
		snic_hmc_invalidate_pd(dev, val);
		break;
	case SIRDMA_REG_AEQALLOC:
		snic_aeq_ack(dev, val);
		break;
	case SIRDMA_REG_PRQACK:
		snic_prq_ack(dev, val);
		break;
	case SIRDMA_REG_PBLESYNC:
		snic_pble_sync(dev, val);
		break;
	case SIRDMA_REG_CEQACK:
		snic_ceq_ack(dev, val);
		break;
	case SIRDMA_REG_CQARM:
		snic_cq_arm(dev, val);
		break;
	case SIRDMA_REG_WQEALLOC:
		snic_qp_kick(dev, val);
		break;
	case SIRDMA_REG_INT_MASK:
		set_int_mask(dev, val);
		break;
	default:
		break;
	}
}

/* Port state and counters */

void snic_link_set(struct snic_dev *dev, bool up, u32 mtu)
{
	u32 link = SIRDMA_PREP(SIRDMA_LINK_MTU, min(mtu, LINK_MTU_MAX));

	if (up)
		link |= SIRDMA_LINK_UP;
	WRITE_ONCE(dev->link, link);
}

void snic_mac_set(struct snic_dev *dev, const u8 mac[6])
{
	memcpy(dev->mac, mac, sizeof(dev->mac));
}

void snic_rx_reject(struct snic_dev *dev, enum sirdma_stat why)
{
	snic_stat_inc(dev, why);
}

u64 snic_stat_read(struct snic_dev *dev, enum sirdma_stat id)
{
	return port_stats_read(&dev->stats, id);
}

void snic_stat_add(struct snic_dev *dev, enum sirdma_stat id, u64 n)
{
	port_stats_add(&dev->stats, id, n);
}
