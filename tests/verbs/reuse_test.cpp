// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Memory is the application's again when its request has ended or its region is gone, although packets with it may still be under
// way: what is written then reaches nobody.
#include "fixture.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace verbs
{
namespace
{

constexpr size_t length = 2 << 20;
constexpr auto old_byte = std::byte{1}, new_byte = std::byte{2};

class Reuse : public VerbsTest {
protected:
	// One thread posts, whose call may send and deliver all of it; another one takes the memory back meanwhile, and uses it.
	template <typename TakeBack>
	void run(Pair &pair, const Region &local, const Region &remote, TakeBack &&take_back)
	{
		const auto source = local.bytes(0, length), target = remote.bytes(0, length);
		std::atomic<int> posted = -1;

		std::ranges::fill(source, old_byte);
		std::ranges::fill(target, std::byte{0});
		std::thread poster([&] {
			posted = post(pair.a, {.op = IBV_WR_RDMA_WRITE,
					       .sges = {local.sge(0, length)},
					       .remote_addr = remote.address(),
					       .rkey = remote.mr->rkey});
		});
		for (const uint64_t until = random_.below(64);
		     target[until << 12] != old_byte && posted;)
			std::this_thread::yield();
		take_back();
		std::memset(source.data(), int(new_byte), source.size());
		poster.join();
		EXPECT_EQ(posted, 0);
		// The peer has dealt with all that was under way when its queue pair is gone.
		pair.b.qp.reset();
		EXPECT_EQ(std::ranges::count(target, new_byte), 0);
	}

private:
	Random random_{seed()};
};

TEST_F(Reuse, OfMemoryWhoseRequestWasFlushed)
{
	for (int i = 0; i < 60 && !HasFailure(); i++) {
		Pair pair = make_pair();
		const Region local = make_region(pair.a.pd, length);
		const Region remote = make_region(pair.b.pd, length);

		ASSERT_TRUE(local && remote);
		run(pair, local, remote, [&] {
			ASSERT_EQ(to_state(pair.a.qp.get(), IBV_QPS_ERR), 0);
			ASSERT_TRUE(await(pair.a.scq)); // flushed, or done
		});
	}
}

TEST_F(Reuse, OfMemoryWhoseRegionIsGone)
{
	for (int i = 0; i < 150 && !HasFailure(); i++) {
		Pair pair = make_pair();
		Region local = make_region(pair.a.pd, length);
		const Region remote = make_region(pair.b.pd, length);

		ASSERT_TRUE(local && remote);
		run(pair, local, remote, [&] { local.mr.reset(); });
	}
}

} // namespace
} // namespace verbs
