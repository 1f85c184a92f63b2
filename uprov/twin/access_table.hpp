/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What neighbours may do to the memory of this process by themselves (one-sided access, one_sided.hpp):
 * the regions with remote rights, and the queue pairs in RTS. The device writes the table; neighbours
 * have it mapped for reading, and check their requests in it as the responder would.
 *
 * An entry is open while its number is not 0. Numbers are never used twice. A reader reads the number
 * before and after the rest of the entry, which is written while the number is 0.
 *
 *   this process                             neighbour
 *   entry.number = 0                         ++accesses (of its connection)
 *   ++waiting, ++closes        full          waiting? give up          full barrier: ++accesses
 *   accesses == 0? wait        barrier:      closes = c; entry open? else give up
 *   --waiting                  ++closes      closes still c? access memory     <- guarded_copy.hpp
 *                                            --accesses
 *
 * So once a close_*() was followed by a Closing, and accesses was 0 while that existed, no neighbour
 * uses what was closed.
 *
 * Memory that neighbours can map (shared_file.hpp) has its file in the entry: only the number that the file
 * has in this process, which is of use to those only who may attach a debugger, and what identifies it.
 *
 * A region that is registered on demand, a window, and a region whose place in the table is taken have no
 * entry; requests for them are sent. Neighbours trust none of the contents, and this process reads none.
 */
#pragma once

#include "core.hpp"
#include "fd.hpp"
#include "rendezvous.hpp"
#include "shared_file.hpp"

extern "C" {
#include "model/mr.h"
}

namespace sirdma::twin
{

/*
 * The places of regions; a region is at the index of its stag modulo this. Memory is used only for pages
 * with an entry. Stags are allocated in sequence, so a region finds its place taken only if another one has
 * lived through so many registrations, or if there are more regions.
 */
inline constexpr u32 access_regions = 16384;

inline u32 access_place(u32 stag) noexcept
{
	return (stag >> SNIC_STAG_KEY_BITS) % access_regions;
}

struct AccessHeader {
	uint64_t word_at; /* address of a word in the memory of the process */
	uint64_t word; /* its value, which shows that the memory is of this process */
	alignas(64) std::atomic<uint64_t> closes; /* how often entries were closed */
	std::atomic<uint32_t> waiting; /* threads that wait for accesses to end */
	std::atomic<uint32_t> any_mappable; /* neighbours can, or could, map some region: a hint */
	alignas(64) std::atomic<uint32_t> polled; /* the process receives by polling */
};

struct AccessQp {
	std::atomic<uint64_t> number;
	std::atomic<uint32_t> pd;
	std::atomic<uint32_t> rights; /* SIRDMA_ACCESS_REMOTE_* */
};

struct AccessRegion {
	alignas(64) std::atomic<uint64_t> number;
	std::atomic<uint64_t> base; /* first address as requests name it */
	std::atomic<uint64_t> length;
	std::atomic<uint64_t> start; /* first address in the process */
	std::atomic<uint32_t> stag;
	std::atomic<uint32_t> pd;
	std::atomic<uint32_t> rights;
	/* SharedFile: the memory as others can map it */
	std::atomic<int32_t> file;
	alignas(64) std::atomic<uint64_t> file_offset;
	std::atomic<uint64_t> file_device;
	std::atomic<uint64_t> file_inode;
};

struct AccessMap {
	AccessHeader header;
	alignas(4096) AccessQp qps[qpns_per_slot]; /* by their place in the slot */
	alignas(4096) AccessRegion regions[access_regions];
};

static_assert(sizeof(AccessMap) % 4096 == 0 && std::atomic<uint64_t>::is_always_lock_free);

/* The table of this process. Any thread may call the functions. */
class AccessTable {
public:
	/* @first_qpn: the first queue pair of the device. Returns null with errno. */
	static std::unique_ptr<AccessTable> create(u32 first_qpn) noexcept;
	~AccessTable();
	AccessTable(const AccessTable &) = delete;
	AccessTable &operator=(const AccessTable &) = delete;

	/* The file, for neighbours: they can only read it. */
	int fd() const noexcept { return file_.get(); }

