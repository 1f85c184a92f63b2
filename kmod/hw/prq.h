/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Driver side of the page request queue (sirdma/prq.h). */
#ifndef SIRDMA_HW_PRQ_H
#define SIRDMA_HW_PRQ_H

#include "eq.h"
#include "sirdma/prq.h"

struct sirdma_hw;

/* A request of the device for memory of a page list. */
struct sirdma_page_ask {
	u32 first_pble; /* the list, as sirdma_pbl_first() returns it */
	u64 block; /* index of the first block */
	u32 count; /* blocks that the device will need from there on, at least 1 (SIRDMA_PRQ_COUNT) */
	u32 qpn; /* ring its doorbell when the memory is there, or will never be */
	u32 gen; /* its generation */
	u8 waited; /* SIRDMA_PRQ_WAITED */
	bool failed; /* an access met SIRDMA_PBLE_ERROR at this block */
};

/*
 * Start the queue if the events of @hw have a page_request function, and stop it. A queue that does
 * not run has no memory.
 */
int sirdma_prq_start(struct sirdma_hw *hw);
void sirdma_prq_stop(struct sirdma_hw *hw);
/* Free the memory of the queue. Call it after the reset. */
void sirdma_prq_free(struct sirdma_hw *hw);
/* Handle all requests. The handler of the AEQ calls it for SIRDMA_AE_PAGE_REQUEST. */
void sirdma_prq_drain(struct sirdma_hw *hw);
/*
 * Wait until the device has ended all accesses to regions of protection domain @pd that found PBLEs as
 * they were before. Sleeps, but for no memory and no command, so that it may be called while memory
 * is reclaimed.
 */
void sirdma_pble_sync(struct sirdma_hw *hw, u32 pd);

#endif
