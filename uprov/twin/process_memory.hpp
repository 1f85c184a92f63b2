/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The memory of this process, as the device's DMA reaches it.
 *
 * Rings, shadow areas and ordinary regions are used by pointers: the application keeps them mapped
 * while the device has them. Memory that is registered on demand may be unmapped, protected or mapped
 * anew at any moment, by other threads as well, so the device never uses it by a pointer. The kernel
 * copies it (process_vm_readv() and process_vm_writev() of the process itself), and reports EFAULT where
 * a pointer would raise a signal.
 *
 * The kernel has no system call for an atomic of eight bytes. A child that shares the memory executes it
 * (clone() with CLONE_VM and CLONE_VFORK, as posix_spawn() does): the child has signal handlers of its
 * own, so it takes the signal, and the application's handlers and signal masks stay as they are.
 */
#pragma once

#include <sys/types.h>

#include "core.hpp"

namespace sirdma::twin
{

class ProcessMemory final : public port_dma {
public:
	ProcessMemory() noexcept;
	ProcessMemory(const ProcessMemory &) = delete;
	ProcessMemory &operator=(const ProcessMemory &) = delete;

	/*
	 * Can the device have memory that may be missing? Sandboxes may forbid the system calls. The
	 * answer is determined once, unless processes are short at the moment.
	 */
	static bool may_fault() noexcept;

	/* Read the byte at @addr. Returns false if there is no memory. */
	static bool is_readable(u64 addr) noexcept;

private:
	static ProcessMemory &of(port_dma *dma) noexcept
	{
		return *static_cast<ProcessMemory *>(dma);
	}
	static void *pointer(port_dma *dma, u64 addr, u32 len);
	static int read(port_dma *dma, u64 addr, void *to, u32 len);
	static int write(port_dma *dma, u64 addr, const void *from, u32 len);
	static int atomic(port_dma *dma, u64 addr, port_atomic op, u64 operand, u64 compare,
			  u64 *before);
	static const port_dma_access checked;

	int try_out(void *missing) noexcept;
	static int probe() noexcept;

	std::mutex lock_; /* protects the child's stack: one atomic at a time */
	/* The frame of a signal with all registers of AMX takes 11 KiB. */
	alignas(64) std::array<uint8_t, 32768> stack_;
};

} // namespace sirdma::twin
