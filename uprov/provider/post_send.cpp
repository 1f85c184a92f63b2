/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_post_send().
 */
#include <cerrno>
#include <cstring>

#include "ah.hpp"
#include "mw.hpp"
#include "qp.hpp"
#include "verbs.hpp"

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

/* The operations of post_plain() that a queue of this type has, a bit for each opcode. */
uint32_t plain_operations(const SendLimits &limits) noexcept
{
	constexpr uint32_t both = 1u << SIRDMA_WR_SEND | 1u << SIRDMA_WR_WRITE;

	if (!limits.max_sge)
		return 0;
	switch (limits.qp_type) {
	case SIRDMA_SEND_ON_RC:
		return limits.max_read_sge ? both | 1u << SIRDMA_WR_READ : both;
	case SIRDMA_SEND_ON_UC:
		return both;
	default:
		return 0;
	}
}

} // namespace

SendQueue::SendQueue(std::span<sirdma_wqe> ring, std::span<SendSlot> slots,
		     const SendLimits &limits, bool locked) noexcept
	: lock_(locked), plain_(plain_operations(limits)),
	  takes_inline_(
		  (limits.qp_type == SIRDMA_SEND_ON_RC || limits.qp_type == SIRDMA_SEND_ON_UC) &&
		  limits.max_inline >= SIRDMA_INLINE_FIRST),
	  queue_{}, domain_(limits.domain)
{
	queue_.ring = ring.data();
	queue_.slots = slots.data();
	queue_.size = static_cast<uint32_t>(ring.size());
	queue_.max_sge = limits.max_sge;
	queue_.max_read_sge = limits.max_read_sge;
	queue_.max_inline = limits.max_inline;
	queue_.qp_type = limits.qp_type;
	queue_.lacks = limits.lacks;
	queue_.signal_all = limits.signal_all;
	sirdma_sq_init(&queue_);
	sirdma_sq_close(&queue_);
}

void SendQueue::close() noexcept
{
	lock_.lock();
	sirdma_sq_close(&queue_);
	lock_.unlock();
}

int SendQueue::take_bind(const ibv_send_wr &wr, sirdma_send &work) noexcept
{
	sirdma_bind bind;

	if (const int err =
		    describe_bind(wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, bind))
		return err;
	work.bind = &bind;

	const int err = take(work);

	work.bind = nullptr;
	return err;
}

int SendQueue::take(const ibv_send_wr &wr) noexcept
{
	sirdma_send work = work_of(wr);

	if (work.opcode == IBV_WR_BIND_MW) [[unlikely]]
		return take_bind(wr, work);
	if (xrc())
		work.srq = sirdma_send_srq(wr.qp_type.xrc.remote_srqn);
	if (datagrams()) {
		const auto &ud = wr.wr.ud;

		if (!ud.ah || Ah::of(ud.ah).domain != domain_)
			return EINVAL;
		work.key = Ah::of(ud.ah).index;
		work.remote_addr = sirdma_send_dest(ud.remote_qpn, ud.remote_qkey);
	}
	return take(work);
}

/*
 * Post SEND, WRITE or READ of one fragment, without a call. Returns false if @wr is another request,
 * or if there may be no room: take() has to look at it.
 */
