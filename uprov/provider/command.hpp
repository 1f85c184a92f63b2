/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * uverbs commands: the kernel's fixed part, followed by the driver's private data.
 */
#pragma once

#include <cstring>
#include <type_traits>

#include <sirdma/abi.h>

#include "ibverbs_private.hpp"

namespace sirdma
{

/* Command @Core followed by the driver's request @Driver. */
template <typename Core, typename Driver> struct Request {
	verbs_cmd<Core> cmd{};
	Driver drv{};
};

/* The kernel's answer @Core followed by the driver's answer @Driver. */
template <typename Core, typename Driver> struct Response {
	alignas(Core) uint8_t core[sizeof(Core)]{};
	Driver drv{};

	Core *kernel() noexcept { return reinterpret_cast<Core *>(core); }
};

using GetContextRequest = Request<ib_uverbs_get_context, sirdma_alloc_ucontext_req>;
using GetContextResponse = Response<ib_uverbs_get_context_resp, sirdma_alloc_ucontext_resp>;
using AllocPdResponse = Response<ib_uverbs_alloc_pd_resp, sirdma_alloc_pd_resp>;
using RegMrRequest = Request<ib_uverbs_reg_mr, sirdma_mem_reg_req>;
using ReregMrRequest = Request<ib_uverbs_rereg_mr, sirdma_mem_reg_req>;
using CreateCqRequest = Request<ib_uverbs_create_cq, sirdma_create_cq_req>;
using CreateCqResponse = Response<ib_uverbs_create_cq_resp, sirdma_create_cq_resp>;
using ResizeCqRequest = Request<ib_uverbs_resize_cq, sirdma_resize_cq_req>;
using CreateQpRequest = Request<ib_uverbs_create_qp, sirdma_create_qp_req>;
using CreateQpResponse = Response<ib_uverbs_create_qp_resp, sirdma_create_qp_resp>;
using CreateSrqRequest = Request<ib_uverbs_create_srq, sirdma_create_srq_req>;
using CreateXsrqRequest = Request<ib_uverbs_create_xsrq, sirdma_create_srq_req>;
using CreateSrqResponse = Response<ib_uverbs_create_srq_resp, sirdma_create_srq_resp>;
using CreateAhResponse = Response<ib_uverbs_create_ah_resp, sirdma_create_ah_resp>;

/* The library and the kernel expect no padding between the two parts. */
static_assert(offsetof(GetContextRequest, drv) == sizeof(GetContextRequest::cmd));
static_assert(offsetof(GetContextResponse, drv) == sizeof(ib_uverbs_get_context_resp));
static_assert(offsetof(AllocPdResponse, drv) == sizeof(ib_uverbs_alloc_pd_resp));
static_assert(offsetof(RegMrRequest, drv) == sizeof(RegMrRequest::cmd));
static_assert(offsetof(ReregMrRequest, drv) == sizeof(ReregMrRequest::cmd));
static_assert(offsetof(CreateCqRequest, drv) == sizeof(CreateCqRequest::cmd));
static_assert(offsetof(CreateCqResponse, drv) == sizeof(ib_uverbs_create_cq_resp));
static_assert(offsetof(ResizeCqRequest, drv) == sizeof(ResizeCqRequest::cmd));
static_assert(offsetof(CreateQpRequest, drv) == sizeof(CreateQpRequest::cmd));
static_assert(offsetof(CreateQpResponse, drv) == sizeof(ib_uverbs_create_qp_resp));
static_assert(offsetof(CreateSrqRequest, drv) == sizeof(CreateSrqRequest::cmd));
static_assert(offsetof(CreateXsrqRequest, drv) == sizeof(CreateXsrqRequest::cmd));
static_assert(offsetof(CreateSrqResponse, drv) == sizeof(ib_uverbs_create_srq_resp));
static_assert(offsetof(CreateAhResponse, drv) == sizeof(ib_uverbs_create_ah_resp));

} // namespace sirdma
