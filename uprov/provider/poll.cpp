/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "barrier.hpp"
#include "completion_queue.hpp"

namespace sirdma
{

namespace
{

static_assert(int{SIRDMA_WC_SUCCESS} == int{IBV_WC_SUCCESS});
static_assert(int{SIRDMA_WC_LOC_LEN_ERR} == int{IBV_WC_LOC_LEN_ERR});
static_assert(int{SIRDMA_WC_LOC_QP_OP_ERR} == int{IBV_WC_LOC_QP_OP_ERR});
static_assert(int{SIRDMA_WC_LOC_PROT_ERR} == int{IBV_WC_LOC_PROT_ERR});
static_assert(int{SIRDMA_WC_WR_FLUSH_ERR} == int{IBV_WC_WR_FLUSH_ERR});
static_assert(int{SIRDMA_WC_MW_BIND_ERR} == int{IBV_WC_MW_BIND_ERR});
static_assert(int{SIRDMA_WC_LOC_ACCESS_ERR} == int{IBV_WC_LOC_ACCESS_ERR});
static_assert(int{SIRDMA_WC_REM_INV_REQ_ERR} == int{IBV_WC_REM_INV_REQ_ERR});
static_assert(int{SIRDMA_WC_REM_ACCESS_ERR} == int{IBV_WC_REM_ACCESS_ERR});
static_assert(int{SIRDMA_WC_REM_OP_ERR} == int{IBV_WC_REM_OP_ERR});
static_assert(int{SIRDMA_WC_RETRY_EXC_ERR} == int{IBV_WC_RETRY_EXC_ERR});
static_assert(int{SIRDMA_WC_RNR_RETRY_EXC_ERR} == int{IBV_WC_RNR_RETRY_EXC_ERR});
static_assert(int{SIRDMA_WC_FATAL_ERR} == int{IBV_WC_FATAL_ERR});
static_assert(int{SIRDMA_WC_GENERAL_ERR} == int{IBV_WC_GENERAL_ERR});
static_assert(int{SIRDMA_WC_SEND} == int{IBV_WC_SEND});
static_assert(int{SIRDMA_WC_WRITE} == int{IBV_WC_RDMA_WRITE});
static_assert(int{SIRDMA_WC_READ} == int{IBV_WC_RDMA_READ});
static_assert(int{SIRDMA_WC_COMP_SWAP} == int{IBV_WC_COMP_SWAP});
static_assert(int{SIRDMA_WC_FETCH_ADD} == int{IBV_WC_FETCH_ADD});
static_assert(int{SIRDMA_WC_BIND_MW} == int{IBV_WC_BIND_MW});
static_assert(int{SIRDMA_WC_LOCAL_INV} == int{IBV_WC_LOCAL_INV});
static_assert(int{SIRDMA_WC_ATOMIC_WRITE} == int{IBV_WC_ATOMIC_WRITE});
static_assert(int{SIRDMA_WC_RECV} == int{IBV_WC_RECV});
static_assert(int{SIRDMA_WC_RECV_WRITE_IMM} == int{IBV_WC_RECV_RDMA_WITH_IMM});
static_assert(SIRDMA_WC_HAS_IMM == IBV_WC_WITH_IMM && SIRDMA_WC_HAS_INV == IBV_WC_WITH_INV &&
	      SIRDMA_WC_HAS_GRH == IBV_WC_GRH);

void to_wc(const Completion &c, ibv_wc &wc) noexcept
{
	wc.wr_id = c.wr_id;
	wc.status = static_cast<ibv_wc_status>(c.status);
	wc.opcode = static_cast<ibv_wc_opcode>(c.opcode);
	wc.vendor_err = c.vendor_err;
	wc.byte_len = c.byte_len;
	if (c.flags & SIRDMA_WC_HAS_INV)
		wc.invalidated_rkey = c.imm;
	else
		wc.imm_data = htobe32(c.imm);
	wc.qp_num = c.qp_num;
	wc.src_qp = c.src_qp;
	wc.wc_flags = c.flags & SIRDMA_WC_VERBS_FLAGS;
	wc.pkey_index = 0;
	wc.slid = 0;
	wc.sl = datagram_sl(c);
	wc.dlid_path_bits = 0;
}

/* Returns false if the work request, or the whole queue pair, is gone. */
bool decode(const sirdma_cqe_at &at, Completion &c) noexcept
{
	if (sirdma_cqe_shared(&at))
		return sirdma_cqe_decode_shared(&at, &c);

	auto *qp = reinterpret_cast<QueuePair *>(get(at.cqe->compl_ctx));

	return qp && sirdma_cqe_decode(&at, &qp->send.queue(), &qp->recv.queue(), &c);
}

/* What polling reads of a CQE's header, except for the codes of an error, is its upper half. */
constexpr uint32_t upper(uint64_t hdr) noexcept
{
	return static_cast<uint32_t>(hdr >> 32);
}

/*
 * The upper half of the header of @cqe; what the device wrote before it is visible. A load of that half
 * alone saves a shift. ThreadSanitizer finds the device's store only by a load of the whole word.
 */
inline uint32_t upper_acquire(const sirdma_cqe &cqe) noexcept
{
#ifdef __SANITIZE_THREAD__
	return upper(sirdma_get64_acquire(&cqe.hdr));
#else
	using Half [[gnu::may_alias]] = uint32_t;

	/* Little-endian, like the whole word */
	return le32toh(
		__atomic_load_n(reinterpret_cast<const Half *>(&cqe.hdr) + 1, __ATOMIC_ACQUIRE));
#endif
}

/*
 * A plain completion succeeded, has one element, is of a request in one of the QP's own queues, and
 * invalidated nothing. Of these bits of its header only the valid bit may be set.
 */
constexpr uint32_t not_plain = upper(SIRDMA_CQE_VALID | SIRDMA_CQE_EXT | SIRDMA_CQE_SRQ |
				     SIRDMA_CQE_STAG | SIRDMA_CQE_ERROR);
constexpr uint32_t not_valid = upper(SIRDMA_CQE_VALID);

/*
 * Its opcode by the kind of completion: the opcode of the CQE, and the queue. Those of receives have
 * the highest bit set, and nothing else has: a completion is decoded with few comparisons.
 */
constexpr int kind_bits = 7;
constexpr int kind_shift = 24; /* in the upper half of the header */
constexpr uint8_t of_receive = SIRDMA_WC_RECV;
constexpr uint8_t no_plain_opcode = of_receive - 1;
constexpr auto plain_opcodes = [] {
	std::array<uint8_t, 1 << kind_bits> table{};

	for (uint64_t kind = 0; kind < table.size(); ++kind) {
		const uint64_t hdr = kind << (32 + kind_shift);
		const auto code = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_OP, hdr));
		uint32_t opcode = SIRDMA_WC_NO_OPCODE;

