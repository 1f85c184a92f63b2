// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <rdma/ib_pma.h>

#include "device.h"
#include "hw/cqp_cmd.h"
#include "pma.h"
#include "sirdma/stats.h"

/* Where the attribute starts in a performance management MAD (IBTA 16.1.1). */
#define PMA_DATA_OFFSET 40
/*
 * PortXmitData and PortRcvData count words of four bytes, from the LRH up to, but without, the VCRC
 * (IBTA table 244). On Ethernet these are a frame's bytes without its check sequence.
 */
#define PMA_WORD 4

/* A counter that reached its largest value stays there (IBTA 16.1.3.5). */
static u64 sirdma_pma_saturate(u64 value, u64 max)
{
	return min(value, max);
}

static void sirdma_pma_class_port_info(void *data)
{
	struct ib_class_port_info *info = data;

	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = 1;
	/* Data and packet counters have 64 bits; unicast and multicast are not counted apart. */
	info->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH_NOIETF;
}

/* Received packets with an error that does not depend on the state of a QP. */
static u64 sirdma_pma_rcv_errors(const u64 *stats)
{
	return stats[SIRDMA_STAT_RX_BAD_LENGTH] + stats[SIRDMA_STAT_RX_BAD_ICRC] +
	       stats[SIRDMA_STAT_RX_BAD_HEADER] + stats[SIRDMA_STAT_RX_FRAGMENTS];
}

static u64 sirdma_pma_xmit_discards(const u64 *stats)
{
	return stats[SIRDMA_STAT_TX_DROPS] + stats[SIRDMA_STAT_TX_OVER_MTU];
}

static void sirdma_pma_counters(void *data, const u64 *stats)
{
	struct ib_pma_portcounters *c = data;

	c->port_rcv_errors =
		cpu_to_be16(sirdma_pma_saturate(sirdma_pma_rcv_errors(stats), U16_MAX));
	c->port_xmit_discards =
		cpu_to_be16(sirdma_pma_saturate(sirdma_pma_xmit_discards(stats), U16_MAX));
	c->port_rcv_constraint_errors = sirdma_pma_saturate(stats[SIRDMA_STAT_RX_BAD_PKEY], U8_MAX);
	c->link_overrun_errors = sirdma_pma_saturate(stats[SIRDMA_STAT_RX_OVERRUNS], 0xf);
	c->port_xmit_data =
		cpu_to_be32(sirdma_pma_saturate(stats[SIRDMA_STAT_TX_BYTES] / PMA_WORD, U32_MAX));
	c->port_rcv_data =
		cpu_to_be32(sirdma_pma_saturate(stats[SIRDMA_STAT_RX_BYTES] / PMA_WORD, U32_MAX));
	c->port_xmit_packets =
		cpu_to_be32(sirdma_pma_saturate(stats[SIRDMA_STAT_TX_PKTS], U32_MAX));
	c->port_rcv_packets = cpu_to_be32(sirdma_pma_saturate(stats[SIRDMA_STAT_RX_PKTS], U32_MAX));
}

static void sirdma_pma_counters_ext(void *data, const u64 *stats)
{
	struct ib_pma_portcounters_ext *c = data;

	c->port_xmit_data = cpu_to_be64(stats[SIRDMA_STAT_TX_BYTES] / PMA_WORD);
	c->port_rcv_data = cpu_to_be64(stats[SIRDMA_STAT_RX_BYTES] / PMA_WORD);
	c->port_xmit_packets = cpu_to_be64(stats[SIRDMA_STAT_TX_PKTS]);
	c->port_rcv_packets = cpu_to_be64(stats[SIRDMA_STAT_RX_PKTS]);
}

static int sirdma_pma_get(struct sirdma_dev *dev, __be16 attr, void *data)
{
	u64 stats[SIRDMA_STAT_COUNT];

	if (attr == IB_PMA_CLASS_PORT_INFO) {
		sirdma_pma_class_port_info(data);
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
	}
	if (attr != IB_PMA_PORT_COUNTERS && attr != IB_PMA_PORT_COUNTERS_EXT)
		return IB_MAD_RESULT_FAILURE;
	if (sirdma_cqp_gather_stats(&dev->hw, stats))
		return IB_MAD_RESULT_FAILURE;
	if (attr == IB_PMA_PORT_COUNTERS)
		sirdma_pma_counters(data, stats);
	else
		sirdma_pma_counters_ext(data, stats);
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

int sirdma_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *in_wc,
		       const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out,
		       size_t *out_size, u16 *out_pkey_index)
{
	if (in_wc)
		return IB_MAD_RESULT_SUCCESS;
	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    in->mad_hdr.method != IB_MGMT_METHOD_GET)
		return IB_MAD_RESULT_FAILURE;
	out->mad_hdr = in->mad_hdr;
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	return sirdma_pma_get(to_sdev(ibdev), in->mad_hdr.attr_id, out->data + PMA_DATA_OFFSET);
}