[[gnu::always_inline]] inline bool SendQueue::post_plain(const ibv_send_wr &wr) noexcept
{
	const unsigned opcode = opcode_of(wr), flags = wr.send_flags;
	sirdma_wqe *const wqe = queue_.wqe;
	const uint64_t valid = queue_.valid;
	uint64_t hdr, remote_addr = 0;

	if (opcode >= 32 || !(plain_ >> opcode & 1) || (flags & SIRDMA_SEND_INLINE) ||
	    wr.num_sge != 1 || wqe == queue_.limit) [[unlikely]]
		return false;

	const sirdma_sge *sge = codec_sges(wr.sg_list);

	if (sge->length > SIRDMA_MAX_MSG_SIZE) [[unlikely]]
		return false;
	if (opcode == SIRDMA_WR_SEND) {
		hdr = sirdma_send_hdr(sirdma_send_op(SIRDMA_WR_SEND), flags, queue_.flag_bits);
	} else {
		hdr = opcode == SIRDMA_WR_READ ? sirdma_send_hdr(sirdma_send_op(SIRDMA_WR_READ),
								 flags, queue_.flag_bits) :
						 sirdma_send_hdr(sirdma_send_op(SIRDMA_WR_WRITE),
								 flags, queue_.flag_bits);
		hdr |= wr.wr.rdma.rkey;
		remote_addr = wr.wr.rdma.remote_addr;
	}
	queue_.slot->wr_id = wr.wr_id;
	sirdma_sq_set_length(&queue_, sge->length);
	sirdma_put_frag(sirdma_frag_at(wqe, 0), sge, valid);
	put(wqe->remote, remote_addr);
	sirdma_sq_commit_alone(&queue_, 1, hdr);
	return true;
}

/*
 * Post SEND or WRITE of inline data that fills a quantum, as a list of short messages has it. Returns
 * false as post_plain() does.
 */
[[gnu::always_inline]] inline bool SendQueue::post_inline(const ibv_send_wr &wr) noexcept
{
	const unsigned opcode = opcode_of(wr), flags = wr.send_flags;
	const bool writes = opcode == SIRDMA_WR_WRITE;
	sirdma_wqe *const wqe = queue_.wqe;
	uint64_t hdr, remote_addr = 0;

	if (!(flags & SIRDMA_SEND_INLINE) || !(writes || opcode == SIRDMA_WR_SEND) ||
	    !takes_inline_ || wr.num_sge != 1 || wqe == queue_.limit ||
	    wr.sg_list->length != SIRDMA_INLINE_FIRST)
		return false;
	if (writes) {
		hdr = sirdma_send_hdr(sirdma_send_op(SIRDMA_WR_WRITE), flags, queue_.flag_bits);
		hdr |= wr.wr.rdma.rkey;
		remote_addr = wr.wr.rdma.remote_addr;
	} else {
		hdr = sirdma_send_hdr(sirdma_send_op(SIRDMA_WR_SEND), flags, queue_.flag_bits);
	}
	static_assert(SIRDMA_INLINE_FIRST == sizeof(wqe->frag_stag));
	queue_.slot->wr_id = wr.wr_id;
	sirdma_sq_set_length(&queue_, SIRDMA_INLINE_FIRST);
	put(wqe->frag_addr, 0);
	memcpy(&wqe->frag_stag, reinterpret_cast<const void *>(wr.sg_list->addr),
	       sizeof(wqe->frag_stag));
	put(wqe->remote, remote_addr);
	sirdma_sq_commit_alone(&queue_, 1, hdr | sirdma_inline_bits(SIRDMA_INLINE_FIRST));
	return true;
}

/* The entry of an operation that post_single() writes. */
[[gnu::always_inline]] inline uint32_t single_op(bool writes, bool has_imm) noexcept
{
	const uint32_t write = sirdma_send_op(has_imm ? SIRDMA_WR_WRITE_IMM : SIRDMA_WR_WRITE);
	const uint32_t send = sirdma_send_op(has_imm ? SIRDMA_WR_SEND_IMM : SIRDMA_WR_SEND);

	return writes ? write : send;
}

/*
 * Post SEND or WRITE, with immediate data or without, of one fragment or one piece of inline data, to a
 * queue that is not of an XRC initiator. Returns false if @wr is another request, or one that fails, or
 * if there may be no room: take() has to look at it.
 */
