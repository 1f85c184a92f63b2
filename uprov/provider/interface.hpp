/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Versions of the private interface between libibverbs and its providers, as data: the
 * releases of rdma-core that have each version, how to recognize it in a loaded library,
 * and how it differs. The structures that all versions share are in ibverbs_private.hpp.
 *
 * The private symbols of the library have the version IBVERBS_PRIVATE_<number>, and it
 * loads providers from files whose names end in -rdmav<number>.so. The build reads the
 * numbers from the lines below.
 */
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sirdma
{

struct Interface {
	unsigned number;
	unsigned first_release; /* of rdma-core; it also identifies the layout of the operations */
	unsigned last_release;
	bool get_context_takes_fds; /* ibv_cmd_get_context() has an additional argument */
	size_t context_size; /* size of struct verbs_context, 64 bit */
	const char *
		distinguishing_symbol; /* a symbol that the earlier interface of this number lacks */
};

/*
 * The entries are in the order of releases. rdma-core 34 and 35 also have number 34, but another
 * order of operations: set_operations() detects that and fails.
 */
inline constexpr Interface interfaces[] = {
	{.number = 34,
	 .first_release = 36,
	 .last_release = 56,
	 .get_context_takes_fds = false,
	 .context_size = 648,
	 .distinguishing_symbol = nullptr},
	{.number = 57,
	 .first_release = 57,
	 .last_release = 58,
	 .get_context_takes_fds = true,
	 .context_size = 648,
	 .distinguishing_symbol = nullptr},
	{.number = 59,
	 .first_release = 59,
	 .last_release = 61,
	 .get_context_takes_fds = true,
	 .context_size = 672,
	 .distinguishing_symbol = nullptr},
	{.number = 59,
	 .first_release = 62,
	 .last_release = 63,
	 .get_context_takes_fds = true,
	 .context_size = 680,
	 .distinguishing_symbol = "ibv_query_port_speed"},
	{.number = 64,
	 .first_release = 64,
	 .last_release = 64,
	 .get_context_takes_fds = true,
	 .context_size = 696,
	 .distinguishing_symbol = nullptr},
	{.number = 65,
	 .first_release = 65,
	 .last_release = 65,
	 .get_context_takes_fds = true,
	 .context_size = 696,
	 .distinguishing_symbol = nullptr},
};

struct Operation {
	std::string_view name;
	unsigned since; /* first release of rdma-core that has it; 36 stands for 36 and earlier */
};

/* Members of struct verbs_context_ops in order, which is alphabetical. */
inline constexpr Operation operations[] = {
	{"advise_mr", 36},
	{"alloc_buf", 64},
	{"alloc_dm", 36},
	{"alloc_dmah", 59},
	{"alloc_mw", 36},
	{"alloc_null_mr", 36},
	{"alloc_parent_domain", 36},
	{"alloc_pd", 36},
	{"alloc_td", 36},
	{"async_event", 36},
	{"attach_counters_point_flow", 36},
	{"attach_mcast", 36},
	{"bind_mw", 36},
	{"close_xrcd", 36},
	{"cq_event", 36},
	{"create_ah", 36},
	{"create_comp_cntr", 65},
	{"create_counters", 36},
	{"create_cq", 36},
	{"create_cq_ex", 36},
	{"create_flow", 36},
	{"create_flow_action_esp", 36},
	{"create_qp", 36},
	{"create_qp_ex", 36},
	{"create_rwq_ind_table", 36},
	{"create_srq", 36},
	{"create_srq_ex", 36},
	{"create_wq", 36},
	{"dealloc_dmah", 59},
	{"dealloc_mw", 36},
	{"dealloc_pd", 36},
	{"dealloc_td", 36},
	{"dereg_mr", 36},
	{"destroy_ah", 36},
	{"destroy_comp_cntr", 65},
	{"destroy_counters", 36},
	{"destroy_cq", 36},
	{"destroy_flow", 36},
	{"destroy_flow_action", 36},
	{"destroy_qp", 36},
	{"destroy_rwq_ind_table", 36},
	{"destroy_srq", 36},
	{"destroy_wq", 36},
	{"detach_mcast", 36},
	{"dm_export_dmabuf_fd", 62},
	{"free_buf", 64},
	{"free_context", 36},
	{"free_dm", 36},
	{"get_srq_num", 36},
	{"import_dm", 36},
	{"import_mr", 36},
	{"import_pd", 36},
	{"inc_comp_cntr", 65},
	{"inc_err_comp_cntr", 65},
	{"modify_cq", 36},
	{"modify_flow_action_esp", 36},
	{"modify_qp", 36},
	{"modify_qp_rate_limit", 36},
	{"modify_srq", 36},
	{"modify_wq", 36},
	{"open_qp", 36},
	{"open_xrcd", 36},
	{"poll_cq", 36},
	{"post_recv", 36},
	{"post_send", 36},
	{"post_srq_ops", 36},
	{"post_srq_recv", 36},
	{"qp_attach_comp_cntr", 65},
	{"query_comp_cntr_caps", 65},
	{"query_device_ex", 36},
	{"query_ece", 36},
	{"query_port", 36},
	{"query_port_speed", 62},
	{"query_qp", 36},
	{"query_qp_data_in_order", 36},
	{"query_rt_values", 36},
	{"query_srq", 36},
	{"read_comp_cntr", 65},
	{"read_counters", 36},
	{"read_err_comp_cntr", 65},
	{"reg_dm_mr", 36},
	{"reg_dmabuf_mr", 36},
	{"reg_mr", 36},
	{"reg_mr_ex", 59},
	{"req_notify_cq", 36},
	{"rereg_mr", 36},
	{"resize_cq", 36},
	{"set_comp_cntr", 65},
	{"set_ece", 36},
	{"set_err_comp_cntr", 65},
	{"unimport_dm", 36},
	{"unimport_mr", 36},
	{"unimport_pd", 36},
};

constexpr size_t operation_count(const Interface &interface) noexcept
{
	size_t count = 0;

	for (const Operation &operation : operations)
		count += operation.since <= interface.first_release;
	return count;
}

/* Index of operation @name in the table of @interface; -1: the interface has no such operation. */
constexpr int operation_slot(const Interface &interface, std::string_view name) noexcept
{
	int slot = 0;

	for (const Operation &operation : operations) {
		if (operation.since > interface.first_release)
			continue;
		if (operation.name == name)
			return slot;
		++slot;
	}
	return -1;
}

/* The interface of @library, a handle of dlopen(). Returns null with @why if it is unknown. */
const Interface *find_interface(void *library, std::string &why);

/* "IBVERBS_PRIVATE_34 (rdma-core 36 to 56)" */
std::string describe(const Interface &interface);

} // namespace sirdma
