/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device as libibverbs sees it: opened by the library itself, which leaves a
 * device without sysfs entry to its provider.
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
 * A started device. It belongs to the process that started it. A forked child has a
 * copy of its memory, but not its threads, and must not take its packets: the child
 * neither uses nor frees it, and starts one of its own.
 */
struct Instance {
	const u32 process = port_process();
	std::unique_ptr<Adapter> nic;
	std::unique_ptr<Driver> driver;

	/* It is a parent's. */
	bool inherited() const noexcept { return !port_process_is(process); }

	/* That on which @context was opened. */
	static Instance &of(ibv_context *context) noexcept
	{
		return *static_cast<Instance *>(Context::of(context).device);
	}
};

struct Device {
	sirdma::Device provider; /* first: the provider casts */
	Config config;
	/* Of the instance started last. */
	Adapter *nic = nullptr;
	Driver *driver = nullptr;

	/* Device sirdma@index, not started. */
	explicit Device(const Config &config, unsigned index = 0);
	~Device();
	Device(const Device &) = delete;
	Device &operator=(const Device &) = delete;

	/* A started device of its own; null with errno. */
	static std::unique_ptr<Device> create(const Config &config, unsigned index = 0);

	/* Start it, unless this process has. 0 or an errno. */
	int start();

	/* Started in this process, or null. */
	Instance *instance() const noexcept
	{
		Instance *last = instance_.load(std::memory_order_acquire);

		return last && !last->inherited() ? last : nullptr;
	}

	/* The process ends. */
	void finish() noexcept;

	/* Give it @adapter, for good, and not to children; null: for the reason in errno. 0 or an errno. */
	int start_on(std::unique_ptr<Adapter> adapter);

	/* To stderr, what is not 0. */
	void print_stats() noexcept;

	ibv_device *verbs() noexcept { return &provider.base.device; }

	/* Whether @context is of a twin. */
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

/* The devices the launcher asked for, made and started at first use; none with errno. */
std::span<Device *const> process_devices();
/* When the process ends, the counters of @device are printed, if its configuration says so. */
void count_at_exit(Device &device);

} // namespace sirdma::twin
