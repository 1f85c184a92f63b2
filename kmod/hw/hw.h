/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Driver core: probe and removal of one device behind a bus.
 *
 * Every function that sends a command sleeps. They return 0 or a negative
 * errno of sirdma_cqp_exec(); on failure nothing changed.
 */
#ifndef SIRDMA_HW_H
#define SIRDMA_HW_H

#include "av.h"
#include "cqp.h"
#include "eq.h"
#include "hmc.h"
#include "idpool.h"
#include "mcast.h"
#include "pble.h"
#include "port/port.h"
#include "prq.h"
#include "sirdma/bus.h"

/* Limits that the device reported, cut to the values that the interface can name. */
struct sirdma_hw_caps {
	u32 max_qps;
	u32 max_cqs;
	u32 max_srqs; /* numbers; 0 is none */
	u32 max_mrs;
	u32 max_pds;
	u32 max_pbles;
	u32 max_ceqs;
	u32 max_arp;
	u32 max_sgids;
	u32 max_avs; /* indices, of which 0 is not used; 0: the device has no address vectors */
	u32 max_mcast_grps; /* 0: the device has no multicast groups */
	u32 max_ird;
	u32 max_ord;
	u32 max_cqe;
};

/* The driver calls these functions in atomic context. */
struct sirdma_hw_events {
	/*
	 * An armed CQ got a completion. @cookie: as given to sirdma_cqp_create_cq(). The event may
	 * come after the CQ was destroyed, so @cookie should be a number to look up, not a pointer.
	 */
	void (*cq_event)(void *ctx, u64 cookie);
	void (*async_event)(void *ctx, const struct sirdma_async_event *ev);
	/* The device needs memory of a page list. NULL: the driver has only lists without gaps. */
	void (*page_request)(void *ctx, const struct sirdma_page_ask *ask);
};

struct sirdma_hw_config {
	u32 cqp_entries; /* power of two, 4..2048; 0: 64 */
	u32 num_ceqs; /* 0: 1 */
	u32 ceq_entries; /* 0: 4096 */
	u32 aeq_entries; /* 0: 4096 */
	u32 cmd_timeout_ms; /* 0: 5000 */
	/* Queue pair numbers to hand out, where several drivers share those of a device. */
	u32 first_qpn; /* not below SIRDMA_FIRST_QPN; 0 means SIRDMA_FIRST_QPN */
	u32 limit_qpn; /* first number beyond the range; 0: the limit of the device */
	u32 start_qpn; /* number to hand out first; 0: first_qpn */
};

/* The first QP number of users: QP0 and QP1 belong to management. */
#define SIRDMA_FIRST_QPN 2u

struct sirdma_hw {
	struct sirdma_bus *bus;
	struct sirdma_hw_config cfg;
	struct sirdma_hw_caps caps;
	const struct sirdma_hw_events *events;
	void *events_ctx;

	struct sirdma_cqp cqp;
	struct sirdma_hmc hmc;
	struct sirdma_pble_pool pble;
	struct sirdma_av_table avs;
	struct sirdma_mcast_table mcasts;
	struct sirdma_aeq aeq;
	struct sirdma_eq prq; /* without memory if the driver needs none */
	struct sirdma_ceq *ceqs; /* [cfg.num_ceqs] */

	struct sirdma_idpool qp_ids; /* numbers from first_qpn on */
	struct sirdma_idpool cq_ids; /* numbers from 1 on: 0 is the CCQ */
	struct sirdma_idpool srq_ids; /* 1 .. : 0 is none; limit 0: the device has none */
	struct sirdma_idpool pd_ids; /* numbers from 1 on */
	struct sirdma_idpool xrcd_ids; /* XRC domains, from 1 on */
	struct sirdma_idpool stag_ids; /* numbers from 1 on */
	struct sirdma_idpool arp_ids; /* numbers from 0 on */
};

/*
 * Reset, identify, start CQP, CCQ, CEQs and AEQ, query and commit HMC sizes. Returns -ENODEV for a
 * foreign device.
 */
int sirdma_hw_probe(struct sirdma_hw *hw, struct sirdma_bus *bus,
		    const struct sirdma_hw_config *cfg, const struct sirdma_hw_events *events,
		    void *ctx);
/* All objects must be destroyed; port_warn() reports the number of those that are not. */
void sirdma_hw_remove(struct sirdma_hw *hw);

/* Reset the device and wait until it is ready. It then has no object and uses no memory. */
int sirdma_hw_reset(struct sirdma_hw *hw);
/*
 * Read the device's status. Returns 0, or -EIO when the device faulted or does not answer; the
 * caller then calls sirdma_cqp_kill().
 */
int sirdma_hw_check(struct sirdma_hw *hw);
/* Poll register @reg until one of @bits is set. *val: its last value. Returns 0 or -ETIMEDOUT. */
int sirdma_hw_poll(struct sirdma_hw *hw, u32 reg, u32 bits, u32 timeout_ms, u32 *val);

#endif
