/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <algorithm>
#include <utility>

#include <infiniband/opcode.h>

#include "barrier.hpp"
#include "completion_queue.hpp"
#include "send_op.hpp"
#include "wc_status.hpp"

namespace sirdma
{

namespace
{

/* The device may write this many more CQEs before it must learn of room; see publish(). */
constexpr uint32_t publish_interval = 64;

bool fill_send(Completion &c, QueuePair &qp, uint64_t hdr) noexcept
{
	SendSlot slot;

	if (!qp.send.complete(static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_WQEIDX, hdr)), slot))
		return false;
	c.wr_id = slot.wr_id;
	c.byte_len = slot.length;
	if (!send_wc_opcode(static_cast<uint8_t>(SIRDMA_GET(SIRDMA_CQE_OP, hdr)), c.opcode) &&
	    c.status == IBV_WC_SUCCESS)
		c.status = IBV_WC_GENERAL_ERR;
	return true;
}

bool fill_recv(Completion &c, QueuePair &qp, const sirdma_cqe &cqe, uint64_t hdr) noexcept
{
	if (!qp.recv.complete(static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_WQEIDX, hdr)), c.wr_id))
		return false;
	c.byte_len = c.status == IBV_WC_SUCCESS ?
			     static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_PAYLDLEN, get(cqe.len))) :
			     0;
	switch (SIRDMA_GET(SIRDMA_CQE_OP, hdr)) {
	case IBV_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE:
	case IBV_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE:
		c.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		break;
	default:
		c.opcode = IBV_WC_RECV;
	}
	if (hdr & SIRDMA_CQE_STAG) {
		c.wc_flags |= IBV_WC_WITH_INV;
		c.imm = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_INVSTAG, get(cqe.qp)));
	}
	return true;
}

void to_wc(const Completion &c, ibv_wc &wc) noexcept
{
	wc.wr_id = c.wr_id;
	wc.status = c.status;
	wc.opcode = c.opcode;
	wc.vendor_err = c.vendor_err;
	wc.byte_len = c.byte_len;
	if (c.wc_flags & IBV_WC_WITH_INV)
		wc.invalidated_rkey = c.imm;
	else
		wc.imm_data = htobe32(c.imm);
	wc.qp_num = c.qp_num;
	wc.src_qp = c.src_qp;
	wc.wc_flags = c.wc_flags;
	wc.pkey_index = 0;
	wc.slid = 0;
	wc.sl = 0;
	wc.dlid_path_bits = 0;
}

} // namespace

CompletionQueue::CompletionQueue(std::span<sirdma_cqe> ring, sirdma_cq_shadow *shadow,
				 bool locked) noexcept
	: lock_(locked), ring_(ring), shadow_(shadow)
{
}

/* The element at the head, once both its halves are there. */
bool CompletionQueue::peek(Element &element) const noexcept
{
	const sirdma_cqe &cqe = ring_[head_];

	element.hdr = get_acquire(cqe.hdr);
	if ((element.hdr & SIRDMA_CQE_VALID) != valid_)
		return false;
	element.cqe = &cqe;
	element.ext = nullptr;
	if (!(element.hdr & SIRDMA_CQE_EXT))
		return true;

	const bool wraps = head_ + 1 == ring_.size();
	const uint64_t valid = wraps ? valid_ ^ SIRDMA_CQE_VALID : valid_;
	auto *ext = reinterpret_cast<const sirdma_cqe_ext *>(&ring_[wraps ? 0 : head_ + 1]);

	if ((get_acquire(ext->hdr) & SIRDMA_CQE_VALID) != valid)
		return false;
	element.ext = ext;
	return true;
}

void CompletionQueue::consume(const Element &element) noexcept
{
	for (uint32_t n = element.ext ? 2 : 1; n; --n) {
		if (++head_ == ring_.size()) {
			head_ = 0;
			valid_ ^= SIRDMA_CQE_VALID;
		}
		++unpublished_;
	}
}

