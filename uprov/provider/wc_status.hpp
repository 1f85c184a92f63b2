/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * From a CQE's error codes to what the application reads.
 */
#pragma once

#include <array>
#include <cstdint>

#include <infiniband/verbs.h>
#include <sirdma/cqe.h>

namespace sirdma
{

/* Indexed by enum sirdma_flush_code. */
inline constexpr std::array<ibv_wc_status, SIRDMA_FLUSH_LOC_ACCESS + 1> flush_status = [] {
	std::array<ibv_wc_status, SIRDMA_FLUSH_LOC_ACCESS + 1> t{};

	t[SIRDMA_FLUSH_INVALID] = IBV_WC_FATAL_ERR;
	t[SIRDMA_FLUSH_GENERAL] = IBV_WC_WR_FLUSH_ERR;
	t[SIRDMA_FLUSH_PROT] = IBV_WC_LOC_PROT_ERR;
	t[SIRDMA_FLUSH_REM_ACCESS] = IBV_WC_REM_ACCESS_ERR;
	t[SIRDMA_FLUSH_LOC_QP_OP] = IBV_WC_LOC_QP_OP_ERR;
	t[SIRDMA_FLUSH_REM_OP] = IBV_WC_REM_OP_ERR;
	t[SIRDMA_FLUSH_LOC_LEN] = IBV_WC_LOC_LEN_ERR;
	t[SIRDMA_FLUSH_FATAL] = IBV_WC_FATAL_ERR;
	t[SIRDMA_FLUSH_RETRY_EXC] = IBV_WC_RETRY_EXC_ERR;
	t[SIRDMA_FLUSH_MW_BIND] = IBV_WC_MW_BIND_ERR;
	t[SIRDMA_FLUSH_REM_INV_REQ] = IBV_WC_REM_INV_REQ_ERR;
	t[SIRDMA_FLUSH_RNR_RETRY_EXC] = IBV_WC_RNR_RETRY_EXC_ERR;
	t[SIRDMA_FLUSH_LOC_ACCESS] = IBV_WC_LOC_ACCESS_ERR;
	return t;
}();

/* Status of a CQE with header word @hdr. */
constexpr ibv_wc_status wc_status(uint64_t hdr) noexcept
{
	if (!(hdr & SIRDMA_CQE_ERROR))
		return IBV_WC_SUCCESS;
	if (SIRDMA_GET(SIRDMA_CQE_MAJERR, hdr) != SIRDMA_CQE_MAJ_FLUSH)
		return IBV_WC_GENERAL_ERR;

	const uint64_t minor = SIRDMA_GET(SIRDMA_CQE_MINERR, hdr);

	return minor < flush_status.size() ? flush_status[minor] : IBV_WC_FATAL_ERR;
}

} // namespace sirdma
