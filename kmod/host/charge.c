// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "charge.h"

#include <linux/module.h>
#include <linux/slab.h>

struct snic_charge *snic_charge_create(struct snic_txq *q)
{
	struct snic_charge *charge = kzalloc(sizeof(*charge), GFP_KERNEL);

	if (!charge)
		return NULL;
	atomic_set(&charge->bytes, SNIC_CHARGE_HELD);
	charge->q = q;
	return charge;
}

static void snic_charge_free_rcu(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct snic_charge, rcu));
	module_put(THIS_MODULE);
}

void snic_charge_drop(struct snic_charge *charge)
{
	if (!charge)
		return;
	WRITE_ONCE(charge->q, NULL);
	if (!snic_charge_bytes(charge)) {
		kfree_rcu(charge, rcu);
		return;
	}
	__module_get(THIS_MODULE);
	rcu_read_lock();
	snic_charge_sub(charge, SNIC_CHARGE_HELD);
	rcu_read_unlock();
}

void snic_charge_sub(struct snic_charge *charge, u32 bytes)
{
	if (!atomic_sub_return(bytes, &charge->bytes))
		call_rcu(&charge->rcu, snic_charge_free_rcu);
}
