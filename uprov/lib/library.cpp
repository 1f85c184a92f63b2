/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The API of sirdma/twin.h, and the devices behind the library's shim. */
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "device.hpp"
#include "entry.hpp"
#include "fabric.hpp"
#include "shim.hpp"

using sirdma::twin::Device;
using sirdma::twin::FabricAdapter;
using sirdma::twin::IpAddress;
using sirdma::twin::VirtualFabric;

struct sirdma_fabric {
	std::unique_ptr<VirtualFabric> fabric;
};

struct sirdma_device {
	std::unique_ptr<Device> device;
};

namespace
{

constexpr uint32_t default_mtu = 4200;

struct Registry {
	std::mutex lock; /* protects the members below; a forked child initialises it again */
	std::vector<Device *> devices;
	unsigned next_index = 0;
};

Registry &registry()
{
	static auto *instance = new Registry; /* never freed: static objects may own devices */

	/* In a forked child this runs the hook below, which makes the lock usable. */
	(void)port_process();
	return *instance;
}

/*
 * Create the registry when the library is loaded. If it were created at first use, a thread could
 * fork while another thread creates it, and the child would wait for that thread, which it does not
 * have.
 */
__attribute__((constructor)) void hook_fork() noexcept
{
	static Registry &all = registry();

	port_on_fork([] { new (&all.lock) std::mutex; });
}

ibv_device **get_device_list(int *num_devices)
{
	Registry &all = registry();
	std::lock_guard hold(all.lock);
	auto **list = static_cast<ibv_device **>(calloc(all.devices.size() + 1, sizeof(void *)));

	if (num_devices)
		*num_devices = 0;
	if (!list) {
		errno = ENOMEM;
		return nullptr;
	}
	for (size_t i = 0; i < all.devices.size(); ++i) {
		__atomic_fetch_add(&all.devices[i]->provider.base.refcount, 1, __ATOMIC_RELAXED);
		list[i] = all.devices[i]->verbs();
	}
	if (num_devices)
		*num_devices = static_cast<int>(all.devices.size());
	return list;
}

/* Run @body, which returns a pointer. Returns null with ENOMEM if @body runs out of memory. */
template <typename Body> auto guarded(Body body) noexcept -> decltype(body())
{
	try {
		return body();
	} catch (const std::bad_alloc &) {
		errno = ENOMEM;
		return {};
	}
}

/* Returns null with errno. */
std::unique_ptr<Device> make_device(VirtualFabric &fabric, const IpAddress &addr, uint32_t mtu)
{
	sirdma::twin::Config config;
	unsigned index;
	{
		Registry &all = registry();
		std::lock_guard hold(all.lock);

		index = all.next_index++;
	}
	auto device = std::make_unique<Device>(config, index);

	if (const int err = device->start_on(FabricAdapter::create(fabric, addr, mtu))) {
		errno = err;
		return nullptr;
	}
	return device;
}

} // namespace

namespace sirdma::twin
{

const sirdma_twin_ops *shim_twin() noexcept
{
	static const sirdma_twin_ops ops = [] {
		sirdma_twin_ops mine = *sirdma_twin_entry();

		mine.get_device_list = get_device_list;
		return mine;
	}();

	return &ops;
}

bool shim_in_sysfs() noexcept
{
	Registry &all = registry();
	std::lock_guard hold(all.lock);

	return all.devices.empty();
}

} // namespace sirdma::twin

