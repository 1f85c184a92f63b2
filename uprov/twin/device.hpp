/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device for libibverbs. The library opens it like any other; a device without a sysfs entry
 * is left to its provider.
 */
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "context.hpp"
#include "config.hpp"
#include "driver.hpp"

namespace sirdma::twin
{

/*
 * A started device, which belongs to the process that started it. A forked child has a copy of
 * its memory but not its threads, and must not receive its packets. So the child neither uses
 * nor frees it, and starts one of its own.
 */
struct Instance {
	const u32 process = port_process();
	std::unique_ptr<Adapter> nic;
	std::unique_ptr<Driver> driver;

	/* Did a parent process start the instance? */
	bool inherited() const noexcept { return !port_process_is(process); }

	/* The instance on which @context was opened. */
	static Instance &of(ibv_context *context) noexcept
	{
		return *static_cast<Instance *>(Context::of(context).device);
	}
};

struct Device {
	sirdma::Device provider; /* must be first, because the provider casts */
	Config config;
	/* The adapter of the instance that started last. */
	Adapter *nic = nullptr;
	Driver *driver = nullptr;

	/* Make device sirdma@index, which is not started. */
	explicit Device(const Config &config, unsigned index = 0);
	~Device();
	Device(const Device &) = delete;
	Device &operator=(const Device &) = delete;

	/* Make a started device of its own. Returns null with errno. */
	static std::unique_ptr<Device> create(const Config &config, unsigned index = 0);

	/* Start the device, unless this process has started it. Returns 0 or an errno. */
	int start();

	/* The instance that this process has started, or null. */
	Instance *instance() const noexcept
	{
		Instance *last = instance_.load(std::memory_order_acquire);

		return last && !last->inherited() ? last : nullptr;
	}

	/* Called when the process exits. */
	void finish() noexcept;
	/* Acknowledge what was received. */
	void acknowledge() noexcept;

	/*
	 * Start the device on @adapter, for this process only. If @adapter is null, fail with
	 * errno. Returns 0 or an errno.
	 */
	int start_on(std::unique_ptr<Adapter> adapter);

	/* Print the counters that are not 0 to stderr. */
	void print_stats() noexcept;

	ibv_device *verbs() noexcept { return &provider.base.device; }

	/* Does @context belong to a twin? */
	static bool owns(const ibv_context *context) noexcept;

	static Device &of(ibv_context *context) noexcept
	{
		return *reinterpret_cast<Device *>(context->device);
	}

	Device *next_counted = nullptr; /* see count_at_exit() */

private:
	int start_locked() noexcept;
	int drive(std::unique_ptr<Adapter> adapter);

	friend std::span<Device *const> process_devices();

	std::atomic<Instance *> instance_{nullptr};
	bool for_good_ = false;
};

/* commands.cpp */
extern const Commands twin_commands;

/*
 * The devices that the launcher asks for, created and started at first use. There are none, with
 * errno, on failure.
 */
std::span<Device *const> process_devices();
/* Those devices, or the ones that the library made from sysfs, in the order of their numbers. */
std::vector<Device *> known_devices();
/* Print the counters of @device when the process exits, if its configuration says so. */
void count_at_exit(Device &device);

} // namespace sirdma::twin
