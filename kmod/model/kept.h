/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Payload that a host keeps: it does not copy it before tx() returns, but takes the burst's references to
 * the regions, so that the memory stays registered. It gives the packets to the receiving model by
 * reference. The payload may be read until the host is told that it is finished, and the references are
 * dropped when the packets have been delivered. A queue pair that fails finishes its payload, with one
 * exception: answers to READs before a request that it refuses are the peer's, until the driver changes its state.
 */
#ifndef SNIC_KEPT_H
#define SNIC_KEPT_H

#include "burst.h"

struct snic_mr;

/* A burst that uses more regions is copied. Not tuned. */
#define SNIC_KEPT_MAX 4

struct snic_kept {
	u32 count;
	struct snic_mr *mr[SNIC_KEPT_MAX];
};

/*
 * Keep the payload of @burst, which the host is transmitting, until snic_kept_put(). The host must not
 * read it any more after snic_host_ops.finish_kept(), and that of requests before a PSN after
 * finish_kept_before(). Returns false if the payload may not be kept: the host has to copy it before tx()
 * returns.
 */
bool snic_burst_keep(struct snic_burst *burst, struct snic_kept *kept);
/* Drop the references. No lock is needed. Interrupts are on. */
void snic_kept_put(struct snic_kept *kept);

#endif
