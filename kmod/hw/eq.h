/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Driver side of the event queues. */
#ifndef SIRDMA_HW_EQ_H
#define SIRDMA_HW_EQ_H

#include "port/port.h"
#include "sirdma/bus.h"
#include "sirdma/cqe.h"
#include "sirdma/qpctx.h"

struct sirdma_hw;

struct sirdma_async_event {
	enum sirdma_ae_code code;
	enum sirdma_ae_source source;
	u32 id; /* number of a QP, CQ or SRQ, which may be destroyed already */
	u64 cookie; /* cookie of the object, as given at creation */
	u32 wqe_idx;
	enum sirdma_qp_state state;
	bool overflow; /* events before this one were lost */
};

/*
 * Only the handler of the queue's vector consumes events, and the bus runs a vector's
 * handler once at a time, so a queue needs no lock.
 */
struct sirdma_eq {
	bool polarity;
	u32 cons;
	u32 entries;
	struct sirdma_dma_mem ring;
};

struct sirdma_ceq {
	struct sirdma_hw *hw;
	struct sirdma_eq eq;
	u32 id;
};

struct sirdma_aeq {
	struct sirdma_eq eq;
	u64 overflows;
};

int sirdma_aeq_start(struct sirdma_hw *hw);
void sirdma_aeq_stop(struct sirdma_hw *hw);
int sirdma_ceqs_start(struct sirdma_hw *hw);
void sirdma_ceqs_stop(struct sirdma_hw *hw);
/*
 * Free the memory of all queues. Call it after the reset: a device that failed to stop may
 * write until then.
 */
void sirdma_eqs_free(struct sirdma_hw *hw);

#endif
