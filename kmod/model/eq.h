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

/* A list of the objects whose events wait, in order. */
struct snic_eq_link {
	struct snic_eq_link *prev, *next;
};

struct snic_eq_list {
	struct snic_eq_link *first, *last;
};

struct snic_ceq {
	struct port_lock lock; /* innermost lock */
	u64 addr;
	u32 entries; /* 0: the queue does not exist */
	u32 prod;
	u32 pending; /* elements that CEQACK has not acknowledged */
	u32 cqs; /* queues that raise events here */
	bool polarity;
	struct snic_eq_list waiting; /* a list of struct snic_ceq_event that wait for room */
	u32 id;
};

/* The event of one CQ. It is in the list of the CEQ while it waits for room. */
struct snic_ceq_event {
	struct snic_eq_link link; /* the lock of the CEQ protects this and due */
	bool due;
	u64 cq_ctx;
};

/* Of an object's events at most one of each kind waits: see ae_kind(). */
#define SNIC_AE_KINDS 4

/*
 * The asynchronous events of one object. It has at most one element in the AEQ that the driver
 * has not acknowledged. Further events wait here; one whose kind waits already is merged with
 * that. So no event finds the AEQ too full, and a user who raises events without end, by
 * arming an empty shared receive queue for example, does not crowd out those of others.
 */
struct snic_aeq_events {
	struct snic_eq_link link; /* the lock of the AEQ protects this and the members below */
	u64 last; /* snic_aeq.written after its last element */
	u64 waiting[SNIC_AE_KINDS]; /* SIRDMA_AEQE_*, in order of arrival */
	u32 count; /* used entries of waiting[]; 0: the object is not in the AEQ's list */
	u32 id; /* number of the object; this and ctx do not change */
	u64 ctx; /* driver's cookie */
};

static inline void snic_aeq_events_init(struct snic_aeq_events *events, u32 id, u64 ctx)
{
	events->id = id;
	events->ctx = ctx;
}

struct snic_aeq {
	struct port_lock lock; /* innermost lock */
	u64 addr;
	u64 written; /* elements written since creation */
	u64 acked; /* elements of these that AEQALLOC has returned */
	u32 entries;
	u32 prod;
	bool polarity;
	struct snic_eq_list waiting; /* a list of struct snic_aeq_events */
};

void snic_eq_init(struct snic_dev *dev);
/* Device reset: no queue exists any more. */
void snic_eq_reset(struct snic_dev *dev);
/* Count one more CQ on @ceq_id; false when there is no such CEQ. */
bool snic_ceq_attach(struct snic_dev *dev, u32 ceq_id);
/* The CQ of @event is destroyed: @event waits no longer. */
void snic_ceq_detach(struct snic_dev *dev, u32 ceq_id, struct snic_ceq_event *event);
/*
 * Raise @event. While the ring is full, events wait for room in order of arrival. An event that is
 * raised again meanwhile waits only once.
 */
void snic_ceq_post(struct snic_dev *dev, u32 ceq_id, struct snic_ceq_event *event);
/* Raise an event of the object of @events. */
void snic_aeq_post(struct snic_dev *dev, struct snic_aeq_events *events, enum sirdma_ae_code code,
		   enum sirdma_ae_source src, u32 wqe_idx, enum sirdma_qp_state state);
/* The object is destroyed and raises no more events: drop the events that wait. */
void snic_aeq_detach(struct snic_dev *dev, struct snic_aeq_events *events);
void snic_ceq_ack(struct snic_dev *dev, u32 val); /* SIRDMA_CEQACK_* */
void snic_aeq_ack(struct snic_dev *dev, u32 count);
/* Raise the vectors in @unmasked whose queues hold events. */
void snic_eq_unmask(struct snic_dev *dev, u32 unmasked);

/* Check the ring of a new queue with elements of @elem bytes. Returns the status of the command. */
u32 snic_eq_check(struct snic_dev *dev, u64 addr, u64 entries, u32 elem);
u32 snic_cqp_create_ceq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_ceq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_create_aeq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_aeq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);

#endif
