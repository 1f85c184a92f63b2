/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sizes of work requests and of the rings that hold them. Provider and driver each compute
 * them from the numbers that the application asked for, and must get the same result.
 * Formulas: irdma GEN2 (irdma_get_wqe_shift, irdma_get_sqdepth).
 */
#ifndef SIRDMA_GEOMETRY_H
#define SIRDMA_GEOMETRY_H

#include "shadow.h"
#include "wqe.h"

/* Requests that fit into the largest ring even when each takes the largest WQE. */
#define SIRDMA_MAX_QP_WR ((SIRDMA_MAX_WQ_QUANTA - SIRDMA_SQ_RSVD_QUANTA) / SIRDMA_MAX_WQE_QUANTA)

/* The same of a shared receive queue. */
#define SIRDMA_MAX_SRQ_WR (SIRDMA_MAX_SRQ_QUANTA / SIRDMA_MAX_WQE_QUANTA)

/* Quanta of a WQE with @frags fragments: the first quantum holds one, each other two. */
static inline __u32 sirdma_frag_quanta(__u32 frags)
{
	return 1 + frags / 2;
}

/* Quanta of a WQE with @bytes of inline data. */
static inline __u32 sirdma_inline_quanta(__u32 bytes)
{
	if (bytes <= SIRDMA_INLINE_FIRST)
		return 1;
	return 1 + (bytes - SIRDMA_INLINE_FIRST + SIRDMA_INLINE_NEXT - 1) / SIRDMA_INLINE_NEXT;
}

/* Bytes of inline data that a WQE of 1 << @shift quanta has room for. */
static inline __u32 sirdma_inline_room(__u32 shift)
{
	__u32 bytes = SIRDMA_INLINE_FIRST + ((1u << shift) - 1) * SIRDMA_INLINE_NEXT;

	return bytes < SIRDMA_MAX_INLINE ? bytes : SIRDMA_MAX_INLINE;
}

/* The least n with 1 << n >= @count, for 1 <= @count <= 2^31. */
static inline __u32 sirdma_order(__u32 count)
{
	__u32 order = 0;

	while ((1u << order) < count)
		order++;
	return order;
}

/* log2 of the quanta that @frags fragments or @inline_bytes of inline data take. */
static inline __u32 sirdma_wqe_shift(__u32 frags, __u32 inline_bytes)
{
	__u32 with_frags = sirdma_frag_quanta(frags);
	__u32 with_inline = sirdma_inline_quanta(inline_bytes);

	return sirdma_order(with_frags > with_inline ? with_frags : with_inline);
}

/* Immediate data takes the place of the first fragment, so a send WQE has room for one more. */
static inline __u32 sirdma_sq_shift(__u32 max_sge, __u32 inline_bytes)
{
	return sirdma_wqe_shift(max_sge + 1, inline_bytes);
}

static inline __u32 sirdma_rq_shift(__u32 max_sge)
{
	return sirdma_wqe_shift(max_sge, 0);
}

/*
 * Quanta of a ring for @wrs requests of 1 << @shift quanta, with @reserved quanta
 * that are never used: a power of two, at least @min largest WQEs; 0 when that is
 * more than @max.
 */
static inline __u32 sirdma_ring_quanta(__u32 wrs, __u32 shift, __u32 reserved, __u32 min, __u32 max)
{
	__u64 wanted = ((__u64)wrs << shift) + reserved;
	__u64 least = (__u64)min << shift;

	if (wanted < least)
		wanted = least;
	if (wanted > max)
		return 0;
	wanted = 1u << sirdma_order((__u32)wanted);
	return wanted <= max ? (__u32)wanted : 0;
}

static inline __u32 sirdma_sq_quanta(__u32 wrs, __u32 shift, __u32 min, __u32 max)
{
	return sirdma_ring_quanta(wrs, shift, SIRDMA_SQ_RSVD_QUANTA, min, max);
}

/* The same for a ring in a pool: not more than its writer needs. */
static inline __u32 sirdma_sq_pool_quanta(__u32 wrs, __u32 shift, __u32 min, __u32 max)
{
	return sirdma_ring_quanta(wrs, shift, SIRDMA_SQ_POOL_RSVD_QUANTA, min, max);
}

