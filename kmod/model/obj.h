/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Objects of the device and the tables that name them by index.
 *
 * A lookup takes a reference without a lock. Removal unlinks the object; the caller then
 * waits until the last reference is gone.
 *
 * Objects of one kind can also form lists, which are read without a lock. A reader keeps a reference to the object
 * where it is, and an object leaves its list only when the last reference is gone: so no reader loses its place.
 */
#ifndef SNIC_OBJ_H
#define SNIC_OBJ_H

#include "port/port.h"

struct snic_obj {
	struct port_ref refs; /* 1 while the object is in a table; of a slot: while it is valid */
	u32 id;
	union {
		struct {
			struct port_event *idle; /* draining: set when refs reaches zero */
			u64 first_callback; /* a list of struct snic_slot_callback */
		};
		struct port_rcu rcu; /* used after that, to free the object */
	};
};

/* Member of an object that is in a list. A list is a pointer to the first link, or NULL. */
struct snic_list_link {
	struct snic_list_link *next;
	struct snic_list_link **at; /* the pointer to this link; NULL: it is in no list */
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
/*
 * Insert @obj, whose refs is set, as @id. Returns 0, -EINVAL (out of range), -EBUSY (taken) or
 * -ENOMEM.
 */
int snic_table_insert(struct snic_table *table, u32 id, struct snic_obj *obj);
/* The status of a command whose insertion returned @err. */
u32 snic_table_status(int err);
/* Object @id with a reference, or NULL. The caller drops the reference by snic_obj_put(). */
struct snic_obj *snic_table_get(struct snic_table *table, u32 id);
/*
 * Object @id without a reference, or NULL. The object stays until port_rcu_read_unlock(), or until
 * its remover frees it.
 */
struct snic_obj *snic_table_at(struct snic_table *table, u32 id);
/* Is there an object @id? The answer may be outdated at once. */
bool snic_table_has(struct snic_table *table, u32 id);
/*
 * Unlink object @id. The caller takes over the table's reference. NULL if there is no such object.
 */
struct snic_obj *snic_table_remove(struct snic_table *table, u32 id);
/* Put @obj, whose refs is set, in the place of the object that has @id. That one is unlinked. */
void snic_table_replace(struct snic_table *table, u32 id, struct snic_obj *obj);
/*
 * Set *id to the lowest id >= *id that an object has. Returns false if there is none. Objects may come
 * and go meanwhile: the caller takes a reference, which may fail.
 */
bool snic_table_seek(struct snic_table *table, u32 *id);
/* The object with the lowest id >= *id, without a reference; for teardown only. */
struct snic_obj *snic_table_next(struct snic_table *table, u32 *id);
void snic_obj_init(struct snic_obj *obj);
/* Take another reference. The caller holds one already. */
static inline void snic_obj_get(struct snic_obj *obj)
{
	port_ref_get(&obj->refs);
}

static inline void snic_obj_put(struct snic_obj *obj)
{
	if (port_ref_put(&obj->refs))
		port_event_set(obj->idle);
}

/* Wait without a time limit until the last user of an object sets its @idle. */
void snic_obj_wait(struct port_event *idle);
/* Drop the reference of snic_table_remove() and wait until no other thread holds one. */
void snic_obj_drain(struct snic_obj *obj);

/* One writer at a time changes a list. @link is of an object with a reference. */
void snic_list_add(struct snic_list_link **list, struct snic_list_link *link);
/* After snic_obj_drain(). The object is freed by port_free_rcu(). Nothing happens if @link is in no list. */
void snic_list_remove(struct snic_list_link *link);
/*
 * The first object at *@at or behind that is not drained, with a reference, or NULL. @at is a list, or the next of the
 * link of an object to which the caller has a reference. Objects have the link at @offset, and struct snic_obj at 0.
 */
struct snic_obj *snic_list_get(struct snic_list_link *const *at, size_t offset);

#endif
