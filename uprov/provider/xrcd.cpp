/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* XRC domains. Those of devices of the kernel may be shared by the processes that open a file. */
#include <cerrno>
#include <memory>
#include <new>

#include "context.hpp"
#include "verbs.hpp"

namespace sirdma
{

ibv_xrcd *open_xrcd(ibv_context *context, ibv_xrcd_init_attr *attr) noexcept
{
	constexpr uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

	if (!Context::of(context).limits.xrc || (attr->comp_mask & ~needed)) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (attr->comp_mask != needed) {
		errno = EINVAL;
		return nullptr;
	}
	std::unique_ptr<verbs_xrcd> xrcd(new (std::nothrow) verbs_xrcd{});
	const int err = xrcd ? commands(context).open_xrcd(context, xrcd.get(), attr) : ENOMEM;

	if (err) {
		errno = err;
		return nullptr;
	}
	return &xrcd.release()->xrcd;
}

int close_xrcd(ibv_xrcd *ibxrcd) noexcept
{
	auto *xrcd = reinterpret_cast<verbs_xrcd *>(ibxrcd);

	if (const int err = commands(ibxrcd->context).close_xrcd(xrcd))
		return err;
	delete xrcd;
	return 0;
}

} // namespace sirdma
