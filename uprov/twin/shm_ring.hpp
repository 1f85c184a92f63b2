/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A ring of records between two processes, a writer and a reader. There is no lock and neither
 * waits for the other, so either may die at any instruction. The data area is mapped twice in
 * a row, so that each record is contiguous.
 *
 * The first word of a record, its head, shows that it is valid. Before the writer sets it, it
 * clears the word after the record. So the reader needs no index of the writer, and a small
 * record takes one cache line. Records that are written together are published together: the
 * head of the first one is set last, so that the two sides do not contend for each cache line.
 * The reader trusts only the size of the memory (it is sealed): it reads each word once, and
 * checks lengths.
 */
#pragma once

#include <cstddef>
#include <cstdint>

#include "ring_copy.hpp"

extern "C" {
#include "model/frame.h"
}

namespace sirdma::twin
{

/* Words that both sides use. Each cache line is written by one side, except for its flag. */
struct RingControl {
	alignas(64) std::atomic<uint64_t> head{0}; /* bytes that the reader has released */
	std::atomic<uint32_t> asleep{0}; /* set by the reader: it sleeps and must be woken */
	alignas(64) std::atomic<uint32_t> full{0}; /* set by the writer: it waits for room */
	/* threads of the writer that access the reader's memory (access_table.hpp) */
	alignas(64) std::atomic<uint32_t> accesses{0};
	/* These words seldom change. The users of the ring define their meaning. */
	alignas(64) std::atomic<uint32_t> takes{0}; /* kinds of records that the reader accepts */
	std::atomic<uint64_t> lease_at{0}; /* address of the lease number in the writer's memory */
	std::atomic<uint64_t> lease{0}; /* current lease number, set by the writer */
	std::atomic<uint32_t> grants{0}; /* set by the reader: the writer may access its memory */
	std::atomic<uint32_t> copy_cost{0}; /* set by the writer, see RingCopy::cost() */
	/* set by the writer: it has mapped regions of the reader, which wakes it when it closes one */
	std::atomic<uint32_t> mappings{0};
	/* set by the reader while it reads the writer's memory */
	alignas(64) std::atomic<uint32_t> reading{0};
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

/*
 * A ring holds two windows of a QP (window_bytes in nic.cpp). Both rings of a connection fit a cache
 * of the second level (512 KiB and more today). The size was not tuned.
 */
inline constexpr size_t ring_bytes = 256 << 10;
inline constexpr size_t ring_align = 64;
/* Bytes of a page. */
inline constexpr size_t ring_page = 4096;
/*
 * A reader that makes no progress for this long is stopped: packets to it are dropped, and it gets no
 * more references. A reader that waits for a processor gets it sooner, although 60 threads with slices
 * of 3 ms go before it; and the retries of a queue pair with the usual attributes (timeout 14, 7
 * retries: 0.5 s) do not end before.
 */
inline constexpr u64 reader_stuck_ns = 200000000;
inline constexpr size_t ring_record_max = ring_bytes / 2;

/* Head of a record. */
struct RecordHead {
	uint32_t len; /* bytes after the head; not 0 */
	uint16_t kind;
	uint16_t flags;
};

static_assert(sizeof(RecordHead) == sizeof(uint64_t));

/* Bytes that a record of @len bytes takes in the ring. */
constexpr size_t record_size(size_t len) noexcept
{
	return (sizeof(RecordHead) + len + ring_align - 1) & ~(ring_align - 1);
}

class RingWriter {
public:
	RingWriter() noexcept = default;
	RingWriter(RingControl *control, uint8_t *data) noexcept : control_(control), data_(data) {}

	/*
	 * Reserve room for a record of @len bytes (at most ring_record_max). Returns null if there
	 * is none.
	 */
	uint8_t *reserve(size_t len) noexcept
	{
		/*
		 * The head of the next record must be free as well, since this function clears it.
		 */
		const size_t need = record_size(len) + ring_align;

		if (tail_ + need - head_ > ring_bytes && !look_for_room(need)) [[unlikely]]
			return nullptr;
		return at(tail_) + sizeof(RecordHead);
	}

