/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The poster's side of send and receive queues: writes work requests as WQEs into the ring,
 * and finds the request of a completed WQE.
 *
 * Head and tail run freely over 32 bits; sizes are powers of two, so the lap, and
 * with it the valid bit, is one bit of the index. Head is written by the poster and
 * tail by the poller, each under a lock of its own; the other side only reads.
 */
#ifndef SIRDMA_WORKQ_H
#define SIRDMA_WORKQ_H

#include <linux/errno.h>

#include "encode.h"
#include "geometry.h"
#include "shadow.h"

/* What the send queue keeps of the WQE that begins in a quantum. */
struct sirdma_sq_slot {
	__u64 wr_id;
	__u64 hdr; /* header word, until it is published */
	__u32 length; /* bytes of payload */
	__u32 quanta;
};

struct sirdma_sq {
	struct sirdma_wqe *ring; /* zeroed at first */
	struct sirdma_sq_slot *slots;
	__u32 size; /* quanta, more than sirdma_sq_reserved(); slots as well */
	__u32 max_sge;
	__u32 max_read_sge;
	__u32 max_inline; /* bytes */
	__u32 qp_type; /* SIRDMA_SEND_ON_*, one of them */
	__u32 lacks; /* operations it refuses: SIRDMA_SEND_OP_ATOMIC, _KERNEL, _PLACEMENT */
	int signal_all;
	__u32 head;
	__u32 tail;
};

/* The receive queue of one QP, which completes its WQEs in their order. */
struct sirdma_rq {
	struct sirdma_wqe *ring; /* zeroed at first */
	__u64 *wr_ids; /* one for each WQE */
	__u32 size; /* WQEs */
	__u32 shift; /* log2 of the quanta of one */
	__u32 max_sge;
	__u32 head;
	__u32 tail;
};

/*
 * A queue from which the device serves several QPs. The wr_id is in the WQE, from where the
 * device copies it into the CQE: completions come in any order, and need nothing of the queue.
 */
struct sirdma_shared_rq {
	struct sirdma_wqe *ring; /* zeroed at first */
	const struct sirdma_srq_shadow *shadow;
	__u32 size; /* WQEs; all of them may be posted */
	__u32 shift; /* log2 of the quanta of one */
	__u32 max_sge;
	__u32 head;
	__u32 fetched; /* by the device, as it last said when the queue looked full */
};

/* Elements that are written and not retired. */
static inline __u32 sirdma_wq_used(const __u32 *head, const __u32 *tail)
{
	/*
	 * Acquire: the poller no longer uses the slots before the tail. Partner:
	 * sirdma_wq_retire().
	 */
	return sirdma_load32(head) - sirdma_load32_acquire(tail);
}

/* The elements before @index are done and may be overwritten. */
static inline void sirdma_wq_retire(__u32 *tail, __u32 index)
{
	sirdma_store32_release(tail, index);
}

/*
 * *index: the free-running index of the outstanding element at @position of a ring of
 * @size. 0 when none is outstanding there: @position comes from the device.
 */
static inline int sirdma_wq_locate(const __u32 *head, const __u32 *tail, __u32 size, __u32 position,
				   __u32 *index)
{
	const __u32 oldest = sirdma_load32(tail);
	const __u32 ahead = (position - oldest) & (size - 1);

	*index = oldest + ahead;
	return ahead < sirdma_load32(head) - oldest;
}

/* Send queue */

static inline struct sirdma_wqe *sirdma_sq_wqe_at(const struct sirdma_sq *sq, __u32 index)
{
	return &sq->ring[index & (sq->size - 1)];
}

static inline struct sirdma_sq_slot *sirdma_sq_slot_at(const struct sirdma_sq *sq, __u32 index)
{
	return &sq->slots[index & (sq->size - 1)];
}

/* Quanta that requests may still take. */
static inline __u32 sirdma_sq_free(const struct sirdma_sq *sq)
{
	const __u32 taken = sirdma_wq_used(&sq->head, &sq->tail) + sirdma_sq_kept_free(sq->size);

	return taken < sq->size ? sq->size - taken : 0;
}

