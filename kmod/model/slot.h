/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The slot of a memory region: the object that a stag index names, and its state. CQP
 * commands allocate and remove slots. Registration and invalidation change the state
 * without a lock and without sleeping.
 *
 *         claim           publish
 *   FREE ───────▶ CLAIMED ───────▶ VALID
 *     ▲                              │ invalidate: no new users
 *     │  last reference dropped      ▼
 *     └────────────────────────── DRAINING
 *
 *   remove: from FREE, VALID or DRAINING to REMOVED, and wait for the last reference
 *
 * Users hold references (snic_obj.refs), and a VALID slot holds one itself. The mapping of
 * a slot is written while there are no references, so it does not change under a user.
 */
#ifndef SNIC_SLOT_H
#define SNIC_SLOT_H

#include "obj.h"

enum snic_slot_state {
	SNIC_SLOT_NONE, /* no state: a transition that is not allowed */
	SNIC_SLOT_FREE,
	SNIC_SLOT_CLAIMED, /* its mapping is being written */
	SNIC_SLOT_VALID, /* a registered region, or a bound window */
	SNIC_SLOT_DRAINING, /* invalidated, but still in use */
	SNIC_SLOT_REMOVED, /* never used again */
	SNIC_SLOT_STATES,
};

/* Called when the last reference of an invalidated slot was dropped. */
struct snic_slot_callback {
	void (*done)(struct snic_slot_callback *callback);
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

/* Initialize as FREE. */
void snic_slot_init(struct snic_slot *slot, u8 key);
/* Claim a FREE slot to write its mapping, then publish it. False if it is not FREE. */
bool snic_slot_claim(struct snic_slot *slot);
void snic_slot_publish(struct snic_slot *slot, u8 key);
/*
 * The slot @id of @table with a reference, or NULL if it is not VALID. Pair with
 * snic_slot_put().
 */
struct snic_slot *snic_slot_get(struct snic_table *table, u32 id);
void snic_slot_put(struct snic_slot *slot);
/*
 * Invalidate a VALID slot, of which the caller has a reference. False if it is not VALID.
 * When the last reference was dropped the slot is FREE (or REMOVED), and @callback, unless
 * NULL, is called in the context that dropped it, possibly before this function returns.
 */
bool snic_slot_invalidate(struct snic_slot *slot, struct snic_slot_callback *callback);
/* Remove the slot and wait for its users. False if it is CLAIMED. Sleeps. */
bool snic_slot_remove(struct snic_slot *slot);

#endif
