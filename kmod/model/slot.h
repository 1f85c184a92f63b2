/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The slot of a memory region or window: the object that a stag index names, and its state. CQP
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
 * A region to which windows are bound stays VALID: it is neither invalidated, removed nor sealed.
 * A region that is to be replaced is sealed first, so that no window is bound to it any more. A
 * VALID slot then takes its place in the table, and it is removed.
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
	SNIC_SLOT_CLAIMED, /* the mapping of the slot is being written */
	SNIC_SLOT_VALID, /* the slot is a registered region, or a bound window */
	SNIC_SLOT_DRAINING, /* the slot was invalidated, and is still in use */
	SNIC_SLOT_REMOVED, /* the slot is never used again */
	SNIC_SLOT_STATES,
};

/* Called when the last reference of an invalidated slot was dropped. */
struct snic_slot_callback {
	void (*done)(struct snic_slot_callback *callback);
	struct snic_slot_callback *next; /* the next callback that waits for the same slot */
};

/* The use of a slot. The use does not change. */
enum snic_slot_kind {
	SNIC_SLOT_FIXED, /* a region that only commands invalidate */
	SNIC_SLOT_FAST, /* a member of a struct snic_fast: work requests may invalidate it */
	SNIC_SLOT_WINDOW, /* a member of a struct snic_mw (mw.h) */
};

struct snic_slot {
	struct snic_obj obj; /* the id of the object is the stag index */
	u64 word; /* key, state, kind and bound windows, changed by compare-and-swap */
};

#define SNIC_SLOT_KEY 0xffull
#define SNIC_SLOT_STATE_SHIFT 8
#define SNIC_SLOT_STATE 0xffull
#define SNIC_SLOT_KIND_SHIFT 16
#define SNIC_SLOT_KIND 0xffull
#define SNIC_SLOT_SEALED (1ull << 24) /* of a VALID region: no window can be bound to it */
#define SNIC_SLOT_BOUND (1ull << 32) /* the upper half counts the windows bound to the region */

static inline enum snic_slot_state snic_slot_word_state(u64 word)
{
	return (enum snic_slot_state)(word >> SNIC_SLOT_STATE_SHIFT & SNIC_SLOT_STATE);
}

static inline enum snic_slot_kind snic_slot_word_kind(u64 word)
{
	return (enum snic_slot_kind)(word >> SNIC_SLOT_KIND_SHIFT & SNIC_SLOT_KIND);
}

static inline enum snic_slot_state snic_slot_state(const struct snic_slot *slot)
{
	return snic_slot_word_state(READ_ONCE(slot->word));
}

static inline enum snic_slot_kind snic_slot_kind(const struct snic_slot *slot)
{
	return snic_slot_word_kind(READ_ONCE(slot->word));
}

static inline bool snic_slot_is_window(const struct snic_slot *slot)
{
	return snic_slot_kind(slot) == SNIC_SLOT_WINDOW;
}

static inline u8 snic_slot_key(const struct snic_slot *slot)
{
	return READ_ONCE(slot->word) & SNIC_SLOT_KEY;
}

static inline bool snic_slot_valid(const struct snic_slot *slot)
{
	return snic_slot_state(slot) == SNIC_SLOT_VALID;
}

/* Initialize the slot as FREE. */
void snic_slot_init(struct snic_slot *slot, enum snic_slot_kind kind, u8 key);
/* The word of slot @id in any state; 0: there is no slot. */
u64 snic_slot_peek(struct snic_table *table, u32 id);
/*
 * Claim a FREE slot to write its mapping, then publish it. Returns false if the slot is not FREE.
 */
bool snic_slot_claim(struct snic_slot *slot);
void snic_slot_publish(struct snic_slot *slot, u8 key);
/* Make a claimed slot FREE again, with @key, instead of publishing it. */
void snic_slot_unclaim(struct snic_slot *slot, u8 key);
/* Are windows bound to the region? */
static inline bool snic_slot_has_windows(const struct snic_slot *slot)
{
	return READ_ONCE(slot->word) >= SNIC_SLOT_BOUND;
}

/*
 * Count a window as bound to a VALID region. Returns false if the region is not VALID, or is
 * sealed.
 */
bool snic_slot_bind(struct snic_slot *slot);
void snic_slot_unbind(struct snic_slot *slot);
/*
 * The slot @id of @table with a reference, or NULL if it is not VALID. The caller drops the
 * reference by snic_slot_put().
 */
struct snic_slot *snic_slot_get(struct snic_table *table, u32 id);
void snic_slot_put(struct snic_slot *slot);
/*
 * Invalidate a VALID slot, of which the caller has a reference. Returns false if it is not VALID.
 * When the last reference was dropped the slot is FREE (or REMOVED), and @callback, unless NULL, is
 * called in the context that dropped it, possibly before this function returns.
 */
bool snic_slot_invalidate(struct snic_slot *slot, struct snic_slot_callback *callback);
/*
 * The slot @id with a reference if it is DRAINING: its mapping does not change. NULL if it is not
 * DRAINING, or has no users left. The caller drops the reference by snic_slot_put().
 */
struct snic_slot *snic_slot_get_draining(struct snic_table *table, u32 id);
/* Add @callback to the callbacks for the time when that slot is drained. */
void snic_slot_wait(struct snic_slot *slot, struct snic_slot_callback *callback);
/* Seal a VALID region. Returns false if it is not VALID, or if windows are bound to it. */
bool snic_slot_seal(struct snic_slot *slot);
/*
 * Remove the slot and wait for its users. Returns false if the slot is CLAIMED, or if windows are
 * bound to it. Sleeps.
 */
bool snic_slot_remove(struct snic_slot *slot);

#endif
