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

/*
 * A plain completion succeeded, has one element, and is of a request in one of the QP's own queues. Of
 * these bits of its header only the valid bit may be set.
 */
constexpr uint64_t not_plain = SIRDMA_CQE_VALID | SIRDMA_CQE_EXT | SIRDMA_CQE_SRQ |
			       SIRDMA_CQE_ERROR;

/* The opcode of a send completion by the highest byte of its header. */
constexpr int kind_shift = 56;
constexpr uint8_t not_a_send = 255; /* or an opcode that does not exist */
constexpr auto send_opcodes = [] {
	std::array<uint8_t, 256> table{};

	for (uint64_t kind = 0; kind < table.size(); ++kind) {
		const uint64_t hdr = kind << kind_shift;
		const uint32_t opcode = sirdma_send_wc_opcode(
			static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_OP, hdr)));

		table[kind] = (hdr & SIRDMA_CQE_SQ) && opcode < not_a_send ?
				      static_cast<uint8_t>(opcode) :
				      not_a_send;
	}
	return table;
}();

/* Fill in the fields of a plain completion that its request does not tell. */
[[gnu::always_inline]] inline void to_plain_wc(const sirdma_cqe &cqe, ibv_wc &wc) noexcept
{
	const auto qpn = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_QPID, get(cqe.qp)));

	/* Most fields are 0: compilers clear several of them by one instruction. */
	memset(&wc, 0, sizeof(wc));
	wc.qp_num = qpn;
	wc.src_qp = qpn;
}

/* Returns false if @cqe is not a plain one, or if the work request, or the whole queue pair, is gone. */
[[gnu::always_inline]] inline bool decode_plain(const sirdma_cqe &cqe, uint64_t hdr,
						ibv_wc &wc) noexcept
{
	const uint8_t opcode = send_opcodes[hdr >> kind_shift];
	const auto position = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_WQEIDX, hdr));
	auto *const qp = reinterpret_cast<QueuePair *>(get(cqe.compl_ctx));

	if (!qp) [[unlikely]]
		return false;
	if (opcode != not_a_send) {
		SendSlot slot;

		if (!sirdma_sq_complete(&qp->send.queue(), position, &slot)) [[unlikely]]
			return false;
		to_plain_wc(cqe, wc);
		wc.wr_id = slot.wr_id;
		wc.opcode = static_cast<ibv_wc_opcode>(opcode);
		wc.byte_len = slot.length;
		return true;
	}

	const auto code = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_OP, hdr));
	__u64 wr_id;

	if ((hdr & (SIRDMA_CQE_SQ | SIRDMA_CQE_STAG)) || (code & SIRDMA_CQE_OP_DATAGRAM) ||
	    !sirdma_rq_complete(&qp->recv.queue(), position, &wr_id)) [[unlikely]]
		return false;
	to_plain_wc(cqe, wc);
	wc.wr_id = wr_id;
	wc.opcode = static_cast<ibv_wc_opcode>(sirdma_recv_wc_opcode(code));
	wc.byte_len = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_PAYLDLEN, get(cqe.len)));
	return true;
}

} // namespace

CompletionQueue::CompletionQueue(std::span<sirdma_cqe> ring, sirdma_cq_shadow *shadow,
				 bool locked) noexcept
	: lock_(locked)
{
	sirdma_cq_ring_init(&ring_, ring.data(), static_cast<uint32_t>(ring.size()), shadow);
}

/* The next completion that still has a work request. */
bool CompletionQueue::take(Completion &c) noexcept
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
 * Poll plain completions, without a call, at most up to the end of the ring, and not more than may stay
 * unpublished. Returns how many of @wcs were filled.
 */
