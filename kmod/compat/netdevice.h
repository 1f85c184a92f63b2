/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef COMPAT_NETDEVICE_H
#define COMPAT_NETDEVICE_H

#include <linux/netdevice.h>

/*
 * The length that an IPv4 or an IPv6 super-packet must not reach, or the kernel segments it itself. Since 6.3 IPv4 has a
 * limit of its own.
 */
static inline unsigned int *compat_gso_max_size(struct net_device *ndev, bool is_v4)
{
#ifdef COMPAT_HAVE_gso_ipv4_max_size
	if (is_v4)
		return &ndev->gso_ipv4_max_size;
#endif
	return &ndev->gso_max_size;
}

#endif
