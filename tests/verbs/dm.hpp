// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Device memory and regions over it, for the tests of them.
#pragma once

#include "fixture.hpp"

#include <cerrno>
#include <cstring>

namespace verbs
{

// The verb is a static function, another one in each file.
inline int free_dm(ibv_dm *dm) noexcept
{
	return ibv_free_dm(dm);
}
using Dm = Owner<ibv_dm, free_dm>;

inline constexpr unsigned dm_access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_ATOMIC |
				      static_cast<unsigned>(all_access);

// 0: the device has none.
inline uint64_t max_dm_size(const Device &of)
{
	ibv_device_attr_ex attr = {};

	EXPECT_EQ(ibv_query_device_ex(of.context.get(), nullptr, &attr), 0);
	return attr.max_dm_size;
}

inline Dm alloc_dm(const Device &of, size_t length, uint32_t log_align = 0, uint32_t comp_mask = 0)
{
	ibv_alloc_dm_attr attr = {
		.length = length, .log_align_req = log_align, .comp_mask = comp_mask};

	errno = 0;
	return Dm(ibv_alloc_dm(of.context.get(), &attr));
}

inline std::vector<std::byte> read_dm(ibv_dm *dm, uint64_t offset, size_t length)
{
	std::vector<std::byte> bytes(length);

	EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), dm, offset, length), 0);
	return bytes;
}

inline void fill_dm(ibv_dm *dm, size_t length, uint64_t seed)
{
	std::vector<std::byte> bytes(length);

	fill_pattern(bytes, seed);
	EXPECT_EQ(ibv_memcpy_to_dm(dm, 0, bytes.data(), length), 0);
}

} // namespace verbs
