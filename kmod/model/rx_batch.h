/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a batch of received packets counts. */
#ifndef SNIC_RX_BATCH_H
#define SNIC_RX_BATCH_H

#include "snic.h"

/*
 * After this many packets or payload bytes a batch drops the QP's lock once, so that other threads
 * get it. Only those threads gain: 4 to 256 packets, and 16 KiB to 1 MiB, give the same bandwidth.
 */
#define RX_BATCH_PKTS 64u
#define RX_BATCH_BYTES 65536u

static inline bool snic_rx_batch_has_room(const struct snic_rx_batch *batch)
{
	return batch->pkts < RX_BATCH_PKTS && batch->bytes < RX_BATCH_BYTES;
}

/* @pkts requests, or acknowledgements, with @bytes of payload together, each in a frame of its own; @frame_bytes: of these. */
static inline void snic_rx_batch_count(struct snic_rx_batch *batch, u32 pkts, u32 frame_bytes,
				       u32 bytes)
{
	batch->frames += pkts;
	batch->frame_bytes += frame_bytes;
	batch->pkts += pkts;
	batch->bytes += bytes;
	batch->request_bytes += bytes;
}

#endif
