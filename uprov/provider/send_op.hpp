/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Send opcodes: one line for each, both ways.
 */
#pragma once

#include <array>
#include <cstdint>

#include <infiniband/verbs.h>
#include <sirdma/wqe.h>

namespace sirdma
{

struct SendOp {
	uint8_t code; /* enum sirdma_sq_op */
	uint8_t code_solicited;
	bool supported;
	bool has_imm;
	bool has_remote; /* remote address and rkey */
	bool has_key; /* the header's low word is the rkey or the stag */
	bool inlinable;
};

/* Indexed by enum ibv_wr_opcode. Unsupported lines wait for the device's side. */
inline constexpr std::array<SendOp, IBV_WR_SEND_WITH_INV + 1> send_ops = [] {
	std::array<SendOp, IBV_WR_SEND_WITH_INV + 1> t{};

	t[IBV_WR_RDMA_WRITE] = {.code = SIRDMA_OP_WRITE,
				.code_solicited = SIRDMA_OP_WRITE,
				.supported = true,
				.has_imm = false,
				.has_remote = true,
				.has_key = true,
				.inlinable = true};
	t[IBV_WR_RDMA_WRITE_WITH_IMM] = {.code = SIRDMA_OP_WRITE,
					 .code_solicited = SIRDMA_OP_WRITE_SOL,
					 .supported = true,
					 .has_imm = true,
					 .has_remote = true,
					 .has_key = true,
					 .inlinable = true};
	t[IBV_WR_SEND] = {.code = SIRDMA_OP_SEND,
			  .code_solicited = SIRDMA_OP_SEND_SOL,
			  .supported = true,
			  .has_imm = false,
			  .has_remote = false,
			  .has_key = false,
			  .inlinable = true};
	t[IBV_WR_SEND_WITH_IMM] = {.code = SIRDMA_OP_SEND,
				   .code_solicited = SIRDMA_OP_SEND_SOL,
				   .supported = true,
				   .has_imm = true,
				   .has_remote = false,
				   .has_key = false,
				   .inlinable = true};
	t[IBV_WR_RDMA_READ] = {.code = SIRDMA_OP_READ,
			       .code_solicited = SIRDMA_OP_READ,
			       .supported = true,
			       .has_imm = false,
			       .has_remote = true,
			       .has_key = true,
			       .inlinable = false};
	t[IBV_WR_SEND_WITH_INV] = {.code = SIRDMA_OP_SEND_INV,
				   .code_solicited = SIRDMA_OP_SEND_SOL_INV,
				   .supported = false,
				   .has_imm = false,
				   .has_remote = false,
				   .has_key = true,
				   .inlinable = true};
	t[IBV_WR_LOCAL_INV].code = SIRDMA_OP_LOCAL_INV;
	t[IBV_WR_BIND_MW].code = SIRDMA_OP_BIND_MW;
	t[IBV_WR_ATOMIC_FETCH_AND_ADD].code = SIRDMA_OP_FETCH_ADD;
	t[IBV_WR_ATOMIC_CMP_AND_SWP].code = SIRDMA_OP_CMP_SWAP;
	return t;
}();

/* The line of @opcode; null for one the table does not know. */
constexpr const SendOp *send_op(unsigned opcode) noexcept
{
	return opcode < send_ops.size() ? &send_ops[opcode] : nullptr;
}

/* What a send CQE's opcode is to the application. */
constexpr bool send_wc_opcode(uint8_t code, ibv_wc_opcode &opcode) noexcept
{
	switch (code) {
	case SIRDMA_OP_WRITE:
	case SIRDMA_OP_WRITE_SOL:
		opcode = IBV_WC_RDMA_WRITE;
		return true;
	case SIRDMA_OP_READ:
	case SIRDMA_OP_READ_LOC_INV:
		opcode = IBV_WC_RDMA_READ;
		return true;
	case SIRDMA_OP_SEND:
	case SIRDMA_OP_SEND_INV:
	case SIRDMA_OP_SEND_SOL:
	case SIRDMA_OP_SEND_SOL_INV:
		opcode = IBV_WC_SEND;
		return true;
	case SIRDMA_OP_BIND_MW:
		opcode = IBV_WC_BIND_MW;
		return true;
	case SIRDMA_OP_LOCAL_INV:
		opcode = IBV_WC_LOCAL_INV;
		return true;
	case SIRDMA_OP_FETCH_ADD:
		opcode = IBV_WC_FETCH_ADD;
		return true;
	case SIRDMA_OP_CMP_SWAP:
		opcode = IBV_WC_COMP_SWAP;
		return true;
	default:
		return false;
	}
}

} // namespace sirdma