		if (hdr & SIRDMA_CQE_SQ)
			opcode = sirdma_send_wc_opcode(code);
		else if (!(code & SIRDMA_CQE_OP_DATAGRAM))
			opcode = sirdma_recv_wc_opcode(code);
		table[kind] = opcode == SIRDMA_WC_NO_OPCODE ? no_plain_opcode :
							      static_cast<uint8_t>(opcode);
	}
	return table;
}();
static_assert(of_receive == 0x80 && SIRDMA_WC_RECV_WRITE_IMM < 0x100 &&
	      SIRDMA_WC_ATOMIC_WRITE < no_plain_opcode);
/* decode_plain() takes the upper half for the position, which the masks of rings cut out of it. */
static_assert(SIRDMA_GET(SIRDMA_CQE_WQEIDX, uint64_t{SIRDMA_MAX_WQ_QUANTA - 1} << 32) ==
	      SIRDMA_MAX_WQ_QUANTA - 1);
static_assert(SIRDMA_CQE_VALID >> (32 + kind_shift + kind_bits) == 1 &&
	      (SIRDMA_CQE_SQ | SIRDMA_CQE_OP) >> (32 + kind_shift) == (1 << kind_bits) - 1);

/*
 * Fill in what all plain completions of @qp have in common. The members from the status on are cleared
 * or copied as blocks, each of which takes compilers one or two instructions.
 */
template <typename Wc>
[[gnu::always_inline]] inline void put_common(const QueuePair &qp, Wc &wc) noexcept
{
	constexpr size_t from = offsetof(Wc, status);
	constexpr size_t part = offsetof(Wc, qp_num) - offsetof(WcConstants, qp_num);
	constexpr size_t behind = part + sizeof(WcConstants);
	auto *const bytes = reinterpret_cast<uint8_t *>(&wc);

	static_assert(offsetof(Wc, src_qp) == part + offsetof(WcConstants, src_qp));
	memset(bytes + from, 0, part - from);
	memcpy(bytes + part, &qp.wc_constants(), sizeof(WcConstants));
	memset(bytes + behind, 0, sizeof(wc) - behind);
}

/*
 * @upper_hdr: the upper half of the header, in which the bits of not_plain are 0. Its lowest bits are the
 * position of the WQE; the masks of the rings cut off what is above them. Returns false if @cqe is not a
 * plain completion after all, if its work request is gone, or if it is not the next one to be received.
 */
