/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions, and the registration of ring memory. The driver's create_qp and create_cq find ring memory
 * by its address.
 */
#pragma once

#include <cerrno>
#include <new>

#include <sirdma/abi.h>

#include "commands.hpp"
#include "ibverbs_private.hpp"
#include "page_buffer.hpp"

namespace sirdma
{

/* The region that @fill filled, or null with errno. */
template <typename Fill> ibv_mr *new_mr(Fill fill) noexcept
{
	auto *mr = new (std::nothrow) verbs_mr{};

	if (!mr) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int err = fill(*mr)) {
		delete mr;
		errno = err;
		return nullptr;
	}
	return &mr->mr;
}

/* Fill @mr, whose command is not the library's, with all but its address and access. */
void set_mr(verbs_mr &mr, ibv_pd *pd, const Keys &keys, size_t length, int type) noexcept;

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
