/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rdma link add NAME type sirdma netdev DEV */
#ifndef SIRDMA_DRV_LINK_H
#define SIRDMA_DRV_LINK_H

void sirdma_link_init(void);
void sirdma_link_fini(void);

#endif
