// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Multicast groups. */
#include "mcast.h"

#include "dev.h"

int snic_mcast_init(struct snic_mcast_table *table)
{
	port_lock_init(&table->lock);
	port_hash_key_init(&table->key);
	return snic_table_init(&table->groups, SNIC_MAX_MCAST_GRPS);
}

void snic_mcast_fini(struct snic_mcast_table *table)
{
	snic_table_fini(&table->groups);
}

/*
 * Users choose the addresses, and anybody on the link may send to them. The key keeps a user from
 * putting all groups into one bucket, which each packet would search.
 */
static struct snic_mcast **mcast_bucket(struct snic_mcast_table *table, const struct sirdma_ip *ip)
{
	u32 w[4];

	memcpy(w, ip->b, sizeof(w));
	return &table->buckets[port_hash_4u32(&table->key, w[0], w[1], w[2], w[3]) %
			       SNIC_MCAST_BUCKETS];
}

/*
 * The link of @bucket that leads to the group. It leads to NULL when there is no such group. The
 * caller holds the lock of the table.
 */
static struct snic_mcast **mcast_link(struct snic_mcast **bucket, const struct sirdma_ip *ip)
{
	struct snic_mcast **link = bucket;

	while (*link && memcmp(&(*link)->ip, ip, sizeof(*ip)))
		link = &(*link)->next;
	return link;
}

u32 snic_mcast_members(struct snic_dev *dev, const struct sirdma_ip *ip,
		       u32 qpns[SIRDMA_MCAST_MAX_QPS])
{
	struct snic_mcast_table *table = &dev->mcasts;
	struct snic_mcast **bucket = mcast_bucket(table, ip);
	const struct snic_mcast *group;
	u32 count = 0;

	port_lock(&table->lock);
	group = *mcast_link(bucket, ip);
	if (group) {
		count = group->count;
		memcpy(qpns, group->qpns, count * sizeof(*qpns));
	}
	port_unlock(&table->lock);
	return count;
}

bool snic_mcast_has(struct snic_dev *dev, const struct sirdma_ip *ip)
{
	struct snic_mcast_table *table = &dev->mcasts;
	struct snic_mcast **bucket = mcast_bucket(table, ip);
	bool has;

	port_lock(&table->lock);
	has = *mcast_link(bucket, ip);
	port_unlock(&table->lock);
	return has;
}

/* Commands run one at a time, so only arriving packets need the lock of the table. */

static struct snic_mcast *mcast_by_cmd(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe,
				       u32 *status)
{
	u32 id = (u32)SIRDMA_GET(SIRDMA_CQP_MCAST_ID, le64_to_cpu(wqe->hdr));
	struct snic_obj *obj = snic_table_at(&dev->mcasts.groups, id);

	*status = SIRDMA_CQP_OK;
	if (obj)
		return container_of(obj, struct snic_mcast, obj);
	*status = id < SNIC_MAX_MCAST_GRPS ? SIRDMA_CQP_NO_OBJECT : SIRDMA_CQP_BAD_INDEX;
	return NULL;
}

/* @ctx is the command's list of queue pairs, in the device's byte order. */
static u32 mcast_read_ctx(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe,
			  struct sirdma_mcast_ctx *ctx)
{
	const struct sirdma_cqp_mcast *cmd = (const void *)wqe;
	u64 addr = le64_to_cpu(cmd->ctx_addr);
	const void *mem;
	u32 i, count;

	if (addr % 16)
		return SIRDMA_CQP_BAD_ADDRESS;
	mem = port_dma_ptr(dev->dma, addr, sizeof(*ctx));
	if (!mem)
		return SIRDMA_CQP_BAD_ADDRESS;
	memcpy(ctx, mem, sizeof(*ctx));
	count = le32_to_cpu(ctx->count);
	if (!count || count > SIRDMA_MCAST_MAX_QPS)
		return SIRDMA_CQP_BAD_PARAM;
	for (i = 0; i < count; i++)
		if (le32_to_cpu(ctx->qpns[i]) >= dev->cfg.max_qps)
			return SIRDMA_CQP_BAD_PARAM;
	return SIRDMA_CQP_OK;
}

static void mcast_set_members(struct snic_mcast *group, const struct sirdma_mcast_ctx *ctx)
{
	u32 i;

	group->count = le32_to_cpu(ctx->count);
	for (i = 0; i < group->count; i++)
		group->qpns[i] = le32_to_cpu(ctx->qpns[i]);
}

u32 snic_cqp_create_mcast(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	const struct sirdma_cqp_mcast *cmd = (const void *)wqe;
	struct snic_mcast_table *table = &dev->mcasts;
	struct snic_mcast *group, **bucket;
	struct sirdma_mcast_ctx ctx;
	u32 status;

	status = mcast_read_ctx(dev, wqe, &ctx);
	if (status)
		return status;
	group = port_alloc_charged(sizeof(*group));
	if (!group)
		return SIRDMA_CQP_NO_MEMORY;
	/* Little-endian words with byte 0 of the address in 7:0: memory order. */
	memcpy(group->ip.b, &cmd->ip_lo, sizeof(cmd->ip_lo));
	memcpy(group->ip.b + sizeof(cmd->ip_lo), &cmd->ip_hi, sizeof(cmd->ip_hi));
	mcast_set_members(group, &ctx);
	snic_obj_init(&group->obj);
	status = SIRDMA_CQP_BAD_PARAM;
	if (!sirdma_ip_is_multicast(&group->ip) || snic_mcast_has(dev, &group->ip))
		goto err_free;
	status = snic_table_status(snic_table_insert(
		&table->groups, (u32)SIRDMA_GET(SIRDMA_CQP_MCAST_ID, le64_to_cpu(cmd->hdr)),
		&group->obj));
	if (status)
		goto err_free;
	bucket = mcast_bucket(table, &group->ip);
	port_lock(&table->lock);
	*mcast_link(bucket, &group->ip) = group;
	port_unlock(&table->lock);
	return SIRDMA_CQP_OK;

err_free:
	port_free(group);
	return status;
}

u32 snic_cqp_modify_mcast(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct sirdma_mcast_ctx ctx;
	struct snic_mcast *group;
	u32 status;

	group = mcast_by_cmd(dev, wqe, &status);
	if (!group)
		return status;
	status = mcast_read_ctx(dev, wqe, &ctx);
	if (status)
		return status;
	port_lock(&dev->mcasts.lock);
	mcast_set_members(group, &ctx);
	port_unlock(&dev->mcasts.lock);
	return SIRDMA_CQP_OK;
}

static void mcast_destroy(struct snic_dev *dev, struct snic_mcast *group)
{
	struct snic_mcast_table *table = &dev->mcasts;
	struct snic_mcast **bucket = mcast_bucket(table, &group->ip);

	snic_table_remove(&table->groups, group->obj.id);
	port_lock(&table->lock);
	*mcast_link(bucket, &group->ip) = group->next;
	port_unlock(&table->lock);
	port_free(group);
}

u32 snic_cqp_destroy_mcast(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	struct snic_mcast *group;
	u32 status;

	group = mcast_by_cmd(dev, wqe, &status);
	if (group)
		mcast_destroy(dev, group);
	return status;
}

void snic_mcast_destroy_all(struct snic_dev *dev)
{
	struct snic_obj *obj;
	u32 id = 0;

	while ((obj = snic_table_next(&dev->mcasts.groups, &id)))
		mcast_destroy(dev, container_of(obj, struct snic_mcast, obj));
}
