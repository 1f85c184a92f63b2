/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The device: its tables, queues of the control path, and configuration. */
#ifndef SNIC_DEV_H
#define SNIC_DEV_H

#include "domain.h"
#include "eq.h"
#include "hmc.h"
#include "mcast.h"
#include "obj.h"
#include "prq.h"
#include "snic.h"

/* Destination MAC addresses, filled by MANAGE_ARP. */
struct snic_arp {
	bool valid;
	u8 mac[6];
};

/* Local addresses, filled by MANAGE_SGID. */
struct snic_sgid {
	bool valid;
	bool has_vlan;
	u16 vlan_id;
	u8 mac[6];
	struct sirdma_ip ip;
};

struct snic_cqp {
	/* held by the thread that executes commands; protects the members up to ccq */
	struct port_mutex run;
	u64 sq_base;
	u64 compl_ctx;
	u32 entries; /* entries of the ring; 0: the CQP is not started */
	u32 tail; /* index of the next command */
	bool polarity; /* expected valid bit of the command at tail */
	struct snic_cq *ccq; /* the CQP's CQ; the table of CQs owns it */
	u32 head; /* the last head written to CQPDB, in any context */
	u32 ctx_low; /* SIRDMA_REG_CCQPLOW */
	u32 status; /* SIRDMA_REG_CCQPSTATUS */
	u32 tail_reg; /* SIRDMA_REG_CQPTAIL, written after all other effects of a command */
	u32 err_codes; /* SIRDMA_REG_CQPERRCODES */
	struct snic_aeq_events async; /* BAD_COMMAND */
};

struct snic_dev {
	struct snic_config cfg;
	const struct snic_host_ops *ops; /* see snic_dev_ops() */
	struct snic_host *host;
	struct port_dma *dma;
	struct port_clock *clock;

	struct snic_cqp cqp;
	struct snic_hmc hmc;
	struct snic_aeq aeq;
	struct snic_prq prq;
	struct snic_ceq *ceqs; /* [cfg.max_ceqs] */
	struct snic_table qps;
	struct snic_table cqs;
	struct snic_table srqs;
	/* shared queues of XRC domains created so far, for their names; only commands use it */
	u64 xrc_queues;
	struct snic_domains domains; /* who uses the memory of a protection domain */
	struct snic_table mrs;
	struct port_lock mw_lock; /* protects the lists snic_qp.windows; innermost */
	struct snic_mcast_table mcasts;
	struct port_lock addr_lock; /* protects arps[] and sgids[]; innermost */
	struct snic_arp *arps; /* [cfg.max_arp] */
	struct snic_sgid *sgids; /* [cfg.max_sgids] */
	/* incremented by each change of arps[] or sgids[]: QPs then rebuild their flows */
	u32 tables_gen;
	/* incremented by each change of sgids[]: the host then reads its addresses again */
	u32 sgids_gen;
	struct port_mutex reset; /* one reset at a time */
	u32 link; /* SIRDMA_REG_LINK */
	u8 mac[6];
	u32 status; /* SIRDMA_REG_STATUS */
	u32 int_mask;
	struct port_stats stats; /* [SIRDMA_STAT_COUNT] */
};

static inline const struct snic_host_ops *snic_dev_ops(const struct snic_dev *dev)
{
	return PORT_HOST_OPS(dev->ops);
}

static inline void snic_stat_inc(struct snic_dev *dev, enum sirdma_stat id)
{
	port_stats_add(&dev->stats, id, 1);
}

static inline void snic_irq(struct snic_dev *dev, u32 vector)
{
	if (vector < 32 && (READ_ONCE(dev->int_mask) & (1u << vector)))
		return;
	snic_dev_ops(dev)->irq(dev->host, vector);
}

/*
 * Memory that the host transmits by reference is about to return to its owner, since a request
 * failed, or a queue pair or region is destroyed: from the return of the call on, the host lets no
 * peer read it. What a host keeps is finished by finish_kept() (kept.h).
 */
static inline void snic_finish_references(struct snic_dev *dev)
{
	if (PORT_WIRE_IN_MEMORY && snic_dev_ops(dev)->finish_references)
		snic_dev_ops(dev)->finish_references(dev->host);
}

/* The driver violated the interface: report a fault, which only a reset clears. */
static inline void snic_fault(struct snic_dev *dev)
{
	WRITE_ONCE(dev->status, READ_ONCE(dev->status) | SIRDMA_STATUS_FAULT);
}

/* Copy an entry of a table; false when it is out of range or not valid. */
bool snic_arp_read(struct snic_dev *dev, u32 idx, u8 mac[6]);
bool snic_sgid_read(struct snic_dev *dev, u32 idx, struct snic_sgid *out);

#endif
