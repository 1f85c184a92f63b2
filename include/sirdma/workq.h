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
	__u32 length; /* bytes of payload */
	__u32 end; /* index behind the WQE, which runs freely */
};

/*
 * The poster writes WQEs one behind the other ("commits" them) and makes them valid together
 * ("publishes" them). The device reads a header only if all before it are valid. So only the header
 * of the first WQE waits to be published; those behind it are in the ring already.
 *
 *	ring:	 done | posted, device reads | committed, first is not valid | free |
 *		      tail		     head			     wqe    limit
 */
struct sirdma_sq {
	/* These are set before sirdma_sq_init(), except for the mask. */
	struct sirdma_wqe *ring; /* zeroed at first */
	struct sirdma_sq_slot *slots; /* zeroed at first */
	__u32 size; /* quanta, more than sirdma_sq_reserved(); slots as well */
	__u32 mask; /* size - 1, set by sirdma_sq_init() */
	__u32 max_sge;
	__u32 max_read_sge;
	__u32 max_inline; /* bytes */
	__u32 qp_type; /* SIRDMA_SEND_ON_*, one of them */
	__u32 lacks; /* operations it refuses: SIRDMA_SEND_OP_ATOMIC, _KERNEL, _PLACEMENT */
	int signal_all;

	__u32 closed; /* not 0: each request is refused; see sirdma_sq_close() */
	/*
	 * sirdma_send_flag_bits() of each combination of flags, all of them signaled if signal_all, and
	 * the valid bit of the next WQE
	 */
	__u64 flag_bits[SIRDMA_SEND_HDR_FLAGS + 1];

	/*
	 * The place of the next WQE. Members that change together are not neighbours: a compiler would
	 * pack them into a vector, to add to each, which takes more instructions.
	 */
	struct sirdma_wqe *wqe;
	__u64 valid; /* the valid bit there */
	struct sirdma_sq_slot *slot;
	/* Up to here the ring is known to be free, at most up to its end. */
	struct sirdma_wqe *limit;
	struct sirdma_wqe *first; /* first WQE that waits to be published; NULL: there is none */
	__u64 first_hdr; /* its header */
	__u32 unfinished; /* not 0: the caller's own state of a request that it writes in pieces */
	__u32 waiting; /* quanta that wait to be published */

	__u32 head; /* index behind the WQEs that are published */
	__u8 apart[SIRDMA_CACHE_LINE]; /* a poster and a poller may be on two processors */
	__u32 tail;
	__u8 behind[SIRDMA_CACHE_LINE];
};