[[gnu::always_inline]] inline bool SendQueue::post_single(const ibv_send_wr &wr) noexcept
{
	const unsigned opcode = opcode_of(wr), flags = wr.send_flags;
	const bool has_imm = opcode == SIRDMA_WR_WRITE_IMM || opcode == SIRDMA_WR_SEND_IMM;
	const bool writes = opcode == SIRDMA_WR_WRITE_IMM || opcode == SIRDMA_WR_WRITE;

	if (!(has_imm || writes || opcode == SIRDMA_WR_SEND) || wr.num_sge != 1 || xrc())
		return false;

	const bool is_inline = flags & SIRDMA_SEND_INLINE;
	const sirdma_sge *sge = codec_sges(wr.sg_list);
	const uint32_t length = sge->length;
	const uint32_t quanta = is_inline ? sirdma_inline_quanta(length) :
					    sirdma_frag_quanta(has_imm ? 2 : 1);

	if (is_inline ? length > queue_.max_inline :
			length > SIRDMA_MAX_MSG_SIZE || !queue_.max_sge)
		return false;
	if (quanta > sirdma_sq_room(&queue_) || quanta > sirdma_sq_in_chunk(&queue_))
		return false;

	uint64_t remote = 0, hdr = 0;

	if (datagrams()) {
		const auto &ud = wr.wr.ud;

		if (writes || !ud.ah || Ah::of(ud.ah).domain != domain_)
			return false;
		hdr = Ah::of(ud.ah).index;
		remote = sirdma_send_dest(ud.remote_qpn, ud.remote_qkey);
	} else if (writes) {
		hdr = wr.wr.rdma.rkey;
		remote = wr.wr.rdma.remote_addr;
	}
	hdr |= sirdma_send_hdr(single_op(writes, has_imm), flags, queue_.flag_bits);

	sirdma_wqe *const wqe = queue_.wqe;
	const uint64_t valid = queue_.valid;

	if (has_imm || is_inline)
		put(wqe->frag_addr, has_imm ? be32toh(wr.imm_data) : 0);
	if (is_inline) {
		sirdma_put_inline(wqe, sge, 1, valid);
		hdr |= sirdma_inline_bits(length);
	} else {
		hdr |= sirdma_put_data(wqe, sge, 1, has_imm ? 1 : 0, valid);
	}
	put(wqe->remote, remote);
	queue_.slot->wr_id = wr.wr_id;
	sirdma_sq_set_length(&queue_, length);
	sirdma_sq_commit_alone(&queue_, quanta, hdr);
	return true;
}

/* The same with requests of any kind, the queue locked. @posted: something was posted before. */
[[gnu::noinline]] int SendQueue::post_rest(const ibv_send_wr *wr, const ibv_send_wr **bad,
					   bool posted) noexcept
{
	int err = 0;

	for (; wr; wr = wr->next) {
		if (!post_inline(*wr) && !post_single(*wr)) {
			err = take(*wr);
			if (err) [[unlikely]] {
				*bad = wr;
				break;
			}
			sirdma_sq_publish(&queue_);
		}
		posted = true;
	}
	lock_.unlock();
	if (posted)
		doorbell.ring_send();
	return err;
}

[[gnu::noinline]] int SendQueue::post_contended(const ibv_send_wr *wr,
						const ibv_send_wr **bad) noexcept
{
	lock_.lock();
	return post_rest(wr, bad, false);
}

int SendQueue::post(const ibv_send_wr *wr, const ibv_send_wr **bad) noexcept
{
	const ibv_send_wr *const list = wr;

	if (!lock_.try_lock()) [[unlikely]]
		return post_contended(wr, bad);
	while (wr && post_plain(*wr))
		wr = wr->next;
	if (wr) [[unlikely]]
		return post_rest(wr, bad, wr != list);
	lock_.unlock();
	/* Do this after the lock is dropped: see QpDoorbell. */
	doorbell.ring_send();
	return 0;
}

void SendQueue::reset() noexcept
{
	lock_.lock();
	sirdma_sq_reset(&queue_);
	request = {};
	queue_.unfinished = 0;
	lock_.unlock();
}

[[gnu::flatten]] int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad_wr) noexcept
{
	return Qp::of(qp).queues().send.post(wr, const_cast<const ibv_send_wr **>(bad_wr));
}

} // namespace sirdma
