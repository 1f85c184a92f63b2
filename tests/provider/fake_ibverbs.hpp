/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * library.hpp and the commands with a fake driver behind them, in place of the
 * library's own.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <sirdma/abi.h>
#include <sirdma/cqe.h>

#include "ibverbs_private.hpp"

namespace sirdma::test
{

struct Registration {
	uint64_t start;
	uint64_t length;
	sirdma_mem_reg_req what;
};

/* The driver as the commands see it; one per process, reset by each fixture. */
struct FakeDriver {
	/* What the commands were asked for. */
	sirdma_alloc_ucontext_req context_request{};
	std::map<uint32_t, Registration> registrations; /* by handle */
	sirdma_create_qp_req qp_request{};
	sirdma_create_cq_req cq_request{};
	int cq_size = 0;
	ibv_moderate_cq moderation{};
	ibv_qp_cap qp_cap{};
	std::set<uint32_t> pds; /* by handle; the number of each is 100 more */
	std::set<uint32_t> xrcds;
	std::map<uint32_t, sirdma_create_qp_req> qps; /* by handle */
	std::map<uint32_t, sirdma_create_cq_req> cqs;
	std::map<uint32_t, sirdma_create_srq_req> srqs;
	sirdma_create_srq_req srq_request{};
	ibv_srq_attr srq_attr{};
	std::set<std::pair<uint32_t, uint8_t>> mcasts; /* queue pair, and last byte of the group */
	std::map<uint32_t, uint32_t> ahs; /* the handle of its PD, by handle */
	std::map<uint32_t, ibv_mw_type> mws; /* by handle */
	int contexts = 0;
	ibv_qp_state qp_state = IBV_QPS_RESET;
	uint32_t context_driver_id = 0;

	/* What they shall answer. */
	sirdma_alloc_ucontext_resp context_answer{};
	uint32_t sq_size_error = 0; /* added to the ring size create_qp reports */
	uint32_t srq_size_error = 0; /* the same of create_srq */
	std::string failing; /* command that fails with ENOMEM */
	size_t reg_mr_limit = SIZE_MAX; /* bytes: reg_mr of more fails with ENOMEM */
	/* The device fills this ring; resize_cq has not returned. */
	std::function<void(std::span<sirdma_cqe>)> after_resize_cq;
	std::function<void()> after_query_qp; /* the state was read, query_qp has not returned */
	std::function<void()> after_destroy_qp; /* the number is free, destroy_qp has not returned */

	const verbs_device_ops *ops = nullptr; /* the provider's registration */

	uint32_t next_handle = 1;

	/* A live ring lies at @start. */
	bool in_use(uint64_t start) const;
	/* Is the address in memory of type SIRDMA_MEMREG_POOL? */
	const Registration *pool_of(uint64_t address) const;

	/* Defaults, keeping the provider's registration. */
	void reset();
};

FakeDriver &fake_driver();

} // namespace sirdma::test
