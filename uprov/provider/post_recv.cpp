/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "recv_queue.hpp"
#include "send_queue.hpp"

namespace sirdma
{

RecvQueue::RecvQueue(std::span<sirdma_wqe> ring, std::span<__u64> wr_ids, uint32_t shift,
		     uint32_t max_sge, QpDoorbell &doorbell, bool locked) noexcept
	: lock_(locked), queue_{}, doorbell_(doorbell)
{
	queue_.ring = ring.data();
	queue_.wr_ids = wr_ids.data();
	queue_.size = static_cast<uint32_t>(ring.size());
	queue_.stride = 1U << shift;
	queue_.max_sge = max_sge;
	sirdma_rq_init(&queue_);
}

int RecvQueue::post(const ibv_recv_wr *wr, const ibv_recv_wr **bad) noexcept
{
	int err = 0;

	lock_.lock();
	const uint32_t start = queue_.head;
	for (; wr; wr = wr->next) {
		err = -sirdma_rq_take(&queue_, wr->wr_id, codec_sges(wr->sg_list),
				      static_cast<uint32_t>(wr->num_sge));
		if (err) {
			*bad = wr;
			break;
		}
	}
	const bool posted = queue_.head != start;
	lock_.unlock();
	if (posted)
		doorbell_.ring_recv();
	return err;
}

void RecvQueue::reset() noexcept
{
	lock_.lock();
	sirdma_rq_reset(&queue_);
	lock_.unlock();
}

} // namespace sirdma
