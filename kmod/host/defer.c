// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "defer.h"

#include <linux/bitops.h>
#include <linux/slab.h>
#include "dev.h"

int snic_qpset_init(struct snic_qpset *set, u32 max_qps)
{
	set->words = BITS_TO_LONGS(max_qps);
	set->group_words = DIV_ROUND_UP(set->words, BITS_PER_LONG);
	set->groups = 0;
	set->bits = kvcalloc(set->words, sizeof(*set->bits), GFP_KERNEL);
	return set->bits ? 0 : -ENOMEM;
}

void snic_qpset_fini(struct snic_qpset *set)
{
	kvfree(set->bits);
}

void snic_qpset_add(struct snic_qpset *set, u32 qpn)
{
	u32 word = qpn / BITS_PER_LONG;

	if (word >= set->words)
		return;
	set_bit(qpn, set->bits);
	/* Pairs with the exchange in snic_qpset_take(): who sees the group sees the member. */
	smp_mb__before_atomic();
	set_bit(word / set->group_words, &set->groups);
}

void snic_qpset_take(struct snic_qpset *set, struct snic_host *host,
		     void (*fn)(struct snic_host *host, u32 qpn))
{
	unsigned long groups = xchg(&set->groups, 0);
	unsigned int group, bit;
	unsigned long members;
	u32 word, end;

	for_each_set_bit(group, &groups, BITS_PER_LONG) {
		word = group * set->group_words;
		end = min(word + set->group_words, set->words);
		for (; word < end; word++) {
			if (!READ_ONCE(set->bits[word]))
				continue;
			members = xchg(&set->bits[word], 0);
			for_each_set_bit(bit, &members, BITS_PER_LONG)
				fn(host, word * BITS_PER_LONG + bit);
		}
	}
}

static void snic_defer_qp_run(struct snic_host *host, u32 qpn)
{
	snic_qp_run(host->dev, qpn);
}

void snic_defer_run(void)
{
	struct snic_host *host;

	rcu_read_lock();
	list_for_each_entry_rcu(host, &snic_hosts, node) {
		snic_txqs_serve(host->txqs);
		if (!snic_qpset_empty(&host->deferred))
			snic_qpset_take(&host->deferred, host, snic_defer_qp_run);
	}
	rcu_read_unlock();
}