/* What was consumed has been read: the device may overwrite it. Partner: its acquire. */
void CompletionQueue::publish() noexcept
{
	if (!unpublished_)
		return;
	unpublished_ = 0;
	put_release(shadow_->cons_idx, SIRDMA_PREP(SIRDMA_CQ_SHADOW_CQEIDX, head_));
}

/* The next completion that still has a work request. */
bool CompletionQueue::take(Completion &c) noexcept
{
	Element e;

	while (peek(e)) {
		auto *qp = reinterpret_cast<QueuePair *>(get(e.cqe->compl_ctx));
		const uint64_t word2 = get(e.cqe->qp);
		bool found = false;

		if (qp) {
			c.status = wc_status(e.hdr);
			c.opcode = IBV_WC_SEND;
			c.wc_flags = 0;
			c.imm = 0;
			c.vendor_err = c.status == IBV_WC_SUCCESS ?
					       0 :
					       static_cast<uint32_t>(SIRDMA_GET(
						       SIRDMA_CQE_VENDOR_ERR, get(e.cqe->len)));
			c.qp_num = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_CQE_QPID, word2));
			c.src_qp = c.qp_num;
			if (e.ext && (get(e.ext->hdr) & SIRDMA_CQE_EXT_IMMVALID)) {
				c.wc_flags |= IBV_WC_WITH_IMM;
				c.imm = static_cast<uint32_t>(get(e.ext->imm));
			}
			found = e.hdr & SIRDMA_CQE_SQ ? fill_send(c, *qp, e.hdr) :
							fill_recv(c, *qp, *e.cqe, e.hdr);
		}
		consume(e);
		if (unpublished_ >= publish_interval)
			publish();
		if (found)
			return true;
	}
	return false;
}

int CompletionQueue::poll(std::span<ibv_wc> wcs) noexcept
{
	int polled = 0;
	Completion c;

	lock_.lock();
	for (ibv_wc &wc : wcs) {
		if (!take(c))
			break;
		to_wc(c, wc);
		++polled;
	}
	publish();
	lock_.unlock();
	return polled;
}

bool CompletionQueue::begin(Completion &c) noexcept
{
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
	publish();
	lock_.unlock();
}

/* The device fires once for each value of the sequence. */
void CompletionQueue::write_arm(Arm want) noexcept
{
	armed_ = want;
	++arm_seq_;
	put_release(shadow_->arm, SIRDMA_PREP(SIRDMA_CQ_SHADOW_ARM_SEQ, arm_seq_) |
					  SIRDMA_CQ_SHADOW_ARM_NEXT_SE |
					  (want == Arm::any ? SIRDMA_CQ_SHADOW_ARM_NEXT : 0));
	if (page_)
		put(page_->cq_arm, cq_id_);
	/*
	 * The application polls once more after this. Either it sees the completion,
	 * or the device, which fences between CQE and arm word, sees the arming.
	 */
	full_fence();
}

/*
 * The sequence has two bits, so it must not run ahead of the device: a request
 * that the outstanding one covers is only remembered. Its event may already wait
 * in the channel, though, and then the request is due when that one is taken. At
 * worst the application sees one event too many.
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

void CompletionQueue::forget(const QueuePair *qp) noexcept
{
	lock_.lock();

	const uint32_t head = head_;
	const uint64_t valid = valid_;
	const uint32_t unpublished = unpublished_;
	Element e;

	/* Walk what is there, at most one lap, then stand where we stood. */
	for (uint32_t seen = 0; seen < ring_.size() && peek(e); seen += e.ext ? 2 : 1) {
		if (get(e.cqe->compl_ctx) == reinterpret_cast<uintptr_t>(qp))
			put(const_cast<sirdma_cqe *>(e.cqe)->compl_ctx, 0);
		consume(e);
	}
	head_ = head;
	valid_ = valid;
	unpublished_ = unpublished;
	lock_.unlock();
}

} // namespace sirdma
