/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Events of the device, brought to their CQ, QP or port. */
#ifndef SIRDMA_DRV_EVENTS_H
#define SIRDMA_DRV_EVENTS_H

#include "hw/hw.h"

extern const struct sirdma_hw_events sirdma_events;

#endif
