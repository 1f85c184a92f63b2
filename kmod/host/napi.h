/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Bottom halves: NAPI instances of a netdev that exists for them alone. NAPI
 * gives each its share of the softirq, runs it on one CPU at a time, and can be
 * scheduled from any context.
 */
#ifndef SNIC_HOST_NAPI_H
#define SNIC_HOST_NAPI_H

#include <linux/netdevice.h>

/*
 * How long one poll may work, ns. It pays with budget for its time: net_rx_action()
 * hands out 300 units (net.core.netdev_budget), 64 of them to one poll. So it is
 * over after five such polls, 2 ms.
 */
#define SNIC_POLL_NS 400000

int snic_napi_init(void);
void snic_napi_exit(void);
/* A bottom half, disabled. May sleep. */
void snic_napi_add(struct napi_struct *napi, int (*poll)(struct napi_struct *napi, int budget));
/* It is disabled. A grace period must pass before its memory goes. May sleep. */
void snic_napi_del(struct napi_struct *napi);
/* Tasks with interrupts on, and softirqs. Where softirqs are on it runs before this returns. */
void snic_napi_schedule(struct napi_struct *napi);
/* What a poll returns that began at @start, by ktime_get_ns(); @more: it wants another. */
int snic_napi_polled(struct napi_struct *napi, u64 start, int budget, bool more);

#endif
