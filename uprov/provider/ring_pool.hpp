/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory for the rings of small queue pairs. Pages are registered in chunks (SIRDMA_MEMREG_POOL),
 * and each page serves several queue pairs.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "page_buffer.hpp"

namespace sirdma
{

struct Context;
struct RingChunk;

/* Memory of one queue pair in a pool, within a page. It goes back to the pool with this object. */
class PooledRings {
public:
	PooledRings() noexcept = default;
	PooledRings(PooledRings &&other) noexcept;
	PooledRings &operator=(PooledRings &&other) noexcept;
	~PooledRings();

	explicit operator bool() const noexcept { return base_ != nullptr; }

	uint8_t *data() const noexcept { return base_; }

private:
	friend class RingPool;

	PooledRings(RingChunk &chunk, uint8_t *base, size_t bytes) noexcept
		: chunk_(&chunk), base_(base), bytes_(bytes)
	{
	}

	RingChunk *chunk_ = nullptr;
	uint8_t *base_ = nullptr;
	size_t bytes_ = 0;
};

class RingPool {
public:
	explicit RingPool(Context &context) noexcept : context_(context) {}
	RingPool(const RingPool &) = delete;
	RingPool &operator=(const RingPool &) = delete;
	/* All queue pairs are gone. */
	~RingPool();

	/* Zeroed memory of @bytes, at most a page. It is empty, with errno set, if there is none. */
	PooledRings take(size_t bytes) noexcept;

private:
	friend class PooledRings;

	RingChunk *grow() noexcept;
	RingChunk *grow_by(size_t pages) noexcept;
	void give(RingChunk &chunk, const uint8_t *base, size_t bytes) noexcept;
	void release(RingChunk &chunk) noexcept;

	Context &context_;
	std::mutex lock_; /* protects the chunks */
	RingChunk *chunks_ = nullptr; /* the newest first */
	RingChunk *spare_ = nullptr; /* the chunk that nothing is taken from */
	size_t pages_ = 0; /* of all chunks */
};

} // namespace sirdma