template <typename Wc>
[[gnu::always_inline]] inline bool decode_plain(const sirdma_cqe &cqe, uint32_t upper_hdr,
						Wc &wc) noexcept
{
	const uint8_t opcode = plain_opcodes[upper_hdr >> kind_shift];
	/* There is a QP: completions that sirdma_cqe_detach() detached have the error bit. */
	auto &qp = *reinterpret_cast<QueuePair *>(get(cqe.compl_ctx));
	__u64 wr_id = 0;
	bool found;

	put_common(qp, wc);
	wc.opcode = static_cast<decltype(wc.opcode)>(opcode);
	if (opcode & of_receive) {
		wc.byte_len = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_PAYLDLEN, get(cqe.len)));
		found = sirdma_rq_complete_next(&qp.recv.queue(), upper_hdr, &wr_id);
	} else {
		found = opcode != no_plain_opcode &&
			sirdma_sq_complete(&qp.send.queue(), upper_hdr, &wr_id, &wc.byte_len);
	}
	wc.wr_id = wr_id;
	return found;
}

} // namespace

CompletionQueue::CompletionQueue(std::span<sirdma_cqe> ring, sirdma_cq_shadow *shadow,
				 bool locked) noexcept
	: lock_(locked), shadow_(shadow), arm_lock_(locked)
{
	sirdma_cq_ring_init(&ring_, ring.data(), static_cast<uint32_t>(ring.size()), shadow);
}

/* The next completion that still has a work request. */
[[gnu::noinline]] bool CompletionQueue::take(Completion &c) noexcept
{
	sirdma_cqe_at at;

	for (;;) {
		while (sirdma_cq_peek(&ring_, &at)) {
			const bool found = decode(at, c);

			sirdma_cq_consume(&ring_, &at);
			sirdma_cq_publish_some(&ring_);
			if (found)
				return true;
		}
		if (!kept_) [[likely]]
			return false;
		ring_ = next_ring_;
		kept_.reset();
	}
}

/*
 * Poll plain completions without a call, from @cqe on, which is the next element: at most @count, which
 * is not 0, and not beyond the end of the ring. They are consumed, but do not count as unpublished.
 * Returns how many they are; @wcs moves behind them. *upper_hdr: see decode_plain(), of the header that
 * was read last; with not_valid there is no other completion.
 */
[[gnu::always_inline]] inline uint32_t CompletionQueue::poll_plain(const sirdma_cqe *cqe,
								   uint32_t count, ibv_wc *&wcs,
								   uint32_t *upper_hdr) noexcept
{
	const sirdma_cqe *const end = cqe + std::min(count, ring_.size - ring_.head);

	do {
		*upper_hdr = upper_acquire(*cqe) ^ upper(ring_.valid);
		if ((*upper_hdr & not_plain) || !decode_plain(*cqe, *upper_hdr, *wcs)) [[unlikely]]
			break;
		++cqe;
		++wcs;
	} while (cqe != end);

	const auto head = static_cast<uint32_t>(cqe - ring_.ring);
	const uint32_t polled = head - ring_.head;

	sirdma_cq_seek(&ring_, head);
	return polled;
}

/* Poll completions of any kind. Returns how many they are, and the @polled before, not released yet. */
[[gnu::noinline]] int CompletionQueue::poll_rest(uint32_t count, ibv_wc *wcs,
						 uint32_t polled) noexcept
{
	const uint32_t all = polled + count;
	Completion c;

	ring_.unpublished += polled;
	while (polled < all && (take(c) || (note_missed() && take(c)))) {
		to_wc(c, *wcs++);
		if (++polled == all)
			break;

		uint32_t upper_hdr;
		const uint32_t most = SIRDMA_CQ_PUBLISH_INTERVAL - ring_.unpublished;
		const uint32_t plain =
			poll_plain(element(), std::min(all - polled, most), wcs, &upper_hdr);

		ring_.unpublished += plain;
		polled += plain;
		sirdma_cq_publish_some(&ring_);
	}
	end();
	return static_cast<int>(polled);
}

int CompletionQueue::poll_unlocked(uint32_t count, ibv_wc *wcs) noexcept
{
	lock_.lock();
	return poll_rest(count, wcs, 0);
}

