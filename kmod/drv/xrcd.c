// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "device.h"
#include "xrcd.h"

int sirdma_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibxrcd->device);

	if (!dev->ibdev.attrs.max_srq)
		return -EOPNOTSUPP;
	return sirdma_idpool_get(&dev->hw.xrcd_ids, &to_sxrcd(ibxrcd)->id);
}

int sirdma_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	sirdma_idpool_put(&to_sdev(ibxrcd->device)->hw.xrcd_ids, to_sxrcd(ibxrcd)->id);
	return 0;
}
