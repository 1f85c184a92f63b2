/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_create_qp_ex(), and which calls of ibv_wr_*() a queue pair has.
 */
#include <cerrno>
#include <cstring>

#include "qp.hpp"
#include "verbs.hpp"
#include "wr_calls.hpp"

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

} // namespace

void Qp::enable_wr_api(uint64_t send_ops) noexcept
{
	set_wr_calls(ex, queues_.send, send_ops);
	if (send_ops & private_abi::qp_ex_with_flush) {
		const private_abi::WrFlush flush = wr_flush_call(queues_.send);

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
