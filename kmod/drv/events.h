/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Delivery of the device's events to their CQ or QP, to the health check and to the ARP table. */
#ifndef SIRDMA_DRV_EVENTS_H
#define SIRDMA_DRV_EVENTS_H

#include "hw/hw.h"

extern const struct sirdma_hw_events sirdma_events;

#endif
