/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Filling a burst and handing it to the host. */
#ifndef SNIC_XMIT_H
#define SNIC_XMIT_H

#include "qp.h"
#include "sge.h"

/* A burst that is being filled, with the regions in which its payload lies. */
struct snic_tx {
	struct snic_qp *qp;
	struct snic_path *path;
	struct snic_burst *burst;
	u32 bytes; /* bytes of payload so far */
	u32 max_bytes; /* limit of the payload, bytes */
	struct snic_mrc mrs;
	u32 run_stag;
	struct snic_run run; /* run of the region run_stag in mrs */
	bool needs_ack; /* one of its messages must be acknowledged soon (requester.c) */
	bool signaled; /* one of its messages has a completion */
	bool in_ring; /* some segments are inline data, which lies in the send queue and in no region */
};

enum snic_gather {
	SNIC_GATHER_OK,
	SNIC_GATHER_FULL, /* there is no room: send the burst, then go on */
	SNIC_GATHER_ABSENT, /* memory of the region is absent */
	SNIC_GATHER_FAULT,
};

/* Start a burst along @path; the regions of its payload must grant @access. */
void snic_tx_begin(struct snic_tx *tx, struct snic_qp *qp, struct snic_path *path, u8 access);
/* Is there room for the first packet of a burst? */
bool snic_tx_start(struct snic_tx *tx);

/* An empty burst uses no region any more. */
static inline void snic_tx_put_memory(struct snic_tx *tx)
{
	snic_mrc_put(&tx->mrs);
	tx->run_stag = 0;
	tx->run.len = 0;
}

/*
 * May data be added to the burst? An empty burst asks the host for room first. If the
 * host has none, the QP is marked as stalled until snic_tx_resume().
 */
static inline bool snic_tx_ready(struct snic_tx *tx)
{
	return tx->burst->npkts || snic_tx_start(tx);
}

/*
 * Hand the burst to the host and drop its references to regions, unless the host keeps them (kept.h). Returns the number of
 * packets accepted, and marks the QP as stalled when that is not all of them. When the
 * path has no valid addresses the packets are dropped, as if they were lost.
 */
u32 snic_tx_end(struct snic_tx *tx);

static inline u32 snic_tx_room(const struct snic_tx *tx)
{
	return SNIC_BURST_PKTS - tx->burst->npkts;
}

/*
 * The next packet continues a message. A burst that begins with such a packet has packets of one
 * length only, so the burst is limited to one GSO packet.
 */
static inline void snic_tx_continue(struct snic_tx *tx)
{
	if (!tx->burst->npkts && tx->max_bytes == SNIC_BURST_DEFAULT)
		tx->max_bytes = SNIC_BURST_GSO;
}

/* Payload bytes that still fit into the burst. */
static inline u32 snic_tx_bytes_room(const struct snic_tx *tx)
{
	return tx->max_bytes - tx->bytes;
}

/* Next packet of the burst; the caller has checked snic_tx_room(). */
static inline struct snic_tx_pkt *snic_tx_packet(struct snic_tx *tx)
{
	return &tx->burst->pkts[tx->burst->npkts++];
}

/* Append one piece of payload. Returns false when the scatter list is full. */
bool snic_tx_seg(struct snic_tx *tx, void *ptr, u32 len);
/*
 * Append up to @len bytes at @va of region @stag; *got: bytes appended, fewer than @len
 * only with FULL, ABSENT or FAULT (*ae).
 */
enum snic_gather snic_tx_region(struct snic_tx *tx, u32 stag, u64 va, u32 len, u32 *got,
				enum sirdma_ae_code *ae);
/*
 * The @len bytes at @va of region @stag, if the burst uses no region yet and they are in one run. NULL:
 * snic_tx_region() says why, and counts it, or takes them in parts.
 */
u8 *snic_tx_try_region(struct snic_tx *tx, u32 stag, u64 va, u32 len);
/* Remove the last @len bytes of payload. */
void snic_tx_trim(struct snic_tx *tx, u32 len);

#endif