	/* Copy the next @len bytes of @payload into the reserved record, see RingCopy. */
	void copy(uint8_t *to, snic_seg_iter &payload, u32 len) noexcept
	{
		const u32 before = copy_.cost();

		/* New pages, whose first stores fault, say nothing of later stores. */
		if (tail_ - trimmed_ < ring_bytes) [[unlikely]] {
			snic_seg_copy(&payload, to, len);
			return;
		}
		copy_.copy(to, payload, len);
		if (copy_.cost() != before) [[unlikely]]
			control_->copy_cost.store(copy_.cost(), std::memory_order_relaxed);
	}

	/* The reserved record is complete; the next publish() makes it visible. */
	void commit(RecordHead head) noexcept
	{
		uint64_t word;

		memcpy(&word, &head, sizeof(word));
		if (tail_ == published_)
			first_ = word;
		else
			word_at(tail_).store(word, std::memory_order_relaxed);
		tail_ += record_size(head.len);
	}

	/* The number of bytes that are committed and not yet published. */
	size_t unpublished() const noexcept { return tail_ - published_; }

	void publish() noexcept
	{
		if (tail_ == published_)
			return;
		word_at(tail_).store(0, std::memory_order_relaxed);
		/* Partner: RingReader::peek(). */
		word_at(published_).store(first_, std::memory_order_release);
		published_ = tail_;
	}

	/*
	 * Ask to be woken when there is room. Returns true if there is room already. Partner:
	 * RingReader::release().
	 */
	bool want_room(size_t len) noexcept
	{
		control_->full.store(1);
		smp_mb();
		return reserve(len) != nullptr;
	}

	/*
	 * Call this after publish(), or after a release() of the other ring. Must the reader be woken? Any thread.
	 * Partner: the smp_mb() after RingReader::fall_asleep().
	 */
	bool must_wake() noexcept
	{
		smp_mb();
		return control_->asleep.load(std::memory_order_relaxed) &&
		       control_->asleep.exchange(0);
	}

	/*
	 * publish() clears the word behind a record, mostly that of the next line but one. The reader's cache has had
	 * that line since the last lap. Store to it at the end of a call, so that the next publish() does not wait.
	 * Do not touch another page: trim() gives back all but the page of the next record.
	 */
	void fetch_next_line() noexcept
	{
		const uint64_t next = tail_ + ring_align;

		if (next + ring_align - head_ <= ring_bytes && next % ring_page) [[likely]]
			word_at(next).store(0, std::memory_order_relaxed);
	}

	/*
	 * Give the memory of records that the reader has released back to the system, but not the
	 * page of the next record. Returns false if the reader has not released all records.
	 */
	bool trim() noexcept;

	/* See RingControl. */
	uint32_t takes() const noexcept { return control_->takes.load(std::memory_order_relaxed); }
	/* Position of the next record. */
	uint64_t tail() const noexcept { return tail_; }

	bool broken() const noexcept { return broken_; }

private:
	uint8_t *at(uint64_t pos) const noexcept { return data_ + (pos & (ring_bytes - 1)); }

	std::atomic_ref<uint64_t> word_at(uint64_t pos) const noexcept
	{
		return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t *>(at(pos)));
	}

	bool look_for_room(size_t need) noexcept
	{
		const uint64_t head = control_->head.load(std::memory_order_acquire);

		/* A valid head is never beyond the tail and never decreases. */
		if (head > tail_ || head < head_) {
			broken_ = true;
			return false;
		}
		head_ = head;
		return tail_ + need - head_ <= ring_bytes;
	}

	RingControl *control_ = nullptr;
	uint8_t *data_ = nullptr;
	uint64_t tail_ = 0;
	uint64_t published_ = 0; /* position up to which records are published */
	uint64_t first_ = 0; /* head of the record at that position, to be stored by publish() */
	uint64_t head_ = 0; /* position of the reader, as last read */
	uint64_t trimmed_ = 0; /* of the records before this position no page is in use */
	bool broken_ = false;
	RingCopy copy_;
};

class RingReader {
public:
	RingReader() noexcept = default;
	RingReader(RingControl *control, uint8_t *data) noexcept : control_(control), data_(data) {}

