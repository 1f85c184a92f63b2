/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registration with libibverbs, and matching of devices.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "context.hpp"
#include "verbs.hpp"

namespace sirdma
{

namespace
{

/* RDMA_DRIVER_UNKNOWN: the library found the device in sysfs, where there is no driver id. */
constexpr uint32_t driver_unknown = 0;

/* The beginning of our driver's sysfs attribute hca_type. */
constexpr char hca_type[] = "SIRDMA";

const verbs_match_ent match_table[] = {
	{.driver_data = nullptr,
	 .u = {.driver_id = SIRDMA_DRIVER_ID},
	 .vendor = 0,
	 .device = 0,
	 .kind = VERBS_MATCH_DRIVER_ID},
	/* Only with SIRDMA_DRIVE_IRDMA=1 */
	{.driver_data = nullptr,
	 .u = {.driver_id = RDMA_DRIVER_IRDMA},
	 .vendor = 0,
	 .device = 0,
	 .kind = VERBS_MATCH_DRIVER_ID},
	{.driver_data = nullptr,
	 .u = {.modalias = nullptr},
	 .vendor = 0,
	 .device = 0,
	 .kind = VERBS_MATCH_SENTINEL},
};

bool has_our_hca_type(const verbs_sysfs_dev &dev) noexcept
{
	char path[sizeof(dev.ibdev_path) + sizeof("/hca_type")];
	char value[sizeof(hca_type) - 1];

	snprintf(path, sizeof(path), "%s/hca_type", dev.ibdev_path);

	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	const ssize_t n = read(fd, value, sizeof(value));
	close(fd);
	return n == static_cast<ssize_t>(sizeof(value)) && !memcmp(value, hca_type, sizeof(value));
}

/*
 * Does the user want this provider for devices of irdma? libirdma claims them as well. libibverbs asks
 * the providers that RDMAV_DRIVERS names before the others.
 */
bool drives_irdma() noexcept
{
	const char *env = secure_getenv("SIRDMA_DRIVE_IRDMA");

	return env && !strcmp(env, "1");
}

/*
 * Called for each device that no other provider has claimed. If the driver id is known, it alone
 * decides, so that no name and no sysfs file makes this provider use a device of another vendor.
 */
bool match_device(verbs_sysfs_dev *dev) noexcept
{
	if (dev->driver_id == RDMA_DRIVER_IRDMA)
		return drives_irdma();
	if (dev->driver_id != driver_unknown)
		return dev->driver_id == SIRDMA_DRIVER_ID;
	return has_our_hca_type(*dev);
}

verbs_device *alloc_device(verbs_sysfs_dev *dev) noexcept
{
	/* The library expects that the struct is zeroed. */
	auto *device = static_cast<Device *>(calloc(1, sizeof(Device)));

	if (!device)
		return nullptr;
	const bool by_netlink = dev->ibdev_idx >= 0;
	device->driver_id = by_netlink ? dev->driver_id : SIRDMA_DRIVER_ID;
	return &device->base;
}

void uninit_device(verbs_device *device) noexcept
{
	free(device);
}

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *) noexcept
{
	ibv_context *context = open_device(device, cmd_fd, kernel_commands);

	return context ? library_context(context) : nullptr;
}

verbs_context *import_context(ibv_device *device, int cmd_fd) noexcept
{
	ibv_context *context = open_device(device, cmd_fd, kernel_commands, Origin::imported);

	return context ? library_context(context) : nullptr;
}

constexpr verbs_device_ops device_ops = {
	.name = "sirdma",
	.match_min_abi_version = SIRDMA_ABI_VERSION,
	.match_max_abi_version = SIRDMA_ABI_VERSION,
	.match_table = match_table,
	.static_providers = nullptr,
	.match_device = match_device,
	.alloc_context = alloc_context,
	.import_context = import_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};

__attribute__((constructor)) void register_provider() noexcept
{
	register_driver(device_ops);
}

} // namespace

} // namespace sirdma
