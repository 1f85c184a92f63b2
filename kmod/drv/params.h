/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Module parameters: limits of each device, fixed when its link is added. */
#ifndef SIRDMA_DRV_PARAMS_H
#define SIRDMA_DRV_PARAMS_H

#include <linux/types.h>
#include "sirdma/bus.h"

/* Completion event queues (CEQs) of a device: one per completion vector. */
u32 sirdma_params_num_ceqs(void);
void sirdma_params_to_config(struct sirdma_bus_config *config);

#endif
