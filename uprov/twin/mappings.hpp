/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions of one other process that this process has mapped (shared_file.hpp), by the numbers of their
 * entries in the access table. A region is mapped when it is used for the first time.
 */
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "access_table.hpp"
#include "shared_file.hpp"

namespace sirdma::twin
{

class Mappings {
public:
	/*
	 * Regions of a process that are mapped at a time, and their bytes: the page tables of so many take
	 * 8 MiB. Others are reached by the kernel.
	 */
	static constexpr size_t count_max = 64;
	static constexpr uint64_t bytes_max = 4ull << 30;

	Mappings() noexcept = default;
	Mappings(const Mappings &) = delete;
	Mappings &operator=(const Mappings &) = delete;

	/*
	 * The process, @pid, is a process that has sent its table. The caller verifies after this call that
	 * the number was not another's before it, and calls is_alive() then.
	 */
	void attach(pid_t pid) noexcept;
	bool is_alive() const noexcept;
	/* Map nothing of it. */
	void detach() noexcept { process_.reset(); }

	/* Pages of the process, mapped here. */
	class Pages {
	public:
		Pages() noexcept = default;
		Pages(void *at, size_t bytes) noexcept
			: at_(static_cast<uint8_t *>(at)), bytes_(bytes)
		{
		}
		Pages(Pages &&from) noexcept { *this = std::move(from); }
		Pages &operator=(Pages &&from) noexcept
		{
			std::swap(at_, from.at_);
			std::swap(bytes_, from.bytes_);
			return *this;
		}
		~Pages();
		explicit operator bool() const noexcept { return at_; }
		uint8_t *at() const noexcept { return at_; }
		size_t bytes() const noexcept { return bytes_; }

	private:
		uint8_t *at_ = nullptr;
		size_t bytes_ = 0;
	};

	/* A region that map_once() has tried to map. It does not change while it can be found. */
	class alignas(64) Mapping {
	public:
		Mapping(const AccessView::Found &region, Pages pages) noexcept;
		/* Is it mapped? */
		explicit operator bool() const noexcept { return at_; }
		/*
		 * @len bytes at the offset in @region; null if they are not mapped, or not for writing. What
		 * the table says may have changed since the region was mapped.
		 */
		uint8_t *memory(const AccessView::Found &region, u32 len, bool write) const noexcept
		{
			return at_ && (writable_ || !write) && region.offset <= length_ &&
					       len <= length_ - region.offset ?
				       at_ + region.offset :
				       nullptr;
		}

	private:
		friend Mappings;

		const uint64_t number_; /* of the region's entry */
		const u32 stag_;
		const bool writable_;
		const uint64_t length_; /* of the region as it was mapped */
		const Pages pages_; /* none: the region cannot be mapped */
		uint8_t *const at_; /* its first byte, or null */
		/* Of a retired one: port_rcu_mark() after it was retired, 0 until then */
		u64 mark_ = 0;
		std::unique_ptr<Mapping> next_;
	};

	/* May map_once() map anything? */
	bool can_map() const noexcept { return static_cast<bool>(process_); }
	/* Null: map_once() has not tried to map the region. The caller holds a guard as long as it uses the mapping. */
	const Mapping *find(const AccessView::Found &region) const noexcept
	{
		const size_t first = first_slot(region.stag);

		if (!slots_)
			return nullptr;
		for (size_t i = first; i < first + ways; ++i) {
			const Mapping *const m = (*slots_)[i].load(std::memory_order_acquire);

			if (m && m->number_ == region.number)
				return m;
		}
		return nullptr;
	}
	/*
	 * Map the region if it is not mapped, and was not found unmappable. Regions that are closed in @view make
	 * room. Returns true if it is mapped now and was not before. These are some system calls: the caller
	 * holds no lock. Any thread.
	 */
	bool map_once(const AccessView &view, const AccessView::Found &region) noexcept;
	/*
	 * Unmap regions that are closed in @view, except for those that a thread may still be using: a later call
	 * unmaps these. Returns how many are mapped. Any thread.
	 */
	size_t sweep(const AccessView &view) noexcept;
	/* Has the last call left some of these? */
	bool retired_any() const noexcept { return any_retired_.load(std::memory_order_relaxed); }

private:
	using Slot = std::atomic<Mapping *>;

	/* Slots in which the region may be. */
	static constexpr size_t ways = 4;
	static_assert(count_max % ways == 0);

	struct Slots : std::array<Slot, count_max> {
		~Slots();
	};

	static size_t first_slot(u32 stag) noexcept
	{
		return (stag >> SNIC_STAG_KEY_BITS) * ways % count_max;
	}
	bool was_tried(const AccessView::Found &region) const noexcept;
	Slot *room(const AccessView &view, u32 stag, uint64_t &bytes_left) noexcept;
	Fd fetch(const SharedFile &what, uint64_t end) const noexcept;
	Pages map(const AccessView::Found &region, uint64_t bytes_left) const noexcept;
	void retire(Slot &slot) noexcept;
	std::unique_ptr<Mapping> take_passed() noexcept;
	size_t count_retired() const noexcept;
	static bool is_open(const AccessView &view, const Mapping &mapping) noexcept;

	/* Null until attach(): most connections have no use for it. */
	std::unique_ptr<Slots> slots_;
	std::mutex map_lock_; /* one thread maps, and fills slots */
	/* Protects the emptying of slots and the members below. No memory is unmapped under it. */
	std::mutex lock_;
	uint64_t bytes_ = 0; /* that are mapped */
	std::unique_ptr<Mapping> retired_; /* out of their slots; some thread may use them */
	std::atomic<bool> any_retired_{false};
	/* Not changed once there are regions. */
	Fd process_;
	pid_t pid_ = 0;
};

} // namespace sirdma::twin
