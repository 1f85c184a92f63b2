/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Objects of the device and the tables that name them by index.
 *
 * A lookup takes a reference without a lock. Removal unlinks the object; the caller then
 * waits until the last reference is gone.
 */
#ifndef SNIC_OBJ_H
#define SNIC_OBJ_H

#include "port/port.h"

struct snic_obj {
	struct port_ref refs; /* 1 while in a table; of a slot, while it is valid */
	u32 id;
	union {
		struct {
			struct port_event *idle; /* while it is drained: set when refs reaches zero */
			u64 first_callback; /* of a list of struct snic_slot_callback */
		};
		struct port_rcu rcu; /* after that: to free it */
	};
};

#define SNIC_TABLE_CHUNK 512

struct snic_table {
	struct port_mutex lock; /* protects insertion, removal and chunk growth */
	u32 limit; /* ids 0 .. limit-1 */
	u32 count;
	struct snic_obj ***chunks; /* [limit / CHUNK] of CHUNK pointers, made on demand */
};

int snic_table_init(struct snic_table *table, u32 limit);
/* The table must be empty. */
void snic_table_fini(struct snic_table *table);
/* Insert @obj, whose refs is set, as @id. 0; -EINVAL: out of range; -EBUSY: taken; -ENOMEM. */
int snic_table_insert(struct snic_table *table, u32 id, struct snic_obj *obj);
/* The status of a command whose insertion gave @err. */
u32 snic_table_status(int err);
/* Object @id with a reference, or NULL. Pair with snic_obj_put(). */
struct snic_obj *snic_table_get(struct snic_table *table, u32 id);
/* Object @id without a reference, or NULL. It stays until port_rcu_read_unlock(), or for its remover. */
struct snic_obj *snic_table_at(struct snic_table *table, u32 id);
/* Is there an object @id? The answer may be outdated at once. */
bool snic_table_has(struct snic_table *table, u32 id);
/* Unlink object @id; the caller takes over the table's reference. NULL when absent. */
struct snic_obj *snic_table_remove(struct snic_table *table, u32 id);
/* The object with the lowest id >= *id, without a reference; for teardown only. */
struct snic_obj *snic_table_next(struct snic_table *table, u32 *id);
void snic_obj_init(struct snic_obj *obj);
/* Another reference, by a holder of one. */
static inline void snic_obj_get(struct snic_obj *obj)
{
	port_ref_get(&obj->refs);
}

static inline void snic_obj_put(struct snic_obj *obj)
{
	if (port_ref_put(&obj->refs))
		port_event_set(obj->idle);
}

/* Wait, however long, until the last user of an object sets its @idle. */
void snic_obj_wait(struct port_event *idle);
/* Drop the reference of snic_table_remove() and wait until nobody else holds one. */
void snic_obj_drain(struct snic_obj *obj);

#endif