/*
 * Reserve @quanta that lie in one chunk, which a WQE must not cross: NOPs fill the rest of a
 * chunk that is too short. The head moves before the elements become valid, so that a
 * poller that sees one completed (by the device's acquire and release) sees the head too.
 */
static inline int sirdma_sq_reserve(struct sirdma_sq *sq, __u32 quanta, __u32 *index)
{
	const __u32 head = sirdma_load32(&sq->head);
	const __u32 in_chunk = SIRDMA_SQ_CHUNK_QUANTA - head % SIRDMA_SQ_CHUNK_QUANTA;
	const __u32 padding = quanta <= in_chunk ? 0 : in_chunk;
	__u32 i;

	if (quanta + padding > sirdma_sq_free(sq))
		return -ENOMEM;
	for (i = head; i != head + padding; i++) {
		struct sirdma_sq_slot *slot = sirdma_sq_slot_at(sq, i);

		slot->wr_id = 0;
		slot->hdr = sirdma_put_nop(sirdma_sq_wqe_at(sq, i), sirdma_valid_bit(i, sq->size));
		slot->length = 0;
		slot->quanta = 1;
	}
	*index = head + padding;
	sirdma_store32(&sq->head, *index + quanta);
	return 0;
}

/*
 * Quanta of the WQE of @send. @op: its entry of the opcode table; @bytes: the sum of its pieces.
 * 0: it is beyond the queue's limits, or its data cannot be inline.
 */
static inline __u32 sirdma_send_quanta(const struct sirdma_sq *sq, const struct sirdma_send *send,
				       __u32 op, __u64 bytes)
{
	if (bytes > SIRDMA_MAX_MSG_SIZE)
		return 0;
	if (op & (SIRDMA_SEND_OP_NO_DATA | SIRDMA_SEND_OP_PLACEMENT)) {
		if (op & SIRDMA_SEND_OP_NO_DATA)
			return 1;
		if (bytes != SIRDMA_ATOMIC_LEN)
			return 0;
		/* Inline, it takes no more room than without data, so max_inline does not matter. */
		return send->flags & SIRDMA_SEND_INLINE ?
			       1 :
			       sirdma_frag_quanta(send->num_sge + sirdma_send_first_frag(send, 0));
	}
	if (send->flags & SIRDMA_SEND_INLINE)
		return (op & SIRDMA_SEND_OP_INLINE) && bytes <= sq->max_inline ?
			       sirdma_inline_quanta((__u32)bytes) :
			       0;
	if (op & SIRDMA_SEND_OP_ATOMIC)
		return send->num_sge == 1 && bytes >= SIRDMA_ATOMIC_LEN ? SIRDMA_ATOMIC_WQE_QUANTA :
									  0;
	if (send->opcode == SIRDMA_WR_READ && send->num_sge > sq->max_read_sge)
		return 0;
	/* The one fragment names the stag to invalidate. */
	if (send->opcode == SIRDMA_WR_READ_INV && send->num_sge != 1)
		return 0;
	return sirdma_frag_quanta(send->num_sge +
				  sirdma_send_first_frag(send, !!(op & SIRDMA_SEND_OP_IMM)));
}

/*
 * Write a request behind the head. It is not valid until sirdma_sq_publish();
 * sirdma_sq_rewind() takes it back. 0; -EINVAL: beyond the queue's limits or not an
 * operation of its type; -EOPNOTSUPP: an operation that this device lacks; -ENOMEM: no room.
 */
