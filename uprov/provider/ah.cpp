/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ah.hpp"

#include <cerrno>
#include <new>

#include "context.hpp"
#include "pd.hpp"
#include "verbs.hpp"

namespace sirdma
{

ibv_ah *create_ah(ibv_pd *pd, ibv_ah_attr *attr) noexcept
{
	auto *ah = new (std::nothrow) Ah;
	CreateAhResponse resp;

	if (!ah) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int err = commands(pd->context).create_ah(pd, &ah->base, attr, resp)) {
		delete ah;
		errno = err;
		return nullptr;
	}
	ah->domain = Pd::of(pd).name();
	ah->index = resp.drv.ah_id;
	return &ah->base;
}

int destroy_ah(ibv_ah *ah) noexcept
{
	if (const int err = commands(ah->context).destroy_ah(ah))
		return err;
	delete &Ah::of(ah);
	return 0;
}

} // namespace sirdma
