/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Delivery of the device's events: to their CQ, QP or SRQ, to the health check, to the ARP table and
 * to on-demand paging.
 */
#ifndef SIRDMA_DRV_EVENTS_H
#define SIRDMA_DRV_EVENTS_H

#include "hw/hw.h"

extern const struct sirdma_hw_events sirdma_events;

#endif
