/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues. */
#ifndef SNIC_CQ_H
#define SNIC_CQ_H

#include "eq.h"
#include "moderation.h"
#include "obj.h"
#include "ring.h"
#include "sirdma/cqe.h"
#include "sirdma/cqp.h"
#include "sirdma/shadow.h"

struct snic_dev;

struct snic_cq {
	struct snic_obj obj;
	struct port_lock lock; /* protects everything below; taken inside a QP lock */
	struct snic_ring ring;
	struct sirdma_cq_shadow *shadow;
	struct snic_ceq_event event; /* CEQEs echo its context; the CEQ's lock protects it */
	struct snic_aeq_events async;
	u64 written; /* elements written since creation */
	u64 written_se; /* elements up to the last solicited completion or error, inclusive */
	u32 entries; /* elements of the ring */
	u32 prod; /* next element to write */
	u32 carried; /* elements that were not consumed when the ring was replaced */
	u32 ceq_id;
	u8 elem_shift; /* log2 of an element's bytes: 5 or 6 */
	bool polarity; /* valid bit of the next element */
	bool first_lap; /* the producer has not wrapped yet */
	bool use_ceq;
	bool overflowed; /* the queue is dead; one AEQE reported it */
	bool is_ccq;
	bool timestamps; /* all completions have a second half with the time */
	struct snic_moderation *moderation; /* NULL: events never wait */
	u32 qp_refs; /* QPs attached: destroy is refused (IN_USE) while non-zero */
};

/* A completion, in CPU order. */
struct snic_completion {
	u64 compl_ctx; /* the QP's; is_shared: wr_id of the receive WQE */
	u32 qpn;
	u32 len; /* payload bytes of a receive */
	u32 wqe_idx; /* quanta */
	u32 inv_stag;
	u32 src_qpn; /* is_datagram */
	u32 imm; /* CPU order */
	u16 minor; /* enum sirdma_flush_code; error when major or minor is non-zero */
	u16 major;
	u32 vendor_err; /* enum sirdma_vendor_err */
	u8 op;
	bool is_sq;
	bool is_shared; /* the completion is of a shared receive queue */
	bool has_imm;
	bool has_inv;
	bool solicited;
	bool is_datagram;
	bool is_v4; /* the GRH holds an IPv4 header */
	bool has_mac;
	u16 vlan_id; /* has_mac; 0: none */
	u64 src_mac; /* format of SIRDMA_CQE_EXT_MAC */
};

/* Is the queue dead? The device writes nothing to a dead queue. */
static inline bool snic_cq_dead(const struct snic_cq *cq)
{
	return READ_ONCE(cq->overflowed);
}

/* Has the consumer consumed every element? */
bool snic_cq_drained(struct snic_cq *cq);

struct snic_cq *snic_cq_get(struct snic_dev *dev, u32 id);

static inline void snic_cq_put(struct snic_cq *cq)
{
	snic_obj_put(&cq->obj);
}

/* Count a user of CQ @id, which makes its destruction fail. NULL: there is no such CQ for users. */
struct snic_cq *snic_cq_attach(struct snic_dev *dev, u32 id);
void snic_cq_detach(struct snic_cq *cq);

/*
 * One element of the ring always stays free: indices alone cannot tell a full ring from
 * an empty one. Room is checked whether or not CHKOVERFLOW asks for it, so that no
 * completion is lost silently.
 *
 * Write one CQE (two ring elements when it carries immediate data or a VLAN) and raise a CEQE if
 * the queue is armed for it. Returns false when the queue is dead. An overflow kills it and raises
 * one CQ_CATASTROPHIC event.
 */
bool snic_cq_post(struct snic_dev *dev, struct snic_cq *cq, const struct snic_completion *c);
/*
 * Raise the event now, if the queue is armed for it: for a solicited completion, or for an ordinary
 * one. The caller holds the lock.
 */
void snic_cq_notify(struct snic_dev *dev, struct snic_cq *cq, bool solicited);
/*
 * SIRDMA_REG_CQARM: raise the event if the armed queue holds elements already. A moderated event waits like
 * the event of a completion.
 */
void snic_cq_arm(struct snic_dev *dev, u32 id);
/* Device teardown, after the QPs: destroy every CQ. */
void snic_cq_destroy_all(struct snic_dev *dev);
/* Write an element of the CQP's completion queue; @status: enum sirdma_cqp_status. */
bool snic_ccq_post(struct snic_dev *dev, struct snic_cq *cq, u32 wqe_idx, u8 opcode, u32 status,
		   u64 retval);

u32 snic_cqp_create_cq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_modify_cq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);
u32 snic_cqp_destroy_cq(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);

#endif
