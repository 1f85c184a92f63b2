/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The shim's way to the twin, a library in the same folder. */
#include "shim.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

#include "environment.hpp"

namespace sirdma::twin
{

namespace
{

/* The twin is in the folder of the shim. */
const sirdma_twin_ops *load_twin() noexcept
{
	using Entry = const sirdma_twin_ops *(*)();
	Dl_info self;

	if (!dladdr(reinterpret_cast<void *>(&load_twin), &self))
		return nullptr;

	std::string path = self.dli_fname;

	path.resize(path.rfind('/') + 1);
	path += sirdma::twin::twin_library;

	void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
	auto entry = handle ? reinterpret_cast<Entry>(dlsym(handle, SIRDMA_TWIN_ENTRY)) : nullptr;

	if (!entry) {
		fprintf(stderr, "sirdma: no devices: %s\n", dlerror());
		return nullptr;
	}
	return entry();
}

} // namespace

const sirdma_twin_ops *shim_twin() noexcept
{
	static const sirdma_twin_ops *const ops = load_twin();

	return ops;
}

bool shim_in_sysfs() noexcept
{
	static const bool is = [] {
		const char *view = getenv(env_view);

		return view && !strcmp(view, view_sysfs);
	}();

	return is;
}

} // namespace sirdma::twin
