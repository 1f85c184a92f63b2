/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory windows. */
#pragma once

#include <infiniband/verbs.h>
#include <sirdma/encode.h>

namespace sirdma
{

/*
 * Fill in the request by which the codec binds @mw as @info describes, with the key of @rkey. The
 * index is the window's own. Returns 0, or EINVAL if no window can be bound in this way on any
 * device. Other errors come as completions.
 */
int describe_bind(const ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info &info,
		  sirdma_bind &bind) noexcept;

} // namespace sirdma
