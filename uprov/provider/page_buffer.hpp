/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory in pages: ring buffers, and mappings of the device file.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

#include <sirdma/bits.h>

namespace sirdma
{

inline constexpr size_t hw_page_size = SIRDMA_PAGE_SIZE;

/* @bytes rounded up to whole device pages. */
constexpr size_t round_to_pages(size_t bytes) noexcept
{
	return (bytes + hw_page_size - 1) & ~(hw_page_size - 1);
}

/* What a forked child gets of the memory if the application asked for fork safety. */
enum class InChildren : uint8_t { nothing, copy };

class PageBuffer {
public:
	PageBuffer() noexcept = default;
	~PageBuffer();
	PageBuffer(PageBuffer &&other) noexcept;
	PageBuffer &operator=(PageBuffer &&other) noexcept;

	/* Zeroed anonymous memory; empty with errno set when there is none. */
	static PageBuffer anonymous(size_t bytes, InChildren in_children) noexcept;
	/* @bytes of @fd at @offset, shared with the kernel; empty with errno set on failure. */
	static PageBuffer device(int fd, off_t offset, size_t bytes,
				 InChildren in_children) noexcept;

	explicit operator bool() const noexcept { return base_ != nullptr; }

	uint8_t *data() const noexcept { return base_; }

	/* Give up ownership, for storage that cannot hold a destructor. */
	uint8_t *release() noexcept;
	/* Take back what release() gave away. */
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
};

} // namespace sirdma
