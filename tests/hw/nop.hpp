// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include "c_api.hpp"

extern "C" {
#include "hw/hw.h"
}

namespace sirdma::test
{

// A command that does nothing. @tag travels in word 0.
inline int nop(sirdma_hw &hw, u64 tag = 0, u64 *retval = nullptr)
{
	sirdma_cqp_wqe wqe{};

	wqe.w0 = tag;
	wqe.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, SIRDMA_CQP_NOP);
	return sirdma_cqp_exec(&hw, &wqe, retval);
}

} // namespace sirdma::test