extern "C" {

#define API __attribute__((visibility("default")))

API sirdma_fabric *sirdma_fabric_create(const sirdma_fabric_params *params)
{
	static constexpr sirdma_fabric_params defaults = {
		.seed = 1, .delay_ns = 1000, .poll_ns = 100};
	const sirdma_fabric_params &p = params ? *params : defaults;

	if (!p.delay_ns) {
		errno = EINVAL;
		return nullptr;
	}
	return guarded([&]() -> sirdma_fabric * {
		auto fabric = VirtualFabric::create(p);

		return fabric ? new sirdma_fabric{std::move(fabric)} : nullptr;
	});
}

API int sirdma_fabric_destroy(sirdma_fabric *fabric)
{
	if (!fabric)
		return 0;
	if (fabric->fabric->has_adapters())
		return EBUSY;
	delete fabric;
	return 0;
}

API uint64_t sirdma_fabric_now(const sirdma_fabric *fabric)
{
	return fabric->fabric->now();
}

API int sirdma_fabric_advance(sirdma_fabric *fabric, uint64_t ns)
{
	fabric->fabric->advance(ns);
	return 0;
}

API int sirdma_fabric_run_until_idle(sirdma_fabric *fabric, uint64_t max_ns)
{
	return fabric->fabric->run_until_idle(max_ns) ? 0 : ETIMEDOUT;
}

API sirdma_device *sirdma_device_create(sirdma_fabric *fabric, const sirdma_device_params *params)
{
	VirtualFabric &f = *fabric->fabric;
	const uint32_t mtu = params && params->mtu ? params->mtu : default_mtu;
	IpAddress addr = f.free_address();

	if (mtu < sirdma::twin::mtu_min || mtu > sirdma::twin::mtu_max ||
	    (params && params->addr && !IpAddress::parse(params->addr, addr))) {
		errno = EINVAL;
		return nullptr;
	}
	if (!sirdma::library_is_known()) {
		errno = ENOSYS;
		return nullptr;
	}
	if (f.find(addr)) {
		errno = EADDRINUSE;
		return nullptr;
	}
	return guarded([&]() -> sirdma_device * {
		auto device = make_device(f, addr, mtu);

		if (!device)
			return nullptr;

		auto *handle = new sirdma_device{std::move(device)};
		Registry &all = registry();
		std::lock_guard hold(all.lock);

		f.find(addr)->handle = handle;
		all.devices.push_back(handle->device.get());
		return handle;
	});
}

API int sirdma_device_destroy(sirdma_device *device)
{
	if (!device)
		return 0;

	Registry &all = registry();
	{
		std::lock_guard hold(all.lock);

		/* libibverbs counts the open contexts and the device lists, beside our own 1. */
		if (__atomic_load_n(&device->device->provider.base.refcount, __ATOMIC_RELAXED) != 1)
			return EBUSY;
		std::erase(all.devices, device->device.get());
	}
	delete device;
	return 0;
}

API ibv_device *sirdma_device_verbs(sirdma_device *device)
{
	return device->device->verbs();
}

API ibv_gid sirdma_device_gid(const sirdma_device *device)
{
	return device->device->driver->gid();
}

API int sirdma_device_counter(sirdma_device *device, const char *name, uint64_t *value)
{
	static constexpr const char *names[] = {
#define NAME(id, name) #name,
		SIRDMA_STATS(NAME)
#undef NAME
	};

	for (unsigned i = 0; i < SIRDMA_STAT_COUNT; ++i) {
		if (strcmp(name, names[i]) != 0)
			continue;
		*value = device->device->nic->stat(static_cast<sirdma_stat>(i));
		return 0;
	}
	return ENOENT;
}

API int sirdma_fabric_add_rule(sirdma_fabric *fabric, const sirdma_rule *rule)
{
	if (rule->opcode < SIRDMA_ANY_OPCODE || rule->opcode > UINT8_MAX ||
	    rule->action < SIRDMA_PASS || rule->action > SIRDMA_CORRUPT) {
		errno = EINVAL;
		return -1;
	}
	try {
		return fabric->fabric->add_rule(*rule);
	} catch (const std::bad_alloc &) {
		errno = ENOMEM;
		return -1;
	}
}

API int sirdma_fabric_rule_hits(const sirdma_fabric *fabric, int number, uint64_t *hits)
{
	const u64 *found = fabric->fabric->hits(number);

	if (!found)
		return EINVAL;
	*hits = *found;
	return 0;
}

API void sirdma_fabric_clear_rules(sirdma_fabric *fabric)
{
	fabric->fabric->clear_rules();
}

} /* extern "C" */
