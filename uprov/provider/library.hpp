/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The libibverbs of this process. Its private entry points are found by name and
 * version when the provider registers, so that one binary serves every release
 * interface.hpp knows; with any other no device of ours can be opened.
 */
#pragma once

#include "ibverbs_private.hpp"
#include "interface.hpp"

namespace sirdma
{

/*
 * struct verbs_context ends with the public struct ibv_context and grows at its
 * front: whoever has one leaves so much room before its ibv_context.
 */
inline constexpr size_t context_room = [] {
	size_t largest = 0;

	for (const Interface &interface : interfaces)
		largest = interface.context_size > largest ? interface.context_size : largest;
	return largest - sizeof(ibv_context);
}();

/* Says why on stderr where the library is of no known interface. */
void register_driver(const verbs_device_ops &ops) noexcept;
/* Whether contexts can be made. */
bool library_is_known() noexcept;

/*
 * Zeroed memory of @size bytes with a context the library has begun, its
 * ibv_context at @offset. Owns @cmd_fd from here on. Null with errno.
 */
void *alloc_context_memory(ibv_device *device, int cmd_fd, size_t size, size_t offset,
			   uint32_t driver_id) noexcept;
/* The library's view of a context that has the room. */
verbs_context *library_context(ibv_context *context) noexcept;
/* Add @ops to those the context has. 0, or EPROTO when the library did not take them as given. */
int set_operations(ibv_context *context, const Operations &ops) noexcept;
/* Ends what alloc_context_memory() began; the memory stays. */
void uninit_context(ibv_context *context) noexcept;

/* Private functions, as their names; null where the library is not known. */
#define SIRDMA_LIBRARY_ENTRIES(ENTRY) \
	ENTRY(_verbs_init_and_alloc_context) \
	ENTRY(verbs_set_ops) \
	ENTRY(verbs_uninit_context) \
	ENTRY(ibv_cmd_get_context) \
	ENTRY(ibv_cmd_query_device_any) \
	ENTRY(ibv_cmd_query_port) \
	ENTRY(ibv_cmd_alloc_pd) \
	ENTRY(ibv_cmd_dealloc_pd) \
	ENTRY(ibv_cmd_reg_mr) \
	ENTRY(ibv_cmd_rereg_mr) \
	ENTRY(ibv_cmd_dereg_mr) \
	ENTRY(ibv_cmd_create_cq) \
	ENTRY(ibv_cmd_destroy_cq) \
	ENTRY(ibv_cmd_create_qp) \
	ENTRY(ibv_cmd_query_qp) \
	ENTRY(ibv_cmd_modify_qp) \
	ENTRY(ibv_cmd_destroy_qp)

struct Library {
	Interface interface {
	}; /* number 0: not known */
	void (*register_driver)(const verbs_device_ops *ops) = nullptr;
#define ENTRY(name) decltype(::name) *name = nullptr;
	SIRDMA_LIBRARY_ENTRIES(ENTRY)
#undef ENTRY
};

const Library &library() noexcept;

} // namespace sirdma
