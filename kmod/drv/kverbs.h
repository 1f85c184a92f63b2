/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queues of kernel consumers: rings in memory of the bus; post and poll use the same
 * codec as the provider.
 *
 * All calls of the data path may come with interrupts off and locks held. A post writes
 * the ring and rings the bus's doorbell, which schedules the device; nothing here runs
 * the device, and no handler runs inside a call.
 */
#ifndef SIRDMA_DRV_KVERBS_H
#define SIRDMA_DRV_KVERBS_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "sirdma/bus.h"
#include "sirdma/decode.h"
#include "sirdma/qpctx.h"

struct sirdma_dev;
struct sirdma_qp;
struct sirdma_qp_create;
struct sirdma_qp_size;

/* Rings of a QP. The address of this struct is the completion context in CQEs. */
struct sirdma_kqp {
	struct sirdma_qp *qp;
	struct sirdma_dma_mem mem; /* memory of SQ, RQ and shadow area */
	struct sirdma_qp_shadow *shadow;
	enum ib_qp_state state; /* state that the last modify_qp set */
	atomic_t last_wqe_due; /* the event is due that a failed device does not raise (kflush.h) */
	spinlock_t sq_lock; /* protects sq except its tail, which the send CQ's lock protects */
	spinlock_t rq_lock; /* protects rq except its tail, which the receive CQ's lock protects */
	struct sirdma_sq sq;
	struct sirdma_rq rq;
	struct list_head send_node; /* in the lists of the CQs that it completes to; their locks */
	struct list_head recv_node;
};

/* Ring of a CQ. */
struct sirdma_kcq {
	struct sirdma_dma_mem mem; /* memory of elements and shadow area */
	spinlock_t lock; /* protects the members below, and the tails of queues it completes */
	struct sirdma_cq_ring ring;
	u32 arm_seq;
	struct list_head senders; /* list of struct sirdma_kqp */
	struct list_head receivers;
};

struct sirdma_kcq *sirdma_kcq_create(struct sirdma_dev *dev, u32 entries);
void sirdma_kcq_destroy(struct sirdma_dev *dev, struct sirdma_kcq *kcq);

/* Ring of a shared receive queue. */
struct sirdma_ksrq {
	struct sirdma_dma_mem mem; /* memory of WQEs and shadow area */
	spinlock_t lock; /* protects queue */
	struct sirdma_shared_rq queue;
};

struct sirdma_ksrq *sirdma_ksrq_create(struct sirdma_dev *dev, u32 quanta, u32 max_sge);
/* The device has destroyed the queue, or has never created it. */
void sirdma_ksrq_destroy(struct sirdma_dev *dev, struct sirdma_ksrq *ksrq);

struct sirdma_kqp *sirdma_kqp_create(struct sirdma_dev *dev, struct sirdma_qp *qp,
				     const struct sirdma_qp_size *size);
/* The device has destroyed the QP, or has never created it. */
void sirdma_kqp_destroy(struct sirdma_dev *dev, struct sirdma_kqp *kqp);
/* Fill in the addresses of the rings, and the completion context. */
void sirdma_kqp_locate_rings(const struct sirdma_kqp *kqp, struct sirdma_qp_create *create);
/* The device moved the QP to @state. In RESET both rings start over. */
void sirdma_kqp_modified(struct sirdma_kqp *kqp, enum ib_qp_state state);

int sirdma_kqp_post_send(struct sirdma_kqp *kqp, const struct ib_send_wr *wr,
			 const struct ib_send_wr **bad_wr);
int sirdma_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad_wr);
int sirdma_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad_wr);
int sirdma_poll_cq(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc);
int sirdma_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

#endif
