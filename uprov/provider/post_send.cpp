/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <cerrno>
#include <cstring>

#include "ah.hpp"
#include "mw.hpp"
#include "send_queue.hpp"

namespace sirdma
{

namespace
{

static_assert(int{SIRDMA_WR_WRITE} == int{IBV_WR_RDMA_WRITE});
static_assert(int{SIRDMA_WR_WRITE_IMM} == int{IBV_WR_RDMA_WRITE_WITH_IMM});
static_assert(int{SIRDMA_WR_SEND} == int{IBV_WR_SEND});
static_assert(int{SIRDMA_WR_SEND_IMM} == int{IBV_WR_SEND_WITH_IMM});
static_assert(int{SIRDMA_WR_READ} == int{IBV_WR_RDMA_READ});
static_assert(int{SIRDMA_WR_CMP_SWAP} == int{IBV_WR_ATOMIC_CMP_AND_SWP});
static_assert(int{SIRDMA_WR_FETCH_ADD} == int{IBV_WR_ATOMIC_FETCH_AND_ADD});
static_assert(int{SIRDMA_WR_LOCAL_INV} == int{IBV_WR_LOCAL_INV});
static_assert(int{SIRDMA_WR_BIND_MW} == int{IBV_WR_BIND_MW});
static_assert(int{SIRDMA_WR_SEND_INV} == int{IBV_WR_SEND_WITH_INV});
static_assert(int{SIRDMA_WR_ATOMIC_WRITE} == int{IBV_WR_ATOMIC_WRITE});
static_assert(int{SIRDMA_SEND_FENCE} == int{IBV_SEND_FENCE});
static_assert(int{SIRDMA_SEND_SIGNALED} == int{IBV_SEND_SIGNALED});
static_assert(int{SIRDMA_SEND_SOLICITED} == int{IBV_SEND_SOLICITED});
static_assert(int{SIRDMA_SEND_INLINE} == int{IBV_SEND_INLINE});

/* The application may have stored any number, so it is not read as the enum. */
unsigned opcode_of(const ibv_send_wr &wr) noexcept
{
	static_assert(sizeof(wr.opcode) == sizeof(unsigned));
	unsigned opcode;

	memcpy(&opcode, &wr.opcode, sizeof(opcode));
	return opcode;
}

sirdma_send work_of(const ibv_send_wr &wr) noexcept
{
	sirdma_send work = {
		.wr_id = wr.wr_id,
		.opcode = opcode_of(wr),
		.flags = wr.send_flags,
		.remote_addr = 0,
		.key = 0,
		.imm = 0,
		.sges = codec_sges(wr.sg_list),
		/* A negative count becomes larger than any limit. */
		.num_sge = static_cast<uint32_t>(wr.num_sge),
		.swap_add = 0,
		.compare = 0,
		.srq = 0,
		.bind = nullptr,
	};

	switch (work.opcode) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		work.imm = be32toh(wr.imm_data);
		[[fallthrough]];
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_WRITE:
		work.remote_addr = wr.wr.rdma.remote_addr;
		work.key = wr.wr.rdma.rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		work.remote_addr = wr.wr.atomic.remote_addr;
		work.key = wr.wr.atomic.rkey;
		sirdma_send_set_operands(&work, wr.wr.atomic.compare_add, wr.wr.atomic.swap);
		break;
	case IBV_WR_SEND_WITH_IMM:
		work.imm = be32toh(wr.imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		work.key = wr.invalidate_rkey;
		break;
	case SIRDMA_WR_FLUSH:
		/* struct ibv_send_wr has no place for what a FLUSH asks for. */
		work.opcode = ~0u;
		break;
	default:
		break;
	}
	return work;
}

} // namespace

SendQueue::SendQueue(std::span<sirdma_wqe> ring, std::span<SendSlot> slots,
		     const SendLimits &limits, QpDoorbell &doorbell, bool locked) noexcept
	: lock_(locked), queue_{.ring = ring.data(),
				.slots = slots.data(),
				.size = static_cast<uint32_t>(ring.size()),
				.max_sge = limits.max_sge,
				.max_read_sge = limits.max_read_sge,
				.max_inline = limits.max_inline,
				.qp_type = limits.qp_type,
				.lacks = limits.lacks,
				.signal_all = limits.signal_all,
				.head = 0,
				.tail = 0},
	  domain_(limits.domain), doorbell_(doorbell)
{
}

int SendQueue::take(const sirdma_send &work) noexcept
{
	return -sirdma_sq_take(&queue_, &work);
}

int SendQueue::address(ibv_ah *ah, uint32_t qpn, uint32_t qkey, sirdma_send &work) const noexcept
{
	if (!ah || Ah::of(ah).domain != domain_)
		return EINVAL;
	work.key = Ah::of(ah).index;
	work.remote_addr = sirdma_send_dest(qpn, qkey);
	return 0;
}

int SendQueue::take_bind(const ibv_send_wr &wr, sirdma_send &work) noexcept
{
	sirdma_bind bind;

	if (const int err =
		    describe_bind(wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, bind))
		return err;
	work.bind = &bind;
	return take(work);
}

int SendQueue::take(const ibv_send_wr &wr) noexcept
{
	sirdma_send work = work_of(wr);

	if (work.opcode == IBV_WR_BIND_MW) [[unlikely]]
		return take_bind(wr, work);
	if (addressed()) {
		const auto &ud = wr.wr.ud;

		if (xrc())
			work.srq = sirdma_send_srq(wr.qp_type.xrc.remote_srqn);
		else if (const int err = address(ud.ah, ud.remote_qpn, ud.remote_qkey, work))
			return err;
	}
	return take(work);
}

int SendQueue::post(const ibv_send_wr *wr, const ibv_send_wr **bad) noexcept
{
	int err = 0;

	lock_.lock();
	const uint32_t start = queue_.head;
	for (; wr; wr = wr->next) {
		const uint32_t from = queue_.head;

		err = take(*wr);
		if (err) {
			*bad = wr;
			break;
		}
		sirdma_sq_publish(&queue_, from);
	}
	const bool posted = queue_.head != start;
	lock_.unlock();
	/* Do this after the lock is dropped: see QpDoorbell. */
	if (posted)
		doorbell_.ring_send();
	return err;
}

void SendQueue::begin() noexcept
{
	lock_.lock();
	begun_ = queue_.head;
}

int SendQueue::commit(int err) noexcept
{
	if (err) {
		abort();
		return err;
	}
	const bool posted = queue_.head != begun_;
	sirdma_sq_publish(&queue_, begun_);
	lock_.unlock();
	if (posted)
		doorbell_.ring_send();
	return 0;
}

void SendQueue::abort() noexcept
{
	sirdma_sq_rewind(&queue_, begun_);
	lock_.unlock();
}

void SendQueue::reset() noexcept
{
	lock_.lock();
	sirdma_sq_reset(&queue_);
	lock_.unlock();
}

} // namespace sirdma
