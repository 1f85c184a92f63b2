/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queue: polls the ring that the device fills, without a system call.
 */
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include <infiniband/verbs.h>
#include <sirdma/decode.h>
#include <sirdma/regs.h>

#include "lock.hpp"
#include "queue_pair.hpp"

namespace sirdma
{

/* A CQE with the data of its work request. */
using Completion = sirdma_wc;

/*
 * The service level of a completion. RoCE has none. For a datagram the value says which IP header
 * the GRH is (annex A17.4.5.1 wants such a flag): 1 IPv6, 2 IPv4. mlx5 reports it so, and UCX
 * drops datagrams over IPv4 without it.
 */
inline uint8_t datagram_sl(const Completion &c) noexcept
{
	if (!(c.flags & SIRDMA_WC_HAS_GRH))
		return 0;
	return c.flags & SIRDMA_WC_IS_IPV4 ? 2 : 1;
}

class CompletionQueue {
public:
	/* @ring must be zeroed. It may have any number of elements. */
	CompletionQueue(std::span<sirdma_cqe> ring, sirdma_cq_shadow *shadow, bool locked) noexcept;

	CompletionQueue(const CompletionQueue &) = delete;
	CompletionQueue &operator=(const CompletionQueue &) = delete;

	/* @clears_arm: the device clears the bits of the arm word when it raises the event. */
	void attach(sirdma_db_page *page, uint32_t cq_id, bool clears_arm) noexcept
	{
		page_ = page;
		cq_id_ = cq_id;
		clears_arm_ = clears_arm;
	}

	/*
	 * ibv_poll_cq(): returns how many of @wcs were filled, at most @count. Where no other thread
	 * can poll, or replace the ring, an empty queue is seen without the lock.
	 */
	int poll(uint32_t count, ibv_wc *wcs) noexcept;

	/*
	 * Extended polling. begin() returns true with the queue locked if there is a completion,
	 * else false with the queue unlocked. end() unlocks the queue. Meanwhile only arm() and
	 * event_taken() do not wait.
	 */
	bool begin(Completion &completion) noexcept;
	bool next(Completion &completion) noexcept;
	void end() noexcept;

	/*
	 * Request an event for the next (solicited) completion. Returns true if the queue may hold one
	 * that came after a poll had found the queue empty, and while no event was requested: the caller
	 * then calls Commands::req_notify_cq(). Programs over UCX rely on that, as hardware does the same:
	 * they do not poll between the request and their sleep.
	 */
	bool arm(bool solicited_only) noexcept;
	/* The application read the requested event. */
	void event_taken() noexcept;

	/* @qp, number @qpn, is destroyed: ignore its remaining CQEs. */
	void forget(const QueuePair *qp, uint32_t qpn) noexcept;

	/*
	 * Completions that the device has written and the application has not read, without those
	 * that were forgotten.
	 */
	uint32_t unread() noexcept;

	/*
	 * Replace the ring. @change makes the device fill @ring, zeroed, from now on; it returns 0
	 * or an errno. Completions that the application has not read move to @kept, which is zeroed
	 * and has more elements than room_to_keep(), and are read from there first. After that the
	 * old ring is not needed any more. If @change fails, the queue stays as it is.
	 *
	 * The queue is locked from before @change: the device may write a completion into @ring at
	 * once, and until poll() and forget() know that ring they would miss it.
	 */
	template <typename Change>
	int replace_ring(std::span<sirdma_cqe> ring, std::unique_ptr<sirdma_cqe[]> kept,
			 Change change) noexcept
	{
		const std::lock_guard hold(lock_);

		if (const int err = change())
			return err;
		use_ring(ring, std::move(kept));
		return 0;
	}
	/* The maximum number of elements that are not read when the ring is replaced. */
	uint32_t room_to_keep() noexcept;

	uint32_t capacity() const noexcept { return devices_ring().size; }

private:
	enum class Arm : uint8_t { none, solicited, any };
	static constexpr uint8_t missed_ordinary = 1, missed_solicited = 2;
	static constexpr uint8_t missed_any = missed_ordinary | missed_solicited;

	/* The ring that the device fills. */
	const sirdma_cq_ring &devices_ring() const noexcept { return kept_ ? next_ring_ : ring_; }