/* Nothing is unpublished between two polls, so the plain completions are released at once. */
int CompletionQueue::poll_locked(uint32_t count, ibv_wc *wcs, const sirdma_cqe *cqe) noexcept
{
	if (count > SIRDMA_CQ_PUBLISH_INTERVAL) [[unlikely]]
		return poll_rest(count, wcs, 0);

	uint32_t upper_hdr;
	const uint32_t polled = poll_plain(cqe, count, wcs, &upper_hdr);

	if (polled < count && (!(upper_hdr & not_valid) || !all_missed())) [[unlikely]]
		return poll_rest(count - polled, wcs, polled);
	sirdma_cq_put_head(&ring_);
	lock_.unlock();
	return static_cast<int>(polled);
}

/* The application may request an event before end(): so the device has to know what was read. */
[[gnu::noinline]] bool CompletionQueue::end_of_batch(Completion &c) noexcept
{
	if (!all_missed()) [[unlikely]]
		return end_of_noted_batch(c);
	sirdma_cq_publish(&ring_);
	return false;
}

[[gnu::noinline]] bool CompletionQueue::end_of_noted_batch(Completion &c) noexcept
{
	if (note_missed() && take(c))
		return true;
	sirdma_cq_publish(&ring_);
	return false;
}

[[gnu::noinline]] bool CompletionQueue::take_rest(Completion &c) noexcept
{
	return take(c) || end_of_batch(c);
}

/* The next completion, which mostly is a plain one. */
[[gnu::always_inline]] inline bool CompletionQueue::take_next(Completion &c) noexcept
{
	const sirdma_cqe *const cqe = element();
	const uint32_t upper_hdr = upper_acquire(*cqe) ^ upper(ring_.valid);

	if ((upper_hdr & not_plain) || !decode_plain(*cqe, upper_hdr, c)) [[unlikely]]
		return upper_hdr & not_valid ? end_of_batch(c) : take_rest(c);
	sirdma_cq_advance(&ring_, 1);
	sirdma_cq_publish_some(&ring_);
	return true;
}

bool CompletionQueue::begin(Completion &c) noexcept
{
	if (lock_.unshared() && is_empty() && all_missed())
		return false;
	lock_.lock();
	if (take_next(c)) [[likely]]
		return true;
	lock_.unlock();
	return false;
}

bool CompletionQueue::next(Completion &c) noexcept
{
	return take_next(c);
}

void CompletionQueue::end() noexcept
{
	sirdma_cq_publish(&ring_);
	lock_.unlock();
}

/* The device raises one event for each value of the sequence number. */
void CompletionQueue::write_arm(Arm want) noexcept
{
	armed_ = want;
	++arm_seq_;
	sirdma_cq_put_arm(shadow_, arm_seq_, want == Arm::solicited);
	if (page_) {
		device_store_fence();
		put(page_->cq_arm, cq_id_);
	}
	/*
	 * The device has a fence between writing a CQE and reading the arm word. So if the queue is
	 * read after this fence, by arm() or by the application, either that sees the CQE, or the
	 * device sees the request.
	 */
	full_fence();
}

CompletionQueue::Arm CompletionQueue::in_arm_word() const noexcept
{
	const uint64_t word = sirdma_get64_acquire(&shadow_->arm);

	if (word & SIRDMA_CQ_SHADOW_ARM_NEXT)
		return Arm::any;
	return word & SIRDMA_CQ_SHADOW_ARM_NEXT_SE ? Arm::solicited : Arm::none;
}

/*
 * The sequence number has two bits, so the provider must not get ahead of a device that does not
 * clear the arm word. If the outstanding request covers a new one, the provider therefore only
 * remembers the new one. The event of the outstanding request may already be in the channel; then
 * the remembered request is made when that event is read. At worst the application sees one
 * superfluous event for it.
 *
 * Where the device clears the arm word, the word says whether a request is outstanding. So the
 * queue does not depend on that event, which is lost if the kernel has no memory for it.
 */
bool CompletionQueue::arm(bool solicited_only) noexcept
{
	Arm want = solicited_only ? Arm::solicited : Arm::any;
	const std::lock_guard hold(arm_lock_);

	if (clears_arm_)
		armed_ = in_arm_word();
	if (armed_ == Arm::none)
		want = std::max(want, std::exchange(again_, Arm::none));
	else
		again_ = std::max(again_, want);
	if (armed_ < want)
		write_arm(want);
	if (!clears_arm_)
		return false;

	const uint8_t missed = armed_ == Arm::any ? missed_any : missed_solicited;

	if (!(missed_.load(std::memory_order_relaxed) & missed))
		return false;
	missed_.fetch_and(static_cast<uint8_t>(~missed), std::memory_order_relaxed);
	/* A completion that came after the request has raised the event, and cleared the arm word. */
	return may_have_unread() && in_arm_word() != Arm::none;
}

