/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sets of QPs to be looked at from a fresh context. */
#ifndef SNIC_HOST_DEFER_H
#define SNIC_HOST_DEFER_H

#include <linux/compiler.h>
#include <linux/types.h>

struct snic_host;

/* One bit per QP, and one per group of QPs that has any. */
struct snic_qpset {
	unsigned long *bits;
	unsigned long groups;
	u32 group_words; /* words of bits in a group */
	u32 words;
};

int snic_qpset_init(struct snic_qpset *set, u32 max_qps);
void snic_qpset_fini(struct snic_qpset *set);
/* Any context. */
void snic_qpset_add(struct snic_qpset *set, u32 qpn);

static inline bool snic_qpset_empty(const struct snic_qpset *set)
{
	return !READ_ONCE(set->groups);
}

/* Take all members out and call @fn for each; softirqs are off. */
void snic_qpset_take(struct snic_qpset *set, struct snic_host *host,
		     void (*fn)(struct snic_host *host, u32 qpn));

/* Deferred and resumed QPs of every host. Softirq. */
void snic_defer_run(void);

#endif