/* A ring in a pool is smaller than any other. */
static inline int sirdma_sq_in_pool(__u32 quanta)
{
	return quanta <= SIRDMA_SQ_RSVD_QUANTA;
}

/* Quanta of a send queue beside those of the requests that create_qp promised. */
static inline __u32 sirdma_sq_reserved(__u32 quanta)
{
	return sirdma_sq_in_pool(quanta) ? SIRDMA_SQ_POOL_RSVD_QUANTA : SIRDMA_SQ_RSVD_QUANTA;
}

/* Those of them that not even NOPs may take. */
static inline __u32 sirdma_sq_kept_free(__u32 quanta)
{
	return sirdma_sq_in_pool(quanta) ? 1 : SIRDMA_SQ_RSVD_QUANTA - 1;
}

static inline __u32 sirdma_rq_quanta(__u32 wrs, __u32 shift, __u32 min, __u32 max)
{
	return sirdma_ring_quanta(wrs, shift, SIRDMA_RQ_RSVD_WQES, min, max);
}

/*
 * Quanta of a shared receive queue for @wrs requests, all of which may be posted at once; 0
 * when that is none or more than @max.
 */
static inline __u32 sirdma_srq_quanta(__u32 wrs, __u32 shift, __u32 min, __u32 max)
{
	return wrs ? sirdma_ring_quanta(wrs, shift, 0, min, max) : 0;
}

static inline __u32 sirdma_srq_wrs(__u32 quanta, __u32 shift)
{
	return quanta >> shift;
}

/* Requests of 1 << @shift quanta that a ring of @quanta takes at once. */
static inline __u32 sirdma_sq_wrs(__u32 quanta, __u32 shift)
{
	return (quanta - sirdma_sq_reserved(quanta)) >> shift;
}

static inline __u32 sirdma_rq_wrs(__u32 quanta, __u32 shift)
{
	return (quanta >> shift) - SIRDMA_RQ_RSVD_WQES;
}

/* Device pages of a ring of @quanta. */
static inline __u32 sirdma_wq_pages(__u32 quanta)
{
	return (quanta * SIRDMA_QUANTUM + SIRDMA_PAGE_SIZE - 1) / SIRDMA_PAGE_SIZE;
}

static inline __u32 sirdma_wq_bytes(__u32 quanta)
{
	return sirdma_wq_pages(quanta) * SIRDMA_PAGE_SIZE;
}

/* Offsets in a QP's memory, bytes from its start, where the SQ is. */
struct sirdma_qp_places {
	__u64 rq;
	__u64 shadow;
	__u64 end; /* end of the shadow area, and of the memory */
};

/* Places in memory that was registered with @sq_pages and @rq_pages for the rings. */
static inline struct sirdma_qp_places sirdma_qp_layout_registered(__u32 sq_pages, __u32 rq_pages)
{
	struct sirdma_qp_places places;

	places.rq = (__u64)sq_pages * SIRDMA_PAGE_SIZE;
	places.shadow = places.rq + (__u64)rq_pages * SIRDMA_PAGE_SIZE;
	places.end = places.shadow + SIRDMA_SHADOW_SIZE;
	return places;
}

/*
 * Rings begin at pages of their own, but those in a pool follow each other without a gap. The
 * memory of a QP in a pool must fit into a page.
 */
static inline struct sirdma_qp_places sirdma_qp_layout(__u32 sq_quanta, __u32 rq_quanta,
						       int in_pool)
{
	struct sirdma_qp_places places;

	if (!in_pool)
		return sirdma_qp_layout_registered(sirdma_wq_pages(sq_quanta),
						   sirdma_wq_pages(rq_quanta));
	places.rq = (__u64)sq_quanta * SIRDMA_QUANTUM;
	places.shadow = places.rq + (__u64)rq_quanta * SIRDMA_QUANTUM;
	places.end = places.shadow + SIRDMA_SHADOW_SIZE;
	return places;
}

/* Elements of a CQ for @cqe completions: each may take two (immediate data), and two stay free. */
static inline __u64 sirdma_cq_elements(__u32 cqe)
{
	return ((__u64)cqe + 1) * 2;
}

/* The inverse: how many completions fit a CQ of @elements. */
static inline __u32 sirdma_cq_completions(__u32 elements)
{
	return elements / 2 - 1;
}

#endif