/* The receive queue of one QP, which completes its WQEs in their order. */
struct sirdma_rq {
	struct sirdma_wqe *ring; /* zeroed at first */
	__u64 *wr_ids; /* by the first quantum of the WQE */
	__u32 size; /* quanta; elements of wr_ids as well */
	__u32 mask; /* size - 1, set by sirdma_rq_init() */
	__u32 stride; /* quanta of a WQE, a power of two */
	__u32 max_sge;
	__u32 head; /* in quanta, as the tail */
	__u8 apart[SIRDMA_CACHE_LINE]; /* see sirdma_sq */
	__u32 tail;
	__u8 behind[SIRDMA_CACHE_LINE];
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

/* Send queue */

static inline struct sirdma_wqe *sirdma_sq_wqe_at(const struct sirdma_sq *sq, __u32 index)
{
	return &sq->ring[index & sq->mask];
}

static inline struct sirdma_sq_slot *sirdma_sq_slot_at(const struct sirdma_sq *sq, __u32 index)
{
	return &sq->slots[index & sq->mask];
}

/* Quanta that requests may still take. */
static inline __u32 sirdma_sq_free(const struct sirdma_sq *sq)
{
	const __u32 taken =
		sirdma_wq_used(&sq->head, &sq->tail) + sq->waiting + sirdma_sq_kept_free(sq->size);

	return taken < sq->size ? sq->size - taken : 0;
}

/* The index of the next WQE, which runs freely. */
static inline __u32 sirdma_sq_next(const struct sirdma_sq *sq)
{
	return sq->head + sq->waiting;
}

/* Quanta at the next WQE that are known to be free. */
static inline __u32 sirdma_sq_room(const struct sirdma_sq *sq)
{
	return (__u32)(sq->limit - sq->wqe);
}

/* Find the place of the next WQE from its index. No room is known there. */
static inline void sirdma_sq_seek(struct sirdma_sq *sq)
{
	const __u32 index = sirdma_sq_next(sq);
	const __u64 valid = sirdma_valid_bit(index, sq->size);
	__u32 flags;

	if (valid != sq->valid)
		for (flags = 0; flags <= SIRDMA_SEND_HDR_FLAGS; flags++)
			sq->flag_bits[flags] ^= SIRDMA_WQE_VALID;
	sq->valid = valid;
	sq->wqe = sirdma_sq_wqe_at(sq, index);
	sq->limit = sq->wqe;
	sq->slot = sirdma_sq_slot_at(sq, index);
}

/* Put the indices of an empty queue to 0. */
static inline void sirdma_sq_start_over(struct sirdma_sq *sq)
{
	sirdma_store32(&sq->head, 0);
	sirdma_store32(&sq->tail, 0);
	sq->waiting = 0;
	sq->first = (struct sirdma_wqe *)0;
	sirdma_sq_seek(sq);
}

static inline void sirdma_sq_init(struct sirdma_sq *sq)
{
	__u32 flags;

	for (flags = 0; flags <= SIRDMA_SEND_HDR_FLAGS; flags++)
		sq->flag_bits[flags] =
			sirdma_send_flag_bits(flags | (sq->signal_all ? SIRDMA_SEND_SIGNALED : 0));
	sq->mask = sq->size - 1;
	sq->valid = 0;
	sirdma_sq_start_over(sq);
}

/* The next WQE has @length bytes of payload. */
static inline void sirdma_sq_set_length(struct sirdma_sq *sq, __u32 length)
{
	sq->slot->length = length;
}

/* Go behind the next WQE, to index @end. */
static inline void sirdma_sq_advance(struct sirdma_sq *sq, __u32 quanta, __u32 end)
{
	sq->slot->end = end;
	sq->wqe += quanta;
	sq->slot += quanta;
}

/*
 * Commit the next WQE, whose length is set and which is written except for @hdr, its header with the
 * valid bit.
 */
static inline void sirdma_sq_commit(struct sirdma_sq *sq, __u32 quanta, __u64 hdr)
{
	struct sirdma_wqe *wqe = sq->wqe;

	sq->waiting += quanta;
	sirdma_sq_advance(sq, quanta, sirdma_sq_next(sq));
	if (!sq->first) {
		sq->first = wqe;
		sq->first_hdr = hdr;
	} else {
		sirdma_put64(&wqe->hdr, hdr);
	}
}

/*
 * Make the committed WQEs valid; 0 if there are none. The head moves before, so that a poller that
 * sees one of them completed (by the device's acquire and release) sees the head too.
 */
static inline int sirdma_sq_publish(struct sirdma_sq *sq)
{
	struct sirdma_wqe *first = sq->first;
	const __u64 hdr = sq->first_hdr;

	if (!first)
		return 0;
	sq->first = (struct sirdma_wqe *)0;
	sirdma_store32(&sq->head, sirdma_sq_next(sq));
	sq->waiting = 0;
	sirdma_put64_release(&first->hdr, hdr);
	return 1;
}

/* Commit and publish the next WQE, when no other waits. */
static inline void sirdma_sq_commit_alone(struct sirdma_sq *sq, __u32 quanta, __u64 hdr)
{
	struct sirdma_wqe *wqe = sq->wqe;
	const __u32 end = sq->head + quanta;

	sirdma_sq_advance(sq, quanta, end);
	sirdma_store32(&sq->head, end);
	sirdma_put64_release(&wqe->hdr, hdr);
}

/*
 * Take back what was not published, and what is written of the next WQE. Their quanta may carry this
 * lap's polarity in word 3; without it the device does not read them as WQEs behind a shorter one.
 */
static inline void sirdma_sq_rewind(struct sirdma_sq *sq)
{
	const __u32 room = sirdma_sq_room(sq);
	const __u32 behind = room < SIRDMA_MAX_WQE_QUANTA ? room : SIRDMA_MAX_WQE_QUANTA;
	const __u32 end = sirdma_sq_next(sq) + behind;
	__u32 i;

	for (i = sq->head; i != end; i++) {
		sirdma_put64(&sirdma_sq_wqe_at(sq, i)->hdr,
			     sirdma_valid_bit(i, sq->size) ^ SIRDMA_WQE_VALID);
		/* No request begins there, whichever is written over it. */
		sirdma_sq_slot_at(sq, i)->end = 0;
	}
	sq->first = (struct sirdma_wqe *)0;
	sq->waiting = 0;
	sirdma_sq_seek(sq);
}

/*
 * Refuse requests from now on, with -EINVAL, until sirdma_sq_open(), which needs no lock. All
 * requests need room, and a closed queue does not find any.
 */
static inline void sirdma_sq_close(struct sirdma_sq *sq)
{
	sirdma_store32(&sq->closed, 1);
	sq->limit = sq->wqe;
}

static inline void sirdma_sq_open(struct sirdma_sq *sq)
{
	sirdma_store32(&sq->closed, 0);
}

/* Quanta from the next WQE to the end of its chunk. */
static inline __u32 sirdma_sq_in_chunk(const struct sirdma_sq *sq)
{
	return SIRDMA_SQ_CHUNK_QUANTA - sirdma_sq_next(sq) % SIRDMA_SQ_CHUNK_QUANTA;
}

/*
 * Find room for @quanta that lie in one chunk, which a WQE must not cross: NOPs fill the rest of a
 * chunk that is too short. 0; -EINVAL: the queue is closed; -ENOMEM: no room.
 */
static SIRDMA_COLD int sirdma_sq_make_room(struct sirdma_sq *sq, __u32 quanta)
{
	const __u32 in_chunk = sirdma_sq_in_chunk(sq);
	const __u32 padding = quanta <= in_chunk ? 0 : in_chunk;
	const __u32 unused = sirdma_sq_free(sq);
	__u32 to_end, room, i;

	if (sirdma_load32(&sq->closed))
		return -EINVAL;
	if (quanta + padding > unused)
		return -ENOMEM;
	for (i = 0; i < padding; i++) {
		sq->slot->wr_id = 0;
		sirdma_sq_set_length(sq, 0);
		sirdma_sq_commit(sq, 1, sirdma_put_nop(sq->wqe, sq->valid));
	}
	sirdma_sq_seek(sq);
	to_end = sq->size - (sirdma_sq_next(sq) & sq->mask);
	room = unused - padding < to_end ? unused - padding : to_end;
	sq->limit = sq->wqe + room;
	return 0;
}

/* Let the next WQE have @quanta. 0 or -errno, as sirdma_sq_make_room(). */
static inline int sirdma_sq_place(struct sirdma_sq *sq, __u32 quanta)
{
	return quanta <= sirdma_sq_room(sq) && quanta <= sirdma_sq_in_chunk(sq) ?
		       0 :
		       sirdma_sq_make_room(sq, quanta);
}

/*
 * Quanta of a WQE with entry @op and @num_sge pieces of data, @bytes together. @first: of its
 * fragments (sirdma_send_first_frag()). 0: it is beyond the queue's limits, or its data cannot be
 * inline.
 */
static inline __u32 sirdma_send_quanta(const struct sirdma_sq *sq, __u32 op, int is_inline,
				       __u32 num_sge, __u32 first, __u64 bytes)
{
	if (bytes > SIRDMA_MAX_MSG_SIZE)
		return 0;
	if (op & (SIRDMA_SEND_OP_NO_DATA | SIRDMA_SEND_OP_PLACEMENT)) {
		if (op & SIRDMA_SEND_OP_NO_DATA)
			return 1;
		if (bytes != SIRDMA_ATOMIC_LEN)
			return 0;
		/* Inline, it takes no more room than without data, so max_inline does not matter. */
		return is_inline ? 1 : sirdma_frag_quanta(num_sge + first);
	}
	if (is_inline)
		return (op & SIRDMA_SEND_OP_INLINE) && bytes <= sq->max_inline ?
			       sirdma_inline_quanta((__u32)bytes) :
			       0;
	if (op & SIRDMA_SEND_OP_ATOMIC)
		return num_sge == 1 && bytes >= SIRDMA_ATOMIC_LEN ? SIRDMA_ATOMIC_WQE_QUANTA : 0;
	if ((op & SIRDMA_SEND_OP_READ) && num_sge > sq->max_read_sge)
		return 0;
	/* READ_INV: the one fragment names the stag to invalidate. */
	if ((op & SIRDMA_SEND_OP_KERNEL) && num_sge != 1)
		return 0;
	return sirdma_frag_quanta(num_sge + first);
}

/* Write the body of @send as the next WQE. @hdr: the header so far. Returns the complete header. */
static inline __u64 sirdma_sq_put(const struct sirdma_sq *sq, const struct sirdma_send *send,
				  __u32 op, __u64 hdr, __u32 bytes)
{
	if (op & SIRDMA_SEND_OP_NO_DATA)
		return sirdma_put_no_data(sq->wqe, send, hdr, sq->valid);
	if (op & SIRDMA_SEND_OP_ATOMIC)
		return sirdma_put_atomic(sq->wqe, send, hdr, sq->valid);
	if (send->flags & SIRDMA_SEND_INLINE)
		return sirdma_put_send_inline(sq->wqe, send, hdr, bytes, sq->valid);
	return sirdma_put_send(sq->wqe, send, hdr, sq->valid);
}

/*
 * Commit a request. 0; -EINVAL: beyond the queue's limits, not an operation of its type, or it is
 * closed; -EOPNOTSUPP: an operation that this device lacks; -ENOMEM: no room.
 */
static inline int sirdma_sq_take(struct sirdma_sq *sq, const struct sirdma_send *send)
{
	const __u32 op = sirdma_send_op(send->opcode);
	const int is_inline = !!(send->flags & SIRDMA_SEND_INLINE);
	/* Inline data takes no fragment, so a single piece is within any limit. */
	const __u32 max_sge = is_inline && !sq->max_sge ? 1 : sq->max_sge;
	const __u32 num_sge = op & SIRDMA_SEND_OP_NO_DATA ? 0 : send->num_sge;
	__u32 quanta;
	__u64 bytes, hdr;
	int err;

	if (!(op & sq->qp_type))
		return -EINVAL;
	if (op & sq->lacks)
		return -EOPNOTSUPP;
	if (num_sge > max_sge)
		return -EINVAL;
	bytes = sirdma_sge_bytes(send->sges, num_sge);
	quanta = sirdma_send_quanta(sq, op, is_inline, num_sge,
				    sirdma_send_first_frag(send, !!(op & SIRDMA_SEND_OP_IMM)),
				    bytes);
	if (!quanta)
		return -EINVAL;
	err = sirdma_sq_place(sq, quanta);
	if (err)
		return err;

	hdr = sirdma_send_hdr(op, send->flags, sq->flag_bits);
	if ((op & SIRDMA_SEND_OP_KEY) || sq->qp_type == SIRDMA_SEND_ON_UD)
		hdr |= SIRDMA_PREP(SIRDMA_WQE_REMSTAG, send->key);
	sq->slot->wr_id = send->wr_id;
	hdr = sirdma_sq_put(sq, send, op, hdr, (__u32)bytes);
	sirdma_sq_set_length(sq, op & SIRDMA_SEND_OP_ATOMIC ? SIRDMA_ATOMIC_LEN : (__u32)bytes);
	sirdma_sq_commit(sq, quanta, hdr);
	return 0;
}

/* Is @end the end of a request that was published and is not retired? The device may name any. */
static inline int sirdma_sq_is_outstanding(const struct sirdma_sq *sq, __u32 end)
{
	const __u32 head = sirdma_load32(&sq->head);

	return head - end < head - sq->tail;
}

/*
 * Complete the send request that began in quantum @position, as a CQE says: it and all before it are
 * retired. *wr_id and *length are its own. 0 when none is outstanding there.
 */
static inline int sirdma_sq_complete(struct sirdma_sq *sq, __u32 position, __u64 *wr_id,
				     __u32 *length)
{
	const struct sirdma_sq_slot *slot = sirdma_sq_slot_at(sq, position);
	const __u32 end = sirdma_load32(&slot->end);

	if (!sirdma_sq_is_outstanding(sq, end))
		return 0;
	/* Read it first: the poster may overwrite the slot once it is retired. */
	*wr_id = slot->wr_id;
	*length = slot->length;
	sirdma_wq_retire(&sq->tail, end);
	return 1;
}

/* Empty the queue, as in RESET. Neither the device nor another thread uses it. */
static inline void sirdma_sq_reset(struct sirdma_sq *sq)
{
	__builtin_memset(sq->ring, 0, (__SIZE_TYPE__)sq->size * SIRDMA_QUANTUM);
	__builtin_memset(sq->slots, 0, (__SIZE_TYPE__)sq->size * sizeof(*sq->slots));
	sirdma_sq_start_over(sq);
}

/* Receive queue */

/* The caller has set ring, wr_ids, size, stride and max_sge. */
static inline void sirdma_rq_init(struct sirdma_rq *rq)
{
	rq->mask = rq->size - 1;
	rq->head = 0;
	rq->tail = 0;
}

/* Quanta of the requests that the queue still takes. */
static inline __u32 sirdma_rq_free(const struct sirdma_rq *rq)
{
	return rq->size - sirdma_wq_used(&rq->head, &rq->tail) - SIRDMA_RQ_RSVD_WQES * rq->stride;
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
	const __u32 place = head & rq->mask;
	struct sirdma_wqe *wqe = &rq->ring[place];
	__u64 hdr;

	if (!sirdma_recv_sges_ok(sges, num_sge, rq->max_sge))
		return -EINVAL;
	if (!sirdma_rq_free(rq))
		return -ENOMEM;

	rq->wr_ids[place] = wr_id;
	hdr = sirdma_put_recv(wqe, sges, num_sge, 0, sirdma_valid_bit(head, rq->size));
	/* Head before the header: as in sirdma_sq_publish(). */
	sirdma_store32(&rq->head, head + rq->stride);
	sirdma_put64_release(&wqe->hdr, hdr);
	return 0;
}

/*
 * Complete the receive request in quantum @position, as a CQE says, if it is the next one, as it is
 * unless a CQE was lost. *wr_id is its own. 0 when it is not, or when none is outstanding.
 */
static inline int sirdma_rq_complete_next(struct sirdma_rq *rq, __u32 position, __u64 *wr_id)
{
	const __u32 tail = rq->tail;

	if (((position ^ tail) & rq->mask) || tail == sirdma_load32(&rq->head))
		return 0;
	/* Read it first: the poster may overwrite the place once it is retired. */
	*wr_id = rq->wr_ids[tail & rq->mask];
	sirdma_wq_retire(&rq->tail, tail + rq->stride);
	return 1;
}

/*
 * Complete the receive request in quantum @position, as a CQE says: it and all before it are retired.
 * *wr_id is its own. 0 when none is outstanding there.
 */
static inline int sirdma_rq_complete(struct sirdma_rq *rq, __u32 position, __u64 *wr_id)
{
	const __u32 tail = rq->tail;
	const __u32 place = position & rq->mask & ~(rq->stride - 1);
	const __u32 ahead = (place - tail) & rq->mask;

	if (ahead >= sirdma_load32(&rq->head) - tail)
		return 0;
	*wr_id = rq->wr_ids[place];
	sirdma_wq_retire(&rq->tail, tail + ahead + rq->stride);
	return 1;
}

static inline void sirdma_rq_reset(struct sirdma_rq *rq)
{
	__builtin_memset(rq->ring, 0, (__SIZE_TYPE__)rq->size * SIRDMA_QUANTUM);
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
