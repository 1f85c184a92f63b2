/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef COMPAT_IP6_ROUTE_H
#define COMPAT_IP6_ROUTE_H

#include <net/ip6_fib.h>

/* Since 6.10. */
#ifndef dst_rt6_info
#define dst_rt6_info(dst) container_of(dst, struct rt6_info, dst)
#endif

#endif
