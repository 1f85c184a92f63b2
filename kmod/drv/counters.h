/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Counters of the port: the driver's own, shown together with those of device and driver core. */
#ifndef SIRDMA_DRV_COUNTERS_H
#define SIRDMA_DRV_COUNTERS_H

#include <linux/atomic.h>
#include <rdma/ib_verbs.h>

enum sirdma_counter {
	SIRDMA_COUNTER_MR_REGISTERED,
	SIRDMA_COUNTER_MR_PAGES_PINNED, /* pages that are pinned at present */
	SIRDMA_COUNTER_MR_PIN_FAILURES,
	SIRDMA_COUNTER_MR_LIST_FAILURES,
	SIRDMA_COUNTER_MR_FAILURES,
	SIRDMA_COUNTER_ODP_FAULTS, /* requests of the device for pages */
	SIRDMA_COUNTER_ODP_FAILURES, /* those for which the process has no memory */
	SIRDMA_COUNTER_ODP_INVALIDATIONS, /* times that memory went away which the device had */
	SIRDMA_COUNTER_ODP_DROPS, /* requests and advice without room: a queue pair asks again */
	SIRDMA_COUNTER_ODP_RECLAIMS, /* page lists of implicit regions taken for others */
	SIRDMA_COUNTER_QP_MODIFY_REJECTED,
	SIRDMA_COUNTER_QP_MODIFY_FAILURES,
	SIRDMA_COUNTER_ROUTE_FAILURES,
	SIRDMA_COUNTER_NEIGH_TIMEOUTS,
	SIRDMA_COUNTER_NEIGH_UNREACHABLE,
	SIRDMA_COUNTER_NEIGH_MOVES,
	SIRDMA_COUNTER_MCAST_FAILURES, /* a netdev could not join a group, for want of memory */
	SIRDMA_COUNTER_REQUESTS_REFUSED,
	SIRDMA_COUNTER_ASYNC_EVENTS,
	SIRDMA_COUNTER_ASYNC_OVERFLOWS,
	SIRDMA_COUNTER_DOORBELL_FAULTS,
	SIRDMA_COUNTER_COUNT
};

struct sirdma_counters {
	atomic64_t value[SIRDMA_COUNTER_COUNT];
};

static inline void sirdma_count(struct sirdma_counters *counters, enum sirdma_counter which)
{
	atomic64_inc(&counters->value[which]);
}

static inline void sirdma_count_add(struct sirdma_counters *counters, enum sirdma_counter which,
				    s64 n)
{
	atomic64_add(n, &counters->value[which]);
}

struct rdma_hw_stats *sirdma_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int sirdma_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);

#endif
