// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The slot of a memory region or window: its states. */
#include "mw.h"

enum slot_event {
	SLOT_CLAIM,
	SLOT_PUBLISH,
	SLOT_UNCLAIM,
	SLOT_INVALIDATE,
	SLOT_DRAINED, /* the last reference was dropped */
	SLOT_REMOVE,
	SLOT_EVENTS,
};

static const u8 slot_next[SLOT_EVENTS][SNIC_SLOT_STATES] = {
	[SLOT_CLAIM] = {[SNIC_SLOT_FREE] = SNIC_SLOT_CLAIMED},
	[SLOT_PUBLISH] = {[SNIC_SLOT_CLAIMED] = SNIC_SLOT_VALID},
	[SLOT_UNCLAIM] = {[SNIC_SLOT_CLAIMED] = SNIC_SLOT_FREE},
	[SLOT_INVALIDATE] = {[SNIC_SLOT_VALID] = SNIC_SLOT_DRAINING},
	[SLOT_DRAINED] = {[SNIC_SLOT_DRAINING] = SNIC_SLOT_FREE,
			  /* The remover of the slot waits for this event. */
			  [SNIC_SLOT_REMOVED] = SNIC_SLOT_REMOVED},
	[SLOT_REMOVE] = {[SNIC_SLOT_FREE] = SNIC_SLOT_REMOVED,
			 [SNIC_SLOT_VALID] = SNIC_SLOT_REMOVED,
			 [SNIC_SLOT_DRAINING] = SNIC_SLOT_REMOVED},
};

static u64 slot_word(enum snic_slot_kind kind, enum snic_slot_state state, u8 key)
{
	return (u64)kind << SNIC_SLOT_KIND_SHIFT | (u64)state << SNIC_SLOT_STATE_SHIFT | key;
}

/*
 * Change the state by @event. Returns the previous state, or NONE if @event is not allowed in it.
 */
static enum snic_slot_state slot_move(struct snic_slot *slot, enum slot_event event)
{
	enum snic_slot_state from, to;
	u64 old;

	do {
		old = READ_ONCE(slot->word);
		from = snic_slot_word_state(old);
		to = (enum snic_slot_state)slot_next[event][from];
		/* Only a VALID slot has bound windows, and they keep it VALID. */
		if (to == SNIC_SLOT_NONE || old >= SNIC_SLOT_BOUND)
			return SNIC_SLOT_NONE;
	} while (!port_cas64(&slot->word, old,
			     slot_word(snic_slot_word_kind(old), to, old & SNIC_SLOT_KEY)));
	return from;
}

void snic_slot_init(struct snic_slot *slot, enum snic_slot_kind kind, u8 key)
{
	port_ref_init(&slot->obj.refs, 0);
	slot->obj.first_callback = 0;
	slot->word = slot_word(kind, SNIC_SLOT_FREE, key);
}

u64 snic_slot_peek(struct snic_table *table, u32 id)
{
	struct snic_obj *obj;
	u64 word;

	port_rcu_read_lock();
	obj = snic_table_at(table, id);
	word = obj ? READ_ONCE(container_of(obj, struct snic_slot, obj)->word) : 0;
	port_rcu_read_unlock();
	return word;
}

bool snic_slot_claim(struct snic_slot *slot)
{
	return slot_move(slot, SLOT_CLAIM) != SNIC_SLOT_NONE;
}

void snic_slot_publish(struct snic_slot *slot, u8 key)
{
	/* Only the claimer changes the word of a claimed slot. */
	WRITE_ONCE(slot->word, slot_word(snic_slot_kind(slot), SNIC_SLOT_CLAIMED, key));
	smp_wmb(); /* pairs with the acquire of port_ref_get_unless_zero() */
	port_ref_init(&slot->obj.refs, 1);
	/* Set the slot's own reference first: invalidation drops it. */
	slot_move(slot, SLOT_PUBLISH);
}

void snic_slot_unclaim(struct snic_slot *slot, u8 key)
{
	WRITE_ONCE(slot->word, slot_word(snic_slot_kind(slot), SNIC_SLOT_CLAIMED, key));
	slot_move(slot, SLOT_UNCLAIM);
}

bool snic_slot_bind(struct snic_slot *slot)
{
	u64 old;

	do {
		old = READ_ONCE(slot->word);
		if (snic_slot_word_state(old) != SNIC_SLOT_VALID || (old & SNIC_SLOT_SEALED))
			return false;
	} while (!port_cas64(&slot->word, old, old + SNIC_SLOT_BOUND));
	return true;
}

