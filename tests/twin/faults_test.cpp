/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A bad wire's sequences: the same for the same seed, and no two directions alike. */
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "faults.hpp"

namespace sirdma::twin::test
{

namespace
{

/* Which of 64 packets are lost, one in two. */
uint64_t lost(FaultSequence faults)
{
	uint64_t packets = 0;

	for (int i = 0; i < 64; ++i)
		packets = packets << 1 | uint64_t{faults.chance(0.5)};
	return packets;
}

} // namespace

TEST(TwinFaults, AreTheSameForTheSameSeed)
{
	/* Whatever the machine and the library. */
	EXPECT_EQ(lost({7, 0, false}), 13250086738100600431u);
	EXPECT_EQ(lost({7, 0, true}), 18367635834214072731u);
}

TEST(TwinFaults, AreOthersInEachDirection)
{
	std::vector<uint64_t> all;

	for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 32})
		for (const uint32_t slot : {0u, 1u, 40u})
			for (const bool upwards : {false, true})
				all.push_back(lost({seed, slot, upwards}));
	std::sort(all.begin(), all.end());
	EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

} // namespace sirdma::twin::test
