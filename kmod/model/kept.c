// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "kept.h"

#include "sge.h"

bool snic_burst_keep(struct snic_burst *burst, struct snic_kept *kept)
{
	struct snic_mrc *mrs = burst->regions;
	u32 i;

	if (!mrs || mrs->count > SNIC_KEPT_MAX)
		return false;
	for (i = 0; i < mrs->count; i++) {
		if (!snic_mr_keeps_memory(mrs->mr[i]))
			return false;
	}
	memcpy(kept->mr, mrs->mr, mrs->count * sizeof(*kept->mr));
	kept->count = mrs->count;
	mrs->count = 0;
	burst->regions = NULL;
	return true;
}

void snic_kept_put(struct snic_kept *kept)
{
	while (kept->count)
		snic_mr_put(kept->mr[--kept->count]);
}
