/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device as libibverbs sees it: opened by the library itself, which leaves a
 * device without sysfs entry to its provider.
 */
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <sys/types.h>
#include <unistd.h>

#include "context.hpp"
#include "config.hpp"
#include "driver.hpp"

namespace sirdma::twin
{

struct Device {
	sirdma::Device provider; /* first: the provider casts */
	Config config;
	std::unique_ptr<Adapter> nic;
	std::unique_ptr<Driver> driver;

	/* Device sirdma@index, not started. */
	explicit Device(const Config &config, unsigned index = 0);
	~Device();
	Device(const Device &) = delete;
	Device &operator=(const Device &) = delete;

	/* A started device of its own; null with errno. */
	static std::unique_ptr<Device> create(const Config &config, unsigned index = 0);

	/*
	 * Give it a NIC of this process. A child has the memory of its parent's but not
	 * its threads, and must not take its packets: it gets one of its own. Returns 0
	 * or an errno.
	 */
	int start();

	/*
	 * It is a parent's, of which a child has the memory only: what the parent's threads
	 * were doing in it will never be done, nor its locks be free.
	 */
	bool inherited() const noexcept { return started_by_ && started_by_ != getpid(); }

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

private:
	int drive(std::unique_ptr<Adapter> adapter);

	std::mutex lock_; /* one start at a time */
	pid_t started_by_ = 0;
	bool for_good_ = false;
};

/* The devices the launcher asked for, made and started at first use; none with errno. */
std::span<Device *const> process_devices();
/* When the process ends, the counters of @device are printed, if its configuration says so. */
void count_at_exit(Device &device);

} // namespace sirdma::twin