bool snic_slot_seal(struct snic_slot *slot)
{
	u64 old;

	do {
		old = READ_ONCE(slot->word);
		if (snic_slot_word_state(old) != SNIC_SLOT_VALID || old >= SNIC_SLOT_BOUND)
			return false;
	} while (!port_cas64(&slot->word, old, old | SNIC_SLOT_SEALED));
	return true;
}

void snic_slot_unbind(struct snic_slot *slot)
{
	u64 old;

	do {
		old = READ_ONCE(slot->word);
	} while (!port_cas64(&slot->word, old, old - SNIC_SLOT_BOUND));
}

/* The last reference to the slot was dropped. */
static void slot_drained(struct snic_slot *slot)
{
	struct snic_slot_callback *callback, *next;

	/* While there is no reference, no thread adds one. */
	callback = (struct snic_slot_callback *)(uintptr_t)READ_ONCE(slot->obj.first_callback);
	slot->obj.first_callback = 0;
	if (snic_slot_is_window(slot))
		snic_mw_unbound(slot);
	/* From here on, other threads may claim or free the slot. */
	if (slot_move(slot, SLOT_DRAINED) == SNIC_SLOT_REMOVED)
		port_event_set(slot->obj.idle);
	for (; callback; callback = next) {
		next = callback->next; /* the owner may use it again */
		callback->done(callback);
	}
}

/* Take a reference to the slot of @obj, if it is in @state. The caller is a reader of the table. */
static inline struct snic_slot *slot_try(struct snic_obj *obj, enum snic_slot_state state)
{
	struct snic_slot *slot = container_of(obj, struct snic_slot, obj);

	/*
	 * Check the state before taking a reference as well, so that lookups do not keep a draining
	 * slot in use.
	 */
	return snic_slot_state(slot) == state && port_ref_get_unless_zero(&obj->refs) ? slot : NULL;
}

/* The slot @id with a reference if it is in @state. */
static inline struct snic_slot *slot_get(struct snic_table *table, u32 id,
					 enum snic_slot_state state)
{
	struct snic_slot *slot;
	struct snic_obj *obj;
	bool found, replaced;

	do {
		port_rcu_read_lock();
		obj = snic_table_at(table, id);
		slot = obj ? slot_try(obj, state) : NULL;
		found = slot && snic_slot_state(slot) == state;
		replaced = false;
		if (unlikely(!found)) {
			/*
			 * A slot leaves the table before it is removed, if another takes its place.
			 * This barrier pairs with the atomic change of the state: a reader that
			 * found the slot removed finds the other one.
			 */
			smp_rmb();
			replaced = snic_table_at(table, id) != obj;
		}
		port_rcu_read_unlock();
		if (unlikely(slot && !found)) {
			snic_slot_put(slot);
			slot = NULL;
		}
	} while (unlikely(replaced));
	return slot;
}

struct snic_slot *snic_slot_get(struct snic_table *table, u32 id)
{
	return slot_get(table, id, SNIC_SLOT_VALID);
}

struct snic_slot *snic_slot_get_draining(struct snic_table *table, u32 id)
{
	return slot_get(table, id, SNIC_SLOT_DRAINING);
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
	if (callback)
		snic_slot_wait(slot, callback);
	snic_slot_put(slot);
	return true;
}

void snic_slot_wait(struct snic_slot *slot, struct snic_slot_callback *callback)
{
	u64 first;

	/* The caller's reference keeps slot_drained() from reading the list. */
	do {
		first = READ_ONCE(slot->obj.first_callback);
		callback->next = (struct snic_slot_callback *)(uintptr_t)first;
	} while (!port_cas64(&slot->obj.first_callback, first, (uintptr_t)callback));
}

bool snic_slot_remove(struct snic_slot *slot)
{
	enum snic_slot_state from;
	struct port_event idle;

	port_event_init(&idle);
	slot->obj.idle = &idle; /* the last user sets this event when it finds the slot REMOVED */
	from = slot_move(slot, SLOT_REMOVE);
	if (from == SNIC_SLOT_VALID)
		snic_slot_put(slot);
	if (from == SNIC_SLOT_VALID || from == SNIC_SLOT_DRAINING)
		snic_obj_wait(&idle);
	return from != SNIC_SLOT_NONE;
}