	/*
	 * The next record, or null. Its bytes may change while the reader uses them: copy, then
	 * check.
	 */
	uint8_t *peek(RecordHead &head) noexcept
	{
		const uint64_t word = word_at(head_).load(std::memory_order_acquire);

		if (!word)
			return nullptr;
		memcpy(&head, &word, sizeof(head));
		if (!head.len || head.len > ring_record_max) [[unlikely]] {
			broken_ = true;
			return nullptr;
		}
		size_ = record_size(head.len);
		/*
		 * The writer has just written to the line of the next head. To fetch it takes as long as to deliver a
		 * small record, so begin now.
		 */
		__builtin_prefetch(at(head_ + size_));
		return at(head_) + sizeof(RecordHead);
	}

	/* See RingControl. */
	u32 copy_cost() const noexcept
	{
		return control_->copy_cost.load(std::memory_order_relaxed);
	}
	void set_takes(uint32_t kinds) noexcept { control_->takes.store(kinds); }
	bool waiting() const noexcept
	{
		return !broken_ && word_at(head_).load(std::memory_order_acquire);
	}

	/* Go to the next record. */
	void next() noexcept { head_ += size_; }

	/*
	 * Return the room of the records that were read to the writer. Returns true if the writer
	 * waits for room and must be woken.
	 */
	bool release() noexcept
	{
		if (head_ == released_)
			return false;
		released_ = head_;
		control_->head.store(head_, std::memory_order_release);
		smp_mb();
		return control_->full.load(std::memory_order_relaxed) && control_->full.exchange(0);
	}

	/* The number of bytes that were read and not yet released. */
	size_t unreleased() const noexcept { return head_ - released_; }

	/*
	 * Announce that the reader will sleep. The caller executes smp_mb(), and then sleeps unless
	 * waiting(). Partner: RingWriter::must_wake().
	 */
	void fall_asleep() noexcept { control_->asleep.store(1, std::memory_order_relaxed); }

	void wake_up() noexcept
	{
		if (control_->asleep.load(std::memory_order_relaxed))
			control_->asleep.store(0, std::memory_order_relaxed);
	}

	bool broken() const noexcept { return broken_; }

private:
	uint8_t *at(uint64_t pos) const noexcept { return data_ + (pos & (ring_bytes - 1)); }

	std::atomic_ref<uint64_t> word_at(uint64_t pos) const noexcept
	{
		return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t *>(at(pos)));
	}

	RingControl *control_ = nullptr;
	uint8_t *data_ = nullptr;
	uint64_t head_ = 0;
	uint64_t released_ = 0;
	size_t size_ = 0;
	bool broken_ = false;
};

/* The shared memory of two rings, one for each direction. */
class RingPair {
public:
	RingPair() noexcept = default;
	RingPair(RingPair &&other) noexcept : base_(std::exchange(other.base_, nullptr)) {}
	RingPair &operator=(RingPair &&other) noexcept
	{
		std::swap(base_, other.base_);
		return *this;
	}
	~RingPair();

	explicit operator bool() const noexcept { return base_; }

	/*
	 * Create sealed memory. The caller closes its file @fd. The result is empty, with errno, on
	 * failure.
	 */
	static RingPair create(int &fd) noexcept;
	/*
	 * Map a file from another process. The result is empty, with errno, on failure, also if the
	 * file is not sealed: its size could change.
	 */
	static RingPair map(int fd) noexcept;

	/* The process that created the pair writes to ring 0 and reads ring 1. */
	RingWriter writer(unsigned ring) const noexcept;
	RingReader reader(unsigned ring) const noexcept;
	RingControl &control(unsigned ring) const noexcept;

private:
	explicit RingPair(uint8_t *base) noexcept : base_(base) {}

	uint8_t *data(unsigned ring) const noexcept;

	uint8_t *base_ = nullptr;
};

} // namespace sirdma::twin
