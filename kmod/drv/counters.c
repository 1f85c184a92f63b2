// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "counters.h"
#include "device.h"
#include "hw/cqp_cmd.h"
#include "sirdma/stats.h"

/* The device's counters, then the driver's, then those of the driver core. */
#define DRIVER(counter) (SIRDMA_STAT_COUNT + SIRDMA_COUNTER_##counter)
#define CORE(counter) (SIRDMA_STAT_COUNT + SIRDMA_COUNTER_COUNT + CORE_##counter)

enum core_counter {
	CORE_PBLE_IN_USE,
	CORE_PBLE_EXHAUSTED,
	CORE_HMC_BYTES,
	CORE_HMC_DIRECT_SEGMENTS,
	CORE_HMC_PAGED_SEGMENTS,
	CORE_CQP_TIMEOUTS,
};

/* clang-format off */
#define DEVICE_DESC(id, stat) \
	[SIRDMA_STAT_##id] = { .name = #stat },

static const struct rdma_stat_desc sirdma_stat_descs[] = {
	SIRDMA_STATS(DEVICE_DESC)
	[DRIVER(MR_REGISTERED)] = { .name = "mr_registered" },
	[DRIVER(MR_PAGES_PINNED)] = { .name = "mr_pages_pinned" },
	[DRIVER(MR_PIN_FAILURES)] = { .name = "mr_pin_failures" },
	[DRIVER(MR_LIST_FAILURES)] = { .name = "mr_list_failures" },
	[DRIVER(MR_FAILURES)] = { .name = "mr_failures" },
	[DRIVER(ODP_FAULTS)] = { .name = "odp_faults" },
	[DRIVER(ODP_FAILURES)] = { .name = "odp_failures" },
	[DRIVER(ODP_INVALIDATIONS)] = { .name = "odp_invalidations" },
	[DRIVER(ODP_DROPS)] = { .name = "odp_drops" },
	[DRIVER(ODP_RECLAIMS)] = { .name = "odp_reclaims" },
	[DRIVER(QP_MODIFY_REJECTED)] = { .name = "qp_modify_rejected" },
	[DRIVER(QP_MODIFY_FAILURES)] = { .name = "qp_modify_failures" },
	[DRIVER(ROUTE_FAILURES)] = { .name = "route_failures" },
	[DRIVER(NEIGH_TIMEOUTS)] = { .name = "neigh_timeouts" },
	[DRIVER(NEIGH_UNREACHABLE)] = { .name = "neigh_unreachable" },
	[DRIVER(NEIGH_MOVES)] = { .name = "neigh_moves" },
	[DRIVER(MCAST_FAILURES)] = { .name = "mcast_failures" },
	[DRIVER(REQUESTS_REFUSED)] = { .name = "requests_refused" },
	[DRIVER(ASYNC_EVENTS)] = { .name = "async_events" },
	[DRIVER(ASYNC_OVERFLOWS)] = { .name = "async_overflows" },
	[DRIVER(DOORBELL_FAULTS)] = { .name = "doorbell_faults" },
	[CORE(PBLE_IN_USE)] = { .name = "pble_in_use" },
	[CORE(PBLE_EXHAUSTED)] = { .name = "pble_exhausted" },
	[CORE(HMC_BYTES)] = { .name = "hmc_bytes" },
	[CORE(HMC_DIRECT_SEGMENTS)] = { .name = "hmc_direct_segments" },
	[CORE(HMC_PAGED_SEGMENTS)] = { .name = "hmc_paged_segments" },
	[CORE(CQP_TIMEOUTS)] = { .name = "cqp_timeouts" },
};
/* clang-format on */

struct rdma_hw_stats *sirdma_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(sirdma_stat_descs, ARRAY_SIZE(sirdma_stat_descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

int sirdma_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct sirdma_dev *dev = to_sdev(ibdev);
	u64 values[SIRDMA_STAT_COUNT];
	u64 *v;
	int i, err;

	if (!port || !stats)
		return -EINVAL;
	err = sirdma_cqp_gather_stats(&dev->hw, values);
	if (err)
		return err;

	v = stats->value;
	memcpy(v, values, sizeof(values));
	for (i = 0; i < SIRDMA_COUNTER_COUNT; i++)
		v[SIRDMA_STAT_COUNT + i] = atomic64_read(&dev->counters.value[i]);
	v[CORE(PBLE_IN_USE)] = READ_ONCE(dev->hw.pble.in_use);
	v[CORE(PBLE_EXHAUSTED)] = READ_ONCE(dev->hw.pble.failures);
	v[CORE(HMC_BYTES)] = READ_ONCE(dev->hw.hmc.backed_bytes);
	v[CORE(HMC_DIRECT_SEGMENTS)] = READ_ONCE(dev->hw.hmc.direct_sds);
	v[CORE(HMC_PAGED_SEGMENTS)] = READ_ONCE(dev->hw.hmc.paged_sds);
	v[CORE(CQP_TIMEOUTS)] = READ_ONCE(dev->hw.cqp.timeouts);
	return ARRAY_SIZE(sirdma_stat_descs);
}
