/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory in pages: ring buffers, and mappings of the device file.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

#include <sirdma/bits.h>

#include "pd.hpp"

namespace sirdma
{

inline constexpr size_t hw_page_size = SIRDMA_PAGE_SIZE;

/* @bytes rounded up to whole device pages. */
constexpr size_t round_to_pages(size_t bytes) noexcept
{
	return (bytes + hw_page_size - 1) & ~(hw_page_size - 1);
}

/* The part of the memory that a forked child gets if the application asked for fork safety. */
enum class InChildren : uint8_t { nothing, copy };

class PageBuffer {
public:
	PageBuffer() noexcept = default;
	~PageBuffer();
	PageBuffer(PageBuffer &&other) noexcept;
	PageBuffer &operator=(PageBuffer &&other) noexcept;

	/* Zeroed anonymous memory. It is empty, with errno set, if there is none. */
	static PageBuffer anonymous(size_t bytes, InChildren in_children) noexcept;
	/*
	 * The same from the allocator of @domain. Without a domain or an allocator, or if that one
	 * asks for it, it is anonymous(). The application protects its memory from fork() itself.
	 */
	static PageBuffer ring(Pd *domain, RingKind kind, size_t bytes,
			       InChildren in_children) noexcept;
	/*
	 * Map @bytes of @fd at @offset, shared with the kernel. The result is empty, with errno
	 * set, on failure.
	 */
	static PageBuffer device(int fd, off_t offset, size_t bytes,
				 InChildren in_children) noexcept;

	explicit operator bool() const noexcept { return base_ != nullptr; }

	uint8_t *data() const noexcept { return base_; }

	/* Give up ownership, for storage that cannot hold a destructor. */
	uint8_t *release() noexcept;
	/* Take back memory that release() gave away. */
	static PageBuffer adopt(void *base, size_t bytes, InChildren in_children) noexcept;

private:
	PageBuffer(uint8_t *base, size_t size, InChildren in_children) noexcept
		: base_(base), size_(size), in_children_(in_children)
	{
	}

	static PageBuffer map(int fd, off_t offset, size_t bytes, int flags,
			      InChildren in_children) noexcept;
	void reset() noexcept;

	uint8_t *base_ = nullptr;
	size_t size_ = 0;
	InChildren in_children_ = InChildren::copy;
	Pd *domain_ = nullptr; /* its allocator gave the memory; null: it was mapped */
	RingKind kind_ = RingKind::cq; /* for that allocator */
};

} // namespace sirdma
