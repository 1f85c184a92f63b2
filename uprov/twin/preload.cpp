/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shim that is preloaded into a program (see entry.hpp): it replaces the few functions of
 * libibverbs that would look for devices in sysfs.
 */
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

#include "entry.hpp"
#include "shim.hpp"

namespace
{

const sirdma_twin_ops *twin() noexcept
{
	return sirdma::twin::shim_twin();
}

/* The library's own function, for objects that are not the twin's. */
template <typename Function> Function *real(const char *name) noexcept
{
	static void *const library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);

	return library ? reinterpret_cast<Function *>(dlsym(library, name)) : nullptr;
}

/* Sort devices by number, since the order of the library is that of directory entries. */
ibv_device **by_number(ibv_device **list) noexcept
{
	ibv_device **end = list;

	while (list && *end)
		++end;
	std::sort(list, end, [](const ibv_device *a, const ibv_device *b) {
		const size_t len_a = strlen(a->name), len_b = strlen(b->name);

		return len_a != len_b ? len_a < len_b : strcmp(a->name, b->name) < 0;
	});
	return list;
}

bool ours(const ibv_context *context) noexcept
{
	return twin() && twin()->owns_context(context);
}

} // namespace

#undef ibv_query_gid

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT ibv_device **ibv_get_device_list(int *num_devices)
{
	if (auto *next = sirdma::twin::shim_in_sysfs() ?
				 real<decltype(ibv_get_device_list)>("ibv_get_device_list") :
				 nullptr) {
		ibv_device **list = next(num_devices);

		/* libibverbs loaded no provider: load the twin, which prints the reason. */
		if (list && !*list)
			(void)twin();
		return by_number(list);
	}
	if (twin())
		return twin()->get_device_list(num_devices);
	if (num_devices)
		*num_devices = 0;
	errno = ENOSYS;
	return nullptr;
}

/* -1: unknown, as for a device without RDMA netlink */
EXPORT int ibv_get_device_index(ibv_device *device)
{
	if (twin() && twin()->owns_device(device))
		return -1;

	auto *next = real<decltype(ibv_get_device_index)>("ibv_get_device_index");

	return next ? next(device) : -1;
}

EXPORT __be64 ibv_get_device_guid(ibv_device *device)
{
	if (twin() && twin()->owns_device(device))
		return twin()->get_device_guid(device);

	auto *next = real<decltype(ibv_get_device_guid)>("ibv_get_device_guid");

	return next ? next(device) : 0;
}

EXPORT int _ibv_query_gid_ex(ibv_context *context, uint32_t port_num, uint32_t gid_index,
			     ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	if (ours(context))
		return twin()->query_gid_ex(context, port_num, gid_index, entry, flags, entry_size);

	auto *next = real<decltype(_ibv_query_gid_ex)>("_ibv_query_gid_ex");

	return next ? next(context, port_num, gid_index, entry, flags, entry_size) : ENOSYS;
}

EXPORT ssize_t _ibv_query_gid_table(ibv_context *context, ibv_gid_entry *entries,
				    size_t max_entries, uint32_t flags, size_t entry_size)
{
	if (ours(context))
		return twin()->query_gid_table(context, entries, max_entries, flags, entry_size);

	auto *next = real<decltype(_ibv_query_gid_table)>("_ibv_query_gid_table");

	return next ? next(context, entries, max_entries, flags, entry_size) : -ENOSYS;
}

EXPORT int ibv_query_gid(ibv_context *context, uint8_t port_num, int index, ibv_gid *gid)
{
	ibv_gid_entry entry{};

	if (!ours(context)) {
		auto *next = real<decltype(ibv_query_gid)>("ibv_query_gid");

		return next ? next(context, port_num, index, gid) : -1;
	}
	const int err = twin()->query_gid_ex(context, port_num, static_cast<uint32_t>(index),
					     &entry, 0, sizeof(entry));

	/* An empty entry reads as a GID of zeros. */
	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*gid = entry.gid;
	return 0;
}

/* A private function for rdma-core's own programs: 0 is RoCE version 1, 1 is version 2. */
EXPORT int ibv_query_gid_type(ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
	ibv_gid_entry entry{};

	if (!ours(context)) {
		auto *next = real<decltype(ibv_query_gid_type)>("ibv_query_gid_type");

		return next ? next(context, port_num, index, type) : -1;
	}
	const int err = twin()->query_gid_ex(context, port_num, index, &entry, 0, sizeof(entry));

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*type = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

EXPORT int ibv_query_pkey(ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	if (ours(context))
		return twin()->query_pkey(context, port_num, index, pkey);

	auto *next = real<decltype(ibv_query_pkey)>("ibv_query_pkey");

	return next ? next(context, port_num, index, pkey) : -1;
}

EXPORT int ibv_get_pkey_index(ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 have;

	if (!ours(context)) {
		auto *next = real<decltype(ibv_get_pkey_index)>("ibv_get_pkey_index");

		return next ? next(context, port_num, pkey) : -1;
	}
	if (twin()->query_pkey(context, port_num, 0, &have))
		return -1;
	if (have == pkey)
		return 0;
	errno = EINVAL;
	return -1;
}

EXPORT ibv_comp_channel *ibv_create_comp_channel(ibv_context *context)
{
	if (ours(context))
		return twin()->create_comp_channel(context);

	auto *next = real<decltype(ibv_create_comp_channel)>("ibv_create_comp_channel");

	return next ? next(context) : nullptr;
}

/* The device uses virtual addresses, so copy-on-write after a fork does no harm. */
EXPORT ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* A device of the twin has no file that another process could send. */
EXPORT ibv_context *ibv_import_device(int)
{
	errno = EOPNOTSUPP;
	return nullptr;
}

} /* extern "C" */
