/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registration of ring memory, so that create_qp and create_cq find it by address.
 */
#pragma once

#include <sirdma/abi.h>

#include "ibverbs_private.hpp"
#include "page_buffer.hpp"

namespace sirdma
{

class RingRegistration {
public:
	RingRegistration() noexcept = default;
	RingRegistration(const RingRegistration &) = delete;
	RingRegistration &operator=(const RingRegistration &) = delete;
	/* The object over the memory must be destroyed first, else the driver refuses. */
	~RingRegistration();

	/* @bytes from the start of @memory, described by @what; 0 or errno. */
	int open(ibv_pd *pd, const PageBuffer &memory, size_t bytes,
		 const sirdma_mem_reg_req &what) noexcept;

private:
	verbs_mr mr_{};
	bool open_ = false;
};

} // namespace sirdma
