/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Stags: 24 bits of index, 8 bits of key. Each allocation of an index draws a random key,
 * so that a stale stag is unlikely to name the next region with that index.
 */
#ifndef SIRDMA_HW_STAG_H
#define SIRDMA_HW_STAG_H

#include "hw.h"

/* Take a new stag with a random key. Returns -ENOMEM if there is none. */
int sirdma_stag_alloc(struct sirdma_hw *hw, u32 *stag);
void sirdma_stag_free(struct sirdma_hw *hw, u32 stag);

#endif
