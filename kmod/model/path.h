/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Path to a destination: the attributes that the driver set, and the flow that is built
 * from them and from the device's SGID and ARP tables. A QP has one path. That of a datagram QP is
 * built anew when the next message names another address vector. The QP's lock protects it.
 */
#ifndef SNIC_PATH_H
#define SNIC_PATH_H

#include "burst.h"
#include "dev.h"

struct sirdma_av;

struct snic_path {
	u32 gen; /* value of tables_gen when the flow was built */
	bool src_ok; /* the SGID entry is valid */
	bool dst_ok; /* the destination MAC is valid as well */
	bool mac_fixed; /* the destination MAC is an address vector's, not that of an ARP entry */
	u16 sgid_idx;
	u16 arp_idx;
	struct snic_flow flow;
};

/* Initialize a path without a destination. */
void snic_path_init(struct snic_dev *dev, struct snic_path *path);
/* Set the attributes of the path from @ctx. The caller has checked the values. */
void snic_path_set(struct snic_dev *dev, struct snic_path *path, const struct sirdma_qp_ctx *ctx);
/* Set the attributes of the path from @av. Returns false if a value is out of range. */
bool snic_path_set_av(struct snic_dev *dev, struct snic_path *path, const struct sirdma_av *av);
/* Write the attributes of the path into @ctx. */
void snic_path_fill(const struct snic_path *path, struct sirdma_qp_ctx *ctx);
/* Rebuild the flow from the tables. */
void snic_path_rebuild(struct snic_dev *dev, struct snic_path *path);

/* Rebuild the flow if the tables have changed. */
static inline void snic_path_refresh(struct snic_dev *dev, struct snic_path *path)
{
	if (READ_ONCE(dev->tables_gen) != path->gen)
		snic_path_rebuild(dev, path);
}

#endif
