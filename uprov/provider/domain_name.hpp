/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

namespace sirdma
{

/* The name of a protection domain, which may have more objects than one: parent domains, imports. */
struct DomainName {
	const ibv_device *device = nullptr;
	uint32_t pd_id = 0; /* unique on the device */

	bool operator==(const DomainName &) const = default;
};

} // namespace sirdma
