/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands on the device as a whole: addresses, HMC, counters. */
#ifndef SNIC_CQP_TABLES_H
#define SNIC_CQP_TABLES_H

#include "port/port.h"
#include "sirdma/cqp.h"

struct snic_dev;

u32 snic_cqp_manage_arp(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_manage_sgid(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_update_sds(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_query_fpm(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_commit_fpm(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
/* Write as many counters as the buffer holds. Returns how many were written. */
u32 snic_cqp_gather_stats(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_nop(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);

#endif
