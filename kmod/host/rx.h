/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Receive: RoCEv2 datagrams taken from the netdev before the IP stack sees them. */
#ifndef SNIC_HOST_RX_H
#define SNIC_HOST_RX_H

#include <linux/types.h>

struct snic_cpu;
struct snic_host;

/* The least cost of a packet, bytes: a shorter one takes as long as copying so many. */
#define SNIC_RX_MIN_COST 1024

int snic_rx_attach(struct snic_host *host);
/* Stop receiving. When this function returns, no packet is processed any more. */
void snic_rx_detach(struct snic_host *host);

/*
 * Take the frames that wait for the bottom half of @cpu, at least one, until the time @end
 * (ktime_get_ns()). Returns true if some still wait. Called by the bottom half.
 */
bool snic_rx_take_waiting(struct snic_cpu *cpu, u64 end);

#endif
