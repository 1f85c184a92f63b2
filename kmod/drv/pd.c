// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "device.h"
#include "pd.h"
#include "sirdma/abi.h"

int sirdma_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibpd->device);
	struct sirdma_pd *pd = to_spd(ibpd);
	struct sirdma_alloc_pd_resp resp = {};
	int err;

	if (udata && udata->outlen < sizeof(resp))
		return -EINVAL;

	err = sirdma_idpool_get(&dev->hw.pd_ids, &pd->id);
	if (err)
		return err;
	if (!udata)
		return 0;

	resp.pd_id = pd->id;
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err)
		sirdma_idpool_put(&dev->hw.pd_ids, pd->id);
	return err;
}

int sirdma_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibpd->device);

	sirdma_idpool_put(&dev->hw.pd_ids, to_spd(ibpd)->id);
	return 0;
}
