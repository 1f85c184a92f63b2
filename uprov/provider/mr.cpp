/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "mr.hpp"

#include <cerrno>
#include <cstdint>

#include "context.hpp"
#include "verbs.hpp"

namespace sirdma
{

namespace
{

/* Register memory with the driver and fill @mr. Returns 0 or an errno. */
int register_memory(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		    const sirdma_mem_reg_req &what, verbs_mr &mr) noexcept
{
	RegMrRequest req;

	req.drv = what;
	return commands(pd->context).reg_mr(pd, addr, length, hca_va, access, &mr, req);
}

constexpr sirdma_mem_reg_req user_memory = {
	.reg_type = SIRDMA_MEMREG_MEM,
	.cq_pages = 0,
	.rq_pages = 0,
	.sq_pages = 0,
};

} // namespace

void set_mr(verbs_mr &mr, ibv_pd *pd, const Keys &keys, size_t length, int type) noexcept
{
	mr.mr.context = pd->context;
	mr.mr.pd = pd;
	mr.mr.handle = keys.handle;
	mr.mr.lkey = keys.lkey;
	mr.mr.rkey = keys.rkey;
	mr.mr.length = length;
	mr.mr_type = type;
}

int RingRegistration::open(ibv_pd *pd, const PageBuffer &memory, size_t bytes,
			   const sirdma_mem_reg_req &what) noexcept
{
	const int err = register_memory(pd, memory.data(), bytes,
					reinterpret_cast<uintptr_t>(memory.data()),
					IBV_ACCESS_LOCAL_WRITE, what, mr_);

	open_ = !err;
	return err;
}

RingRegistration::~RingRegistration()
{
	if (open_)
		commands(mr_.mr.context).dereg_mr(&mr_);
}

ibv_mr *reg_mr(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access) noexcept
{
	return new_mr([=](verbs_mr &mr) {
		return register_memory(pd, addr, length, hca_va, access, user_memory, mr);
	});
}

namespace
{

int change_region(verbs_mr *mr, int flags, ibv_pd *pd, void *addr, size_t length,
		  int access) noexcept
{
	ReregMrRequest req;

	if ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != mr->mr.context))
		return EINVAL;
	req.drv = user_memory;
	return commands(mr->mr.context)
		.rereg_mr(mr, static_cast<uint32_t>(flags), addr, length,
			  reinterpret_cast<uintptr_t>(addr), access, pd, req);
}

} // namespace

/* libibverbs returns a code of its own for any error, so the errno is in errno, too. */
int rereg_mr(verbs_mr *mr, int flags, ibv_pd *pd, void *addr, size_t length, int access) noexcept
{
	const int err = change_region(mr, flags, pd, addr, length, access);

	if (err)
		errno = err;
	return err;
}

int dereg_mr(verbs_mr *mr) noexcept
{
	if (const int err = commands(mr->mr.context).dereg_mr(mr))
		return err;
	delete mr;
	return 0;
}

namespace
{

int query_region(ibv_pd *pd, uint32_t handle, verbs_mr &mr) noexcept
{
	Keys keys{};
	uint64_t length = 0;

	if (const int err = commands(pd->context).query_mr(pd->context, handle, keys, length))
		return err;
	/* Ring memory has no key: it is of use to the process alone that has the ring. */
	if (!keys.lkey)
		return EINVAL;
	set_mr(mr, pd, keys, length, VERBS_MR_IMPORTED);
	return 0;
}

} // namespace

ibv_mr *import_mr(ibv_pd *pd, uint32_t handle) noexcept
{
	return new_mr([=](verbs_mr &mr) { return query_region(pd, handle, mr); });
}

void unimport_mr(ibv_mr *mr) noexcept
{
	delete reinterpret_cast<verbs_mr *>(mr);
}

namespace
{

int register_dmabuf(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access,
		    verbs_mr &mr) noexcept
{
	Keys keys{};

	if (const int err =
		    commands(pd->context).reg_dmabuf_mr(pd, offset, length, iova, fd, access, keys))
		return err;
	set_mr(mr, pd, keys, length, VERBS_MR_DMABUF);
	mr.mr.addr = reinterpret_cast<void *>(offset); /* as with other providers */
	mr.access = access;
	return 0;
}

} // namespace

int advise_mr(ibv_pd *pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge *sges,
	      uint32_t count) noexcept
{
	return commands(pd->context).advise_mr(pd, advice, flags, sges, count);
}

ibv_mr *reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
		      int access) noexcept
{
	return new_mr([=](verbs_mr &mr) {
		return register_dmabuf(pd, offset, length, iova, fd, access, mr);
	});
}

} // namespace sirdma
