// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Probe and removal of a device. */
#include "hw.h"
#include "cqp_cmd.h"

#define DEFAULT_CQP_ENTRIES 64
#define DEFAULT_NUM_CEQS 1
#define DEFAULT_EQ_ENTRIES 4096
#define DEFAULT_TIMEOUT_MS 5000
#define RESET_TIMEOUT_MS 1000
#define MAX_CEQ_ENTRIES (1u << 19) /* one lap fits SIRDMA_CEQACK_COUNT */
#define MAX_AEQ_ENTRIES (1u << 19)
#define MAX_CEQS 1023
/* The largest numbers that fit the fields of the hardware interface. */
#define MAX_QPS (1u << 18)
#define MAX_CQS (1u << 19)
#define MAX_STAGS (1u << 24)
#define MAX_PDS (1u << 24)
#define MAX_INDEX16 (1u << 16)
#define MAX_RD_ATOMIC 255

static void sleep_ms(u32 ms)
{
	struct port_event never;

	port_event_init(&never);
	port_event_wait(&never, ms);
}

int sirdma_hw_poll(struct sirdma_hw *hw, u32 reg, u32 bits, u32 timeout_ms, u32 *val)
{
	u64 until = port_now_ns(NULL) + timeout_ms * 1000000ull;

	for (;;) {
		*val = sirdma_rd32(hw->bus, reg);
		if (*val & bits)
			return 0;
		if (port_now_ns(NULL) >= until)
			return -ETIMEDOUT;
		sleep_ms(1);
	}
}

int sirdma_hw_reset(struct sirdma_hw *hw)
{
	u32 status;
	int err;

	sirdma_wr32(hw->bus, SIRDMA_REG_CTRL, (u32)SIRDMA_CTRL_RESET);
	err = sirdma_hw_poll(hw, SIRDMA_REG_STATUS, (u32)SIRDMA_STATUS_READY, RESET_TIMEOUT_MS,
			     &status);
	if (err)
		port_warn("device does not come out of reset: status 0x%x", status);
	return err;
}

int sirdma_hw_check(struct sirdma_hw *hw)
{
	u32 status = sirdma_rd32(hw->bus, SIRDMA_REG_STATUS);

	/*
	 * All bits are ones: the function is gone from its bus. STATUS_READY is not checked, since
	 * a reset in progress is the driver's own.
	 */
	if (status == ~0u || (status & SIRDMA_STATUS_FAULT))
		return -EIO;
	return READ_ONCE(hw->cqp.dead) ? -EIO : 0;
}

static int hw_identify(struct sirdma_hw *hw)
{
	u32 id = sirdma_rd32(hw->bus, SIRDMA_REG_ID);
	u32 version;

	if (id != SIRDMA_ID_MAGIC) {
		port_warn("not our device: id 0x%08x", id);
		return -ENODEV;
	}
	version = sirdma_rd32(hw->bus, SIRDMA_REG_VERSION);
	if (version >> 16 != SIRDMA_HW_VERSION >> 16) {
		port_warn("device generation %u is not supported", version >> 16);
		return -ENODEV;
	}
	return 0;
}

static int hw_config(struct sirdma_hw *hw, const struct sirdma_hw_config *cfg)
{
	hw->cfg = *cfg;
	if (!hw->cfg.cqp_entries)
		hw->cfg.cqp_entries = DEFAULT_CQP_ENTRIES;
	if (!hw->cfg.num_ceqs)
		hw->cfg.num_ceqs = DEFAULT_NUM_CEQS;
	if (!hw->cfg.ceq_entries)
		hw->cfg.ceq_entries = DEFAULT_EQ_ENTRIES;
	if (!hw->cfg.aeq_entries)
		hw->cfg.aeq_entries = DEFAULT_EQ_ENTRIES;
	if (!hw->cfg.cmd_timeout_ms)
		hw->cfg.cmd_timeout_ms = DEFAULT_TIMEOUT_MS;
	if (hw->cfg.ceq_entries > MAX_CEQ_ENTRIES || hw->cfg.aeq_entries > MAX_AEQ_ENTRIES)
		return -EINVAL;
	/* Vector 0 belongs to the AEQ. */
	if (hw->bus->num_vectors < 2)
		return -EINVAL;
	hw->cfg.num_ceqs = min(hw->cfg.num_ceqs, hw->bus->num_vectors - 1);
	return 0;
}