static inline int sirdma_sq_take(struct sirdma_sq *sq, const struct sirdma_send *send)
{
	const __u32 op = sirdma_send_op(send->opcode);
	const int is_inline = !!(send->flags & SIRDMA_SEND_INLINE);
	/* Inline data takes no fragment, so a single piece is within any limit. */
	const __u32 max_sge = is_inline && !sq->max_sge ? 1 : sq->max_sge;
	const __u32 num_sge = op & SIRDMA_SEND_OP_NO_DATA ? 0 : send->num_sge;
	struct sirdma_sq_slot *slot;
	struct sirdma_wqe *wqe;
	__u32 index, quanta;
	__u64 bytes, hdr, valid;
	int err;

	if (!(op & sq->qp_type))
		return -EINVAL;
	if (op & sq->lacks)
		return -EOPNOTSUPP;
	if (num_sge > max_sge)
		return -EINVAL;
	bytes = sirdma_sge_bytes(send->sges, num_sge);
	quanta = sirdma_send_quanta(sq, send, op, bytes);
	if (!quanta)
		return -EINVAL;

	err = sirdma_sq_reserve(sq, quanta, &index);
	if (err)
		return err;
	hdr = sirdma_send_hdr(send, sq->qp_type == SIRDMA_SEND_ON_UD ? op | SIRDMA_SEND_OP_KEY : op,
			      sq->signal_all);
	valid = sirdma_valid_bit(index, sq->size);
	wqe = sirdma_sq_wqe_at(sq, index);
	slot = sirdma_sq_slot_at(sq, index);
	slot->wr_id = send->wr_id;
	if (op & SIRDMA_SEND_OP_NO_DATA) {
		slot->hdr = sirdma_put_no_data(wqe, send, hdr, valid);
	} else if (op & SIRDMA_SEND_OP_ATOMIC) {
		bytes = SIRDMA_ATOMIC_LEN;
		slot->hdr = sirdma_put_atomic(wqe, send, hdr, valid);
	} else {
		slot->hdr = is_inline ?
				    sirdma_put_send_inline(wqe, send, hdr, (__u32)bytes, valid) :
				    sirdma_put_send(wqe, send, hdr, valid);
	}
	slot->length = (__u32)bytes;
	slot->quanta = quanta;
	return 0;
}

/* Make [@from, head) valid: write the headers, after the bodies. */
static inline void sirdma_sq_publish(struct sirdma_sq *sq, __u32 from)
{
	while (from != sq->head) {
		const struct sirdma_sq_slot *slot = sirdma_sq_slot_at(sq, from);

		sirdma_put64_release(&sirdma_sq_wqe_at(sq, from)->hdr, slot->hdr);
		from += slot->quanta;
	}
}

/*
 * Take back [@from, head), which was not published. Its quanta may carry this lap's polarity
 * in word 3; without it the device does not read them as WQEs behind a shorter one.
 */
static inline void sirdma_sq_rewind(struct sirdma_sq *sq, __u32 from)
{
	__u32 i;

	for (i = from; i != sq->head; i++)
		sirdma_put64(&sirdma_sq_wqe_at(sq, i)->hdr,
			     sirdma_valid_bit(i, sq->size) ^ SIRDMA_WQE_VALID);
	sirdma_store32(&sq->head, from);
}

/*
 * Complete the send request that began in quantum @position, as a CQE says: *done is the
 * request; it and all before it are retired. 0 when none is outstanding there.
 */
static inline int sirdma_sq_complete(struct sirdma_sq *sq, __u32 position,
				     struct sirdma_sq_slot *done)
{
	__u32 index;

	if (!sirdma_wq_locate(&sq->head, &sq->tail, sq->size, position, &index))
		return 0;
	/* Copy it first: the poster may overwrite the slot once it is retired. */
	*done = *sirdma_sq_slot_at(sq, position);
	sirdma_wq_retire(&sq->tail, index + done->quanta);
	return 1;
}

/* Empty the queue, as in RESET. Neither the device nor another thread uses it. */
static inline void sirdma_sq_reset(struct sirdma_sq *sq)
{
	__builtin_memset(sq->ring, 0, (__SIZE_TYPE__)sq->size * SIRDMA_QUANTUM);
	sirdma_store32(&sq->head, 0);
	sirdma_store32(&sq->tail, 0);
}

/* Receive queue */

/* Requests the queue still takes. */
static inline __u32 sirdma_rq_free(const struct sirdma_rq *rq)
{
	return rq->size - sirdma_wq_used(&rq->head, &rq->tail) - SIRDMA_RQ_RSVD_WQES;
}

