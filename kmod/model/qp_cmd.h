/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pair commands of the CQP, implemented by the transport. */
#ifndef SNIC_QP_CMD_H
#define SNIC_QP_CMD_H

#include "port/port.h"
#include "sirdma/cqp.h"

struct snic_dev;

u32 snic_cqp_create_qp(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_modify_qp(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_qp(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_upload_ctx(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_flush_wqes(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
/* Device teardown: destroy every QP. */
void snic_qp_destroy_all(struct snic_dev *dev);

#endif
