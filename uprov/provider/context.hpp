/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The opened device.
 */
#pragma once

#include <cstdint>
#include <type_traits>

#include <pthread.h>
#include <sirdma/abi.h>
#include <sirdma/regs.h>

#include "commands.hpp"
#include "ibverbs_private.hpp"
#include "library.hpp"

namespace sirdma
{

struct Pd;
class RingPool;

/* A device in the list of the library. */
struct Device {
	verbs_device base;
	uint32_t driver_id; /* driver id, which the kernel requires in every ioctl */
};

inline uint32_t driver_id_of(const ibv_device *device) noexcept
{
	return reinterpret_cast<const Device *>(device)->driver_id;
}

/* Limits of the rings: those of the driver, clipped to the values that the layouts can hold. */
struct Limits {
	uint32_t max_sge;
	uint32_t max_read_sge;
	uint32_t max_inline; /* bytes */
	uint32_t max_sq_quanta;
	uint32_t max_rq_quanta;
	uint32_t max_srq_quanta; /* 0: there are no shared receive queues */
	uint32_t min_wq_quanta;
	uint32_t max_cq_size; /* number of elements of the ring */
	uint32_t min_cq_size;
	uint32_t lacks; /* see sirdma_sq */
	bool xrc; /* the driver has XRC domains */
};

/* The library allocates this zeroed, and knows only the first two members. */
struct Context {
	alignas(ibv_context) uint8_t room[context_room]; /* memory of the library's verbs_context */
	ibv_context verbs;
	const Commands *commands; /* commands to the driver of the context */
	Limits limits;
	bool imported; /* by ibv_import_device() */
	bool kick; /* the device maintains need_kick (SIRDMA_UCTX_KICK) */
	bool kick_method; /* the driver has a method for kicks (SIRDMA_UCTX_KICK_METHOD) */
	bool cq_flags; /* the driver knows the flags of create_cq (SIRDMA_UCTX_CQ_FLAGS) */
	/*
	 * The device clears the bits of the arm word when it raises the event. It is ours, because the
	 * driver has SIRDMA_UCTX_KICK, or SIRDMA_UCTX_RING_POOL as the twin's.
	 */
	bool clears_arm;
	bool cq_shadow_apart; /* the CQ shadow area has a registration of its own */
	bool single_threaded; /* SIRDMA_SINGLE_THREADED=1 */
	uint32_t vendor_part_id; /* SIRDMA_VENDOR_PART_ID; 0: that of the device */
	int64_t clock_offset; /* of CLOCK_MONOTONIC here from a kernel device's clock, ns */
	void *device; /* of a driver in this process: the device that executes its commands */
	sirdma_db_page *doorbell;
	Pd *pd; /* for registrations of CQ memory and of the pool */
	RingPool *pool; /* rings of small QPs; null: the driver does not know SIRDMA_MEMREG_POOL */
	/*
	 * The lock is held while a QP with a shared receive queue gets or returns its number.
	 * Completions of the QP are found by the number, so a new QP must not have it before they
	 * are gone.
	 */
	pthread_mutex_t numbers;

	static Context &of(ibv_context *context) noexcept
	{
		return *reinterpret_cast<Context *>(reinterpret_cast<uint8_t *>(context) -
						    offsetof(Context, verbs));
	}
};

static_assert(std::is_trivially_default_constructible_v<Context> &&
	      std::is_standard_layout_v<Context>);

/* Commands to the driver of @context. */
inline const Commands &commands(ibv_context *context) noexcept
{
	return *Context::of(context).commands;
}

extern const Operations context_ops;

} // namespace sirdma
