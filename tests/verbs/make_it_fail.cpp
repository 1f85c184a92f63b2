// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Preloaded into a program over libibverbs: when it has opened a device, allocations of the kernel for its main thread may fail
// (a kernel with CONFIG_FAULT_INJECTION and task-filter set). Not before: the kernel kills a program for which execve() has no
// memory, the loader ends it, and the RDMA core loses the task of a context that its driver refuses.
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <infiniband/verbs.h>

extern "C" ibv_context *ibv_open_device(ibv_device *device)
{
	const auto next = reinterpret_cast<ibv_context *(*)(ibv_device *)>(dlsym(RTLD_NEXT, "ibv_"
											    "open_"
											    "devic"
											    "e"));
	ibv_context *const context = next(device);
	std::FILE *file = std::fopen("/proc/self/make-it-fail", "we");

	if (!file || std::fputs("1", file) < 0 || std::fclose(file)) {
		std::perror("/proc/self/make-it-fail");
		std::exit(125); // as `timeout` where it fails itself
	}
	return context;
}
