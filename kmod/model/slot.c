// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The slot of a memory region: its states. */
#include "slot.h"

enum slot_event {
	SLOT_CLAIM,
	SLOT_PUBLISH,
	SLOT_INVALIDATE,
	SLOT_DRAINED, /* the last reference was dropped */
	SLOT_REMOVE,
	SLOT_EVENTS,
};

static const u8 slot_next[SLOT_EVENTS][SNIC_SLOT_STATES] = {
	[SLOT_CLAIM] = {[SNIC_SLOT_FREE] = SNIC_SLOT_CLAIMED},
	[SLOT_PUBLISH] = {[SNIC_SLOT_CLAIMED] = SNIC_SLOT_VALID},
	[SLOT_INVALIDATE] = {[SNIC_SLOT_VALID] = SNIC_SLOT_DRAINING},
	[SLOT_DRAINED] = {[SNIC_SLOT_DRAINING] = SNIC_SLOT_FREE,
			  /* Its remover waits for that. */
			  [SNIC_SLOT_REMOVED] = SNIC_SLOT_REMOVED},
	[SLOT_REMOVE] = {[SNIC_SLOT_FREE] = SNIC_SLOT_REMOVED,
			 [SNIC_SLOT_VALID] = SNIC_SLOT_REMOVED,
			 [SNIC_SLOT_DRAINING] = SNIC_SLOT_REMOVED},
};

/* Returns the previous state, or NONE when @event is not allowed in it. */
static enum snic_slot_state slot_move(struct snic_slot *slot, enum slot_event event)
{
	enum snic_slot_state from, to;
	u64 old;

	do {
		old = READ_ONCE(slot->word);
		from = (enum snic_slot_state)(old >> SNIC_SLOT_STATE_SHIFT);
		to = (enum snic_slot_state)slot_next[event][from];
		if (to == SNIC_SLOT_NONE)
			return SNIC_SLOT_NONE;
	} while (!port_cas64(&slot->word, old, snic_slot_word(to, old & SNIC_SLOT_KEY)));
	return from;
}

void snic_slot_init(struct snic_slot *slot, u8 key)
{
	port_ref_init(&slot->obj.refs, 0);
	slot->obj.callback = NULL;
	slot->word = snic_slot_word(SNIC_SLOT_FREE, key);
}

bool snic_slot_claim(struct snic_slot *slot)
{
	return slot_move(slot, SLOT_CLAIM) != SNIC_SLOT_NONE;
}

void snic_slot_publish(struct snic_slot *slot, u8 key)
{
	/* Nobody else changes the word of a claimed slot. */
	WRITE_ONCE(slot->word, snic_slot_word(SNIC_SLOT_CLAIMED, key));
	smp_wmb(); /* pairs with the acquire of port_ref_get_unless_zero() */
	port_ref_init(&slot->obj.refs, 1);
	/* Set the slot's own reference first: invalidation drops it. */
	slot_move(slot, SLOT_PUBLISH);
}

/* The last reference was dropped. */
static void slot_drained(struct snic_slot *slot)
{
	struct snic_slot_callback *callback = slot->obj.callback;

	slot->obj.callback = NULL;
	/* From here on others may claim or free the slot. */
	if (slot_move(slot, SLOT_DRAINED) == SNIC_SLOT_REMOVED)
		port_event_set(slot->obj.idle);
	if (callback)
		callback->done(callback);
}

struct snic_slot *snic_slot_get(struct snic_table *table, u32 id)
{
	struct snic_slot *slot = NULL;
	struct snic_obj *obj;

	port_rcu_read_lock();
	obj = snic_table_at(table, id);
	if (obj) {
		slot = container_of(obj, struct snic_slot, obj);
		/*
		 * Check before taking a reference as well, so that lookups do not keep a
		 * draining slot in use.
		 */
		if (!snic_slot_valid(slot) || !port_ref_get_unless_zero(&obj->refs))
			slot = NULL;
	}
	port_rcu_read_unlock();
	if (slot && unlikely(!snic_slot_valid(slot))) {
		snic_slot_put(slot);
		slot = NULL;
	}
	return slot;
}

void snic_slot_put(struct snic_slot *slot)
{
	if (unlikely(port_ref_put(&slot->obj.refs)))
		slot_drained(slot);
}

bool snic_slot_invalidate(struct snic_slot *slot, struct snic_slot_callback *callback)
{
	if (slot_move(slot, SLOT_INVALIDATE) == SNIC_SLOT_NONE)
		return false;
	/* It is read after the slot's own reference is dropped. */
	slot->obj.callback = callback;
	snic_slot_put(slot);
	return true;
}

bool snic_slot_remove(struct snic_slot *slot)
{
	enum snic_slot_state from;
	struct port_event idle;

	port_event_init(&idle);
	slot->obj.idle = &idle; /* set by the last user when it finds the slot REMOVED */
	from = slot_move(slot, SLOT_REMOVE);
	if (from == SNIC_SLOT_VALID)
		snic_slot_put(slot);
	if (from == SNIC_SLOT_VALID || from == SNIC_SLOT_DRAINING)
		snic_obj_wait(&idle);
	return from != SNIC_SLOT_NONE;
}
