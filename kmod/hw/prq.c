// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Page request queue. */
#include "prq.h"
#include "cqp_cmd.h"
#include "hw.h"
#include "sirdma/cqp.h"

/* Queue pairs that wait at once; the device repeats the requests that find no room. One page. */
#define PRQ_ENTRIES (SIRDMA_PAGE_SIZE / sizeof(struct sirdma_page_request))

static int prq_exec(struct sirdma_hw *hw, enum sirdma_cqp_op op, u64 addr)
{
	const struct sirdma_cqp_wqe wqe = {
		.w0 = cpu_to_le64(addr ? PRQ_ENTRIES : 0),
		.w4 = cpu_to_le64(addr),
		.hdr = cpu_to_le64(SIRDMA_PREP(SIRDMA_CQP_OPCODE, op)),
	};

	return sirdma_cqp_exec(hw, &wqe, NULL);
}

int sirdma_prq_start(struct sirdma_hw *hw)
{
	struct sirdma_eq *eq = &hw->prq;
	int err;

	memset(eq, 0, sizeof(*eq));
	if (!hw->events || !hw->events->page_request)
		return 0;
	eq->entries = PRQ_ENTRIES;
	eq->polarity = true;
	err = hw->bus->ops->dma_alloc(hw->bus, SIRDMA_PAGE_SIZE, &eq->ring);
	if (err) {
		eq->ring.va = NULL;
		return err;
	}
	err = prq_exec(hw, SIRDMA_CQP_CREATE_PRQ, eq->ring.pa);
	if (err)
		sirdma_prq_free(hw);
	return err;
}

void sirdma_prq_stop(struct sirdma_hw *hw)
{
	if (hw->prq.ring.va)
		prq_exec(hw, SIRDMA_CQP_DESTROY_PRQ, 0);
}

void sirdma_prq_free(struct sirdma_hw *hw)
{
	if (hw->prq.ring.va)
		hw->bus->ops->dma_free(hw->bus, &hw->prq.ring);
	hw->prq.ring.va = NULL;
}

/* Take one request. Returns false when the ring is empty. */
static bool prq_take(struct sirdma_eq *eq, struct sirdma_page_ask *ask)
{
	const struct sirdma_page_request *request =
		(const struct sirdma_page_request *)eq->ring.va + eq->cons;
	/* This load pairs with the device, which writes this word last. */
	u64 qp = le64_to_cpu(smp_load_acquire(&request->qp));
	u64 block = le64_to_cpu(READ_ONCE(request->block));

	if (!!(qp & SIRDMA_PRQ_VALID) != eq->polarity)
		return false;
	*ask = (struct sirdma_page_ask){
		.first_pble = (u32)SIRDMA_GET(SIRDMA_PRQ_PBLE, block),
		.block = SIRDMA_GET(SIRDMA_PRQ_BLOCK, block),
		.qpn = (u32)SIRDMA_GET(SIRDMA_PRQ_QPN, qp),
		.gen = (u32)SIRDMA_GET(SIRDMA_PRQ_GEN, qp),
		.count = (u32)SIRDMA_GET(SIRDMA_PRQ_COUNT, qp),
		.waited = (u8)SIRDMA_GET(SIRDMA_PRQ_WAITED, qp),
		.failed = !!(qp & SIRDMA_PRQ_FAILED),
	};
	if (++eq->cons == eq->entries) {
		eq->cons = 0;
		eq->polarity = !eq->polarity;
	}
	return true;
}

void sirdma_prq_drain(struct sirdma_hw *hw)
{
	struct sirdma_page_ask ask;
	u32 count = 0;

	if (!hw->prq.ring.va)
		return;
	/*
	 * At most one ring is read for one event. A request that the device wrote after its event
	 * raises another one, since the driver acknowledges the event after this.
	 */
	while (count < hw->prq.entries && prq_take(&hw->prq, &ask)) {
		count++;
		hw->events->page_request(hw->events_ctx, &ask);
	}
	sirdma_wr32(hw->bus, SIRDMA_REG_PRQACK, count);
}

void sirdma_pble_sync(struct sirdma_hw *hw, u32 pd)
{
	sirdma_wr32(hw->bus, SIRDMA_REG_PBLESYNC, pd);
}
