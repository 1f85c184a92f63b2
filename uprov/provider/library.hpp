/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The libibverbs of this process. The provider looks up its private functions by name and
 * version when it registers, so that one binary works with every release that
 * interface.hpp lists. With any other release no device can be opened.
 */
#pragma once

#include "ibverbs_private.hpp"
#include "interface.hpp"

namespace sirdma
{

/*
 * struct verbs_context ends with the public struct ibv_context and grows at its front: its
 * owner leaves this many bytes before the ibv_context.
 */
inline constexpr size_t context_room = [] {
	size_t largest = 0;

	for (const Interface &interface : interfaces)
		largest = interface.context_size > largest ? interface.context_size : largest;
	return largest - sizeof(ibv_context);
}();

/* Register with the library. If its interface is unknown, print why to stderr. */
void register_driver(const verbs_device_ops &ops) noexcept;
/* Is the interface of the library known? If not, no context can be created. */
bool library_is_known() noexcept;

/*
 * Zeroed memory of @size bytes with a context that the library has initialized, its
 * ibv_context at @offset. The context owns @cmd_fd. Null with errno.
 */
void *alloc_context_memory(ibv_device *device, int cmd_fd, size_t size, size_t offset,
			   uint32_t driver_id) noexcept;
/* The verbs_context of a context with context_room. */
verbs_context *library_context(ibv_context *context) noexcept;
/*
 * Set the operations @ops of the context. Returns 0, or EPROTO if the library's table has another
 * layout.
 */
int set_operations(ibv_context *context, const Operations &ops) noexcept;
/* Undo the initialization by alloc_context_memory(); the memory stays. */
void uninit_context(ibv_context *context) noexcept;

/* Private functions of the library, by name. They are null if the library is not known. */
#define SIRDMA_LIBRARY_COMMANDS(ENTRY) \
	ENTRY(ibv_cmd_get_context) \
	ENTRY(ibv_cmd_query_device_any) \
	ENTRY(ibv_cmd_query_port) \
	ENTRY(ibv_cmd_alloc_pd) \
	ENTRY(ibv_cmd_dealloc_pd) \
	ENTRY(ibv_cmd_reg_mr) \
	ENTRY(ibv_cmd_rereg_mr) \
	ENTRY(ibv_cmd_dereg_mr) \
	ENTRY(ibv_cmd_alloc_mw) \
	ENTRY(ibv_cmd_dealloc_mw) \
	ENTRY(ibv_cmd_create_cq) \
	ENTRY(ibv_cmd_resize_cq) \
	ENTRY(ibv_cmd_modify_cq) \
	ENTRY(ibv_cmd_destroy_cq) \
	ENTRY(ibv_cmd_create_qp) \
	ENTRY(ibv_cmd_create_qp_ex) \
	ENTRY(ibv_cmd_open_qp) \
	ENTRY(ibv_cmd_query_qp) \
	ENTRY(ibv_cmd_modify_qp) \
	ENTRY(ibv_cmd_destroy_qp) \
	ENTRY(ibv_cmd_create_srq) \
	ENTRY(ibv_cmd_create_srq_ex) \
	ENTRY(ibv_cmd_modify_srq) \
	ENTRY(ibv_cmd_query_srq) \
	ENTRY(ibv_cmd_destroy_srq) \
	ENTRY(ibv_cmd_create_ah) \
	ENTRY(ibv_cmd_destroy_ah) \
	ENTRY(ibv_cmd_attach_mcast) \
	ENTRY(ibv_cmd_detach_mcast) \
	ENTRY(ibv_cmd_open_xrcd) \
	ENTRY(ibv_cmd_close_xrcd)

#define SIRDMA_LIBRARY_ENTRIES(ENTRY) \
	ENTRY(_verbs_init_and_alloc_context) \
	ENTRY(verbs_set_ops) \
	ENTRY(verbs_uninit_context) \
	SIRDMA_LIBRARY_COMMANDS(ENTRY)

struct Library {
	Interface interface {
	}; /* number 0: the interface is not known */
	void (*register_driver)(const verbs_device_ops *ops) = nullptr;
#define ENTRY(name) decltype(::name) *name = nullptr;
	SIRDMA_LIBRARY_ENTRIES(ENTRY)
#undef ENTRY
};

const Library &library() noexcept;

} // namespace sirdma
