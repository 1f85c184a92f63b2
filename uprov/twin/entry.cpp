/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "entry.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <endian.h>

#include <sirdma/roce.h>

#include "cm/entry.hpp"
#include "device.hpp"
#include "no_cancel.hpp"

namespace sirdma::twin
{

namespace
{

ibv_device **get_device_list(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	if (!library_is_known()) {
		errno = ENOSYS;
		return nullptr;
	}

	const std::span<Device *const> devices = [] {
		try {
			return process_devices();
		} catch (const std::bad_alloc &) {
			errno = ENOMEM;
			return std::span<Device *const>();
		}
	}();

	if (devices.empty())
		return nullptr;

	/* The library's ibv_free_device_list() drops the references and frees the array. */
	auto **list = static_cast<ibv_device **>(calloc(devices.size() + 1, sizeof(void *)));

	if (!list) {
		errno = ENOMEM;
		return nullptr;
	}
	for (size_t i = 0; i < devices.size(); ++i) {
		__atomic_fetch_add(&devices[i]->provider.base.refcount, 1, __ATOMIC_RELAXED);
		list[i] = devices[i]->verbs();
	}
	if (num_devices)
		*num_devices = static_cast<int>(devices.size());
	return list;
}

bool owns_device(const ibv_device *device)
{
	ibv_context probe{};

	probe.device = const_cast<ibv_device *>(device);
	return Device::owns(&probe);
}

bool owns_context(const ibv_context *context)
{
	return Device::owns(context);
}

__be64 get_device_guid(ibv_device *device)
{
	Device &twin = *reinterpret_cast<Device *>(device);

	if (const int err = twin.start()) {
		errno = err;
		return 0;
	}
	return twin.driver->guid();
}

void fill_gid(ibv_context *context, ibv_gid_entry &entry)
{
	entry = {};
	entry.gid = Instance::of(context).driver->gid();
	entry.port_num = 1;
	entry.gid_type = IBV_GID_TYPE_ROCE_V2;
	entry.ndev_ifindex = interface_index(IpAddress(Instance::of(context).nic->addr()));
}

int query_gid_ex(ibv_context *context, uint32_t port_num, uint32_t gid_index, ibv_gid_entry *entry,
		 uint32_t flags, size_t entry_size)
{
	const NoCancel no_cancel;
	ibv_gid_entry full;

	if (port_num != 1 || flags || gid_index >= gid_table_len)
		return EINVAL;
	if (gid_index)
		return ENODATA;
	fill_gid(context, full);
	memcpy(entry, &full, std::min(sizeof(full), entry_size));
	return 0;
}

ssize_t query_gid_table(ibv_context *context, ibv_gid_entry *entries, size_t max_entries,
			uint32_t flags, size_t entry_size)
{
	if (!max_entries || query_gid_ex(context, 1, 0, entries, flags, entry_size))
		return -EINVAL;
	return 1;
}

int query_pkey(ibv_context *, uint8_t port_num, int index, __be16 *pkey)
{
	if (port_num != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(SIRDMA_DEFAULT_PKEY);
	return 0;
}

constexpr sirdma_twin_ops ops = {
	.get_device_list = get_device_list,
	.owns_device = owns_device,
	.owns_context = owns_context,
	.get_device_guid = get_device_guid,
	.query_gid_ex = query_gid_ex,
	.query_gid_table = query_gid_table,
	.query_pkey = query_pkey,
	.create_comp_channel = create_comp_channel,
	.cm_open_channel = [] { return cm::open_channel(); },
	.cm_close_channel = [](int file) { cm::close_channel(file); },
	.cm_command = [](int file, const void *bytes,
			 size_t len) { return cm::command(file, bytes, len); },
};

} // namespace

} // namespace sirdma::twin

extern "C" __attribute__((visibility("default"))) const sirdma_twin_ops *sirdma_twin_entry(void)
{
	return &sirdma::twin::ops;
}
