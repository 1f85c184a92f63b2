/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "wr_calls.hpp"

#include <cerrno>
#include <endian.h>

#include "mw.hpp"
#include "qp.hpp"
#include "verbs.hpp"

namespace sirdma
{

namespace
{

/* How requests of a queue pair name their destination. */
enum class Dest : uint8_t {
	connection, /* they do not */
	handle, /* ibv_wr_set_ud_addr() */
	srq, /* ibv_wr_set_xrc_srqn() */
};

SendQueue &send_queue(ibv_qp_ex *ex) noexcept
{
	return Qp::of(ex).queues().send;
}

/* What an application says of the flags besides its data: that has calls of its own. */
unsigned flags_of(const ibv_qp_ex *ex) noexcept
{
	return ex->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
}

/* The header of a request of @ex with entry @op, as far as it is known when the request begins. */
uint64_t header(const ibv_qp_ex *ex, const sirdma_sq &sq, uint32_t op, uint32_t key) noexcept
{
	const unsigned flags = ex->wr_flags;

	return sirdma_send_hdr(op, flags, sq.flag_bits) | (op & SIRDMA_SEND_OP_KEY ? key : 0);
}

/* A request of the current wr_id and flags. */
sirdma_send work_of(const ibv_qp_ex *ex, sirdma_wr_opcode opcode) noexcept
{
	sirdma_send work{};

	work.wr_id = ex->wr_id;
	work.opcode = opcode;
	work.flags = flags_of(ex);
	return work;
}

/* The data of an atomic has a place of its own, and so has that behind a word 0 which is not data. */
constexpr bool is_special(Dest dest, sirdma_wr_opcode opcode) noexcept
{
	return dest == Dest::srq || opcode == SIRDMA_WR_SEND_IMM || opcode == SIRDMA_WR_WRITE_IMM ||
	       opcode == SIRDMA_WR_CMP_SWAP || opcode == SIRDMA_WR_FETCH_ADD;
}

/* The parts that a request misses when it begins. */
constexpr uint32_t missing_parts(Dest dest, sirdma_wr_opcode opcode) noexcept
{
	return OpenRequest::data | (is_special(dest, opcode) ? OpenRequest::special : 0) |
	       (dest == Dest::connection ? 0 : OpenRequest::address);
}

/* The calls that are the same for all queue pairs. */

void wr_set_sge_list(ibv_qp_ex *ex, size_t num_sge, const ibv_sge *sges) noexcept
{
	send_queue(ex).set_fragments({sges, num_sge});
}

[[gnu::noinline]] void set_any_sge(ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
				   uint32_t length) noexcept
{
	const ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	send_queue(ex).set_fragments({&sge, 1});
}

[[gnu::noinline]] void set_any_inline(ibv_qp_ex *ex, void *addr, size_t length) noexcept
{
	const ibv_data_buf buf = {.addr = addr, .length = length};

	send_queue(ex).set_inline({&buf, 1});
}

/* The data fits in the first quantum, and only data is missing. */
[[gnu::noinline]] void set_short_inline(ibv_qp_ex *ex, void *addr, size_t length) noexcept
{
	OpenRequest &request = send_queue(ex).request;
	sirdma_sq &sq = send_queue(ex).queue();
	const auto bytes = static_cast<uint32_t>(length);
	sirdma_inline data;

	put(sq.wqe->frag_addr, 0);
	sirdma_inline_begin(&data, sq.wqe, sq.valid);
	sirdma_inline_add(&data, addr, bytes);
	request.hdr |= sirdma_inline_bits(bytes);
	sirdma_sq_set_length(&sq, bytes);
	sq.unfinished = OpenRequest::one;
}

/* All calls are tail calls, so that the compiler saves no registers. */
void wr_set_inline_data(ibv_qp_ex *ex, void *addr, size_t length) noexcept
{
	constexpr uint32_t kinds = SIRDMA_SEND_OP_INLINE | SIRDMA_SEND_OP_PLACEMENT;
	const sirdma_sq &sq = send_queue(ex).queue();

	if (sq.unfinished == OpenRequest::data && length <= SIRDMA_INLINE_FIRST &&
	    length <= sq.max_inline && (send_queue(ex).request.op & kinds) == SIRDMA_SEND_OP_INLINE)
		set_short_inline(ex, addr, length);
	else
		set_any_inline(ex, addr, length);
}

void wr_set_inline_data_list(ibv_qp_ex *ex, size_t num_buf, const ibv_data_buf *list) noexcept
{
	send_queue(ex).set_inline({list, num_buf});
}

void wr_set_ud_addr(ibv_qp_ex *ex, ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey) noexcept
{
	send_queue(ex).set_address(ah, remote_qpn, remote_qkey);
}

void wr_set_xrc_srqn(ibv_qp_ex *ex, uint32_t remote_srqn) noexcept
{
	send_queue(ex).set_srq(remote_srqn);
}

void wr_local_inv(ibv_qp_ex *ex, uint32_t rkey) noexcept
{
	sirdma_send work = work_of(ex, SIRDMA_WR_LOCAL_INV);

	work.key = rkey;
	send_queue(ex).take_next(work);
}

void wr_bind_mw(ibv_qp_ex *ex, ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info *info) noexcept
{
	SendQueue &queue = send_queue(ex);
	sirdma_send work = work_of(ex, SIRDMA_WR_BIND_MW);
	sirdma_bind bind;

	if (!queue.prepare(1))
		return;
	work.bind = &bind;
	if (const int err = describe_bind(mw, rkey, *info, bind))
		queue.fail(err);
	else
		queue.take_next(work);
}

/* Those that depend on how the destination is named. */
template <Dest dest> struct WrCalls {
	static void send(ibv_qp_ex *ex) noexcept { open<SIRDMA_WR_SEND>(ex, 0, 0, 0); }

	static void send_imm(ibv_qp_ex *ex, __be32 imm) noexcept
	{
		open<SIRDMA_WR_SEND_IMM>(ex, 0, 0, be32toh(imm));
	}

	static void send_inv(ibv_qp_ex *ex, uint32_t rkey) noexcept
	{
		open<SIRDMA_WR_SEND_INV>(ex, rkey, 0, 0);
	}

	static void rdma_write(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr) noexcept
	{
		open<SIRDMA_WR_WRITE>(ex, rkey, remote_addr, 0);
	}

	static void rdma_write_imm(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				   __be32 imm) noexcept
	{
		open<SIRDMA_WR_WRITE_IMM>(ex, rkey, remote_addr, be32toh(imm));
	}

	static void rdma_read(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr) noexcept
	{
		open<SIRDMA_WR_READ>(ex, rkey, remote_addr, 0);
	}

	static void atomic_cmp_swp(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				   uint64_t compare, uint64_t swap) noexcept
	{
		open_atomic<SIRDMA_WR_CMP_SWAP>(ex, rkey, remote_addr, swap, compare);
	}

	static void atomic_fetch_add(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				     uint64_t add) noexcept
	{
		open_atomic<SIRDMA_WR_FETCH_ADD>(ex, rkey, remote_addr, add, 0);
	}

	/* The eight bytes are copied now. */
	static void atomic_write(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				 const void *value) noexcept
	{
		open<SIRDMA_WR_ATOMIC_WRITE>(ex, rkey, remote_addr, 0);
		wr_set_inline_data(ex, const_cast<void *>(value), SIRDMA_ATOMIC_LEN);
	}

	static void flush(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length,
			  uint8_t type, uint8_t level) noexcept;
	static void set_sge(ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length) noexcept;

private:
	template <sirdma_wr_opcode opcode>
	static void open(ibv_qp_ex *ex, uint32_t key, uint64_t remote_addr, uint32_t imm) noexcept;
	template <sirdma_wr_opcode opcode>
	static void open_behind(ibv_qp_ex *ex, uint32_t key, uint64_t remote_addr,
				uint32_t imm) noexcept;
	template <sirdma_wr_opcode opcode>
	static void open_later(ibv_qp_ex *ex, uint32_t key, uint64_t remote_addr,
			       uint32_t imm) noexcept;
	template <sirdma_wr_opcode opcode>
	static void open_atomic(ibv_qp_ex *ex, uint32_t key, uint64_t remote_addr,
				uint64_t swap_add, uint64_t compare) noexcept;
};

/* Begin a request with data, in the next WQE. */
template <Dest dest>
template <sirdma_wr_opcode opcode>
[[gnu::always_inline]] inline void WrCalls<dest>::open(ibv_qp_ex *ex, uint32_t key,
						       uint64_t remote_addr, uint32_t imm) noexcept
{
	SendQueue &queue = send_queue(ex);
	OpenRequest &request = queue.request;
	sirdma_sq &sq = queue.queue();
	const uint32_t op = sirdma_send_op(opcode);

	sirdma_wqe *const wqe = sq.wqe;

	if (sq.unfinished) [[unlikely]] {
		open_behind<opcode>(ex, key, remote_addr, imm);
		return;
	}
	if (wqe == sq.limit) [[unlikely]] {
		open_later<opcode>(ex, key, remote_addr, imm);
		return;
	}
	sq.slot->wr_id = ex->wr_id;
	if constexpr (dest != Dest::handle)
		put(wqe->remote, remote_addr);
	if constexpr (dest == Dest::srq)
		request.imm = imm;
	else if (op & SIRDMA_SEND_OP_IMM)
		put(wqe->frag_addr, imm);
	request.op = op;
	request.hdr = header(ex, sq, op, key);
	sq.unfinished = missing_parts(dest, opcode);
}

/* The same when the request before is not committed, which mostly waits for nothing else. */
template <Dest dest>
template <sirdma_wr_opcode opcode>
[[gnu::noinline]] void WrCalls<dest>::open_behind(ibv_qp_ex *ex, uint32_t key, uint64_t remote_addr,
						  uint32_t imm) noexcept
{
	SendQueue &queue = send_queue(ex);

	if (queue.queue().unfinished != OpenRequest::one) [[unlikely]] {
		open_later<opcode>(ex, key, remote_addr, imm);
		return;
	}
	queue.commit_one();
	open<opcode>(ex, key, remote_addr, imm);
}

/* The same when the request before has no end yet, or when there may be no room. */
template <Dest dest>
template <sirdma_wr_opcode opcode>
[[gnu::cold, gnu::noinline]] void
WrCalls<dest>::open_later(ibv_qp_ex *ex, uint32_t key, uint64_t remote_addr, uint32_t imm) noexcept
{
	if (send_queue(ex).prepare(1))
		open<opcode>(ex, key, remote_addr, imm);
}

template <Dest dest>
template <sirdma_wr_opcode opcode>
void WrCalls<dest>::open_atomic(ibv_qp_ex *ex, uint32_t key, uint64_t remote_addr,
				uint64_t swap_add, uint64_t compare) noexcept
{
	SendQueue &queue = send_queue(ex);
	OpenRequest &request = queue.request;
	sirdma_sq &sq = queue.queue();

	if (!queue.prepare(SIRDMA_ATOMIC_WQE_QUANTA))
		return;
	sq.slot->wr_id = ex->wr_id;
	put(sq.wqe->remote, remote_addr);
	sirdma_put_operands(sq.wqe, swap_add, compare, 0, sq.valid);
	request.op = sirdma_send_op(opcode);
	request.hdr = header(ex, sq, request.op, key);
	sq.unfinished = missing_parts(dest, opcode);
}

/* It has no data, but may have to be told the queue. */
template <Dest dest>
void WrCalls<dest>::flush(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length,
			  uint8_t type, uint8_t level) noexcept
{
	SendQueue &queue = send_queue(ex);
	OpenRequest &request = queue.request;
	sirdma_sq &sq = queue.queue();
	const sirdma_flush flush = {.length = length, .placement = type, .level = level};
	sirdma_send work = work_of(ex, SIRDMA_WR_FLUSH);

	if (!queue.prepare(1))
		return;
	if (!sirdma_flush_ok(&flush)) {
		queue.fail(EINVAL);
		return;
	}
	work.remote_addr = remote_addr;
	work.flush = &flush;
	sq.slot->wr_id = ex->wr_id;
	request.op = sirdma_send_op(SIRDMA_WR_FLUSH);
	request.hdr = 0;
	sq.unfinished = missing_parts(dest, SIRDMA_WR_FLUSH);
	queue.data_is_set(
		1, 0, sirdma_put_flush(sq.wqe, &work, header(ex, sq, request.op, rkey), sq.valid));
}

/* Set data of one fragment. */
template <Dest dest>
void WrCalls<dest>::set_sge(ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length) noexcept
{
	SendQueue &queue = send_queue(ex);
	sirdma_sq &sq = queue.queue();
	const uint32_t missing = dest == Dest::connection ? sq.unfinished :
							    sq.unfinished & ~OpenRequest::address;

	if (missing != OpenRequest::data || length > SIRDMA_MAX_MSG_SIZE) [[unlikely]] {
		set_any_sge(ex, lkey, addr, length);
		return;
	}

	const sirdma_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	sirdma_put_frag(sirdma_frag_at(sq.wqe, 0), &sge, sq.valid);
	if constexpr (dest == Dest::connection) {
		sirdma_sq_set_length(&sq, length);
		sq.unfinished = OpenRequest::one;
	} else {
		queue.data_is_set(1, length, 0);
	}
}

template <Dest dest>
void set_calls(ibv_qp_ex &ex, const SendQueue &queue, uint64_t send_ops) noexcept
{
	using Calls = WrCalls<dest>;

	/* The calls that write a fragment without a look at the limits need one. */
	ex.wr_set_sge = queue.max_sge() ? Calls::set_sge : set_any_sge;
	if (send_ops & IBV_QP_EX_WITH_SEND)
		ex.wr_send = Calls::send;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex.wr_send_imm = Calls::send_imm;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex.wr_send_inv = Calls::send_inv;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex.wr_rdma_write = Calls::rdma_write;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex.wr_rdma_write_imm = Calls::rdma_write_imm;
	if (send_ops & IBV_QP_EX_WITH_RDMA_READ)
		ex.wr_rdma_read = Calls::rdma_read;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex.wr_atomic_cmp_swp = Calls::atomic_cmp_swp;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex.wr_atomic_fetch_add = Calls::atomic_fetch_add;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex.wr_atomic_write = Calls::atomic_write;
}

} // namespace

void wr_start(ibv_qp_ex *ex) noexcept
{
	send_queue(ex).start();
}

int wr_complete(ibv_qp_ex *ex) noexcept
{
	return send_queue(ex).complete();
}

void wr_abort(ibv_qp_ex *ex) noexcept
{
	send_queue(ex).abort();
}

void set_wr_calls(ibv_qp_ex &ex, const SendQueue &queue, uint64_t send_ops) noexcept
{
	ex.wr_start = wr_start;
	ex.wr_complete = wr_complete;
	ex.wr_abort = wr_abort;
	ex.wr_set_sge_list = wr_set_sge_list;
	ex.wr_set_inline_data = wr_set_inline_data;
	ex.wr_set_inline_data_list = wr_set_inline_data_list;
	if (send_ops & IBV_QP_EX_WITH_LOCAL_INV)
		ex.wr_local_inv = wr_local_inv;
	if (send_ops & IBV_QP_EX_WITH_BIND_MW)
		ex.wr_bind_mw = wr_bind_mw;
	if (queue.datagrams()) {
		ex.wr_set_ud_addr = wr_set_ud_addr;
		set_calls<Dest::handle>(ex, queue, send_ops);
	} else if (queue.xrc()) {
		ex.wr_set_xrc_srqn = wr_set_xrc_srqn;
		set_calls<Dest::srq>(ex, queue, send_ops);
	} else {
		set_calls<Dest::connection>(ex, queue, send_ops);
	}
}

private_abi::WrFlush wr_flush_call(const SendQueue &queue) noexcept
{
	return queue.xrc() ? WrCalls<Dest::srq>::flush : WrCalls<Dest::connection>::flush;
}

} // namespace sirdma
