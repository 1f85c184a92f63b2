/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <cerrno>

#include <sirdma/geometry.h>

#include "send_op.hpp"
#include "send_queue.hpp"
#include "wqe.hpp"

namespace sirdma
{

namespace
{

/* Sum of the lengths; false when one of them does not fit its field. */
bool total_length(std::span<const ibv_sge> sges, uint64_t &length) noexcept
{
	length = 0;
	for (const ibv_sge &sge : sges) {
		if (sge.length > SIRDMA_MAX_MSG_SIZE)
			return false;
		length += sge.length;
	}
	return length <= SIRDMA_MAX_MSG_SIZE;
}

uint64_t header_of(const SendOp &op, const SendWork &work, bool signal_all) noexcept
{
	const bool solicited = work.flags & IBV_SEND_SOLICITED;
	uint64_t hdr = SIRDMA_PREP(SIRDMA_WQE_OPCODE, solicited ? op.code_solicited : op.code);

	if (op.has_key)
		hdr |= SIRDMA_PREP(SIRDMA_WQE_REMSTAG, work.key);
	if (op.has_imm)
		hdr |= SIRDMA_WQE_IMMDATA_FLAG;
	if (work.flags & IBV_SEND_FENCE)
		hdr |= SIRDMA_WQE_READFENCE;
	if (signal_all || (work.flags & IBV_SEND_SIGNALED))
		hdr |= SIRDMA_WQE_SIGCOMPL;
	return hdr;
}

/* An application may have put any number there, which is not a value of the enum. */
unsigned opcode_of(const ibv_send_wr &wr) noexcept
{
	static_assert(sizeof(wr.opcode) == sizeof(unsigned));
	unsigned opcode;

	memcpy(&opcode, &wr.opcode, sizeof(opcode));
	return opcode;
}

SendWork work_of(const ibv_send_wr &wr) noexcept
{
	SendWork work = {
		.wr_id = wr.wr_id,
		.opcode = opcode_of(wr),
		.flags = wr.send_flags,
		.remote_addr = 0,
		.key = 0,
		.imm = 0,
		.sges = {},
	};

	/* A negative count becomes larger than any limit. */
	work.sges = {wr.sg_list, static_cast<uint32_t>(wr.num_sge)};
	switch (work.opcode) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		work.imm = be32toh(wr.imm_data);
		[[fallthrough]];
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		work.remote_addr = wr.wr.rdma.remote_addr;
		work.key = wr.wr.rdma.rkey;
		break;
	case IBV_WR_SEND_WITH_IMM:
		work.imm = be32toh(wr.imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		work.key = wr.invalidate_rkey;
		break;
	default:
		break;
	}
	return work;
}

} // namespace

SendQueue::SendQueue(std::span<sirdma_wqe> ring, std::span<SendSlot> slots,
		     const SendLimits &limits, QpDoorbell &doorbell, bool locked) noexcept
	: lock_(locked), index_(static_cast<uint32_t>(ring.size())), ring_(ring), slots_(slots),
	  limits_(limits), doorbell_(doorbell)
{
}

uint32_t SendQueue::free_quanta() const noexcept
{
	const uint32_t taken = index_.used() + SIRDMA_SQ_RSVD_QUANTA - 1;

	return taken < index_.size() ? index_.size() - taken : 0;
}

/* Quanta up to the next chunk boundary become NOPs of one quantum. */
void SendQueue::pad(uint32_t from, uint32_t quanta) noexcept
{
	const uint64_t hdr = SIRDMA_PREP(SIRDMA_WQE_OPCODE, SIRDMA_OP_NOP) |
			     valid_bit(from, index_.size());

	for (uint32_t i = from; i != from + quanta; ++i) {
		sirdma_wqe &wqe = ring_[i & index_.mask()];

		put(wqe.frag_addr, 0);
		put(wqe.frag_stag, 0);
		put(wqe.remote, 0);
		slots_[i & index_.mask()] = {.wr_id = 0, .hdr = hdr, .length = 0, .quanta = 1};
	}
}

/* @quanta in one piece, which no WQE may leave: NOPs fill a chunk that is too short. */
int SendQueue::reserve(uint32_t quanta, uint32_t &index) noexcept
{
	const uint32_t head = index_.head();
	const uint32_t in_chunk = SIRDMA_SQ_CHUNK_QUANTA - head % SIRDMA_SQ_CHUNK_QUANTA;
	const uint32_t padding = quanta <= in_chunk ? 0 : in_chunk;

	if (quanta + padding > free_quanta())
		return ENOMEM;
	pad(head, padding);
	index = head + padding;
	index_.set_head(index + quanta);
	return 0;
}

/* Hand over [@from, @to): bodies first, each header last. */
void SendQueue::publish(uint32_t from, uint32_t to) noexcept
{
	while (from != to) {
		const SendSlot &slot = slots_[from & index_.mask()];

		put_release(ring_[from & index_.mask()].hdr, slot.hdr);
		from += slot.quanta;
	}
}

/*
 * Take back [@from, @to), which was never published. Word 3 of its quanta may
 * carry this lap's polarity and must not be found by a device that comes here
 * after a shorter WQE.
 */
void SendQueue::rewind(uint32_t from, uint32_t to) noexcept
{
	for (uint32_t i = from; i != to; ++i) {
		const uint64_t valid = valid_bit(i, index_.size());

		put(ring_[i & index_.mask()].hdr, valid ^ SIRDMA_WQE_VALID);
	}
	index_.set_head(from);
}

void SendQueue::settle(uint32_t index, const SendWork &work, uint64_t hdr, uint32_t length,
		       uint32_t quanta) noexcept
{
	slots_[index & index_.mask()] = {
		.wr_id = work.wr_id,
		.hdr = hdr | valid_bit(index, index_.size()),
		.length = length,
		.quanta = quanta,
	};
}

int SendQueue::take_inline(const SendWork &work, uint64_t hdr, uint32_t length) noexcept
{
	const uint32_t quanta = sirdma_inline_quanta(length);
	uint32_t index;

	if (const int err = reserve(quanta, index))
		return err;

	sirdma_wqe *wqe = &ring_[index & index_.mask()];
	InlineWriter writer(wqe, valid_bit(index, index_.size()));

	put(wqe->frag_addr, work.imm);
	for (const ibv_sge &sge : work.sges)
		writer.append(reinterpret_cast<const void *>(sge.addr), sge.length);
	writer.finish();
	put(wqe->remote, work.remote_addr);
	hdr |= SIRDMA_WQE_INLINE | SIRDMA_PREP(SIRDMA_WQE_INLINELEN, length);
	settle(index, work, hdr, length, quanta);
	return 0;
}

int SendQueue::take_fragments(const SendWork &work, uint64_t hdr, uint32_t length) noexcept
{
	/* Immediate data takes the place of the first fragment. */
	const uint32_t first = hdr & SIRDMA_WQE_IMMDATA_FLAG ? 1 : 0;
	const uint32_t quanta = sirdma_frag_quanta(static_cast<uint32_t>(work.sges.size()) + first);
	uint32_t index;

	if (const int err = reserve(quanta, index))
		return err;

	sirdma_wqe *wqe = &ring_[index & index_.mask()];

	if (first) {
		put(wqe->frag_addr, work.imm);
		put(wqe->frag_stag, 0);
	}
	hdr |= put_fragments(wqe, work.sges, first, valid_bit(index, index_.size()));
	put(wqe->remote, work.remote_addr);
	settle(index, work, hdr, length, quanta);
	return 0;
}

int SendQueue::take(const SendWork &work) noexcept
{
	const SendOp *op = send_op(work.opcode);
	uint64_t length;

	if (!op)
		return EINVAL;
	if (!op->supported)
		return EOPNOTSUPP;
	/* Inline data needs no fragment, so one piece of it is always right. */
	const bool is_inline = work.flags & IBV_SEND_INLINE;
	const uint32_t max_sge = std::max<uint32_t>(limits_.max_sge, is_inline);

	if (work.sges.size() > max_sge || !total_length(work.sges, length))
		return EINVAL;

	const uint64_t hdr = header_of(*op, work, limits_.signal_all);

	if (is_inline) {
		if (!op->inlinable || length > limits_.max_inline)
			return EINVAL;
		return take_inline(work, hdr, static_cast<uint32_t>(length));
	}
	if (work.opcode == IBV_WR_RDMA_READ && work.sges.size() > limits_.max_read_sge)
		return EINVAL;
	return take_fragments(work, hdr, static_cast<uint32_t>(length));
}

int SendQueue::post(const ibv_send_wr *wr, const ibv_send_wr **bad) noexcept
{
	int err = 0;

	lock_.lock();
	const uint32_t start = index_.head();
	for (; wr; wr = wr->next) {
		const uint32_t from = index_.head();

		err = take(work_of(*wr));
		if (err) {
			*bad = wr;
			break;
		}
		publish(from, index_.head());
	}
	if (index_.head() != start)
		doorbell_.ring_send();
	lock_.unlock();
	return err;
}

void SendQueue::begin() noexcept
{
	lock_.lock();
	begun_ = index_.head();
}

int SendQueue::commit(int err) noexcept
{
	if (err) {
		abort();
		return err;
	}
	if (index_.head() != begun_) {
		publish(begun_, index_.head());
		doorbell_.ring_send();
	}
	lock_.unlock();
	return 0;
}

void SendQueue::abort() noexcept
{
	rewind(begun_, index_.head());
	lock_.unlock();
}

bool SendQueue::complete(uint32_t position, SendSlot &done) noexcept
{
	uint32_t index;

	if (!index_.locate(position, index))
		return false;
	/* Copied first: once retired, the poster may write the slot anew. */
	done = slots_[position & index_.mask()];
	index_.retire_to(index + done.quanta);
	return true;
}

void SendQueue::reset() noexcept
{
	lock_.lock();
	memset(static_cast<void *>(ring_.data()), 0, ring_.size_bytes());
	index_.reset();
	lock_.unlock();
}

} // namespace sirdma
