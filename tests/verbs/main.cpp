// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The verbs test program: public libibverbs only, any RoCEv2 device.
#include "exceptions.hpp"
#include "fixture.hpp"

#include <cstdio>

namespace verbs
{
namespace
{

// Names what a failing run needs to be repeated.
class SeedReporter : public testing::EmptyTestEventListener {
	void OnTestEnd(const testing::TestInfo &info) override
	{
		if (info.result()->Failed())
			std::printf("%s.%s failed with --seed %llu\n", info.test_suite_name(),
				    info.name(), static_cast<unsigned long long>(options().seed));
	}
};

void leave_out(const std::string &patterns)
{
	std::string filter = testing::GTEST_FLAG(filter);
	filter += filter.find('-') == std::string::npos ? "-" : ":";
	testing::GTEST_FLAG(filter) = filter + patterns;
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	using namespace verbs;

	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	testing::InitGoogleTest(&argc, argv);
	if (testing::GTEST_FLAG(list_tests))
		return RUN_ALL_TESTS();
	if (!parse_options(&argc, argv))
		return 2;
	if (options().list_exceptions) {
		announce_rxe_exceptions(true, true);
		return 0;
	}
	if (!open_devices())
		return 2;
	std::printf("%s gid %d -> %s gid %d, seed %llu\n", device().name.c_str(),
		    device().gid_index, peer().name.c_str(), peer().gid_index,
		    static_cast<unsigned long long>(options().seed));
	if (device().is_rxe() || peer().is_rxe())
		leave_out(announce_rxe_exceptions(device().is_rxe(), peer().is_rxe()));
	testing::UnitTest::GetInstance()->listeners().Append(new SeedReporter);
	return RUN_ALL_TESTS();
}
