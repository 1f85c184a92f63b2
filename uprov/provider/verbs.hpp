/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The verbs that libibverbs calls. Unless stated otherwise a pointer result is an object,
 * or null with errno; an integer result is 0 or an errno.
 */
#pragma once

#include "ibverbs_private.hpp"

namespace sirdma
{

struct Commands;

/* context.cpp */
/* Is the context new, or one of another process, by a copy of its descriptor? */
enum class Origin : uint8_t { own, imported };
/* Takes ownership of @cmd_fd, also on failure. @commands go to the driver. Returns null with errno. */
ibv_context *open_device(ibv_device *device, int cmd_fd, const Commands &commands,
			 Origin origin = Origin::own) noexcept;
void free_context(ibv_context *context) noexcept;
int query_device_ex(ibv_context *context, const ibv_query_device_ex_input *input,
		    ibv_device_attr_ex *attr, size_t attr_size) noexcept;
int query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr) noexcept;
int query_rt_values(ibv_context *context, ibv_values_ex *values) noexcept;

/* pd.cpp */
ibv_pd *alloc_pd(ibv_context *context) noexcept;
ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr) noexcept;
int dealloc_pd(ibv_pd *pd) noexcept;
ibv_pd *import_pd(ibv_context *context, uint32_t handle) noexcept;
void unimport_pd(ibv_pd *pd) noexcept;
ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr) noexcept;
int dealloc_td(ibv_td *td) noexcept;

/* mr.cpp */
ibv_mr *reg_mr(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access) noexcept;
int rereg_mr(verbs_mr *mr, int flags, ibv_pd *pd, void *addr, size_t length, int access) noexcept;
ibv_mr *reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
		      int access) noexcept;
int dereg_mr(verbs_mr *mr) noexcept;
int advise_mr(ibv_pd *pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge *sges,
	      uint32_t count) noexcept;
ibv_mr *import_mr(ibv_pd *pd, uint32_t handle) noexcept;
void unimport_mr(ibv_mr *mr) noexcept;

/* dm.cpp */
ibv_dm *alloc_dm(ibv_context *context, ibv_alloc_dm_attr *attr) noexcept;
int free_dm(ibv_dm *dm) noexcept;
ibv_dm *import_dm(ibv_context *context, uint32_t handle) noexcept;
void unimport_dm(ibv_dm *dm) noexcept;
ibv_mr *reg_dm_mr(ibv_pd *pd, ibv_dm *dm, uint64_t offset, size_t length,
		  unsigned int access) noexcept;

/* mw.cpp */
ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type) noexcept;
int dealloc_mw(ibv_mw *mw) noexcept;
int bind_mw(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind *bind) noexcept;

/* cq.cpp; poll_cq returns a count or a negative errno */
ibv_cq *create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel,
		  int comp_vector) noexcept;
ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr) noexcept;
int modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr) noexcept;
int resize_cq(ibv_cq *cq, int cqe) noexcept;
int destroy_cq(ibv_cq *cq) noexcept;
int poll_cq(ibv_cq *cq, int num_entries, ibv_wc *wc) noexcept;
int req_notify_cq(ibv_cq *cq, int solicited_only) noexcept;
void cq_event(ibv_cq *cq) noexcept;

/* qp.cpp */
ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept;
ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept;
ibv_qp *open_qp(ibv_context *context, ibv_qp_open_attr *attr) noexcept;
int query_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, ibv_qp_init_attr *init_attr) noexcept;
int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask) noexcept;
int destroy_qp(ibv_qp *qp) noexcept;
int attach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid) noexcept;
int detach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid) noexcept;
int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad_wr) noexcept; /* post_send.cpp */
int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept;

/* srq.cpp */
ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attr) noexcept;
ibv_srq *create_srq_ex(ibv_context *context, ibv_srq_init_attr_ex *attr) noexcept;
int get_srq_num(ibv_srq *srq, uint32_t *srq_num) noexcept;
int modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int attr_mask) noexcept;
int query_srq(ibv_srq *srq, ibv_srq_attr *attr) noexcept;
int destroy_srq(ibv_srq *srq) noexcept;
int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept;

/* xrcd.cpp */
ibv_xrcd *open_xrcd(ibv_context *context, ibv_xrcd_init_attr *attr) noexcept;
int close_xrcd(ibv_xrcd *xrcd) noexcept;

/* ah.cpp */
ibv_ah *create_ah(ibv_pd *pd, ibv_ah_attr *attr) noexcept;
int destroy_ah(ibv_ah *ah) noexcept;

/* wr_calls.cpp */
void wr_start(ibv_qp_ex *qp) noexcept;
int wr_complete(ibv_qp_ex *qp) noexcept;
void wr_abort(ibv_qp_ex *qp) noexcept;

} // namespace sirdma
