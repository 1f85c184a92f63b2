/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ring_pool.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include <sirdma/abi.h>

#include "context.hpp"
#include "mr.hpp"
#include "pd.hpp"

namespace sirdma
{

namespace
{

/* The bytes that a bit of a page's word stands for. */
constexpr size_t unit = SIRDMA_POOL_ALIGN;
constexpr size_t units_per_page = hw_page_size / unit;

static_assert(units_per_page < 32);

/*
 * A pool grows by as much as it has, so that a process with one queue pair pins one page. 16 pages
 * serve up to 64 queue pairs: what is left of a system call for each is nothing to save.
 */
constexpr size_t max_chunk_pages = 16;

constexpr uint32_t bits_of(size_t units) noexcept
{
	return (uint32_t{1} << units) - 1;
}

constexpr size_t units_of(size_t bytes) noexcept
{
	return (bytes + unit - 1) / unit;
}

/* The first of @units free units in a row; units_per_page if there are not so many. */
size_t find_room(uint32_t used, size_t units) noexcept
{
	uint32_t starts = ~used & bits_of(units_per_page);

	/* A bit stays set while the units from there on are free: as many as @covered. */
	for (size_t covered = 1; covered < units && starts;) {
		const size_t step = std::min(covered, units - covered);

		starts &= starts >> step;
		covered += step;
	}
	return starts ? static_cast<size_t>(std::countr_zero(starts)) : units_per_page;
}

} // namespace

struct RingChunk {
	RingPool &pool;
	RingChunk *next = nullptr;
	PageBuffer memory;
	RingRegistration registration; /* ends before its memory */
	size_t pages = 0;
	size_t users = 0;
	uint32_t used[max_chunk_pages] = {}; /* one bit for each unit of a page */
};

PooledRings::PooledRings(PooledRings &&other) noexcept
	: chunk_(other.chunk_), base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_)
{
}

PooledRings &PooledRings::operator=(PooledRings &&other) noexcept
{
	std::swap(chunk_, other.chunk_);
	std::swap(base_, other.base_);
	std::swap(bytes_, other.bytes_);
	return *this;
}

PooledRings::~PooledRings()
{
	if (base_)
		chunk_->pool.give(*chunk_, base_, bytes_);
}

RingPool::~RingPool()
{
	while (chunks_)
		release(*chunks_);
}

/* Returns null with errno set. The caller holds the lock. */
RingChunk *RingPool::grow_by(size_t pages) noexcept
{
	std::unique_ptr<RingChunk> chunk(new (std::nothrow) RingChunk{*this});
	const size_t bytes = pages * hw_page_size;
	sirdma_mem_reg_req what{};

	if (!chunk) {
		errno = ENOMEM;
		return nullptr;
	}
	chunk->pages = pages;
	chunk->memory = PageBuffer::anonymous(bytes, context_.commands->rings_in_children);
	if (!chunk->memory)
		return nullptr;
	what.reg_type = SIRDMA_MEMREG_POOL;
	if (const int err =
		    chunk->registration.open(&context_.pd->base, chunk->memory, bytes, what)) {
		chunk.reset(); /* do this before errno is set: it makes system calls */
		errno = err;
		return nullptr;
	}
	pages_ += pages;
	chunk->next = std::exchange(chunks_, chunk.get());
	return spare_ = chunk.release();
}

/*
 * Returns null with errno set. The caller holds the lock. Where the process may not pin a chunk of
 * the usual size (RLIMIT_MEMLOCK), one page may still be had.
 */
RingChunk *RingPool::grow() noexcept
{
	const size_t pages = std::clamp<size_t>(pages_, 1, max_chunk_pages);
	RingChunk *chunk = grow_by(pages);

	return chunk || pages == 1 ? chunk : grow_by(1);
}

/* The caller holds the lock, or is the destructor. */
void RingPool::release(RingChunk &chunk) noexcept
{
	RingChunk **at = &chunks_;

	while (*at != &chunk)
		at = &(*at)->next;
	*at = chunk.next;
	pages_ -= chunk.pages;
	delete &chunk;
}

PooledRings RingPool::take(size_t bytes) noexcept
{
	const size_t units = units_of(bytes);
	const std::lock_guard hold(lock_);
	RingChunk *chunk;
	size_t page = 0, at = units_per_page;

	for (chunk = chunks_; chunk; chunk = chunk->next) {
		for (page = 0; page < chunk->pages; page++) {
			at = find_room(chunk->used[page], units);
			if (at < units_per_page)
				break;
		}
		if (page < chunk->pages)
			break;
	}
	if (!chunk) {
		chunk = grow();
		page = at = 0;
	}
	if (!chunk)
		return {};
	chunk->used[page] |= bits_of(units) << at;
	chunk->users++;
	if (spare_ == chunk)
		spare_ = nullptr;

	uint8_t *base = chunk->memory.data() + page * hw_page_size + at * unit;

	memset(base, 0, units * unit);
	return PooledRings(*chunk, base, bytes);
}

/* One chunk without users stays, for programs that make and destroy queue pairs in turns. */
void RingPool::give(RingChunk &chunk, const uint8_t *base, size_t bytes) noexcept
{
	const auto offset = static_cast<size_t>(base - chunk.memory.data());
	const size_t page = offset / hw_page_size, at = offset % hw_page_size / unit;
	const std::lock_guard hold(lock_);

	chunk.used[page] &= ~(bits_of(units_of(bytes)) << at);
	if (--chunk.users)
		return;
	if (spare_)
		release(chunk);
	else
		spare_ = &chunk;
}

} // namespace sirdma
