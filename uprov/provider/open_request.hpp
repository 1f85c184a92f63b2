/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The request of ibv_wr_*() that is being written. Each call writes its part into the next WQE of
 * the ring; only the header is kept here, because it is written last.
 */
#pragma once

#include <cstdint>

namespace sirdma
{

struct OpenRequest {
	/*
	 * Values of sirdma_sq::unfinished. 0: no request is open. data, address or both: these parts
	 * of the open request are not set yet. failed: a request of this list cannot be posted, nor
	 * can those behind it.
	 */
	static constexpr uint32_t data = 1;
	static constexpr uint32_t address = 2; /* of a datagram, or the queue of an XRC request */
	/* With data: the data is not what the call for one fragment writes. */
	static constexpr uint32_t special = 4;
	static constexpr uint32_t failed = 8;
	/* Alone: nothing is missing; a WQE of one quantum, which is described, waits for its commit. */
	static constexpr uint32_t one = 16;

	int err = 0; /* errno of the request that failed */
	uint32_t op = 0; /* entry of the opcode table */
	uint32_t imm = 0; /* of an XRC request, until the queue is set */
	uint64_t hdr = 0; /* what is known of the header */
	/* If the data is set: the quanta of the WQE, and the bytes of payload. */
	uint32_t quanta = 0;
	uint32_t length = 0;
};

} // namespace sirdma
