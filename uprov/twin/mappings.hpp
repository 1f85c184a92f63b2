/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions of one other process that this process has mapped (shared_file.hpp), by the numbers of their
 * entries in the access table. A region is mapped when it is used for the first time.
 */
#pragma once

#include <mutex>

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
	~Mappings();
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

	/*
	 * Is the region mapped, or can it be? Regions that are closed in @view make room. If @fresh is set it
	 * was not mapped before. Any thread.
	 */
	bool has(const AccessView &view, const AccessView::Found &region, bool &fresh) noexcept;
	/* Unmap regions that are closed in @view. Returns how many are mapped. Any thread. */
	size_t sweep(const AccessView &view) noexcept;

private:
	struct Slot {
		std::atomic<uint64_t> number{0}; /* 0: none */
		std::atomic<u32> users{0};
		/* Null: it cannot be mapped. Whoever is no user has only a hint. */
		std::atomic<uint8_t *> region{nullptr};
		uint8_t *pages = nullptr;
		size_t bytes = 0;
		uint64_t length = 0; /* of the region as it was mapped */
		u32 stag = 0;
		bool writable = false;
	};

	Slot *find(const AccessView::Found &region) noexcept;
	Slot *room(const AccessView &view, u32 stag) noexcept;
	Fd fetch(const SharedFile &what, uint64_t end) const noexcept;
	void map(Slot &slot, const AccessView::Found &region) noexcept;
	bool unmap(Slot &slot) noexcept;
	void put(Slot &slot) noexcept;
	static bool is_open(const AccessView &view, const Slot &slot) noexcept;

	/* Slots in which the region may be. */
	static constexpr size_t ways = 4;
	static_assert(count_max % ways == 0);

	std::array<Slot, count_max> slots_;
	std::mutex lock_; /* protects changes of the slots, and the members below */
	uint64_t bytes_ = 0;
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
