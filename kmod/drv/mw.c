// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mw.h"

#include "device.h"
#include "health.h"
#include "hw/cqp_cmd.h"
#include "hw/stag.h"
#include "pd.h"

int sirdma_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibmw->device);
	struct sirdma_cqp_alloc_mw_params params = {
		.pd = to_spd(ibmw->pd)->id,
		.type1 = ibmw->type == IB_MW_TYPE_1,
	};
	int err;

	err = sirdma_stag_alloc(&dev->hw, &params.stag);
	if (err)
		return err;
	err = sirdma_cqp_alloc_mw(&dev->hw, &params);
	if (err) {
		sirdma_stag_free(&dev->hw, params.stag);
		return err;
	}
	ibmw->rkey = params.stag;
	return 0;
}

/*
 * A bound window ends. Returns -EBUSY while a queue pair binds the window: nothing is freed, and
 * the caller can try again.
 */
int sirdma_dealloc_mw(struct ib_mw *ibmw)
{
	struct sirdma_dev *dev = to_sdev(ibmw->device);
	int err;

	err = sirdma_cqp_dealloc_mw(&dev->hw, ibmw->rkey);
	if (err == -EBUSY)
		return err;
	if (err)
		sirdma_dev_fail(dev, err);
	sirdma_stag_free(&dev->hw, ibmw->rkey);
	return 0;
}
