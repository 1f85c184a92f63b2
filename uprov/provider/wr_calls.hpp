/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The calls of ibv_wr_*(): several describe each request, and all requests become valid together or
 * not at all.
 */
#pragma once

#include <cstdint>

#include "ibverbs_private.hpp"
#include "send_queue.hpp"

namespace sirdma
{

/* Set the calls in @ex for the operations in @send_ops (IBV_QP_EX_WITH_*), of the QP with @queue. */
void set_wr_calls(ibv_qp_ex &ex, const SendQueue &queue, uint64_t send_ops) noexcept;
/* The call that this machine's ibv_qp_ex may have no member for. */
private_abi::WrFlush wr_flush_call(const SendQueue &queue) noexcept;

} // namespace sirdma