/* Query the device's limits, and cut them to the values that the interface's fields can hold. */
static int hw_query(struct sirdma_hw *hw, u32 *max_sds)
{
	struct sirdma_hw_caps *caps = &hw->caps;
	struct sirdma_fpm_query query;
	u32 pble_sds;
	int err;

	err = sirdma_cqp_query_fpm(hw, &query);
	if (err)
		return err;
	*max_sds = min_t(u32, le32_to_cpu(query.max_sds), SIRDMA_HMC_MAX_SD);
	caps->max_qps = min(le32_to_cpu(query.max_qps), MAX_QPS);
	caps->max_cqs = min(le32_to_cpu(query.max_cqs), MAX_CQS);
	caps->max_srqs = min_t(u32, le32_to_cpu(query.max_srqs), SIRDMA_CQP_SRQ_ID + 1);
	caps->max_mrs = min(le32_to_cpu(query.max_mrs), MAX_STAGS);
	caps->max_pds = min(le32_to_cpu(query.max_pds), MAX_PDS);
	caps->max_ceqs = min_t(u32, le32_to_cpu(query.max_ceqs), MAX_CEQS);
	caps->max_arp = min(le32_to_cpu(query.max_arp), MAX_INDEX16);
	caps->max_sgids = min(le32_to_cpu(query.max_sgids), MAX_INDEX16);
	caps->max_mcast_grps =
		min_t(u32, le32_to_cpu(query.max_mcast_grps), SIRDMA_CQP_MCAST_ID + 1);
	caps->max_ird = min_t(u32, le32_to_cpu(query.max_ird), MAX_RD_ATOMIC);
	caps->max_ord = min_t(u32, le32_to_cpu(query.max_ord), MAX_RD_ATOMIC);
	caps->max_cqe = min_t(u32, le32_to_cpu(query.max_cqe), SIRDMA_CQP_CQ_SIZE);
	/* The last segment is that of the address vectors, the others are those of the PBLEs. */
	if (*max_sds > 1)
		caps->max_avs = min_t(u32, le32_to_cpu(query.max_ahs), SIRDMA_MAX_AVS);
	pble_sds = caps->max_avs ? *max_sds - 1 : *max_sds;
	caps->max_pbles =
		min_t(u64, le32_to_cpu(query.max_pbles), (u64)pble_sds * SIRDMA_PBLE_PER_CHUNK);
	caps->max_pbles = min(caps->max_pbles, (u32)SIRDMA_PBLE_LEAF_IDX + 1);
	if (!*max_sds || !caps->max_ceqs || !caps->max_sgids || !caps->max_pbles) {
		port_warn("device reports no room for event queues, addresses or page lists");
		return -ENODEV;
	}
	hw->cfg.num_ceqs = min(hw->cfg.num_ceqs, caps->max_ceqs);
	return 0;
}

/* PBLEs begin at byte 0 of HMC space. */
static int hw_commit(struct sirdma_hw *hw, u32 max_sds)
{
	struct sirdma_fpm_commit commit = {};

	commit.obj[SIRDMA_HMC_OBJ_PBLE].count = cpu_to_le32(hw->caps.max_pbles);
	if (hw->caps.max_avs) {
		commit.obj[SIRDMA_HMC_OBJ_AV].base =
			cpu_to_le32((max_sds - 1) * (SIRDMA_HMC_SD_SIZE / SIRDMA_HMC_FPM_UNIT));
		commit.obj[SIRDMA_HMC_OBJ_AV].count = cpu_to_le32(hw->caps.max_avs);
	}
	return sirdma_cqp_commit_fpm(hw, &commit);
}

static int hw_qp_ids_init(struct sirdma_hw *hw)
{
	const struct sirdma_hw_config *cfg = &hw->cfg;
	u32 first = max(cfg->first_qpn, SIRDMA_FIRST_QPN);
	u32 limit = cfg->limit_qpn ? cfg->limit_qpn : hw->caps.max_qps;
	u32 start = cfg->start_qpn ? cfg->start_qpn : first;
	int err;

	if (start < first || start >= limit || limit > hw->caps.max_qps)
		return -EINVAL;
	err = sirdma_idpool_init(&hw->qp_ids, first, limit);
	if (err)
		return err;
	hw->qp_ids.hint = start;
	return 0;
}

static int hw_idpools_init(struct sirdma_hw *hw)
{
	int err;

	err = hw_qp_ids_init(hw);
	if (err)
		return err;
	err = sirdma_idpool_init(&hw->cq_ids, SIRDMA_CCQ_ID + 1, hw->caps.max_cqs);
	if (err)
		goto err_qp_ids;
	/* A device without shared receive queues reports the number 0, which means none. */
	err = hw->caps.max_srqs > 1 ? sirdma_idpool_init(&hw->srq_ids, 1, hw->caps.max_srqs) : 0;
	if (err)
		goto err_cq_ids;
	err = sirdma_idpool_init(&hw->pd_ids, 1, hw->caps.max_pds);
	if (err)
		goto err_srq_ids;
	err = sirdma_idpool_init(&hw->xrcd_ids, 1, SIRDMA_MAX_XRCDS);
	if (err)
		goto err_pd_ids;
	err = sirdma_idpool_init(&hw->stag_ids, 1, hw->caps.max_mrs);
	if (err)
		goto err_xrcd_ids;
	err = sirdma_idpool_init(&hw->arp_ids, 0, hw->caps.max_arp);
	if (err)
		goto err_stag_ids;
	return 0;

err_stag_ids:
	sirdma_idpool_fini(&hw->stag_ids);
err_xrcd_ids:
	sirdma_idpool_fini(&hw->xrcd_ids);
err_pd_ids:
	sirdma_idpool_fini(&hw->pd_ids);
err_srq_ids:
	sirdma_idpool_fini(&hw->srq_ids);
err_cq_ids:
	sirdma_idpool_fini(&hw->cq_ids);
err_qp_ids:
	sirdma_idpool_fini(&hw->qp_ids);
	return err;
}

