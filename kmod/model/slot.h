/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The slot of a memory region: what a stag index names, and the state it is in.
 * Commands allocate and remove slots; registration and invalidation change the state
 * without a lock and without sleeping.
 *
 *         claim           publish
 *   FREE ───────▶ CLAIMED ───────▶ VALID
 *     ▲                              │ invalidate: for new users at once
 *     │    the last user leaves      ▼
 *     └─────────────────────────── ENDING
 *
 *   remove: of FREE, VALID and ENDING to DEAD, which waits for the last user
 *
 * The count of references is that of the table's object: none, unless the slot is VALID
 * or has users yet; being VALID is one of them. So what a slot describes is written
 * when nobody has a reference, and does not change for as long as somebody has.
 */
#ifndef SNIC_SLOT_H
#define SNIC_SLOT_H

#include "obj.h"

enum snic_slot_state {
	SNIC_SLOT_NONE, /* of a transition: not allowed */
	SNIC_SLOT_FREE,
	SNIC_SLOT_CLAIMED, /* somebody writes what it describes */
	SNIC_SLOT_VALID, /* a region that is registered, a window that is bound */
	SNIC_SLOT_ENDING, /* no longer valid, and not yet free */
	SNIC_SLOT_DEAD,
	SNIC_SLOT_STATES,
};

/* Whoever invalidates a slot may learn when its last user has left. */
struct snic_slot_end {
	void (*done)(struct snic_slot_end *end);
};

struct snic_slot {
	struct snic_obj obj; /* id: stag index */
	u64 word; /* state and key, changed by compare-and-swap */
};

#define SNIC_SLOT_KEY 0xffull
#define SNIC_SLOT_STATE_SHIFT 8

static inline u64 snic_slot_word(enum snic_slot_state state, u8 key)
{
	return (u64)state << SNIC_SLOT_STATE_SHIFT | key;
}

static inline enum snic_slot_state snic_slot_state(const struct snic_slot *slot)
{
	return (enum snic_slot_state)(READ_ONCE(slot->word) >> SNIC_SLOT_STATE_SHIFT);
}

static inline u8 snic_slot_key(const struct snic_slot *slot)
{
	return READ_ONCE(slot->word) & SNIC_SLOT_KEY;
}

static inline bool snic_slot_valid(const struct snic_slot *slot)
{
	return snic_slot_state(slot) == SNIC_SLOT_VALID;
}

/* A FREE slot. */
void snic_slot_init(struct snic_slot *slot, u8 key);
/* FREE: the caller may write what it describes, and then publishes it, without waiting for anything. */
bool snic_slot_claim(struct snic_slot *slot);
void snic_slot_publish(struct snic_slot *slot, u8 key);
/* The slot @id of @table, if it is VALID, referenced. Pair with snic_slot_put(). */
struct snic_slot *snic_slot_get(struct snic_table *table, u32 id);
void snic_slot_put(struct snic_slot *slot);
/*
 * End a VALID slot, of which the caller has a reference. False when it is not VALID.
 * @end, unless NULL, is told once the last user has left, maybe before this returns, in
 * the context of whoever left last; then the slot is FREE, or DEAD.
 */
bool snic_slot_invalidate(struct snic_slot *slot, struct snic_slot_end *end);
/* End the slot for good, and wait for its users. False when it is claimed. Sleeps. */
bool snic_slot_remove(struct snic_slot *slot);

#endif
