/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sirdma_nic: a device model on an Ethernet netdev. What the driver module
 * calls to get a device and its bus.
 */
#ifndef SNIC_HOST_H
#define SNIC_HOST_H

#include <linux/netdevice.h>
#include "model/snic.h"
#include "sirdma/bus.h"

/*
 * Make a device on @ndev (Ethernet, not a VLAN upper). Holds the netdev until
 * destroyed. ERR_PTR: -EBUSY when it already has one, -EINVAL for an unsuitable
 * netdev, -ENOMEM.
 */
struct sirdma_bus *snic_host_create(struct net_device *ndev, const struct snic_config *cfg);
/* The driver has quiesced the device: no objects, vectors freed. Waits for packets in flight. */
void snic_host_destroy(struct sirdma_bus *bus);
/* The fast kick of a user doorbell: run QP @qpn in the caller's (process) context. */
void snic_host_kick(struct sirdma_bus *bus, u32 qpn);
/* Follow the netdev: carrier, MTU, MAC changed. */
void snic_host_update(struct sirdma_bus *bus);

#endif