[[gnu::always_inline]] inline size_t CompletionQueue::poll_plain(std::span<ibv_wc> wcs) noexcept
{
	const size_t most = std::min<size_t>({wcs.size(), ring_.size - ring_.head,
					      SIRDMA_CQ_PUBLISH_INTERVAL - ring_.unpublished});
	const sirdma_cqe *cqe = &ring_.ring[ring_.head];
	const uint64_t valid = ring_.valid;
	size_t polled = 0;

	for (; polled < most; ++polled, ++cqe) {
		const uint64_t hdr = sirdma_get64_acquire(&cqe->hdr);

		if (((hdr ^ valid) & not_plain) || !decode_plain(*cqe, hdr, wcs[polled]))
			[[unlikely]]
			break;
	}
	sirdma_cq_advance(&ring_, static_cast<uint32_t>(polled));
	return polled;
}

int CompletionQueue::end_poll(size_t polled) noexcept
{
	sirdma_cq_publish(&ring_);
	lock_.unlock();
	return static_cast<int>(polled);
}

/* Poll completions of any kind, from @wcs[@polled] on. */
[[gnu::noinline]] int CompletionQueue::poll_rest(std::span<ibv_wc> wcs, size_t polled) noexcept
{
	Completion c;

	while (polled < wcs.size() && take(c)) {
		to_wc(c, wcs[polled++]);
		polled += poll_plain(wcs.subspan(polled));
		sirdma_cq_publish_some(&ring_);
	}
	return end_poll(polled);
}

int CompletionQueue::poll_contended(int count, ibv_wc *wcs) noexcept
{
	lock_.lock();
	return poll_rest({wcs, static_cast<size_t>(count)}, 0);
}

int CompletionQueue::poll_locked(int count, ibv_wc *wcs) noexcept
{
	const std::span all(wcs, static_cast<size_t>(count));
	const size_t polled = poll_plain(all);

	if (polled < all.size() && !is_empty()) [[unlikely]]
		return poll_rest(all, polled);
	return end_poll(polled);
}

bool CompletionQueue::begin(Completion &c) noexcept
{
	if (lock_.unshared() && is_empty())
		return false;
	lock_.lock();
	if (take(c))
		return true;
	end();
	return false;
}

bool CompletionQueue::next(Completion &c) noexcept
{
	return take(c);
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
	sirdma_cq_put_arm(&devices_ring(), arm_seq_, want == Arm::solicited);
	if (page_)
		put(page_->cq_arm, cq_id_);
	/*
	 * The application polls once more after this call. The device has a fence between
	 * writing a CQE and reading the arm word: so either the application sees the CQE, or
	 * the device sees the request.
	 */
	full_fence();
}

/*
 * The sequence number has two bits, so the provider must not get ahead of the device. If the
 * outstanding request covers a new one, the provider therefore only remembers the new one. The
 * event of the outstanding request may already be in the channel; then the remembered request is
 * made when that event is read. At worst the application sees one superfluous event.
 */
void CompletionQueue::arm(bool solicited_only) noexcept
{
	const Arm want = solicited_only ? Arm::solicited : Arm::any;

	lock_.lock();
	if (armed_ != Arm::none)
		again_ = std::max(again_, want);
	if (armed_ < want)
		write_arm(want);
	lock_.unlock();
}

void CompletionQueue::event_taken() noexcept
{
	lock_.lock();
	const Arm want = std::exchange(again_, Arm::none);
	armed_ = Arm::none;
	if (want != Arm::none)
		write_arm(want);
	lock_.unlock();
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
	sirdma_cq_shadow *shadow = devices_ring().shadow;

	for_each_unread(ring_, keep);
	if (kept_)
		for_each_unread(next_ring_, keep);
	sirdma_cq_ring_init(&next_ring_, ring.data(), static_cast<uint32_t>(ring.size()), shadow);
	/* The index in the element is of the old ring. */
	sirdma_put64_release(&shadow->cons_idx, 0);
	/* One more element, which is no completion, ends the kept ones: this ring is not empty. */
	put(kept[count].hdr, SIRDMA_CQE_VALID);
	sirdma_cq_ring_init(&ring_, kept.get(), count + 1, &kept_shadow_);
	kept_ = std::move(kept);
}

} // namespace sirdma
