/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * READ requests of the requester that are not answered: where the responses to each
 * end. A long READ is asked for by several requests (snic_win_piece()), and what is
 * asked for again must keep within the requests of before. QP lock held throughout.
 */
#ifndef SNIC_READ_REQ_H
#define SNIC_READ_REQ_H

#include "port/port.h"

struct snic_qp;

/* Outbound READs are only counted: as many as soft-RoCE lets its peers have in flight. */
#define SNIC_MAX_ORD 128 /* power of two */

/* A ring of free-running indices. */
struct snic_reads {
	u32 head; /* oldest request */
	u32 cur; /* next to be repeated; == tail: none */
	u32 tail; /* next free slot */
	u16 end[SNIC_MAX_ORD]; /* low bits of the PSN behind its responses */
	u32 part[SNIC_MAX_ORD /
		 32]; /* bit map: what is left of a request whose front was asked for again */
};

/*
 * A READ request is to be sent at nxt, packet @first of its message, of which @left
 * remain from there on. How many of them it asks for; 0: an answer must come first.
 */
u32 snic_reads_ask(struct snic_qp *qp, u32 first, u32 left);
/* una has moved: requests before it are answered. */
void snic_reads_answered(struct snic_qp *qp);
/* What is sent next begins at @psn. */
void snic_reads_seek(struct snic_reads *reads, u32 psn);
/* Nothing from @max on was sent. */
void snic_reads_unsend(struct snic_reads *reads, u32 max);

#endif
