// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Owners for verbs objects. A handle is null when creation failed, and errno then says why. A destroy that fails is
// reported, so nothing can be left behind unnoticed.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace verbs
{

// Each program says what a failed destroy means to it: a failed test, a non-zero exit status.
void report_destroy_failure(const char *what, int rc) noexcept;

template <auto Destroy> struct Destroyer {
	template <typename T> void operator()(T *object) const noexcept
	{
		if (const int rc = Destroy(object))
			report_destroy_failure(__PRETTY_FUNCTION__, rc);
	}
};

template <typename T, auto Destroy> using Owner = std::unique_ptr<T, Destroyer<Destroy>>;

using Context = Owner<ibv_context, ibv_close_device>;
using Pd = Owner<ibv_pd, ibv_dealloc_pd>;
using Mr = Owner<ibv_mr, ibv_dereg_mr>;
// The verb is a static function, another one in each file.
inline int dealloc_mw(ibv_mw *mw) noexcept
{
	return ibv_dealloc_mw(mw);
}
using Mw = Owner<ibv_mw, dealloc_mw>;
using Cq = Owner<ibv_cq, ibv_destroy_cq>;
using Qp = Owner<ibv_qp, ibv_destroy_qp>;
using Ah = Owner<ibv_ah, ibv_destroy_ah>;
using Srq = Owner<ibv_srq, ibv_destroy_srq>;
inline int close_xrcd(ibv_xrcd *xrcd) noexcept
{
	return ibv_close_xrcd(xrcd);
}
using Xrcd = Owner<ibv_xrcd, close_xrcd>;
using Channel = Owner<ibv_comp_channel, ibv_destroy_comp_channel>;

// Destroys now and hands back the verb's own result, for tests that are about destroying.
template <typename T, auto Destroy> int destroy(Owner<T, Destroy> &owner) noexcept
{
	const int rc = Destroy(owner.get());
	if (!rc)
		static_cast<void>(owner.release());
	return rc;
}

} // namespace verbs
