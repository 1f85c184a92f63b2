/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device as libibverbs sees it: opened by the library itself, which leaves a
 * device without sysfs entry to its provider.
 */
#pragma once

#include <memory>

#include "context.hpp"
#include "driver.hpp"

namespace sirdma::twin
{

struct Device {
	sirdma::Device provider; /* first: the provider casts */
	Config config;
	std::unique_ptr<Nic> nic;
	std::unique_ptr<Driver> driver;

	/* A device of its own; null with errno. */
	static std::unique_ptr<Device> create(const Config &config);
	~Device();

	ibv_device *verbs() noexcept { return &provider.base.device; }

	/* Whether @context is of a twin. */
	static bool owns(const ibv_context *context) noexcept;

	static Device &of(ibv_context *context) noexcept
	{
		return *reinterpret_cast<Device *>(context->device);
	}
};

/* The device of this process, made at first use; null with errno. */
Device *process_device();

} // namespace sirdma::twin
