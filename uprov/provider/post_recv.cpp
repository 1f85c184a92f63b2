/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <cerrno>

#include "recv_queue.hpp"
#include "wqe.hpp"

namespace sirdma
{

RecvQueue::RecvQueue(std::span<sirdma_wqe> ring, std::span<uint64_t> wr_ids, uint32_t shift,
		     uint32_t max_sge, QpDoorbell &doorbell, bool locked) noexcept
	: lock_(locked), index_(static_cast<uint32_t>(wr_ids.size())), ring_(ring), wr_ids_(wr_ids),
	  shift_(shift), max_sge_(max_sge), doorbell_(doorbell)
{
}

uint32_t RecvQueue::free_wqes() const noexcept
{
	return index_.size() - index_.used() - SIRDMA_RQ_RSVD_WQES;
}

int RecvQueue::take(const ibv_recv_wr &wr) noexcept
{
	const auto num_sge = static_cast<uint32_t>(wr.num_sge);

	if (num_sge > max_sge_)
		return EINVAL;
	if (free_wqes() == 0)
		return ENOMEM;

	const std::span<const ibv_sge> sges(wr.sg_list, num_sge);

	for (const ibv_sge &sge : sges) {
		if (sge.length > SIRDMA_MAX_MSG_SIZE)
			return EINVAL;
	}

	const uint32_t head = index_.head();
	const uint32_t slot = head & index_.mask();
	const uint64_t valid = valid_bit(head, index_.size());
	sirdma_wqe *wqe = &ring_[slot << shift_];

	wr_ids_[slot] = wr.wr_id;
	const uint64_t hdr = put_fragments(wqe, sges, 0, valid) | valid;
	put(wqe->remote, 0);
	index_.set_head(head + 1);
	put_release(wqe->hdr, hdr);
	return 0;
}

int RecvQueue::post(const ibv_recv_wr *wr, const ibv_recv_wr **bad) noexcept
{
	int err = 0;

	lock_.lock();
	const uint32_t start = index_.head();
	for (; wr; wr = wr->next) {
		err = take(*wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	if (index_.head() != start)
		doorbell_.ring_recv();
	lock_.unlock();
	return err;
}

bool RecvQueue::complete(uint32_t position, uint64_t &wr_id) noexcept
{
	const uint32_t slot = (position >> shift_) & index_.mask();
	uint32_t index;

	if (!index_.locate(slot, index))
		return false;
	wr_id = wr_ids_[slot];
	index_.retire_to(index + 1);
	return true;
}

void RecvQueue::reset() noexcept
{
	lock_.lock();
	memset(static_cast<void *>(ring_.data()), 0, ring_.size_bytes());
	index_.reset();
	lock_.unlock();
}

} // namespace sirdma
