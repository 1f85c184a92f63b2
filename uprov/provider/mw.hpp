/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory windows. */
#pragma once

#include <infiniband/verbs.h>
#include <sirdma/encode.h>

namespace sirdma
{

/*
 * What the codec needs to bind @mw, as @info says, with the key of @rkey: its index is the window's
 * own. 0; EINVAL: no window is bound so, whatever the device says. Other errors are completions.
 */
int describe_bind(const ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info &info,
		  sirdma_bind &bind) noexcept;

} // namespace sirdma
