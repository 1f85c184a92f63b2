/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Multicast groups, driver side: which queue pairs are attached to which address. */
#ifndef SIRDMA_HW_MCAST_H
#define SIRDMA_HW_MCAST_H

#include "idpool.h"
#include "port/port.h"
#include "sirdma/cqp.h"

struct sirdma_hw;
struct sirdma_mcast;

struct sirdma_mcast_table {
	struct port_mutex lock; /* protects the list, and the groups in it */
	struct sirdma_mcast *groups;
	struct sirdma_idpool ids; /* limit 0: the device has no groups */
};

int sirdma_mcast_init(struct sirdma_hw *hw);
void sirdma_mcast_fini(struct sirdma_hw *hw);

/*
 * Attach queue pair @qpn to group @ip. Attaching it again counts, and changes nothing else: the
 * queue pair gets one copy of a packet. *first: the group is new. Returns -EINVAL if @ip is no
 * multicast address, -EOPNOTSUPP if the device has no groups, -ENOMEM if a limit is reached or no
 * memory is found (see sirdma_cqp_make_room()), or the error of a command. Sleeps.
 */
int sirdma_mcast_attach(struct sirdma_hw *hw, const struct sirdma_ip *ip, u32 qpn, bool *first);
/*
 * Undo one sirdma_mcast_attach(). *last: the group is gone. Returns -EINVAL if @qpn is not
 * attached. The function detaches the queue pair even if a command fails, because the device has
 * failed then.
 */
int sirdma_mcast_detach(struct sirdma_hw *hw, const struct sirdma_ip *ip, u32 qpn, bool *last);

#endif