/* Are the pieces of a receive request within the limits? */
static inline int sirdma_recv_sges_ok(const struct sirdma_sge *sges, __u32 num_sge, __u32 max_sge)
{
	__u32 i;

	if (num_sge > max_sge)
		return 0;
	for (i = 0; i < num_sge; i++)
		if (sges[i].length > SIRDMA_MAX_MSG_SIZE)
			return 0;
	return 1;
}

/* Post one request; the valid bit is the only doorbell. 0, -EINVAL, -ENOMEM: no room. */
static inline int sirdma_rq_take(struct sirdma_rq *rq, __u64 wr_id, const struct sirdma_sge *sges,
				 __u32 num_sge)
{
	const __u32 head = sirdma_load32(&rq->head);
	const __u32 slot = head & (rq->size - 1);
	struct sirdma_wqe *wqe = &rq->ring[slot << rq->shift];
	__u64 hdr;

	if (!sirdma_recv_sges_ok(sges, num_sge, rq->max_sge))
		return -EINVAL;
	if (!sirdma_rq_free(rq))
		return -ENOMEM;

	rq->wr_ids[slot] = wr_id;
	hdr = sirdma_put_recv(wqe, sges, num_sge, 0, sirdma_valid_bit(head, rq->size));
	/* Head before the header: as in sirdma_sq_reserve(). */
	sirdma_store32(&rq->head, head + 1);
	sirdma_put64_release(&wqe->hdr, hdr);
	return 0;
}

/*
 * Complete the receive request in quantum @position, as a CQE says: *wr_id is its id; it and
 * all before it are retired. 0 when none is outstanding there.
 */
static inline int sirdma_rq_complete(struct sirdma_rq *rq, __u32 position, __u64 *wr_id)
{
	const __u32 slot = (position >> rq->shift) & (rq->size - 1);
	__u32 index;

	if (!sirdma_wq_locate(&rq->head, &rq->tail, rq->size, slot, &index))
		return 0;
	/* Read it first: the poster may overwrite the slot once it is retired. */
	*wr_id = rq->wr_ids[slot];
	sirdma_wq_retire(&rq->tail, index + 1);
	return 1;
}

static inline void sirdma_rq_reset(struct sirdma_rq *rq)
{
	__builtin_memset(rq->ring, 0, ((__SIZE_TYPE__)rq->size << rq->shift) * SIRDMA_QUANTUM);
	sirdma_store32(&rq->head, 0);
	sirdma_store32(&rq->tail, 0);
}

/* Shared receive queue */

/*
 * Is there room for a request? The device writes its word for each message, so it is read only
 * when there seems to be none. Acquire: the device has read the WQEs whose places are free.
 */
static inline int sirdma_shared_rq_has_room(struct sirdma_shared_rq *rq)
{
	if (rq->head - rq->fetched < rq->size)
		return 1;
	rq->fetched = (__u32)SIRDMA_GET(SIRDMA_SRQ_SHADOW_FETCHED,
					sirdma_get64_acquire(&rq->shadow->fetched));
	/* A device that fetched what was never posted leaves no room. */
	return rq->head - rq->fetched < rq->size;
}

/* Post one request, as sirdma_rq_take(). */
static inline int sirdma_shared_rq_take(struct sirdma_shared_rq *rq, __u64 wr_id,
					const struct sirdma_sge *sges, __u32 num_sge)
{
	struct sirdma_wqe *wqe = &rq->ring[(rq->head & (rq->size - 1)) << rq->shift];
	__u64 hdr;

	if (!sirdma_recv_sges_ok(sges, num_sge, rq->max_sge))
		return -EINVAL;
	if (!sirdma_shared_rq_has_room(rq))
		return -ENOMEM;
	hdr = sirdma_put_recv(wqe, sges, num_sge, wr_id, sirdma_valid_bit(rq->head, rq->size));
	rq->head++;
	sirdma_put64_release(&wqe->hdr, hdr);
	return 0;
}

#endif
