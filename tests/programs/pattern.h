/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Random numbers, and data that its seed determines, for the programs of this folder. */
#ifndef PATTERN_H
#define PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 0 to BELOW - 1, by xorshift64*. *state is not 0. */
static inline uint64_t random_below(uint64_t *state, uint64_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 0x2545f4914f6cdd1dull >> 16) % below;
}

/* The eight bytes from INDEX on, a multiple of 8, of the data of SEED. */
static inline uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	uint64_t x = (seed * 0x9e3779b97f4a7c15ull + index) * 0xbf58476d1ce4e5b9ull;

	return x ^ x >> 31;
}

static inline void pattern_fill(uint8_t *to, uint64_t seed, size_t length)
{
	for (size_t i = 0; i < length; i += 8) {
		uint64_t x = pattern_word(seed, i);
		memcpy(to + i, &x, length - i < 8 ? length - i : 8);
	}
}

#endif
