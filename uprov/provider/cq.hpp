/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <memory>
#include <mutex>

#include "completion_queue.hpp"
#include "context.hpp"
#include "mr.hpp"
#include "page_buffer.hpp"

namespace sirdma
{

/* The verbs object must come first: libibverbs hands out its address. */
struct CqBase {
	union {
		ibv_cq_ex ex;
		ibv_cq cq;
	};
};

class Cq : public CqBase {
public:
	/* Ring of @size elements for @cqe completions; null with errno set. */
	static Cq *create(Context &context, const ibv_cq_init_attr_ex &attr, bool locked) noexcept;

	static Cq &of(ibv_cq *cq) noexcept
	{
		return *static_cast<Cq *>(reinterpret_cast<CqBase *>(cq));
	}

	static Cq &of(ibv_cq_ex *cq) noexcept
	{
		return *static_cast<Cq *>(reinterpret_cast<CqBase *>(cq));
	}

	~Cq();

	CompletionQueue &queue() noexcept { return queue_; }

	/* Make room for @cqe completions. Returns 0 or an errno. */
	int resize(Context &context, uint32_t cqe) noexcept;

	/* Install the extended poll. @wc_flags names the fields that are read. */
	void enable_extended_poll(uint64_t wc_flags) noexcept;

	/* The current completion of the extended poll. */
	Completion current{};

	/* The time of day at which @current was written, in ns. */
	uint64_t wallclock() noexcept;

private:
	Cq(PageBuffer ring, PageBuffer shadow, sirdma_cq_shadow *shadow_area, uint32_t size,
	   bool locked) noexcept;
	int register_memory(Context &context) noexcept;
	int compare_clocks() noexcept;
	int create_in_kernel(Context &context, const ibv_cq_init_attr_ex &attr) noexcept;

	/*
	 * Destroyed in reverse order: registrations before their memory. resize() replaces the
	 * ring's.
	 */
	PageBuffer ring_;
	PageBuffer shadow_; /* empty if the shadow area follows the ring */
	sirdma_cq_shadow *shadow_area_;
	CompletionQueue queue_;
	std::unique_ptr<RingRegistration> ring_registration_;
	RingRegistration shadow_registration_;
	std::mutex resizing_;
	Pd *domain_ =
		nullptr; /* its allocator gives the memory of rings; the CQ counts as its user */
	uint64_t wall_offset_ = 0; /* offset of the time of day from the device's clock */
	uint64_t compared_ = 0; /* time of the last comparison, by CLOCK_BOOTTIME; 0: never */
};

} // namespace sirdma
