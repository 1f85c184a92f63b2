/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "library.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <iterator>
#include <unistd.h>

namespace sirdma
{

namespace
{

static_assert(sizeof(void *) == 8, "sizes of the private structures are those of 64 bit");
static_assert(offsetof(verbs_context, context) + sizeof(ibv_context) == sizeof(verbs_context));

using Slots = std::array<verbs_unused_op, std::size(operations)>;

/* Look up a private function. Returns null, with the missing symbol in @why. */
verbs_unused_op find(void *handle, const Interface &interface, const char *name, std::string &why)
{
	const std::string version = "IBVERBS_PRIVATE_" + std::to_string(interface.number);
	void *found = dlvsym(handle, name, version.c_str());

	if (!found)
		why = version + " has no " + name;
	return reinterpret_cast<verbs_unused_op>(found);
}

Library load(std::string &why)
{
	/* The library is loaded already: the provider is linked with it. */
	void *handle = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	Library found;

	if (!handle) {
		why = "libibverbs.so.1 is not loaded";
		return {};
	}

	const Interface *interface = find_interface(handle, why);

	if (!interface)
		return {};

	const std::string registration =
		"verbs_register_driver_" + std::to_string(interface->number);

	found.register_driver = reinterpret_cast<decltype(found.register_driver)>(
		find(handle, *interface, registration.c_str(), why));
#define ENTRY(name) \
	found.name = reinterpret_cast<decltype(found.name)>(find(handle, *interface, #name, why));
	SIRDMA_LIBRARY_ENTRIES(ENTRY)
#undef ENTRY
	if (!why.empty())
		return {};
	found.interface = *interface;
	return found;
}

void warn(const char *what) noexcept
{
	fprintf(stderr, "sirdma: no devices with this libibverbs: %s\n", what);
}

Slots slots_of(const Operations &ops, const Interface &interface) noexcept
{
	Slots slots{};

#define PUT(name, ...) \
	static_assert(operation_slot(interfaces[0], #name) >= 0); \
	slots[static_cast<size_t>(operation_slot(interface, #name))] = \
		reinterpret_cast<verbs_unused_op>(ops.name);
	SIRDMA_VERBS_OPERATIONS(PUT)
#undef PUT
	return slots;
}

/*
 * The library copies some operations into the public struct ibv_context. If a copy differs,
 * the table of the library has another layout than interface.hpp says.
 */
bool operations_match(const ibv_context_ops &has, const Operations &gave) noexcept
{
	const auto same = [](auto *copy, auto *own) {
		return !own || reinterpret_cast<verbs_unused_op>(copy) ==
				       reinterpret_cast<verbs_unused_op>(own);
	};

	return same(has.alloc_mw, gave.alloc_mw) && same(has.bind_mw, gave.bind_mw) &&
	       same(has.dealloc_mw, gave.dealloc_mw) && same(has._compat_alloc_pd, gave.alloc_pd) &&
	       same(has._compat_async_event, gave.async_event) &&
	       same(has._compat_cq_event, gave.cq_event) &&
	       same(has._compat_create_cq, gave.create_cq) &&
	       same(has._compat_create_qp, gave.create_qp) &&
	       same(has._compat_dealloc_pd, gave.dealloc_pd) &&
	       same(has._compat_dereg_mr, gave.dereg_mr) &&
	       same(has._compat_destroy_cq, gave.destroy_cq) &&
	       same(has._compat_destroy_qp, gave.destroy_qp) &&
	       same(has._compat_modify_qp, gave.modify_qp) && same(has.poll_cq, gave.poll_cq) &&
	       same(has.post_recv, gave.post_recv) && same(has.post_send, gave.post_send) &&
	       same(has._compat_query_qp, gave.query_qp) && same(has._compat_reg_mr, gave.reg_mr) &&
	       same(has._compat_resize_cq, gave.resize_cq) &&
	       same(has.req_notify_cq, gave.req_notify_cq) &&
	       same(has._compat_rereg_mr, gave.rereg_mr);
}

/* The size of the library's verbs_context, which it stores directly before the ibv_context. */
size_t context_size_of_library(const ibv_context *context) noexcept
{
	constexpr size_t before = offsetof(verbs_context, context) - offsetof(verbs_context, sz);

	return *reinterpret_cast<const size_t *>(reinterpret_cast<const uint8_t *>(context) -
						 before);
}

} // namespace

const Library &library() noexcept
{
	static const Library loaded = [] {
		std::string why;
		Library found = load(why);

		if (!found.interface.number)
			warn(why.c_str());
		return found;
	}();

	return loaded;
}

void register_driver(const verbs_device_ops &ops) noexcept
{
	if (const auto registration = library().register_driver)
		registration(&ops);
}

bool library_is_known() noexcept
{
	return library().interface.number;
}

verbs_context *library_context(ibv_context *context) noexcept
{
	return reinterpret_cast<verbs_context *>(reinterpret_cast<uint8_t *>(context + 1) -
						 library().interface.context_size);
}

void *alloc_context_memory(ibv_device *device, int cmd_fd, size_t size, size_t offset,
			   uint32_t driver_id) noexcept
{
	const auto init_and_alloc = library()._verbs_init_and_alloc_context;

	if (!init_and_alloc) {
		close(cmd_fd);
		errno = ENOSYS;
		return nullptr;
	}
	/* The library expects the offset as a pointer. */
	auto *begin = reinterpret_cast<verbs_context *>(offset + sizeof(ibv_context) -
							library().interface.context_size);
	/*
	 * This is spare room: the library must not write past the end if its verbs_context is
	 * larger.
	 */
	auto *memory = static_cast<uint8_t *>(
		init_and_alloc(device, cmd_fd, size + context_room, begin, driver_id));

	if (!memory)
		return nullptr;

	auto *context = reinterpret_cast<ibv_context *>(memory + offset);

	if (context_size_of_library(context) != library().interface.context_size) {
		warn("its struct verbs_context has another size than its version says");
		/* The layout is unknown: leak the context, do not free it. */
		errno = EPROTO;
		return nullptr;
	}
	return memory;
}

int set_operations(ibv_context *context, const Operations &ops) noexcept
{
	const Slots slots = slots_of(ops, library().interface);

	library().verbs_set_ops(library_context(context),
				reinterpret_cast<const verbs_context_ops *>(slots.data()));
	if (operations_match(context->ops, ops))
		return 0;
	warn("its table of operations is not the one its version says");
	return EPROTO;
}

void uninit_context(ibv_context *context) noexcept
{
	if (const auto uninit = library().verbs_uninit_context)
		uninit(library_context(context));
}

} // namespace sirdma
