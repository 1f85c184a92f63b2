// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands on the device as a whole: addresses, HMC, counters. */
#include "cqp_tables.h"
#include "dev.h"
#include "qp.h"

#define MAX_VLAN_ID 4094
#define MAC_LEN 6

bool snic_arp_read(struct snic_dev *dev, u32 idx, u8 mac[6])
{
	bool valid;

	if (idx >= dev->cfg.max_arp)
		return false;
	port_lock(&dev->addr_lock);
	valid = dev->arps[idx].valid;
	memcpy(mac, dev->arps[idx].mac, MAC_LEN);
	port_unlock(&dev->addr_lock);
	return valid;
}

bool snic_sgid_read(struct snic_dev *dev, u32 idx, struct snic_sgid *out)
{
	if (idx >= dev->cfg.max_sgids)
		return false;
	port_lock(&dev->addr_lock);
	*out = dev->sgids[idx];
	port_unlock(&dev->addr_lock);
	return out->valid;
}

/*
 * Call this after a change, under the lock: queue pairs then rebuild their flows from the tables.
 */
static void tables_changed(struct snic_dev *dev)
{
	/*
	 * This is a release: the entry changes before the generation does. It pairs with
	 * snic_path_refresh().
	 */
	smp_store_release(&dev->tables_gen, dev->tables_gen + 1);
}

