/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Control queue pair: fetches commands and dispatches them. */
#ifndef SNIC_CQP_H
#define SNIC_CQP_H

#include "port/port.h"
#include "sirdma/cqp.h"

struct snic_dev;

void snic_cqp_init(struct snic_dev *dev);
/* CCQPHIGH was written: accept the context at @ctx_addr. */
void snic_cqp_start(struct snic_dev *dev, u64 ctx_addr);
/*
 * CQPDB was written: execute the commands up to @head. When another thread executes
 * commands already, it executes these as well.
 */
void snic_cqp_ring(struct snic_dev *dev, u32 head);
void snic_cqp_stop(struct snic_dev *dev);

#endif
