// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Stag allocation. */
#include "stag.h"

int sirdma_stag_alloc(struct sirdma_hw *hw, u32 *stag)
{
	u32 idx;
	int err;

	err = sirdma_idpool_get(&hw->stag_ids, &idx);
	if (err)
		return err;
	*stag = idx << 8 | (port_random_u32() & 0xff);
	return 0;
}

void sirdma_stag_free(struct sirdma_hw *hw, u32 stag)
{
	sirdma_idpool_put(&hw->stag_ids, stag >> 8);
}