u32 snic_cqp_manage_arp(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_arp *cmd = (const void *)wqe;
	u64 hdr = le64_to_cpu(cmd->hdr);
	u32 idx = SIRDMA_GET(SIRDMA_CQP_ARP_IDX, hdr);
	struct snic_arp arp = {};

	if (idx >= dev->cfg.max_arp)
		return SIRDMA_CQP_BAD_INDEX;
	arp.valid = hdr & SIRDMA_CQP_ARP_ENTRYVALID;
	if (!arp.valid && !dev->arps[idx].valid)
		return SIRDMA_CQP_NO_OBJECT;
	if (arp.valid)
		sirdma_mac_from_word(le64_to_cpu(cmd->mac), arp.mac);
	port_lock(&dev->addr_lock);
	dev->arps[idx] = arp;
	tables_changed(dev);
	port_unlock(&dev->addr_lock);
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_manage_sgid(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_sgid *cmd = (const void *)wqe;
	u64 hdr = le64_to_cpu(cmd->hdr), mac = le64_to_cpu(cmd->mac);
	u32 idx = SIRDMA_GET(SIRDMA_CQP_SGID_IDX, hdr);
	struct snic_sgid sgid = {};

	if (idx >= dev->cfg.max_sgids)
		return SIRDMA_CQP_BAD_INDEX;
	sgid.valid = hdr & SIRDMA_CQP_SGID_ENTRYVALID;
	if (!sgid.valid && !dev->sgids[idx].valid)
		return SIRDMA_CQP_NO_OBJECT;
	if (sgid.valid) {
		sgid.has_vlan = mac & SIRDMA_CQP_SGID_VLANVALID;
		sgid.vlan_id = SIRDMA_GET(SIRDMA_CQP_SGID_VLAN, mac);
		if (sgid.has_vlan && (!sgid.vlan_id || sgid.vlan_id > MAX_VLAN_ID))
			return SIRDMA_CQP_BAD_PARAM;
		sirdma_mac_from_word(SIRDMA_GET(SIRDMA_CQP_SGID_MAC, mac), sgid.mac);
		/* Little-endian words with byte 0 of the address in 7:0: memory order. */
		memcpy(sgid.ip.b, &cmd->ip_lo, sizeof(cmd->ip_lo));
		memcpy(sgid.ip.b + sizeof(cmd->ip_lo), &cmd->ip_hi, sizeof(cmd->ip_hi));
	}
	port_lock(&dev->addr_lock);
	dev->sgids[idx] = sgid;
	WRITE_ONCE(dev->sgids_gen, dev->sgids_gen + 1);
	tables_changed(dev);
	port_unlock(&dev->addr_lock);
	return SIRDMA_CQP_OK;
}

/* HMC */

/* Append an entry that the command contains. An entry of zeros is absent. */
static u32 sds_append(struct sirdma_sd_entry *entries, u32 count, __le64 cmd, __le64 data)
{
	if (!cmd && !data)
		return count;
	entries[count].cmd = cmd;
	entries[count].data = data;
	return count + 1;
}

u32 snic_cqp_update_sds(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_sds *cmd = (const void *)wqe;
	u32 more = SIRDMA_GET(SIRDMA_CQP_SDS_BUF_COUNT, le64_to_cpu(cmd->hdr)), count;
	u64 buf = le64_to_cpu(cmd->buf);
	struct sirdma_sd_entry entries[SIRDMA_CQP_SDS_MAX];
	const void *mem;

	count = sds_append(entries, 0, cmd->cmd0, cmd->data0);
	count = sds_append(entries, count, cmd->cmd1, cmd->data1);
	count = sds_append(entries, count, cmd->cmd2, cmd->data2);
	if (more > ARRAY_SIZE(entries) - 3)
		return SIRDMA_CQP_BAD_PARAM;
	if (more) {
		if (buf % sizeof(entries[0]))
			return SIRDMA_CQP_BAD_ADDRESS;
		mem = port_dma_ptr(dev->dma, buf, more * sizeof(entries[0]));
		if (!mem)
			return SIRDMA_CQP_BAD_ADDRESS;
		memcpy(&entries[count], mem, more * sizeof(entries[0]));
		count += more;
	}
	return snic_hmc_update_sds(dev, entries, count);
}

/* @mem is the buffer of a command. The device uses @size bytes of it. */
static u32 cmd_buf(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u32 size, void **mem)
{
	const struct sirdma_cqp_buf *cmd = (const void *)wqe;
	u64 addr = le64_to_cpu(cmd->addr);

	if (le64_to_cpu(cmd->len) < size)
		return SIRDMA_CQP_BAD_PARAM;
	if (addr % sizeof(u64))
		return SIRDMA_CQP_BAD_ADDRESS;
	*mem = port_dma_ptr(dev->dma, addr, size);
	return *mem ? SIRDMA_CQP_OK : SIRDMA_CQP_BAD_ADDRESS;
}

u32 snic_cqp_query_fpm(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct snic_config *cfg = &dev->cfg;
	struct sirdma_fpm_query query = {
		.max_qps = cpu_to_le32(cfg->max_qps),
		.max_cqs = cpu_to_le32(cfg->max_cqs),
		.max_srqs = cpu_to_le32(cfg->max_srqs),
		.max_mrs = cpu_to_le32(cfg->max_mrs),
		.max_pds = cpu_to_le32(cfg->max_pds),
		.max_pbles = cpu_to_le32(snic_hmc_max_pbles(dev)),
		.max_sds = cpu_to_le32(cfg->max_sds),
		.max_ceqs = cpu_to_le32(cfg->max_ceqs),
		.max_arp = cpu_to_le32(cfg->max_arp),
		.max_sgids = cpu_to_le32(cfg->max_sgids),
		.max_ahs = cpu_to_le32(snic_hmc_max_avs(dev)),
		.max_mcast_grps = cpu_to_le32(SNIC_MAX_MCAST_GRPS),
		.max_ird = cpu_to_le32(SNIC_MAX_RD_ATOMIC),
		.max_ord = cpu_to_le32(SNIC_MAX_ORD),
		.max_cqe = cpu_to_le32(cfg->max_cqe),
	};
	void *mem;
	u32 status;

	status = cmd_buf(dev, wqe, sizeof(query), &mem);
	if (status)
		return status;
	memcpy(mem, &query, sizeof(query));
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_commit_fpm(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_hmc_layout layout;
	struct sirdma_fpm_commit commit;
	u32 status, i;
	void *mem;

	status = cmd_buf(dev, wqe, sizeof(commit), &mem);
	if (status)
		return status;
	memcpy(&commit, mem, sizeof(commit));
	/* This device keeps only PBLEs and address vectors in host memory. */
	for (i = 0; i < SIRDMA_HMC_OBJ_MAX; i++)
		if (i != SIRDMA_HMC_OBJ_PBLE && i != SIRDMA_HMC_OBJ_AV && commit.obj[i].count)
			return SIRDMA_CQP_BAD_PARAM;
	layout.pble_base =
		(u64)le32_to_cpu(commit.obj[SIRDMA_HMC_OBJ_PBLE].base) * SIRDMA_HMC_FPM_UNIT;
	layout.pble_count = le32_to_cpu(commit.obj[SIRDMA_HMC_OBJ_PBLE].count);
	layout.av_base = (u64)le32_to_cpu(commit.obj[SIRDMA_HMC_OBJ_AV].base) * SIRDMA_HMC_FPM_UNIT;
	layout.av_count = le32_to_cpu(commit.obj[SIRDMA_HMC_OBJ_AV].count);
	return snic_hmc_commit(dev, &layout);
}

u32 snic_cqp_gather_stats(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_buf *cmd = (const void *)wqe;
	u64 room = le64_to_cpu(cmd->len) / sizeof(__le64);
	u32 count = min_t(u64, room, SIRDMA_STAT_COUNT), status, i;
	__le64 *out;
	void *mem;

	if (!count)
		return SIRDMA_CQP_BAD_PARAM;
	status = cmd_buf(dev, wqe, count * sizeof(*out), &mem);
	if (status)
		return status;
	out = mem;
	for (i = 0; i < count; i++)
		out[i] = cpu_to_le64(snic_stat_read(dev, i));
	*ret = count;
	return SIRDMA_CQP_OK;
}

u32 snic_cqp_nop(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	return SIRDMA_CQP_OK;
}
