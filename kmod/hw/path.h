/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Destinations as applications name them: of a connected queue pair or of an address handle. */
#ifndef SIRDMA_HW_PATH_H
#define SIRDMA_HW_PATH_H

#include "port/port.h"
#include "sirdma/qpctx.h"
#include "sirdma/roce.h"

/* The fields of an address vector of the verbs API. */
struct sirdma_path {
	struct sirdma_ip dst_ip;
	u32 flow_label;
	u8 port_num;
	u8 sl;
	u8 hop_limit;
	u8 traffic_class;
	bool has_grh;
};

/* Returns NULL, or what is wrong with the path ("has no destination") for a log line. */
const char *sirdma_path_refusal(const struct sirdma_path *path);

/*
 * UCX sets more bits than an IPv6 flow label has; as hardware does, the device takes the low ones.
 */
static inline u32 sirdma_path_flow_label(const struct sirdma_path *path)
{
	return path->flow_label & SIRDMA_MAX_FLOW_LABEL;
}

/*
 * A hop limit of 0, which is not valid in an IP packet, stands for the default, as in the address
 * resolution of the kernel's RDMA core.
 */
static inline u8 sirdma_path_hop_limit(const struct sirdma_path *path)
{
	return path->hop_limit ? path->hop_limit : SIRDMA_DEFAULT_HOP_LIMIT;
}

#endif
