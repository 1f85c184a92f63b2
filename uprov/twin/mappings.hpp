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

	/* Is the region mapped, or may map_once() map it? Any thread. */
	bool may_have(const AccessView::Found &region) noexcept;
	/*
	 * Map the region if it is not mapped, and was not found unmappable. Regions that are closed in @view make
	 * room. Returns true if it is mapped now and was not before. These are some system calls: the caller
	 * holds no lock. Any thread.
	 */
	bool map_once(const AccessView &view, const AccessView::Found &region) noexcept;
	/* Unmap regions that are closed in @view. Returns how many are mapped. Any thread. */
	size_t sweep(const AccessView &view) noexcept;

private:
	/* A mapping. */
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

	struct alignas(64) Slot {
		std::atomic<uint64_t> number{0}; /* 0: none */
		std::atomic<u32> users{0};
		/* Null: it cannot be mapped. Whoever is no user has only a hint. */
		std::atomic<uint8_t *> region{nullptr};
		Pages pages;
		uint64_t length = 0; /* of the region as it was mapped */
		u32 stag = 0;
		bool writable = false;
	};

	Slot *find(const AccessView::Found &region) noexcept;
	Slot *room(const AccessView &view, u32 stag, Pages &gone) noexcept;
	Slot *reserve(const AccessView &view, u32 stag, uint64_t &bytes_left) noexcept;
	Fd fetch(const SharedFile &what, uint64_t end) const noexcept;
	Pages map(const AccessView::Found &region, uint64_t bytes_left) const noexcept;
	void publish(Slot &slot, const AccessView::Found &region, Pages pages) noexcept;
	bool take_out(Slot &slot, Pages &gone) noexcept;
	void put(Slot &slot) noexcept;
	static bool is_open(const AccessView &view, const Slot &slot) noexcept;

	/* Slots in which the region may be. */
	static constexpr size_t ways = 4;
	static_assert(count_max % ways == 0);

	using Slots = std::array<Slot, count_max>;

	/* Null until attach(): most connections have no use for it, and it is 4 KiB. */
	std::unique_ptr<Slots> slots_;
	std::mutex map_lock_; /* one thread maps */
	std::mutex
		lock_; /* protects changes of the slots, and bytes_; no system call is made under it */
	uint64_t bytes_ = 0;
	/* Not changed once there are regions. */
	Fd process_;
	pid_t pid_ = 0;

public:
	/*
	 * @len bytes at the offset in the region, while this exists; null if they are not mapped, or not for
	 * writing. What the table says may have changed since the region was mapped.
	 */
	class Use {
	public:
		Use(Mappings &all, const AccessView::Found &region, u32 len, bool write) noexcept;
		~Use();
		Use(const Use &) = delete;
		Use &operator=(const Use &) = delete;
		uint8_t *memory() const noexcept { return memory_; }

	private:
		Mappings &all_;
		Slot *slot_;
		uint8_t *memory_ = nullptr;
	};
};

} // namespace sirdma::twin
