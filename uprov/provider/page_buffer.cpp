/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "page_buffer.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

#include "ibverbs_private.hpp"

namespace sirdma
{

PageBuffer::PageBuffer(PageBuffer &&other) noexcept
	: base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)),
	  in_children_(other.in_children_), domain_(other.domain_), kind_(other.kind_)
{
}

PageBuffer &PageBuffer::operator=(PageBuffer &&other) noexcept
{
	if (this != &other) {
		reset();
		base_ = std::exchange(other.base_, nullptr);
		size_ = std::exchange(other.size_, 0);
		in_children_ = other.in_children_;
		domain_ = other.domain_;
		kind_ = other.kind_;
	}
	return *this;
}

PageBuffer::~PageBuffer()
{
	reset();
}

void PageBuffer::reset() noexcept
{
	if (!base_)
		return;
	if (domain_) {
		const int err = errno;

		domain_->rings.free(&domain_->base, domain_->rings.context, base_,
				    static_cast<uint64_t>(kind_));
		domain_->users.fetch_sub(1);
		errno = err; /* callers have set it for a call that failed */
	} else {
		if (in_children_ == InChildren::nothing)
			ibv_dofork_range(base_, size_);
		munmap(base_, size_);
	}
	base_ = nullptr;
	size_ = 0;
}

uint8_t *PageBuffer::release() noexcept
{
	size_ = 0;
	return std::exchange(base_, nullptr);
}

PageBuffer PageBuffer::adopt(void *base, size_t bytes, InChildren in_children) noexcept
{
	return PageBuffer(static_cast<uint8_t *>(base), bytes, in_children);
}

PageBuffer PageBuffer::map(int fd, off_t offset, size_t bytes, int flags,
			   InChildren in_children) noexcept
{
	const size_t size = round_to_pages(bytes);
	void *base = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, offset);

	if (base == MAP_FAILED)
		return {};
	if (const int err = in_children == InChildren::nothing ? ibv_dontfork_range(base, size) :
								 0) {
		munmap(base, size);
		errno = err > 0 ? err : ENOMEM;
		return {};
	}
	return PageBuffer(static_cast<uint8_t *>(base), size, in_children);
}

PageBuffer PageBuffer::anonymous(size_t bytes, InChildren in_children) noexcept
{
	return map(-1, 0, bytes, MAP_PRIVATE | MAP_ANONYMOUS, in_children);
}

PageBuffer PageBuffer::ring(Pd *domain, RingKind kind, size_t bytes,
			    InChildren in_children) noexcept
{
	if (!domain || !domain->rings.alloc)
		return anonymous(bytes, in_children);

	const size_t size = round_to_pages(bytes);
	void *base = domain->rings.alloc(&domain->base, domain->rings.context, size, hw_page_size,
					 static_cast<uint64_t>(kind));

	if (base == IBV_ALLOCATOR_USE_DEFAULT)
		return anonymous(bytes, in_children);
	if (!base) {
		errno = ENOMEM;
		return {};
	}

	PageBuffer buffer(static_cast<uint8_t *>(base), size, InChildren::copy);

	buffer.domain_ = domain;
	buffer.kind_ = kind;
	domain->users.fetch_add(1);
	if (reinterpret_cast<uintptr_t>(base) % hw_page_size) {
		buffer = {};
		errno = EINVAL;
	} else {
		memset(base, 0, size);
	}
	return buffer;
}

PageBuffer PageBuffer::device(int fd, off_t offset, size_t bytes, InChildren in_children) noexcept
{
	return map(fd, offset, bytes, MAP_SHARED, in_children);
}

} // namespace sirdma
