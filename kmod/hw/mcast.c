// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Multicast groups, driver side. */
#include "mcast.h"
#include "cqp_cmd.h"
#include "hw.h"

struct sirdma_mcast {
	struct sirdma_mcast *next;
	struct sirdma_ip ip;
	u32 id;
	u32 count;
	u32 qpns[SIRDMA_MCAST_MAX_QPS];
	u32 attached[SIRDMA_MCAST_MAX_QPS]; /* how often the queue pair is attached */
};

int sirdma_mcast_init(struct sirdma_hw *hw)
{
	struct sirdma_mcast_table *table = &hw->mcasts;

	memset(table, 0, sizeof(*table));
	port_mutex_init(&table->lock);
	return hw->caps.max_mcast_grps ?
		       sirdma_idpool_init(&table->ids, 0, hw->caps.max_mcast_grps) :
		       0;
}

void sirdma_mcast_fini(struct sirdma_hw *hw)
{
	struct sirdma_mcast_table *table = &hw->mcasts;
	struct sirdma_mcast *group;

	if (table->ids.used)
		port_warn("%u multicast groups left behind", table->ids.used);
	while ((group = table->groups)) {
		table->groups = group->next;
		port_free(group);
	}
	sirdma_idpool_fini(&table->ids);
}

/* The link that leads to the group. It leads to NULL when there is no such group. */
static struct sirdma_mcast **mcast_find(struct sirdma_mcast_table *table,
					const struct sirdma_ip *ip)
{
	struct sirdma_mcast **link = &table->groups;

	while (*link && memcmp(&(*link)->ip, ip, sizeof(*ip)))
		link = &(*link)->next;
	return link;
}

/* The place of @qpn in the group. Returns the count if the queue pair is not there. */
static u32 mcast_place(const struct sirdma_mcast *group, u32 qpn)
{
	u32 i;

	for (i = 0; i < group->count; i++)
		if (group->qpns[i] == qpn)
			break;
	return i;
}

static int mcast_send(struct sirdma_hw *hw, enum sirdma_cqp_op op, const struct sirdma_mcast *group)
{
	const struct sirdma_cqp_mcast_params params = {
		.id = group->id,
		.ip = group->ip,
		.qpns = group->qpns,
		.count = group->count,
	};

	return sirdma_cqp_mcast(hw, op, &params);
}

/* @out gets a group without queue pairs, which the device does not know yet. */
static int mcast_make(struct sirdma_mcast_table *table, const struct sirdma_ip *ip,
		      struct sirdma_mcast **out)
{
	struct sirdma_mcast *group = port_alloc_charged(sizeof(*group));
	int err;

	if (!group)
		return -ENOMEM;
	err = sirdma_idpool_get(&table->ids, &group->id);
	if (err) {
		port_free(group);
		return err;
	}
	group->ip = *ip;
	*out = group;
	return 0;
}

/* @link leads to a group without queue pairs. */
static void mcast_free(struct sirdma_mcast_table *table, struct sirdma_mcast **link)
{
	struct sirdma_mcast *group = *link;

	*link = group->next;
	sirdma_idpool_put(&table->ids, group->id);
	port_free(group);
}

static int mcast_attach(struct sirdma_hw *hw, struct sirdma_mcast *group, u32 qpn)
{
	u32 at = mcast_place(group, qpn);
	int err;

	if (at < group->count) {
		group->attached[at]++;
		return 0;
	}
	if (at == SIRDMA_MCAST_MAX_QPS)
		return -ENOMEM;
	group->qpns[at] = qpn;
	group->attached[at] = 1;
	group->count++;
	err = mcast_send(hw, at ? SIRDMA_CQP_MODIFY_MCAST_GRP : SIRDMA_CQP_CREATE_MCAST_GRP, group);
	if (err)
		group->count--;
	return err;
}

int sirdma_mcast_attach(struct sirdma_hw *hw, const struct sirdma_ip *ip, u32 qpn, bool *first)
{
	struct sirdma_mcast_table *table = &hw->mcasts;
	struct sirdma_mcast **link;
	int err = 0;

	*first = false;
	if (!sirdma_ip_is_multicast(ip))
		return -EINVAL;
	if (!table->ids.limit)
		return -EOPNOTSUPP;
	port_mutex_lock(&table->lock);
	link = mcast_find(table, ip);
	*first = !*link;
	if (*first)
		err = mcast_make(table, ip, link);
	if (!err) {
		err = mcast_attach(hw, *link, qpn);
		if (!(*link)->count)
			mcast_free(table, link);
	}
	port_mutex_unlock(&table->lock);
	return err;
}

static int mcast_detach(struct sirdma_hw *hw, struct sirdma_mcast *group, u32 at)
{
	if (--group->attached[at])
		return 0;
	group->count--;
	group->qpns[at] = group->qpns[group->count];
	group->attached[at] = group->attached[group->count];
	return mcast_send(hw,
			  group->count ? SIRDMA_CQP_MODIFY_MCAST_GRP : SIRDMA_CQP_DESTROY_MCAST_GRP,
			  group);
}

int sirdma_mcast_detach(struct sirdma_hw *hw, const struct sirdma_ip *ip, u32 qpn, bool *last)
{
	struct sirdma_mcast_table *table = &hw->mcasts;
	struct sirdma_mcast **link;
	int err = -EINVAL;
	u32 at;

	*last = false;
	port_mutex_lock(&table->lock);
	link = mcast_find(table, ip);
	at = *link ? mcast_place(*link, qpn) : 0;
	if (*link && at < (*link)->count) {
		err = mcast_detach(hw, *link, at);
		*last = !(*link)->count;
		if (*last)
			mcast_free(table, link);
	}
	port_mutex_unlock(&table->lock);
	return err;
}
