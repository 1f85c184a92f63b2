/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "pd.hpp"

#include <cerrno>
#include <new>

#include "context.hpp"
#include "verbs.hpp"

namespace sirdma
{

ibv_pd *alloc_pd(ibv_context *context) noexcept
{
	auto *pd = new (std::nothrow) Pd;
	AllocPdResponse resp;

	if (!pd) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int err = commands(context).alloc_pd(context, &pd->base, resp)) {
		delete pd;
		errno = err;
		return nullptr;
	}
	pd->pd_id = resp.drv.pd_id;
	return &pd->base;
}

ibv_pd *import_pd(ibv_context *context, uint32_t handle) noexcept
{
	auto *pd = new (std::nothrow) Pd;
	sirdma_alloc_pd_resp resp{};

	if (!pd) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int err = commands(context).query_pd(context, handle, resp)) {
		delete pd;
		errno = err;
		return nullptr;
	}
	pd->base.context = context;
	pd->base.handle = handle;
	pd->pd_id = resp.pd_id;
	return &pd->base;
}

/*
 * The domain of the kernel stays as its own process has it. Parent domains of this process use the
 * object, which is freed with the last of them.
 */
void unimport_pd(ibv_pd *pd) noexcept
{
	if (!Pd::of(pd).users.fetch_or(Pd::unimported))
		delete &Pd::of(pd);
}

namespace
{

/* A parent domain over @contained goes. */
void leave_contained(Pd &contained) noexcept
{
	if (contained.users.fetch_sub(1) == (Pd::unimported | 1))
		delete &contained;
}

} // namespace

ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr) noexcept
{
	constexpr uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
				   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (!attr->pd || attr->pd->context != context) {
		errno = EINVAL;
		return nullptr;
	}
	const bool allocates = attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;

	if (attr->comp_mask & ~known) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (allocates && (!attr->alloc || !attr->free)) {
		errno = EINVAL;
		return nullptr;
	}

	auto *parent = new (std::nothrow) Pd;

	if (!parent) {
		errno = ENOMEM;
		return nullptr;
	}
	parent->contained = &Pd::of(attr->pd);
	parent->base.context = attr->pd->context;
	parent->base.handle = attr->pd->handle;
	parent->pd_id = parent->contained->pd_id;
	parent->contained->users.fetch_add(1);
	if (allocates) {
		parent->rings.alloc = attr->alloc;
		parent->rings.free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		parent->rings.context = attr->pd_context;
	if (attr->td) {
		parent->td = &Td::of(attr->td);
		parent->td->users.fetch_add(1);
	}
	return &parent->base;
}

int dealloc_pd(ibv_pd *ibpd) noexcept
{
	Pd &pd = Pd::of(ibpd);

	if (pd.users.load())
		return EBUSY;
	if (pd.contained) {
		leave_contained(*pd.contained);
		if (pd.td)
			pd.td->users.fetch_sub(1);
	} else if (const int err = commands(ibpd->context).dealloc_pd(ibpd)) {
		return err;
	}
	delete &pd;
	return 0;
}

ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr) noexcept
{
	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return nullptr;
	}

	auto *td = new (std::nothrow) Td;

	if (!td) {
		errno = ENOMEM;
		return nullptr;
	}
	td->base.context = context;
	return &td->base;
}

int dealloc_td(ibv_td *ibtd) noexcept
{
	Td &td = Td::of(ibtd);

	if (td.users.load())
		return EBUSY;
	delete &td;
	return 0;
}

} // namespace sirdma
