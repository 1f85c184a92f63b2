/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* sirdma_nic: a device model on an Ethernet netdev. Bus operations on the device as a whole. */
#ifndef SNIC_HOST_H
#define SNIC_HOST_H

#include "sirdma/bus.h"

/* The driver has quiesced the device: no objects, vectors freed. Waits for packets in flight. */
void snic_host_destroy(struct sirdma_bus *bus);
/* The operation of the bus: runs QP @qpn in the process context of its caller. */
u8 snic_host_kick(struct sirdma_bus *bus, u32 qpn, u32 kicker);
/* Update the device after a change of the netdev's carrier, MTU or MAC. */
void snic_host_update(struct sirdma_bus *bus);

/* module_init() and module_exit() define these functions, which nothing in nic.c calls. */
__visible int init_module(void);
__visible void cleanup_module(void);

#endif
