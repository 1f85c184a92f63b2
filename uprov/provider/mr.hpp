/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registration of ring memory. The driver's create_qp and create_cq find it by its address.
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
	/*
	 * The owner destroys the QP, CQ or SRQ that uses the memory first, otherwise the driver
	 * refuses.
	 */
	~RingRegistration();

	/* Register the first @bytes of @memory, described by @what. Returns 0 or an errno. */
	int open(ibv_pd *pd, const PageBuffer &memory, size_t bytes,
		 const sirdma_mem_reg_req &what) noexcept;

private:
	verbs_mr mr_{};
	bool open_ = false;
};

} // namespace sirdma
