/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Path to a destination: what the driver said of it, and the flow that the device's SGID
 * and ARP tables make of it. A connected QP has one path; a datagram can bring that of
 * its address handle. Whoever owns the path keeps it under a lock.
 */
#ifndef SNIC_PATH_H
#define SNIC_PATH_H

#include "burst.h"

struct snic_dev;

struct snic_path {
	u32 gen; /* of the tables the flow was made with */
	bool src_ok; /* the SGID entry is valid */
	bool dst_ok; /* and so is the ARP entry */
	u16 sgid_idx;
	u16 arp_idx;
	struct snic_flow flow;
};

/* A path that has no destination yet. */
void snic_path_init(struct snic_dev *dev, struct snic_path *path);
/* Set the path to that of @ctx, whose values were checked. */
void snic_path_set(struct snic_dev *dev, struct snic_path *path, const struct sirdma_qp_ctx *ctx);
/* Write the path into @ctx, as it was set. */
void snic_path_fill(const struct snic_path *path, struct sirdma_qp_ctx *ctx);
/* Bring the flow up to date when the tables changed. */
void snic_path_refresh(struct snic_dev *dev, struct snic_path *path);

#endif
