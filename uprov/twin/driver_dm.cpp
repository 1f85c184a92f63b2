/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device memory: memory of the process, to which the device has access as to all of it. If peers may access
 * memory by themselves it is memory that they can map; a forked child shares it then, as it would share that of
 * a device.
 */
#include <cerrno>

#include "driver.hpp"
#include "settle.hpp"

namespace sirdma::twin
{

namespace
{

DriverDm make_dm(ibv_context *context, size_t length, bool shared) noexcept
{
	DriverDm dm;

	dm.context = context;
	dm.length = length;
	dm.bytes = round_to_pages(length);
	if (shared)
		dm.file = new_shared_file("sirdma-dm", dm.bytes);
	dm.memory = dm.file ? PageBuffer::device(dm.file.get(), 0, dm.bytes, InChildren::copy) :
			      PageBuffer::anonymous(dm.bytes, InChildren::copy);
	return dm;
}

} // namespace

int Driver::alloc_dm(ibv_context *context, const ibv_alloc_dm_attr &attr, uint32_t &dm,
		     uint8_t *&memory)
{
	const char *why = nullptr;

	if (const int err = sirdma_dm_check(attr.length, attr.log_align_req, &why)) {
		port_warn("alloc_dm: %s", why);
		return -err;
	}
	DriverDm made = make_dm(context, attr.length, nic_.can_be_accessed());

	if (!made.memory)
		return ENOMEM;

	const size_t bytes = made.bytes;
	std::lock_guard hold(objects_lock_);

	/* All contexts of a process are of one user. */
	if (!sirdma_dm_is_fair(dm_bytes_, dm_bytes_, bytes))
		return ENOMEM;
	dm = next_key(dms_, last_dm_);
	memory = made.memory.data();
	if (!insert(dms_, dm, std::move(made)))
		return ENOMEM;
	dm_bytes_ += bytes;
	return 0;
}

int Driver::free_dm(uint32_t dm) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = dms_.find(dm);

	if (it == dms_.end())
		return ENOENT;
	if (it->second.users)
		return EBUSY;
	dm_bytes_ -= it->second.bytes;
	dms_.erase(it);
	return 0;
}

int Driver::reg_dm_mr(uint32_t pd, uint32_t dm, uint64_t offset, uint64_t length, uint32_t access,
		      uint32_t &stag)
{
	Settle settle(nic_);
	DriverMr mr = {.pd = pd,
		       .dm = dm,
		       .region = {.start = 0, .length = length, .iova = 0, .access = access},
		       .file = {},
		       .changing = false};
	{
		std::lock_guard hold(objects_lock_);
		const auto it = dms_.find(dm);
		const char *why = nullptr;

		if (it == dms_.end())
			return ENOENT;
		if (const int err = sirdma_dm_region_check(it->second.length, offset, length,
							   access, &why)) {
			port_warn("reg_dm_mr: %s", why);
			return -err;
		}
		mr.region.start = reinterpret_cast<uintptr_t>(it->second.memory.data()) + offset;
		mr.region.iova = mr.region.start;
		++it->second.users;
	}

	const int err = add_mr(mr, stag);

	if (err) {
		std::lock_guard hold(objects_lock_);

		--dms_.at(dm).users;
	}
	return err;
}

} // namespace sirdma::twin
