/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands to a device of the kernel: the library's. The twin has its own in
 * their place.
 */
#include "library.hpp"

using sirdma::library;

int sirdma_cmd_get_context(ibv_context *context, verbs_cmd<ib_uverbs_get_context> *cmd,
			   size_t cmd_size, ib_uverbs_get_context_resp *resp, size_t resp_size)
{
	using WithFds = int(verbs_context *, verbs_cmd<ib_uverbs_get_context> *, size_t,
			    void *fd_arr, ib_uverbs_get_context_resp *, size_t);
	const auto get = library().ibv_cmd_get_context;
	verbs_context *of = sirdma::library_context(context);

	if (library().interface.get_context_takes_fds)
		return reinterpret_cast<WithFds *>(reinterpret_cast<verbs_unused_op>(get))(
			of, cmd, cmd_size, nullptr, resp, resp_size);
	return get(of, cmd, cmd_size, resp, resp_size);
}

int ibv_cmd_query_device_any(ibv_context *context, const ibv_query_device_ex_input *input,
			     ibv_device_attr_ex *attr, size_t attr_size,
			     ib_uverbs_ex_query_device_resp *resp, size_t *resp_size)
{
	return library().ibv_cmd_query_device_any(context, input, attr, attr_size, resp, resp_size);
}

int ibv_cmd_query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr,
		       verbs_cmd<ib_uverbs_query_port> *cmd, size_t cmd_size)
{
	return library().ibv_cmd_query_port(context, port_num, attr, cmd, cmd_size);
}

int ibv_cmd_alloc_pd(ibv_context *context, ibv_pd *pd, verbs_cmd<ib_uverbs_alloc_pd> *cmd,
		     size_t cmd_size, ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	return library().ibv_cmd_alloc_pd(context, pd, cmd, cmd_size, resp, resp_size);
}

int ibv_cmd_dealloc_pd(ibv_pd *pd)
{
	return library().ibv_cmd_dealloc_pd(pd);
}

int ibv_cmd_reg_mr(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access, verbs_mr *mr,
		   verbs_cmd<ib_uverbs_reg_mr> *cmd, size_t cmd_size, ib_uverbs_reg_mr_resp *resp,
		   size_t resp_size)
{
	return library().ibv_cmd_reg_mr(pd, addr, length, hca_va, access, mr, cmd, cmd_size, resp,
					resp_size);
}

int ibv_cmd_rereg_mr(verbs_mr *mr, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
		     int access, ibv_pd *pd, verbs_cmd<ib_uverbs_rereg_mr> *cmd, size_t cmd_size,
		     ib_uverbs_rereg_mr_resp *resp, size_t resp_size)
{
	return library().ibv_cmd_rereg_mr(mr, flags, addr, length, hca_va, access, pd, cmd,
					  cmd_size, resp, resp_size);
}

int ibv_cmd_dereg_mr(verbs_mr *mr)
{
	return library().ibv_cmd_dereg_mr(mr);
}

int ibv_cmd_create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector,
		      ibv_cq *cq, verbs_cmd<ib_uverbs_create_cq> *cmd, size_t cmd_size,
		      ib_uverbs_create_cq_resp *resp, size_t resp_size)
{
	return library().ibv_cmd_create_cq(context, cqe, channel, comp_vector, cq, cmd, cmd_size,
					   resp, resp_size);
}

int ibv_cmd_destroy_cq(ibv_cq *cq)
{
	return library().ibv_cmd_destroy_cq(cq);
}

int ibv_cmd_create_qp(ibv_pd *pd, ibv_qp *qp, ibv_qp_init_attr *attr,
		      verbs_cmd<ib_uverbs_create_qp> *cmd, size_t cmd_size,
		      ib_uverbs_create_qp_resp *resp, size_t resp_size)
{
	return library().ibv_cmd_create_qp(pd, qp, attr, cmd, cmd_size, resp, resp_size);
}

int ibv_cmd_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, ibv_qp_init_attr *init_attr,
		     verbs_cmd<ib_uverbs_query_qp> *cmd, size_t cmd_size)
{
	return library().ibv_cmd_query_qp(qp, attr, attr_mask, init_attr, cmd, cmd_size);
}

int ibv_cmd_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask,
		      verbs_cmd<ib_uverbs_modify_qp> *cmd, size_t cmd_size)
{
	return library().ibv_cmd_modify_qp(qp, attr, attr_mask, cmd, cmd_size);
}

int ibv_cmd_destroy_qp(ibv_qp *qp)
{
	return library().ibv_cmd_destroy_qp(qp);
}
