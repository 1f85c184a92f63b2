// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Destinations. */
#include "path.h"

/* Is it the unspecified address of IPv4 or IPv6? */
static bool is_unspecified(const struct sirdma_ip *ip)
{
	static const struct sirdma_ip v6, v4 = {.b = {[10] = 0xff, [11] = 0xff}};

	return !memcmp(ip, &v6, sizeof(v6)) || !memcmp(ip, &v4, sizeof(v4));
}

const char *sirdma_path_refusal(const struct sirdma_path *path)
{
	if (path->port_num != 1)
		return "has a port that is not 1";
	if (!path->has_grh)
		return "has no global route";
	if (path->sl > SIRDMA_MAX_VLAN_PRIO)
		return "has a service level above 7";
	if (is_unspecified(&path->dst_ip))
		return "has no destination";
	return NULL;
}
