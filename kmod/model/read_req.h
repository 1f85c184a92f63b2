/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Unanswered READ and atomic requests of the requester, with the PSN at which the responses to each
 * end. A long READ takes several requests (snic_win_read_pkts()), and a repeated request must
 * lie within an earlier one. QP lock held throughout.
 */
#ifndef SNIC_READ_REQ_H
#define SNIC_READ_REQ_H

#include "port/port.h"

struct snic_qp;

/*
 * Limit of outbound READs and atomics: the number that soft-RoCE allows its peers. An entry is only
 * a few bytes.
 */
#define SNIC_MAX_ORD 128 /* power of two */

/* The unanswered READs and atomics: a ring of free-running indices. */
struct snic_reads {
	u32 head; /* oldest request */
	u32 cur; /* next request to repeat, or tail if there is none */
	u32 tail; /* next free entry */
	u16 end[SNIC_MAX_ORD]; /* low bits of the PSN after its last response */
	/*
	 * Bit map: the entry is the second part of a request that was split when it was repeated.
	 */
	u32 part[SNIC_MAX_ORD / 32];
};

/*
 * A READ or atomic request is to be sent with PSN nxt, for response packet @first of its message,
 * which has @left packets from there on. Returns how many of them to request, or 0 if an answer
 * must come first.
 */
u32 snic_reads_ask(struct snic_qp *qp, u32 first, u32 left);
/* una has moved: requests before it are answered. */
void snic_reads_answered(struct snic_qp *qp);
/* Sending continues at @psn. */
void snic_reads_seek(struct snic_reads *reads, u32 psn);
/* The requester sent nothing from @max on. */
void snic_reads_unsend(struct snic_reads *reads, u32 max);

#endif