static void hw_idpool_fini(struct sirdma_idpool *pool, const char *what)
{
	if (pool->used)
		port_warn("%u %s left behind", pool->used, what);
	sirdma_idpool_fini(pool);
}

static void hw_idpools_fini(struct sirdma_hw *hw)
{
	hw_idpool_fini(&hw->arp_ids, "ARP entries");
	hw_idpool_fini(&hw->stag_ids, "memory regions");
	hw_idpool_fini(&hw->xrcd_ids, "XRC domains");
	hw_idpool_fini(&hw->pd_ids, "protection domains");
	hw_idpool_fini(&hw->srq_ids, "shared receive queues");
	hw_idpool_fini(&hw->cq_ids, "completion queues");
	hw_idpool_fini(&hw->qp_ids, "queue pairs");
}

/* Start all parts that need the command queue. */
static int hw_start(struct sirdma_hw *hw)
{
	u32 max_sds;
	int err;

	err = hw_query(hw, &max_sds);
	if (err)
		return err;
	err = hw_idpools_init(hw);
	if (err)
		return err;
	err = sirdma_aeq_start(hw);
	if (err)
		goto err_idpools;
	err = sirdma_prq_start(hw);
	if (err)
		goto err_aeq;
	err = sirdma_ceqs_start(hw);
	if (err)
		goto err_prq;
	err = sirdma_cqp_start_ccq(hw);
	if (err)
		goto err_ceqs;
	err = hw_commit(hw, max_sds);
	if (err)
		goto err_ccq;
	err = sirdma_hmc_init(hw, max_sds);
	if (err)
		goto err_ccq;
	err = sirdma_pble_init(hw);
	if (err)
		goto err_ccq;
	err = sirdma_av_init(hw, (u64)(max_sds - 1) * SIRDMA_HMC_SD_SIZE);
	if (err)
		goto err_pble;
	err = sirdma_mcast_init(hw);
	if (err)
		goto err_avs;
	return 0;

err_avs:
	sirdma_av_fini(hw);
err_pble:
	sirdma_pble_fini(hw);
err_ccq:
	sirdma_cqp_stop_ccq(hw);
err_ceqs:
	sirdma_ceqs_stop(hw);
err_prq:
	sirdma_prq_stop(hw);
err_aeq:
	sirdma_aeq_stop(hw);
err_idpools:
	hw_idpools_fini(hw);
	return err;
}

int sirdma_hw_probe(struct sirdma_hw *hw, struct sirdma_bus *bus,
		    const struct sirdma_hw_config *cfg, const struct sirdma_hw_events *events,
		    void *ctx)
{
	int err;

	memset(hw, 0, sizeof(*hw));
	hw->bus = bus;
	hw->events = events;
	hw->events_ctx = ctx;
	err = hw_config(hw, cfg);
	if (err)
		return err;
	err = hw_identify(hw);
	if (err)
		return err;
	err = sirdma_hw_reset(hw);
	if (err)
		return err;
	err = sirdma_cqp_init(hw);
	if (err)
		return err;
	err = hw_start(hw);
	if (err)
		goto err_cqp;
	return 0;

err_cqp:
	sirdma_hw_reset(hw);
	sirdma_hmc_fini(hw);
	sirdma_prq_free(hw);
	sirdma_eqs_free(hw);
	sirdma_cqp_fini(hw);
	return err;
}

void sirdma_hw_remove(struct sirdma_hw *hw)
{
	sirdma_mcast_fini(hw);
	sirdma_av_fini(hw);
	sirdma_pble_fini(hw);
	sirdma_cqp_stop_ccq(hw);
	sirdma_ceqs_stop(hw);
	sirdma_prq_stop(hw);
	sirdma_aeq_stop(hw);
	hw_idpools_fini(hw);
	/* After the reset the device uses no memory, even if a command above failed. */
	sirdma_hw_reset(hw);
	sirdma_hmc_fini(hw);
	sirdma_prq_free(hw);
	sirdma_eqs_free(hw);
	sirdma_cqp_fini(hw);
}
