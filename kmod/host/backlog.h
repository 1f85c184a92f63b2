/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The receive backlog of a CPU, in which netif_rx() puts the frames of virtual netdevs. The kernel
 * numbers its packets for receive packet steering; the numbers wrap.
 */
#ifndef SNIC_HOST_BACKLOG_H
#define SNIC_HOST_BACKLOG_H

#include <linux/netdevice.h>

#if defined(CONFIG_SMP) && !defined(CONFIG_RPS)
#error "SMP without sysfs: nothing tells when a packet has left the backlog"
#endif

/* The number of the packet that entered the backlog last. It may be a packet of another CPU. */
static inline u32 snic_backlog_tail(const struct softnet_data *sd)
{
#ifdef CONFIG_RPS
	return READ_ONCE(sd->input_queue_tail);
#else
	return 0; /* One CPU sends its packets in order. */
#endif
}

/*
 * The number of the packet that was taken out and received last. While the backlog is being polled,
 * that may be the last one of the poll before. While a netdev is unregistered the number is too
 * high: flush_backlog() takes its packets out of the middle of the backlog and counts them as if
 * they had been received. Then packets of ours may be overtaken once, which their transport
 * repairs.
 */
static inline u32 snic_backlog_head(const struct softnet_data *sd)
{
#ifdef CONFIG_RPS
	return READ_ONCE(sd->input_queue_head);
#else
	return 0;
#endif
}

#endif