	struct Region {
		u32 stag;
		u32 pd;
		u32 rights;
		uint64_t base;
		uint64_t length;
		uint64_t start;
		SharedFile file{};
	};
	void open_region(const Region &region) noexcept;
	/*
	 * Returns false if there was no entry. Else a Closing has to follow. @mappable: neighbours may have
	 * mapped the region.
	 */
	bool close_region(u32 stag, bool &mappable) noexcept;
	/* One thread at a time opens and closes a queue pair. */
	void open_qp(u32 qpn, u32 pd, u32 rights) noexcept;
	bool close_qp(u32 qpn) noexcept;
	/* The queue pair has failed: it stays closed until close_qp() and open_qp(). */
	void fail_qp(u32 qpn) noexcept;

	/* Exists while a thread waits for accesses that began before it. */
	class Closing {
	public:
		explicit Closing(AccessTable &table) noexcept : header_(table.map_->header)
		{
			header_.waiting.fetch_add(1);
			/* Partner: Access::InProgress. */
			number_ = header_.closes.fetch_add(1) + 1;
		}
		/* Of later ones the number is higher. */
		uint64_t number() const noexcept { return number_; }
		~Closing() { header_.waiting.fetch_sub(1); }
		Closing(const Closing &) = delete;
		Closing &operator=(const Closing &) = delete;

	private:
		AccessHeader &header_;
		uint64_t number_;
	};

	/* Close everything for good. A Closing has to follow. */
	void shut() noexcept { map_->header.waiting.fetch_add(1); }

	/* A poll found nothing: packets are received soon, and cost neighbours less than accesses. */
	void note_poll() noexcept
	{
		if (!map_->header.polled.load(std::memory_order_relaxed)) [[unlikely]]
			map_->header.polled.store(1, std::memory_order_relaxed);
	}
	/* The process does not poll. */
	void note_no_poll() noexcept { map_->header.polled.store(0, std::memory_order_relaxed); }

private:
	AccessTable(Fd file, AccessMap *map, u32 first_qpn) noexcept;

	AccessQp *qp(u32 qpn) noexcept;
	AccessRegion &region(u32 stag) noexcept;
	uint64_t next_number() noexcept { return number_.fetch_add(1) + 1; }

	Fd file_;
	AccessMap *const map_;
	const u32 first_qpn_;
	const uint64_t word_; /* see AccessHeader */
	std::atomic<uint64_t> number_;
	std::mutex regions_lock_; /* one thread at a time opens or closes a region */
	std::array<std::atomic<bool>, qpns_per_slot> failed_{};
};

/* The table of another process. Any thread may call the functions. */
class AccessView {
public:
	AccessView() noexcept = default;
	~AccessView();
	AccessView(const AccessView &) = delete;
	AccessView &operator=(const AccessView &) = delete;

	/* Returns false if @file is no table. */
	bool map(int file) noexcept;
	explicit operator bool() const noexcept { return map_; }
	const AccessHeader &header() const noexcept { return map_->header; }

	struct Request {
		u32 qpn;
		u32 rkey;
		uint64_t va;
		u32 len; /* not 0 */
		u32 right; /* SIRDMA_ACCESS_REMOTE_*, that the request needs */
	};
	struct Found {
		uint64_t at; /* address in the process */
		uint64_t qp_number; /* of the queue pair's entry */
		/* The region's entry. The contents are what the process says. */
		uint64_t number;
		u32 stag;
		u32 rights;
		uint64_t offset; /* of the request in the region */
		uint64_t length; /* of the region */
		SharedFile file;
	};
	/* Would the responder accept @request? Of the file, @found has the descriptor only. */
	bool check(const Request &request, Found &found) const noexcept;
	/* Are both entries that check() found for queue pair @qpn still those? */
	bool is_current(u32 qpn, const Found &found) const noexcept
	{
		return qp(qpn).number.load(std::memory_order_acquire) == found.qp_number &&
		       region_number(found.stag) == found.number;
	}
	/* Complete the file of a region that check() found. Returns false if the region is closed. */
	bool read_file(Found &found) const noexcept;
	/* The number of the entry in which the region is, or another one. */
	uint64_t region_number(u32 stag) const noexcept
	{
		return map_->regions[access_place(stag)].number.load(std::memory_order_acquire);
	}

private:
	const AccessQp &qp(u32 qpn) const noexcept
	{
		return map_->qps[(qpn - first_qpn_of(slot_of(qpn))) % qpns_per_slot];
	}

	const AccessMap *map_ = nullptr;
};

} // namespace sirdma::twin
