/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The path of a program to the twin. "sirdma run" chooses a view, puts the shim before the
 * program's libraries (LD_PRELOAD), says in SIRDMA_TWIN_* what devices it wants (environment.hpp)
 * and executes the program:
 *
 *     sirdma run (uprov/cli/run.cpp)
 *       | sysfs view: cli/sysfs_view.cpp, cli/sysfs_tree.cpp mount /sys/class/infiniband*
 *       |             and /dev/infiniband; RDMAV_DRIVERS names libsirdma-twin.so
 *       | preload view: nothing is mounted
 *       v execv
 *     the program, whose other calls of libibverbs go there directly
 *       | ibv_get_device_list() ...  stat() access() close() write() socket()
 *       v
 *     libsirdma-preload.so, the shim: needs no library of RDMA itself
 *       preload.cpp         functions of libibverbs that would look into sysfs or /dev
 *       preload_write.cpp   creates completion channels for the library's own function;
 *                           commands to event channels go to the twin
 *       preload_cm.cpp      opens event channels of librdmacm
 *       preload_close.cpp   keeps files of the device open
 *       preload_files.cpp   preload view: says that there is a file in /dev/infiniband
 *       preload_socket.cpp  sysfs view: there is no RDMA netlink, so that (4) looks into sysfs
 *       shim.cpp            which view it is, and the way to the twin
 *       |            |           ^
 *       | (1)        | (2)       | (3)
 *       v            v           |
 *     libibverbs   libsirdma-twin.so
 *       |            entry.cpp   sirdma_twin_ops
 *       |            fd.cpp      files of the device
 *       | (4) (5)    device.cpp  verbs_device_ops, Operations
 *       +----------> commands.cpp, with the provider's code: Commands
 *
 *     (1) dlsym: objects that are not the twin's; in the sysfs view ibv_get_device_list()
 *     (2) dlopen and dlsym(SIRDMA_TWIN_ENTRY) when a program first asks for devices, then
 *         the operations below
 *     (3) dlsym(SIRDMA_GUARD_FILES) with the first file of the device: which it may not close
 *     (4) sysfs view: loads it as a provider; its match_device() and alloc_device()
 *     (5) both views: alloc_context() opens a device, the Operations of that context follow
 *
 * libsirdma.so (uprov/lib) is the twin with preload.cpp in one library, for a program that is
 * linked with it: lib/library.cpp stands for shim.cpp, and makes the devices.
 *
 * The operations of (2) are functions of libibverbs that would look into sysfs. Each has the
 * meaning of the function of its name.
 */
#pragma once

#include <infiniband/verbs.h>

#define SIRDMA_TWIN_ENTRY "sirdma_twin_entry"

struct sirdma_twin_ops {
	ibv_device **(*get_device_list)(int *num_devices);
	/* Does the object belong to the twin? If not, it belongs to the real library. */
	bool (*owns_device)(const ibv_device *device);
	bool (*owns_context)(const ibv_context *context);
	__be64 (*get_device_guid)(ibv_device *device);
	int (*query_gid_ex)(ibv_context *context, uint32_t port_num, uint32_t gid_index,
			    ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
	ssize_t (*query_gid_table)(ibv_context *context, ibv_gid_entry *entries, size_t max_entries,
				   uint32_t flags, size_t entry_size);
	int (*query_pkey)(ibv_context *context, uint8_t port_num, int index, __be16 *pkey);
	ibv_comp_channel *(*create_comp_channel)(ibv_context *context);
	/* Event channels of rdma_cm (cm/entry.hpp); null: there is no connection manager. */
	int (*cm_open_channel)();
	void (*cm_close_channel)(int file);
	ssize_t (*cm_command)(int file, const void *bytes, size_t len);
};

extern "C" const sirdma_twin_ops *sirdma_twin_entry(void);