bool CompletionQueue::may_have_unread() noexcept
{
	/* The thread that holds the lock may have read the next element before the device wrote it. */
	if (lock_.held() || !lock_.try_lock())
		return true;

	const bool unread = !is_empty();

	lock_.unlock();
	return unread;
}

/*
 * The device takes a request out of the arm word before it writes the completion for which it raises the
 * event. So if the word, which is read first, has a request, and the queue is still empty after that, the
 * next completion raises the event; or the event of an earlier one, which came while the request was made,
 * is raised after this poll, and the application polls when it has read that. The same holds for a moderated
 * event, which leaves its request in the word while it waits for more completions.
 */
bool CompletionQueue::note_another_missed() noexcept
{
	/* The device counts what it does not know to be read. */
	sirdma_cq_publish(&ring_);

	const Arm armed = in_arm_word();
	uint8_t missed = missed_any;

	if (armed != Arm::none && is_empty()) {
		if (armed == Arm::any)
			return false;
		missed = missed_ordinary;
	}
	if (!(missed & ~missed_.load(std::memory_order_relaxed)))
		return false;
	missed_.fetch_or(missed, std::memory_order_relaxed);
	/* A thread that requests an event now sees the note, or this one sees what came before that. */
	full_fence();
	return !is_empty();
}

void CompletionQueue::event_taken() noexcept
{
	const std::lock_guard hold(arm_lock_);
	const Arm want = std::exchange(again_, Arm::none);

	/* Without a request the memory of the queue is left alone, which a forked child may not have. */
	armed_ = clears_arm_ && want != Arm::none ? in_arm_word() : Arm::none;
	if (armed_ < want)
		write_arm(want);
}

void CompletionQueue::forget(const QueuePair *qp, uint32_t qpn) noexcept
{
	lock_.lock();
	sirdma_cq_forget(&ring_, reinterpret_cast<uintptr_t>(qp), qpn);
	if (kept_)
		sirdma_cq_forget(&next_ring_, reinterpret_cast<uintptr_t>(qp), qpn);
	lock_.unlock();
}

namespace
{

/* Call @visit for each completion in the ring that can be polled, from the oldest on. */
template <typename Visitor> void for_each_unread(const sirdma_cq_ring &ring, Visitor visit) noexcept
{
	sirdma_cq_ring walk = ring;
	sirdma_cqe_at at;
	uint32_t seen = 0;

	while (seen < ring.size && sirdma_cq_peek(&walk, &at)) {
		if (!sirdma_cqe_forgotten(&at))
			visit(at);
		sirdma_cq_consume(&walk, &at);
		seen += at.ext ? 2 : 1;
	}
}

/* The form that an element has in the first lap of a ring. */
template <typename Element> sirdma_cqe first_lap(const Element &element) noexcept
{
	sirdma_cqe copy;

	static_assert(sizeof(element) == sizeof(copy));
	memcpy(&copy, &element, sizeof(copy));
	put(copy.hdr, get(copy.hdr) | SIRDMA_CQE_VALID);
	return copy;
}

} // namespace

uint32_t CompletionQueue::unread() noexcept
{
	uint32_t count = 0;
	const auto add = [&count](const sirdma_cqe_at &) { ++count; };

	lock_.lock();
	for_each_unread(ring_, add);
	if (kept_)
		for_each_unread(next_ring_, add);
	lock_.unlock();
	return count;
}

uint32_t CompletionQueue::room_to_keep() noexcept
{
	lock_.lock();
	const uint32_t room = kept_ ? ring_.size + next_ring_.size : ring_.size;
	lock_.unlock();
	return room;
}

void CompletionQueue::use_ring(std::span<sirdma_cqe> ring,
			       std::unique_ptr<sirdma_cqe[]> kept) noexcept
{
	uint32_t count = 0;
	const auto keep = [&](const sirdma_cqe_at &at) {
		kept[count++] = first_lap(*at.cqe);
		if (at.ext)
			kept[count++] = first_lap(*at.ext);
	};

	for_each_unread(ring_, keep);
	if (kept_)
		for_each_unread(next_ring_, keep);
	sirdma_cq_ring_init(&next_ring_, ring.data(), static_cast<uint32_t>(ring.size()), shadow_);
	/* The index in the element is of the old ring. */
	sirdma_put64_release(&shadow_->cons_idx, 0);
	/* One more element, which is no completion, ends the kept ones: this ring is not empty. */
	put(kept[count].hdr, SIRDMA_CQE_VALID | SIRDMA_CQE_ERROR);
	sirdma_cq_ring_init(&ring_, kept.get(), count + 1, &kept_shadow_);
	kept_ = std::move(kept);
}

} // namespace sirdma
