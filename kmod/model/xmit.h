/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Filling a burst and handing it to the host. */
#ifndef SNIC_XMIT_H
#define SNIC_XMIT_H

#include "qp.h"
#include "sge.h"

/* A burst being filled, with the regions its payload lies in. */
struct snic_tx {
	struct snic_qp *qp;
	struct snic_path *path;
	struct snic_burst *burst;
	u32 bytes; /* payload so far */
	u32 most; /* payload it may have */
	struct snic_mrc mrs;
};

enum snic_gather {
	SNIC_GATHER_OK,
	SNIC_GATHER_FULL, /* no room: send the burst, then go on */
	SNIC_GATHER_ABSENT, /* no memory there for now */
	SNIC_GATHER_FAULT,
};

/* Start a burst along @path; its payload needs @access of the regions it comes from. */
void snic_tx_begin(struct snic_tx *tx, struct snic_qp *qp, struct snic_path *path, u8 access);
/*
 * There is data for the burst: may it take that? The host is asked for room when the
 * burst is empty. If it has none, the QP is marked as stalled: snic_tx_resume() will come.
 */
bool snic_tx_may(struct snic_tx *tx);
/*
 * Hand the burst over and drop its references. Returns the number of packets
 * accepted, and marks the QP stalled when that is not all of them. A QP whose
 * addresses are no longer valid drops them instead: retries decide.
 */
u32 snic_tx_end(struct snic_tx *tx);

static inline u32 snic_tx_room(const struct snic_tx *tx)
{
	return SNIC_BURST_PKTS - tx->burst->npkts;
}

/* What follows is of a message that began before: a burst that begins with it is made for GSO. */
static inline void snic_tx_continue(struct snic_tx *tx)
{
	if (!tx->burst->npkts && tx->most == SNIC_BURST_USUAL)
		tx->most = SNIC_BURST_GSO;
}

/* Payload bytes the burst still takes. */
static inline u32 snic_tx_bytes_room(const struct snic_tx *tx)
{
	return tx->most - tx->bytes;
}

/* Next packet of the burst; the caller saw to the room. */
static inline struct snic_tx_pkt *snic_tx_packet(struct snic_tx *tx)
{
	return &tx->burst->pkts[tx->burst->npkts++];
}

/* Append one piece of payload; false when the scatter list is full. */
bool snic_tx_seg(struct snic_tx *tx, void *ptr, u32 len);
/*
 * Append up to @len bytes at @va of region @stag; *got is how many. Less than
 * @len only with FULL, ABSENT or FAULT (*ae).
 */
enum snic_gather snic_tx_region(struct snic_tx *tx, u32 stag, u64 va, u32 len, u32 *got,
				enum sirdma_ae_code *ae);
/* Take the last @len bytes of payload back. */
void snic_tx_trim(struct snic_tx *tx, u32 len);

#endif
