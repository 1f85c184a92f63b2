/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A ring of records between two processes: one writes, one reads, neither ever
 * waits for the other or holds what the other needs, so either may die at any
 * instruction. The data area is mapped twice in a row: a record is contiguous.
 *
 * A record's first word says that it is there. The writer clears the word after
 * the record before it sets the record's own: the reader needs no index of the
 * writer's, and a small record travels in one cache line. Records that are written
 * together are shown together, the first one last, so that the two sides do not
 * fight for each line. The reader believes nothing but that the memory exists (it
 * is sealed): words are read once, and lengths checked.
 */
#pragma once

#include <cstddef>
#include <cstdint>

#include "core.hpp"

namespace sirdma::twin
{

/* Words both sides use; each line is written by one side, but for the flag in it. */
struct RingControl {
	alignas(64) std::atomic<uint64_t> head{0}; /* bytes the reader is done with */
	std::atomic<uint32_t> asleep{0}; /* the reader set it: wake me */
	alignas(64) std::atomic<uint32_t> full{0}; /* the writer waits for room */
	/* Seldom changed, and for those who use the ring to give a meaning to. */
	alignas(64) std::atomic<uint32_t> takes{0}; /* kinds of records, by the reader */
	std::atomic<uint64_t> lease_at{0}; /* where the writer's memory has the number, too */
	std::atomic<uint64_t> lease{0}; /* number of the lease that holds, by the writer */
	std::atomic<uint32_t> reading{0}; /* the writer's memory is being read, by the reader */
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

inline constexpr size_t ring_bytes = 256 << 10;
inline constexpr size_t ring_align = 64;
inline constexpr size_t ring_record_max = ring_bytes / 2;

/* What a record begins with. */
struct RecordHead {
	uint32_t len; /* bytes that follow the head; not 0 */
	uint16_t kind;
	uint16_t flags;
};

static_assert(sizeof(RecordHead) == sizeof(uint64_t));

/* Bytes of ring a record of @len bytes takes. */
constexpr size_t record_size(size_t len) noexcept
{
	return (sizeof(RecordHead) + len + ring_align - 1) & ~(ring_align - 1);
}

class RingWriter {
public:
	RingWriter() noexcept = default;
	RingWriter(RingControl *control, uint8_t *data) noexcept : control_(control), data_(data) {}

	/* Room for a record of @len bytes (at most ring_record_max), or null. */
	uint8_t *reserve(size_t len) noexcept
	{
		/* The next record's head must be free as well. */
		const size_t need = record_size(len) + ring_align;

		if (tail_ + need - head_ > ring_bytes && !look_for_room(need)) [[unlikely]]
			return nullptr;
		return at(tail_) + sizeof(RecordHead);
	}

	/* The record reserved last is complete, and seen at the next publish(). */
	void commit(RecordHead head) noexcept
	{
		uint64_t word;

		memcpy(&word, &head, sizeof(word));
		if (tail_ == shown_)
			first_ = word;
		else
			word_at(tail_).store(word, std::memory_order_relaxed);
		tail_ += record_size(head.len);
	}

	/* Bytes of ring committed and not published. */
	size_t unpublished() const noexcept { return tail_ - shown_; }

	void publish() noexcept
	{
		if (tail_ == shown_)
			return;
		word_at(tail_).store(0, std::memory_order_relaxed);
		/* Partner: RingReader::peek(). */
		word_at(shown_).store(first_, std::memory_order_release);
		shown_ = tail_;
	}

	/* Say that room is wanted; true when some came meanwhile. Partner: RingReader::release(). */
	bool want_room(size_t len) noexcept
	{
		control_->full.store(1);
		smp_mb();
		return reserve(len) != nullptr;
	}

	/* After publish(): must the reader be woken? Partner: RingReader::fall_asleep(). */
	bool must_wake() noexcept
	{
		smp_mb();
		return control_->asleep.load(std::memory_order_relaxed) &&
		       control_->asleep.exchange(0);
	}

	/* See RingControl. */
	uint32_t takes() const noexcept { return control_->takes.load(std::memory_order_relaxed); }
	/* Where the next record begins. */
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

		/* The reader can be no further than we are, and never goes back. */
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
	uint64_t shown_ = 0; /* up to here records are published */
	uint64_t first_ = 0; /* head word of the record there */
	uint64_t head_ = 0; /* the reader's, as last seen */
	bool broken_ = false;
};

class RingReader {
public:
	RingReader() noexcept = default;
	RingReader(RingControl *control, uint8_t *data) noexcept : control_(control), data_(data) {}

	/* The next record, or null. Its bytes may change under the reader: copy, then check. */
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
		return at(head_) + sizeof(RecordHead);
	}

	/* See RingControl. */
	void set_takes(uint32_t kinds) noexcept { control_->takes.store(kinds); }
	bool waiting() const noexcept
	{
		return !broken_ && word_at(head_).load(std::memory_order_acquire);
	}

	/* Done with the record peeked at. */
	void next() noexcept { head_ += size_; }

	/*
	 * Give the room of what was read back; true when the writer waits for it and
	 * must be told.
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

	/* Bytes read and not yet given back. */
	size_t unreleased() const noexcept { return head_ - released_; }

	/* About to sleep: false when there is a record after all. */
	bool fall_asleep() noexcept
	{
		control_->asleep.store(1);
		smp_mb();
		return !waiting();
	}

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

/* Memory of two rings, one each way, as it is handed from process to process. */
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

	/* New, sealed memory and its file, which the caller closes; empty with errno. */
	static RingPair create(int &fd) noexcept;
	/* A file from elsewhere: empty with errno when its size could change under us. */
	static RingPair map(int fd) noexcept;

	/* Who created the pair writes to ring 0 and reads ring 1. */
	RingWriter writer(unsigned ring) const noexcept;
	RingReader reader(unsigned ring) const noexcept;
	RingControl &control(unsigned ring) const noexcept;

private:
	explicit RingPair(uint8_t *base) noexcept : base_(base) {}

	uint8_t *data(unsigned ring) const noexcept;

	uint8_t *base_ = nullptr;
};

} // namespace sirdma::twin
