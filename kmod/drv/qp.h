/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs: create, destroy, post and kick. */
#ifndef SIRDMA_DRV_QP_H
#define SIRDMA_DRV_QP_H

#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <rdma/ib_verbs.h>

#include "obj.h"
#include "ring.h"

struct sirdma_arp;
struct sirdma_dev;
struct sirdma_doorbell;
struct sirdma_kqp;
struct sirdma_sgid;

struct sirdma_qp {
	struct ib_qp ibqp;
	struct sirdma_ring *ring; /* rings of a user's QP; NULL for a kernel consumer's */
	struct sirdma_ring_part part; /* part of a pool that has the rings; no bytes: not in a pool */
	struct sirdma_kqp *kqp; /* rings of a kernel consumer's QP; NULL for a user's */
	struct ib_qp_cap cap;
	struct sirdma_doorbell *doorbell; /* NULL: the poster kicks */
	struct list_head doorbell_node; /* entry of the doorbell's queue pairs */
	kuid_t uid; /* the user that made the QP; INVALID_UID: a kernel consumer */
	u32 kicker; /* see struct sirdma_ucontext; 0: a kernel consumer's, or an XRC target's */
	bool sig_all;
	u8 type; /* enum sirdma_qp_type */
	u32 xrcd; /* domain of an XRC target, which has no rings */

	struct mutex lock; /* only one modify or query runs at a time; protects the members below */
	bool gone; /* the QP is destroyed, but the core's lists may still name it */
	/* As the last modify left them. The device may move the QP to SQE or ERR by itself since. */
	u32 state; /* enum sirdma_qp_state */
	u32 dest_qpn;
	struct sirdma_arp *arp; /* destination MAC; NULL without a path */
	struct sirdma_sgid *sgid; /* source address; NULL without a path */
	u8 sl;
	u8 sgid_index; /* index of the core's GID table, as given to modify_qp */
	enum ib_mtu path_mtu;

	struct sirdma_obj obj; /* events find the QP while it exists */
};

static inline struct sirdma_qp *to_sqp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct sirdma_qp, ibqp);
}

int sirdma_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int sirdma_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
/*
 * A kernel consumer posts work requests here. A user's provider writes them into the ring, and
 * kicks a sleeping device: by sirdma_kick(), or by the uverbs command POST_SEND without a work
 * request (@wr NULL), if it does not know SIRDMA_UCTX_KICK_METHOD.
 */
int sirdma_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad_wr);
/* Kick the QP with that number. Returns -EINVAL if it is not one of the context. */
int sirdma_kick(struct ib_ucontext *ibuctx, u32 qpn);

#endif
