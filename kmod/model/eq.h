/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Event queues: completion events (CEQ) and asynchronous events (AEQ). */
#ifndef SNIC_EQ_H
#define SNIC_EQ_H

#include "port/port.h"
#include "sirdma/cqe.h"
#include "sirdma/cqp.h"

struct snic_dev;

#define SNIC_EQ_MIN_ENTRIES 4
#define SNIC_EQ_MAX_ENTRIES (1u << 20)

struct snic_ceq {
	struct port_lock lock; /* innermost lock */
	u64 addr;
	u32 entries; /* 0: does not exist */
	u32 prod;
	u32 pending; /* elements that CEQACK has not acknowledged */
	u32 cqs; /* queues that raise events here */
	bool polarity;
	struct snic_ceq_event *first, *last; /* events that wait for room, in order */
	u32 id;
};

/* The event of one CQ. It is on the CEQ's list while it waits for room. */
struct snic_ceq_event {
	struct snic_ceq_event *prev, *next; /* these and due: under the lock of the CEQ */
	bool due;
	u64 cq_ctx;
};

/* Events that must not be lost, since each reports a failed object, and that found the AEQ full. */
#define SNIC_AEQ_BACKLOG 64

struct snic_aeq {
	struct port_lock lock; /* innermost lock */
	u64 addr;
	u32 entries;
	u32 prod;
	u32 pending; /* elements that AEQALLOC has not returned */
	bool polarity;
	bool overflow; /* an event was lost: the next one reports it */
	u32 backlog_len;
	struct sirdma_aeqe backlog[SNIC_AEQ_BACKLOG];
};

void snic_eq_init(struct snic_dev *dev);
/* Device reset: no queue exists any more. */
void snic_eq_reset(struct snic_dev *dev);
/* Count one more CQ on @ceq_id; false when there is no such CEQ. */
bool snic_ceq_attach(struct snic_dev *dev, u32 ceq_id);
/* The CQ of @event is destroyed: @event waits no longer. */
void snic_ceq_detach(struct snic_dev *dev, u32 ceq_id, struct snic_ceq_event *event);
/*
 * Raise @event. While the ring is full, events wait for room in order of arrival; one that
 * is raised again meanwhile waits once.
 */
void snic_ceq_post(struct snic_dev *dev, u32 ceq_id, struct snic_ceq_event *event);
/* @id: QP, CQ or SRQ number by @code. @event_ctx: its cookie. */
void snic_aeq_post(struct snic_dev *dev, enum sirdma_ae_code code, enum sirdma_ae_source src,
		   u32 id, u64 event_ctx, u32 wqe_idx, enum sirdma_qp_state state);
void snic_ceq_ack(struct snic_dev *dev, u32 val); /* SIRDMA_CEQACK_* */
void snic_aeq_ack(struct snic_dev *dev, u32 count);
/* Vectors in @unmasked whose queue holds events are raised again. */
void snic_eq_unmask(struct snic_dev *dev, u32 unmasked);

u32 snic_cqp_create_ceq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_ceq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_create_aeq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_aeq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);

#endif
