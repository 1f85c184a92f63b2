/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Device, port and pkey attributes. */
#ifndef SIRDMA_DRV_PORT_H
#define SIRDMA_DRV_PORT_H

#include <linux/sysfs.h>
#include <rdma/ib_verbs.h>

struct sirdma_dev;

bool sirdma_port_is_up(const struct sirdma_dev *dev);
/* The largest RoCE payload of a packet that fits the netdev's MTU. */
enum ib_mtu sirdma_port_mtu(const struct sirdma_dev *dev);

int sirdma_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			struct ib_udata *udata);
int sirdma_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr);
int sirdma_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
int sirdma_get_port_immutable(struct ib_device *ibdev, u32 port,
			      struct ib_port_immutable *immutable);
enum rdma_link_layer sirdma_get_link_layer(struct ib_device *ibdev, u32 port);
void sirdma_get_fw_str(struct ib_device *ibdev, char *str);

extern const struct attribute_group sirdma_attr_group;

#endif
