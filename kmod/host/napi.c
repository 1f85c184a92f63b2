// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "napi.h"

#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include "compat/napi.h"

static struct net_device *snic_napi_dev;
static DEFINE_MUTEX(snic_napi_lock); /* protects the list of instances of snic_napi_dev */

int snic_napi_init(void)
{
	snic_napi_dev = alloc_netdev_dummy(0);
	return snic_napi_dev ? 0 : -ENOMEM;
}

void snic_napi_exit(void)
{
	free_netdev(snic_napi_dev);
}

void snic_napi_add(struct napi_struct *napi, int (*poll)(struct napi_struct *napi, int budget))
{
	/* No socket ever waits for packets of this netdev. */
	__set_bit(NAPI_STATE_NO_BUSY_POLL, &napi->state);
	mutex_lock(&snic_napi_lock);
	netif_napi_add(snic_napi_dev, napi, poll);
	mutex_unlock(&snic_napi_lock);
}

void snic_napi_del(struct napi_struct *napi)
{
	mutex_lock(&snic_napi_lock);
	__netif_napi_del(napi);
	mutex_unlock(&snic_napi_lock);
}

void snic_napi_schedule(struct napi_struct *napi)
{
	local_bh_disable();
	napi_schedule(napi);
	local_bh_enable();
}

int snic_napi_polled(struct napi_struct *napi, u64 start, int budget, bool more)
{
	u64 work = div_u64(ktime_get_ns() - start, SNIC_POLL_NS / NAPI_POLL_WEIGHT);
	int units = min_t(u64, work, budget - 1);

	if (more)
		return budget;
	/* If the instance was scheduled meanwhile, the softirq polls it again. */
	napi_complete_done(napi, units);
	return units;
}
