/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the preload shim asks of the twin: functions of libibverbs that would look
 * into sysfs. Each has the meaning of the function of its name. The shim itself
 * links to nothing, so that it costs programs without RDMA nothing.
 */
#pragma once

#include <infiniband/verbs.h>

#define SIRDMA_TWIN_ENTRY "sirdma_twin_entry"

struct sirdma_twin_ops {
	ibv_device **(*get_device_list)(int *num_devices);
	/* Whether the object is of the twin; else it is the real library's. */
	bool (*owns_device)(const ibv_device *device);
	bool (*owns_context)(const ibv_context *context);
	__be64 (*get_device_guid)(ibv_device *device);
	int (*query_gid_ex)(ibv_context *context, uint32_t port_num, uint32_t gid_index,
			    ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
	ssize_t (*query_gid_table)(ibv_context *context, ibv_gid_entry *entries, size_t max_entries,
				   uint32_t flags, size_t entry_size);
	int (*query_pkey)(ibv_context *context, uint8_t port_num, int index, __be16 *pkey);
	ibv_comp_channel *(*create_comp_channel)(ibv_context *context);
};

extern "C" const sirdma_twin_ops *sirdma_twin_entry(void);
