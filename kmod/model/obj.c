// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Objects of the device and the tables that name them by index. */
#include "obj.h"

#include "sirdma/cqp.h"

/* snic_obj_wait() waits in slices of this length, for port_event_wait() has a timeout. */
#define SNIC_WAIT_SLICE_MS 1000

static u32 table_chunks(const struct snic_table *table)
{
	return (table->limit + SNIC_TABLE_CHUNK - 1) / SNIC_TABLE_CHUNK;
}

int snic_table_init(struct snic_table *table, u32 limit)
{
	port_mutex_init(&table->lock);
	table->limit = limit;
	table->count = 0;
	table->chunks = port_alloc(table_chunks(table) * sizeof(*table->chunks));
	return table->chunks ? 0 : -ENOMEM;
}

void snic_table_fini(struct snic_table *table)
{
	u32 i;

	if (!table->chunks)
		return;
	for (i = 0; i < table_chunks(table); i++)
		port_free(table->chunks[i]);
	port_free(table->chunks);
	table->chunks = NULL;
}

/* Slot of @id, or NULL if its chunk does not exist. Chunks live as long as the table. */
static struct snic_obj **table_slot(struct snic_table *table, u32 id)
{
	struct snic_obj **chunk;

	if (id >= table->limit)
		return NULL;
	chunk = port_rcu_deref(table->chunks[id / SNIC_TABLE_CHUNK]);
	return chunk ? &chunk[id % SNIC_TABLE_CHUNK] : NULL;
}

static int table_grow(struct snic_table *table, u32 id)
{
	struct snic_obj **chunk;

	if (table_slot(table, id))
		return 0;
	chunk = port_alloc(SNIC_TABLE_CHUNK * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	/*
	 * This store pairs with the dereference in table_slot(): the chunk is zeroed before it is
	 * visible.
	 */
	port_rcu_assign(table->chunks[id / SNIC_TABLE_CHUNK], chunk);
	return 0;
}

u32 snic_table_status(int err)
{
	switch (err) {
	case 0:
		return SIRDMA_CQP_OK;
	case -EBUSY:
		return SIRDMA_CQP_IN_USE;
	case -ENOMEM:
		return SIRDMA_CQP_NO_MEMORY;
	default:
		return SIRDMA_CQP_BAD_INDEX;
	}
}

int snic_table_insert(struct snic_table *table, u32 id, struct snic_obj *obj)
{
	struct snic_obj **slot;
	int ret;

	if (id >= table->limit)
		return -EINVAL;
	port_mutex_lock(&table->lock);
	ret = table_grow(table, id);
	if (ret)
		goto out;
	slot = table_slot(table, id);
	if (*slot) {
		ret = -EBUSY;
		goto out;
	}
	obj->id = id;
	port_rcu_assign(*slot, obj);
	table->count++;
out:
	port_mutex_unlock(&table->lock);
	return ret;
}

struct snic_obj *snic_table_at(struct snic_table *table, u32 id)
{
	struct snic_obj **slot = table_slot(table, id);

	return slot ? port_rcu_deref(*slot) : NULL;
}

struct snic_obj *snic_table_get(struct snic_table *table, u32 id)
{
	struct snic_obj *obj;

	port_rcu_read_lock();
	obj = snic_table_at(table, id);
	if (obj && !port_ref_get_unless_zero(&obj->refs))
		obj = NULL;
	port_rcu_read_unlock();
	return obj;
}

bool snic_table_has(struct snic_table *table, u32 id)
{
	return snic_table_at(table, id);
}

struct snic_obj *snic_table_remove(struct snic_table *table, u32 id)
{
	struct snic_obj **slot, *obj = NULL;

	port_mutex_lock(&table->lock);
	slot = table_slot(table, id);
	if (slot && *slot) {
		obj = *slot;
		port_rcu_assign(*slot, NULL);
		table->count--;
	}
	port_mutex_unlock(&table->lock);
	return obj;
}

void snic_table_replace(struct snic_table *table, u32 id, struct snic_obj *obj)
{
	port_mutex_lock(&table->lock);
	obj->id = id;
	port_rcu_assign(*table_slot(table, id), obj);
	port_mutex_unlock(&table->lock);
}

bool snic_table_seek(struct snic_table *table, u32 *id)
{
	struct snic_obj **slot;
	u32 i = *id;

	while (i < table->limit) {
		slot = table_slot(table, i);
		if (!slot) {
			i = (i / SNIC_TABLE_CHUNK + 1) * SNIC_TABLE_CHUNK;
			continue;
		}
		if (READ_ONCE(*slot)) {
			*id = i;
			return true;
		}
		i++;
	}
	return false;
}

struct snic_obj *snic_table_next(struct snic_table *table, u32 *id)
{
	return snic_table_seek(table, id) ? *table_slot(table, *id) : NULL;
}

void snic_obj_init(struct snic_obj *obj)
{
	port_ref_init(&obj->refs, 1);
}

void snic_obj_wait(struct port_event *idle)
{
	while (!port_event_wait(idle, SNIC_WAIT_SLICE_MS))
		;
}

void snic_obj_drain(struct snic_obj *obj)
{
	struct port_event idle;

	port_event_init(&idle);
	obj->idle = &idle;
	if (!port_ref_put(&obj->refs))
		snic_obj_wait(&idle);
}

void snic_list_add(struct snic_list_link **list, struct snic_list_link *link)
{
	link->next = *list;
	link->at = list;
	if (link->next)
		link->next->at = &link->next;
	port_rcu_assign(*list, link);
}

void snic_list_remove(struct snic_list_link *link)
{
	if (!link->at)
		return;
	if (link->next)
		link->next->at = link->at;
	/* A reader that is at this link now goes on from it: next stays as it is. */
	port_rcu_assign(*link->at, link->next);
	link->at = NULL;
}

struct snic_obj *snic_list_get(struct snic_list_link *const *at, size_t offset)
{
	struct snic_obj *obj = NULL;
	struct snic_list_link *link;

	port_rcu_read_lock();
	for (link = port_rcu_deref(*at); link; link = port_rcu_deref(link->next)) {
		obj = (struct snic_obj *)((u8 *)link - offset);
		if (port_ref_get_unless_zero(&obj->refs))
			break;
	}
	port_rcu_read_unlock();
	return link ? obj : NULL;
}
