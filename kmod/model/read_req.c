// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Unanswered requests of the requester that are answered by responses of their own. */
#include "read_req.h"

#include "qp.h"
#include "window.h"

/* Do the responses to request @slot end at or before @psn? */
static bool reads_before(const struct snic_reads *reads, u32 slot, u32 psn)
{
	return (u16)(psn - reads->end[slot % SNIC_MAX_ORD]) < 0x8000;
}

static void reads_set(struct snic_reads *reads, u32 slot, u32 end, bool part)
{
	u32 i = slot % SNIC_MAX_ORD;

	reads->end[i] = (u16)end;
	reads->part[i / 32] &= ~(1u << i % 32);
	reads->part[i / 32] |= (u32)part << i % 32;
}

static bool reads_is_part(const struct snic_reads *reads, u32 slot)
{
	u32 i = slot % SNIC_MAX_ORD;

	return reads->part[i / 32] >> i % 32 & 1;
}

/* A request for packets of the message that were not requested before. */
static u32 reads_ask_new(struct snic_qp *qp, u32 first, u32 left)
{
	struct snic_reads *reads = &qp->req.reads;
	u32 chunk, n = left;

	if (reads->tail - reads->head >= qp->ord)
		return 0;
	if (left > 1) {
		chunk = snic_win_read_pkts(qp);
		n = min(left, chunk - first % chunk);
	}
	if (qp->req.nxt != qp->req.una && snic_win_left(qp) < n)
		return 0;
	reads_set(reads, reads->tail++, qp->req.nxt + n, false);
	reads->cur = reads->tail;
	return n;
}

/*
 * A repeated request. A responder answers it only if it lies within one earlier request
 * (IBTA 9.7.5.1.2), and the requester does not know which of those the responder received.
 * So a repeated request does not extend beyond the end of an earlier one. If the window is
 * too small for all of it, the request is split, and the second part waits for the answer
 * to the first: once soft-RoCE has answered a later part again, it drops requests for
 * earlier parts.
 */
static u32 reads_ask_again(struct snic_qp *qp)
{
	struct snic_reads *reads = &qp->req.reads;
	u32 n = (u16)(reads->end[reads->cur % SNIC_MAX_ORD] - qp->req.nxt);
	bool part = reads_is_part(reads, reads->cur);
	u32 room = max_t(u32, snic_win_left(qp), 1);

	if (qp->req.nxt != qp->req.una && (part || n > room))
		return 0;
	if (n > room && reads->cur == reads->head && reads->tail - reads->head < SNIC_MAX_ORD) {
		reads_set(reads, reads->cur, qp->req.nxt + n, true);
		n = room;
		reads->cur = --reads->head;
		reads_set(reads, reads->cur, qp->req.nxt + n, part);
	}
	reads->cur++;
	return n;
}

u32 snic_reads_ask(struct snic_qp *qp, u32 first, u32 left)
{
	const struct snic_reads *reads = &qp->req.reads;

	return reads->cur != reads->tail ? reads_ask_again(qp) : reads_ask_new(qp, first, left);
}

void snic_reads_answered(struct snic_qp *qp)
{
	struct snic_reads *reads = &qp->req.reads;

	while (reads->head != reads->tail && reads_before(reads, reads->head, qp->req.una))
		reads->head++;
}

void snic_reads_seek(struct snic_reads *reads, u32 psn)
{
	u32 slot;

	for (slot = reads->head; slot != reads->tail; slot++) {
		if (!reads_before(reads, slot, psn))
			break;
	}
	reads->cur = slot;
}

void snic_reads_unsend(struct snic_reads *reads, u32 max)
{
	while (reads->tail != reads->head && !reads_before(reads, reads->tail - 1, max))
		reads->tail--;
	if ((s32)(reads->cur - reads->tail) > 0)
		reads->cur = reads->tail;
}