	/* The next element. */
	const sirdma_cqe *element() const noexcept { return &ring_.ring[ring_.head]; }
	/*
	 * Has the device not written @cqe, the next element, yet? In a kept ring it always has: the last
	 * element there stays until next_ring_ takes its place.
	 */
	bool is_pending(const sirdma_cqe *cqe) const noexcept
	{
		return (get(cqe->hdr) ^ ring_.valid) & SIRDMA_CQE_VALID;
	}

	bool is_empty() const noexcept { return is_pending(element()); }

	bool take(Completion &completion) noexcept;
	bool take_next(Completion &completion) noexcept;
	/*
	 * Parts of take_next(): take_rest() for a completion that is not plain, end_of_batch() where the queue
	 * was found empty.
	 */
	bool take_rest(Completion &completion) noexcept;
	bool end_of_batch(Completion &completion) noexcept;
	bool end_of_noted_batch(Completion &completion) noexcept;
	/*
	 * Parts of poll(), which end with the queue unlocked: poll_unlocked() takes the lock,
	 * poll_locked() has it and begins with @cqe, poll_rest() polls completions of any kind.
	 */
	int poll_unlocked(uint32_t count, ibv_wc *wcs) noexcept;
	int poll_locked(uint32_t count, ibv_wc *wcs, const sirdma_cqe *cqe) noexcept;
	int poll_rest(uint32_t count, ibv_wc *wcs, uint32_t polled) noexcept;
	uint32_t poll_plain(const sirdma_cqe *cqe, uint32_t count, ibv_wc *&wcs,
			    uint32_t *upper_hdr) noexcept;
	void write_arm(Arm want) noexcept;
	Arm in_arm_word() const noexcept;
	bool may_have_unread() noexcept;
	/* True if a poll that finds the queue empty has nothing to note. */
	bool all_missed() const noexcept
	{
		return missed_.load(std::memory_order_relaxed) == missed_any;
	}
	/*
	 * A poll has found the queue empty, and still has the lock. Returns true if a completion came
	 * meanwhile.
	 */
	bool note_missed() noexcept { return !all_missed() && note_another_missed(); }
	[[gnu::noinline]] bool note_another_missed() noexcept;
	/* The device fills @ring; the queue is locked. */
	void use_ring(std::span<sirdma_cqe> ring, std::unique_ptr<sirdma_cqe[]> kept) noexcept;

	QueueLock lock_;
	sirdma_cq_ring ring_; /* the ring that poll() reads */
	/*
	 * A poll has found the queue empty while no event was requested for completions of these kinds. If
	 * one came after that, no event was raised for it.
	 */
	std::atomic<uint8_t> missed_{missed_any};
	/* set while ring_ has the elements that were kept when the ring was replaced */
	std::unique_ptr<sirdma_cqe[]> kept_;
	sirdma_cq_shadow kept_shadow_{};
	sirdma_cq_ring next_ring_{};

	sirdma_cq_shadow *const shadow_; /* of the device's ring */
	/*
	 * It protects the members below and the writes of the arm word. lock_ would be held from
	 * begin() to end(), where the application may request an event. For the same reason, a thread that
	 * holds this lock only tries to take lock_.
	 */
	QueueLock arm_lock_;
	/* The request that the device has; where it does not clear the arm word, until the event is read. */
	Arm armed_ = Arm::none;
	Arm again_ = Arm::none; /* the event to request when that event is read */
	uint8_t arm_seq_ = 0;
	bool clears_arm_ = false;
	sirdma_db_page *page_ = nullptr;
	uint32_t cq_id_ = 0;
};

/* All calls are tail calls, so that the compiler saves no registers. */
inline int CompletionQueue::poll(uint32_t count, ibv_wc *wcs) noexcept
{
	const sirdma_cqe *cqe;

	if (lock_.unshared()) {
		cqe = element();
		if (is_pending(cqe)) {
			if (all_missed()) [[likely]]
				return 0;
			return poll_unlocked(count, wcs);
		}
		lock_.lock_unshared();
	} else {
		if (!lock_.try_lock()) [[unlikely]]
			return poll_unlocked(count, wcs);
		cqe = element();
		if (is_pending(cqe)) {
			if (!all_missed()) [[unlikely]]
				return poll_rest(count, wcs, 0);
			lock_.unlock();
			return 0;
		}
	}
	return poll_locked(count, wcs, cqe);
}

} // namespace sirdma
