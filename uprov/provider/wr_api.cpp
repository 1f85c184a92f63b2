/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_wr_start() … ibv_wr_complete(): several calls describe each request, and all requests
 * become valid together or not at all.
 */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <iterator>

#include "mw.hpp"
#include "qp.hpp"
#include "verbs.hpp"

namespace sirdma
{

namespace
{

/*
 * The offset of comp_mask in the library's struct verbs_qp, which depends on the size of
 * struct ibv_qp_ex in its release. ibv_qp_to_qp_ex() reads only this mask, so trying it
 * tells the offset. 0: not found.
 */
size_t find_comp_mask() noexcept
{
	const uint32_t mask = VERBS_QP_EX;

	for (size_t offset = private_abi::qp_ex_size_min; offset < private_abi::qp_size_max;
	     offset += alignof(ibv_qp_ex)) {
		QpBase probe = {.reserved = {}};

		memcpy(probe.reserved + offset, &mask, sizeof(mask));
		if (ibv_qp_to_qp_ex(&probe.qp))
			return offset;
	}
	return 0;
}

size_t comp_mask_offset() noexcept
{
	static const size_t offset = find_comp_mask();

	return offset;
}

static_assert(sizeof(void *) != 8 ||
	      offsetof(ibv_qp_ex, wr_atomic_write) + sizeof(void *) == private_abi::qp_ex_wr_flush);

/* Has the library's struct ibv_qp_ex the member at @offset? A newer one is longer. */
bool library_has(size_t offset) noexcept
{
	return comp_mask_offset() > offset;
}

/* The operations that a QP of @type supports on a device that @lacks some operations. */
uint64_t supported_send_ops(ibv_qp_type type, uint32_t lacks) noexcept
{
	constexpr uint64_t connected = IBV_QP_EX_WITH_RDMA_WRITE |
				       IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
				       IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
				       IBV_QP_EX_WITH_BIND_MW;
	constexpr uint64_t atomics = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	uint64_t placement = 0;

	if (!(lacks & SIRDMA_SEND_OP_PLACEMENT) &&
	    library_has(offsetof(ibv_qp_ex, wr_atomic_write)))
		placement |= IBV_QP_EX_WITH_ATOMIC_WRITE;
	if (!(lacks & SIRDMA_SEND_OP_PLACEMENT) && library_has(private_abi::qp_ex_wr_flush))
		placement |= private_abi::qp_ex_with_flush;
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return connected | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND_WITH_INV |
		       (lacks & SIRDMA_SEND_OP_ATOMIC ? 0 : atomics) | placement;
	case IBV_QPT_UD:
		return IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	case IBV_QPT_XRC_RECV:
		return 0;
	default:
		return connected;
	}
}

/* Write the open request, of which all parts are known, as a WQE. */
void write_request(Qp &qp) noexcept
{
	qp.request.open = false;
	qp.request.err = qp.queues().send.take(qp.request.work);
}

/* Copy the data of the request: the application may reuse the memory that describes it. */
void keep_data(OpenRequest &r) noexcept
{
	if (r.work.num_sge > std::size(r.sges)) {
		r.err = EINVAL;
		return;
	}
	r.has_data = true;
	std::copy_n(r.work.sges, r.work.num_sge, reinterpret_cast<sirdma_sge *>(r.sges));
	r.work.sges = codec_sges(r.sges);
	if (r.work.flags & IBV_SEND_INLINE) {
		memcpy(r.bytes, reinterpret_cast<const void *>(r.sges[0].addr), r.sges[0].length);
		r.sges[0].addr = reinterpret_cast<uintptr_t>(r.bytes);
	}
}

/* Set this data of the open request, unless an earlier request failed. */
void set_data(Qp &qp, std::span<const ibv_sge> sges, unsigned extra_flags) noexcept
{
	OpenRequest &r = qp.request;

	if (!r.open || r.err)
		return;
	if (r.has_data) {
		r.err = EINVAL;
		return;
	}
	r.work.sges = codec_sges(sges.data());
	r.work.num_sge = static_cast<uint32_t>(sges.size());
	r.work.flags |= extra_flags;
	if (r.addressed)
		write_request(qp);
	else
		keep_data(r);
}

/* No other part of the open request will be set. If its data was not set, it has none. */
void end_request(Qp &qp) noexcept
{
	OpenRequest &r = qp.request;

	if (!r.open || r.err)
		return;
	if (r.addressed)
		write_request(qp);
	else
		r.err = EINVAL;
}

void open_request(ibv_qp_ex *ex, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
		  __be32 imm) noexcept
{
	Qp &qp = Qp::of(ex);

	end_request(qp);
	qp.request.open = true;
	qp.request.has_data = false;
	/* What sends nothing names no destination. */
	qp.request.addressed = !qp.queues().send.addressed() || opcode == IBV_WR_LOCAL_INV ||
			       opcode == IBV_WR_BIND_MW;
	qp.request.work = {
		.wr_id = ex->wr_id,
		.opcode = opcode,
		.flags = ex->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE),
		.remote_addr = remote_addr,
		.key = rkey,
		.imm = be32toh(imm),
		.sges = nullptr,
		.num_sge = 0,
		.swap_add = 0,
		.compare = 0,
		.srq = 0,
		.bind = nullptr,
	};
}

