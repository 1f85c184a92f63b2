/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "dm.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "context.hpp"
#include "mr.hpp"
#include "verbs.hpp"

namespace sirdma
{

namespace
{

template <typename Word> void store_word(uint8_t *memory, const uint8_t *host) noexcept
{
	Word word;

	memcpy(&word, host, sizeof(word));
	std::atomic_ref<Word>(*reinterpret_cast<Word *>(memory))
		.store(word, std::memory_order_relaxed);
}

template <typename Word> void load_word(uint8_t *memory, uint8_t *host) noexcept
{
	const Word word = std::atomic_ref<Word>(*reinterpret_cast<Word *>(memory))
				  .load(std::memory_order_relaxed);

	memcpy(host, &word, sizeof(word));
}

/*
 * Call @by_8 or @by_4 for each word of @length bytes of device memory from @offset on: 8 bytes where
 * the offset is a multiple of 8, so that what atomic operations of peers change is copied whole.
 */
template <typename By4, typename By8>
void for_each_word(uint64_t offset, size_t length, By4 by_4, By8 by_8) noexcept
{
	size_t done = 0;

	if (length && offset % 8) {
		by_4(done);
		done += 4;
	}
	for (; length - done >= 8; done += 8)
		by_8(done);
	if (done < length)
		by_4(done);
}

bool may_copy(const Dm &dm, uint64_t offset, size_t length) noexcept
{
	return offset % dm_word == 0 && length % dm_word == 0 && offset <= dm.length &&
	       length <= dm.length - offset;
}

int copy_to(ibv_dm *base, uint64_t offset, const void *from, size_t length) noexcept
{
	const Dm &dm = Dm::of(base);
	const auto *host = static_cast<const uint8_t *>(from);

	if (!may_copy(dm, offset, length))
		return EINVAL;
	uint8_t *memory = dm.memory + offset;
	for_each_word(
		offset, length, [&](size_t at) { store_word<uint32_t>(memory + at, host + at); },
		[&](size_t at) { store_word<uint64_t>(memory + at, host + at); });
	/* A post releases what its thread stored: a request that follows finds it. */
	return 0;
}

int copy_from(void *to, ibv_dm *base, uint64_t offset, size_t length) noexcept
{
	const Dm &dm = Dm::of(base);
	auto *host = static_cast<uint8_t *>(to);

	if (!may_copy(dm, offset, length))
		return EINVAL;
	uint8_t *memory = dm.memory + offset;
	/* A poll acquires what the device wrote before that completion: it is there. */
	for_each_word(
		offset, length, [&](size_t at) { load_word<uint32_t>(memory + at, host + at); },
		[&](size_t at) { load_word<uint64_t>(memory + at, host + at); });
	return 0;
}

/* Map the memory, if its driver is not in this process. Returns 0 or an errno. */
int map_dm(ibv_context *context, const DmInfo &info, Dm &dm) noexcept
{
	dm.memory = info.memory;
	if (!info.memory) {
		dm.mapping = PageBuffer::device(context->cmd_fd, static_cast<off_t>(info.mmap_key),
						info.map_bytes,
						commands(context).rings_in_children);
		dm.memory = dm.mapping.data();
	}
	if (!dm.memory)
		return errno;
	dm.length = info.length;
	dm.base.context = context;
	dm.base.memcpy_to_dm = copy_to;
	dm.base.memcpy_from_dm = copy_from;
	dm.base.comp_mask = IBV_DM_MASK_HANDLE;
	dm.base.handle = info.handle;
	return 0;
}

/* Returns 0 or an errno. */
int make_dm(ibv_context *context, const ibv_alloc_dm_attr &attr, Dm &dm) noexcept
{
	DmInfo info{};

	if (attr.comp_mask)
		return EOPNOTSUPP;
	if (const int err = commands(context).alloc_dm(context, attr, info))
		return err;

	const int err = map_dm(context, info, dm);

	if (err)
		static_cast<void>(commands(context).free_dm(context, info.handle));
	return err;
}

/* The object that @fill filled, or null with errno. */
template <typename Fill> ibv_dm *new_dm(Fill fill) noexcept
{
	auto *dm = new (std::nothrow) Dm;

	if (!dm) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int err = fill(*dm)) {
		delete dm;
		errno = err;
		return nullptr;
	}
	return &dm->base;
}

} // namespace

ibv_dm *alloc_dm(ibv_context *context, ibv_alloc_dm_attr *attr) noexcept
{
	return new_dm([=](Dm &dm) { return make_dm(context, *attr, dm); });
}

ibv_dm *import_dm(ibv_context *context, uint32_t handle) noexcept
{
	return new_dm([=](Dm &dm) {
		DmInfo info{};
		const int err = commands(context).query_dm(context, handle, info);

		return err ? err : map_dm(context, info, dm);
	});
}

/* The memory stays as its own process has it. */
void unimport_dm(ibv_dm *dm) noexcept
{
	delete &Dm::of(dm);
}

int free_dm(ibv_dm *dm) noexcept
{
	if (const int err = commands(dm->context).free_dm(dm->context, dm->handle))
		return err;
	delete &Dm::of(dm);
	return 0;
}

namespace
{

int register_dm(ibv_pd *pd, const Dm &dm, uint64_t offset, size_t length, unsigned int access,
		verbs_mr &mr) noexcept
{
	Keys keys{};

	if (pd->context != dm.base.context)
		return EINVAL;
	if (const int err = commands(pd->context)
				    .reg_dm_mr(pd, dm.base.handle, offset, length, access, keys))
		return err;
	/*
	 * The library has no type for device memory. It does not rereg a region of this type and
	 * does not protect its memory from fork, as device memory needs.
	 */
	set_mr(mr, pd, keys, length, VERBS_MR_DMABUF);
	mr.access = static_cast<int>(access);
	return 0;
}

} // namespace

ibv_mr *reg_dm_mr(ibv_pd *pd, ibv_dm *dm, uint64_t offset, size_t length,
		  unsigned int access) noexcept
{
	return new_mr([=](verbs_mr &mr) {
		return register_dm(pd, Dm::of(dm), offset, length, access, mr);
	});
}

} // namespace sirdma
