/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts of the request that ibv_wr_*() is writing, in any order.
 */
#include <cerrno>

#include "ah.hpp"
#include "send_queue.hpp"

namespace sirdma
{

/* The first fragment that is data: see sirdma_send_first_frag(). */
uint32_t SendQueue::first_frag() const noexcept
{
	return (request.op & SIRDMA_SEND_OP_IMM) || xrc() ? 1 : 0;
}

void SendQueue::is_set(uint32_t parts) noexcept
{
	queue_.unfinished &= ~parts;
	if (queue_.unfinished)
		return;
	sirdma_sq_set_length(&queue_, request.length);
	sirdma_sq_commit(&queue_, request.quanta, request.hdr);
}

/* Does the open request miss its data? Data that is set twice is an error. */
bool SendQueue::misses_data() noexcept
{
	if (queue_.unfinished == OpenRequest::address)
		fail(EINVAL);
	return queue_.unfinished & OpenRequest::data;
}

/*
 * Let the WQE of the open request have @quanta. If NOPs come before it, what is written of it moves
 * with it. Returns false if the request fails.
 */
bool SendQueue::place_request(uint32_t quanta) noexcept
{
	const sirdma_wqe *const from = queue_.wqe;
	const uint64_t wr_id = queue_.slot->wr_id;
	const uint64_t first = get(from->frag_addr), remote = get(from->remote);

	if (const int err = sirdma_sq_place(&queue_, quanta)) {
		fail(-err);
		return false;
	}
	if (queue_.wqe != from) {
		request.hdr = (request.hdr & ~SIRDMA_WQE_VALID) | queue_.valid;
		queue_.slot->wr_id = wr_id;
		put(queue_.wqe->frag_addr, first);
		put(queue_.wqe->remote, remote);
	}
	return true;
}

void SendQueue::set_fragments(std::span<const ibv_sge> sges) noexcept
{
	if (!misses_data())
		return;

	const bool too_many = sges.size() > queue_.max_sge;
	const uint32_t count = too_many ? 0 : static_cast<uint32_t>(sges.size());
	const uint64_t bytes = sirdma_sge_bytes(codec_sges(sges.data()), count);
	const uint32_t quanta =
		sirdma_send_quanta(&queue_, request.op, false, count, first_frag(), bytes);

	if (too_many || !quanta) {
		fail(EINVAL);
		return;
	}
	if (!place_request(quanta))
		return;
	if (request.op & SIRDMA_SEND_OP_ATOMIC)
		data_is_set(quanta, SIRDMA_ATOMIC_LEN,
			    sirdma_put_result(queue_.wqe, codec_sges(sges.data())));
	else
		data_is_set(quanta, static_cast<uint32_t>(bytes),
			    sirdma_put_data(queue_.wqe, codec_sges(sges.data()), count,
					    first_frag(), queue_.valid));
}

void SendQueue::set_inline(std::span<const ibv_data_buf> bufs) noexcept
{
	uint32_t bytes = 0;

	if (!misses_data())
		return;
	for (const ibv_data_buf &buf : bufs) {
		if (buf.length > SIRDMA_MAX_INLINE - bytes) {
			fail(EINVAL);
			return;
		}
		bytes += static_cast<uint32_t>(buf.length);
	}

	const uint32_t quanta =
		sirdma_send_quanta(&queue_, request.op, true, 1, first_frag(), bytes);

	if (!quanta) {
		fail(EINVAL);
		return;
	}
	if (!place_request(quanta))
		return;

	sirdma_inline data;

	/* Word 0 has what takes the place of fragment 0, or nothing. */
	if (!first_frag())
		put(queue_.wqe->frag_addr, 0);
	sirdma_inline_begin(&data, queue_.wqe, queue_.valid);
	for (const ibv_data_buf &buf : bufs)
		sirdma_inline_add(&data, buf.addr, static_cast<uint32_t>(buf.length));
	sirdma_inline_end(&data);
	data_is_set(quanta, bytes, sirdma_inline_bits(bytes));
}

void SendQueue::set_address(ibv_ah *ah, uint32_t qpn, uint32_t qkey) noexcept
{
	if (!queue_.unfinished || has_failed())
		return;
	if (!ah || Ah::of(ah).domain != domain_) [[unlikely]] {
		fail(EINVAL);
		return;
	}
	put(queue_.wqe->remote, sirdma_send_dest(qpn, qkey));
	request.hdr = (request.hdr & ~SIRDMA_WQE_REMSTAG) | Ah::of(ah).index;
	is_set(OpenRequest::address);
}

void SendQueue::set_srq(uint32_t number) noexcept
{
	if (!queue_.unfinished || has_failed())
		return;
	sirdma_put_srq(queue_.wqe, request.op, number, request.imm);
	is_set(OpenRequest::address);
}

/*
 * No other part of the open request will be set. If its data was not set, it has none. Returns false
 * if a request has failed.
 */
bool SendQueue::end_request() noexcept
{
	if (has_failed())
		return false;
	if (queue_.unfinished == OpenRequest::one)
		commit_one();
	else if (queue_.unfinished & OpenRequest::address)
		fail(EINVAL);
	else if (queue_.unfinished)
		set_fragments({});
	return !has_failed();
}

[[gnu::noinline]] bool SendQueue::prepare(uint32_t quanta) noexcept
{
	if (!end_request())
		return false;
	if (const int err = sirdma_sq_place(&queue_, quanta))
		fail(-err);
	return !has_failed();
}

void SendQueue::take_next(const sirdma_send &work) noexcept
{
	if (!end_request())
		return;
	if (const int err = take(work))
		fail(err);
}

void SendQueue::start_shared() noexcept
{
	lock_.lock();
}

/* All requests are written: make them valid. */
int SendQueue::publish() noexcept
{
	const bool posted = sirdma_sq_publish(&queue_);

	lock_.unlock();
	if (posted)
		doorbell.ring_send();
	return 0;
}

int SendQueue::complete_list() noexcept
{
	if (end_request()) [[likely]]
		return publish();

	const int err = request.err;

	abort();
	return err;
}

void SendQueue::abort() noexcept
{
	sirdma_sq_rewind(&queue_);
	queue_.unfinished = 0;
	lock_.unlock();
}

} // namespace sirdma