void wr_send(ibv_qp_ex *ex) noexcept
{
	open_request(ex, IBV_WR_SEND, 0, 0, 0);
}

void wr_send_imm(ibv_qp_ex *ex, __be32 imm) noexcept
{
	open_request(ex, IBV_WR_SEND_WITH_IMM, 0, 0, imm);
}

void wr_send_inv(ibv_qp_ex *ex, uint32_t rkey) noexcept
{
	open_request(ex, IBV_WR_SEND_WITH_INV, rkey, 0, 0);
}

void wr_local_inv(ibv_qp_ex *ex, uint32_t rkey) noexcept
{
	open_request(ex, IBV_WR_LOCAL_INV, rkey, 0, 0);
}

void wr_bind_mw(ibv_qp_ex *ex, ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info *info) noexcept
{
	open_request(ex, IBV_WR_BIND_MW, 0, 0, 0);

	OpenRequest &r = Qp::of(ex).request;

	if (!r.err)
		r.err = describe_bind(mw, rkey, *info, r.bind);
	r.work.bind = &r.bind;
}

void wr_rdma_write(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr) noexcept
{
	open_request(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

void wr_rdma_write_imm(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm) noexcept
{
	open_request(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm);
}

void wr_rdma_read(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr) noexcept
{
	open_request(ex, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

void open_atomic(ibv_qp_ex *ex, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
		 uint64_t compare_add, uint64_t swap) noexcept
{
	open_request(ex, opcode, rkey, remote_addr, 0);
	sirdma_send_set_operands(&Qp::of(ex).request.work, compare_add, swap);
}

void wr_atomic_cmp_swp(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
		       uint64_t swap) noexcept
{
	open_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

void wr_atomic_fetch_add(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t add) noexcept
{
	open_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

/* The eight bytes are copied now. */
void wr_atomic_write(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, const void *value) noexcept
{
	const ibv_sge sge = {
		.addr = reinterpret_cast<uintptr_t>(value), .length = SIRDMA_ATOMIC_LEN, .lkey = 0};

	open_request(ex, IBV_WR_ATOMIC_WRITE, rkey, remote_addr, 0);
	set_data(Qp::of(ex), {&sge, 1}, IBV_SEND_INLINE);
}

void wr_flush(ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length, uint8_t type,
	      uint8_t level) noexcept
{
	const sirdma_flush flush = {.length = length, .placement = type, .level = level};

	open_request(ex, static_cast<ibv_wr_opcode>(SIRDMA_WR_FLUSH), rkey, remote_addr, 0);

	Qp &qp = Qp::of(ex);

	if (qp.request.err)
		return;
	if (!sirdma_flush_ok(&flush)) {
		qp.request.err = EINVAL;
		return;
	}
	qp.request.flush = flush;
	qp.request.work.flush = &qp.request.flush;
	qp.request.has_data = true;
	if (qp.request.addressed)
		write_request(qp);
}

void wr_set_xrc_srqn(ibv_qp_ex *ex, uint32_t remote_srqn) noexcept
{
	Qp &qp = Qp::of(ex);
	OpenRequest &r = qp.request;

	if (!r.open || r.err)
		return;
	r.work.srq = sirdma_send_srq(remote_srqn);
	r.addressed = true;
	if (r.has_data)
		write_request(qp);
}

void wr_set_ud_addr(ibv_qp_ex *ex, ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey) noexcept
{
	Qp &qp = Qp::of(ex);
	OpenRequest &r = qp.request;

	if (!r.open || r.err)
		return;
	r.err = qp.queues().send.address(ah, remote_qpn, remote_qkey, r.work);
	r.addressed = true;
	if (!r.err && r.has_data)
		write_request(qp);
}

void wr_set_sge(ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length) noexcept
{
	const ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	set_data(Qp::of(ex), {&sge, 1}, 0);
}

void wr_set_sge_list(ibv_qp_ex *ex, size_t num_sge, const ibv_sge *sges) noexcept
{
	set_data(Qp::of(ex), {sges, num_sge}, 0);
}

void wr_set_inline_data(ibv_qp_ex *ex, void *addr, size_t length) noexcept
{
	Qp &qp = Qp::of(ex);

	if (length > SIRDMA_MAX_INLINE) {
		if (!qp.request.err)
			qp.request.err = EINVAL;
		return;
	}

	const ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(addr),
			     .length = static_cast<uint32_t>(length),
			     .lkey = 0};

	set_data(qp, {&sge, 1}, IBV_SEND_INLINE);
}

void wr_set_inline_data_list(ibv_qp_ex *ex, size_t num_buf, const ibv_data_buf *list) noexcept
{
	Qp &qp = Qp::of(ex);
	uint8_t joined[SIRDMA_MAX_INLINE];
	size_t length = 0;

	for (const ibv_data_buf &buf : std::span(list, num_buf)) {
		if (buf.length > sizeof(joined) - length) {
			if (!qp.request.err)
				qp.request.err = EINVAL;
			return;
		}
		if (buf.length)
			memcpy(joined + length, buf.addr, buf.length);
		length += buf.length;
	}
	wr_set_inline_data(ex, joined, length);
}

} // namespace

void wr_start(ibv_qp_ex *ex) noexcept
{
	Qp &qp = Qp::of(ex);

	qp.queues().send.begin();
	qp.request.open = false;
	qp.request.err = qp.queues().may_send();
}

int wr_complete(ibv_qp_ex *ex) noexcept
{
	Qp &qp = Qp::of(ex);

	end_request(qp);
	return qp.queues().send.commit(qp.request.err);
}

void wr_abort(ibv_qp_ex *ex) noexcept
{
	Qp::of(ex).queues().send.abort();
}

void Qp::enable_wr_api(uint64_t send_ops) noexcept
{
	ex.wr_start = wr_start;
	ex.wr_complete = wr_complete;
	ex.wr_abort = wr_abort;
	ex.wr_set_sge = wr_set_sge;
	ex.wr_set_sge_list = wr_set_sge_list;
	ex.wr_set_inline_data = wr_set_inline_data;
	ex.wr_set_inline_data_list = wr_set_inline_data_list;
	if (queues_.send.datagrams())
		ex.wr_set_ud_addr = wr_set_ud_addr;
	if (queues_.send.xrc())
		ex.wr_set_xrc_srqn = wr_set_xrc_srqn;
	if (send_ops & IBV_QP_EX_WITH_SEND)
		ex.wr_send = wr_send;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex.wr_send_imm = wr_send_imm;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex.wr_send_inv = wr_send_inv;
	if (send_ops & IBV_QP_EX_WITH_LOCAL_INV)
		ex.wr_local_inv = wr_local_inv;
	if (send_ops & IBV_QP_EX_WITH_BIND_MW)
		ex.wr_bind_mw = wr_bind_mw;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex.wr_rdma_write = wr_rdma_write;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex.wr_rdma_write_imm = wr_rdma_write_imm;
	if (send_ops & IBV_QP_EX_WITH_RDMA_READ)
		ex.wr_rdma_read = wr_rdma_read;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex.wr_atomic_write = wr_atomic_write;
	if (send_ops & private_abi::qp_ex_with_flush) {
		const private_abi::WrFlush flush = wr_flush;

		memcpy(reserved + private_abi::qp_ex_wr_flush, &flush, sizeof(flush));
	}

	const uint32_t mask = VERBS_QP_EX;

	memcpy(reserved + comp_mask_offset(), &mask, sizeof(mask));
}

ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept
{
	constexpr uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
				   IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	const bool wr_api = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if ((attr->comp_mask & ~known) ||
	    ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags) ||
	    (wr_api && ((attr->send_ops_flags &
			 ~supported_send_ops(attr->qp_type, Context::of(context).limits.lacks)) ||
			!comp_mask_offset()))) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return create_target(context, attr);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		errno = EINVAL;
		return nullptr;
	}

	ibv_qp_init_attr plain = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
	};
	Qp *qp = Qp::create(Context::of(context), attr->pd, plain);

	if (!qp)
		return nullptr;
	attr->cap = plain.cap;
	if (wr_api)
		qp->enable_wr_api(attr->send_ops_flags);
	return &qp->qp;
}

} // namespace sirdma
