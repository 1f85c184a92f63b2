// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fake_device.hpp"

namespace sirdma::test
{
namespace
{

struct Pool : sirdma_idpool {
	Pool(u32 first, u32 limit) { EXPECT_EQ(sirdma_idpool_init(this, first, limit), 0); }
	~Pool() { sirdma_idpool_fini(this); }
	Pool(const Pool &) = delete;
	Pool &operator=(const Pool &) = delete;

	u32 get()
	{
		u32 id = ~0u;
		EXPECT_EQ(sirdma_idpool_get(this, &id), 0);
		return id;
	}
};

TEST(IdPool, GivesEachNumberOnceAndThenNoMore)
{
	for (auto [first, limit] :
	     {std::pair{0u, 1u}, {2u, 130u}, {1u, 64u}, {63u, 65u}, {5u, 40000u}}) {
		Pool pool(first, limit);
		std::set<u32> seen;
		u32 id;

		for (u32 i = first; i < limit; i++) {
			ASSERT_EQ(sirdma_idpool_get(&pool, &id), 0);
			ASSERT_GE(id, first);
			ASSERT_LT(id, limit);
			ASSERT_TRUE(seen.insert(id).second);
		}
		EXPECT_EQ(sirdma_idpool_get(&pool, &id), -ENOMEM);
		sirdma_idpool_put(&pool, first);
		EXPECT_EQ(pool.get(), first);
	}
}

TEST(IdPool, DoesNotReuseANumberAtOnce)
{
	Pool pool(1, 1000);
	u32 last = 0;

	for (u32 i = 0; i < 999; i++) {
		u32 id = pool.get();
		ASSERT_NE(id, last);
		last = id;
		sirdma_idpool_put(&pool, id);
	}
	EXPECT_EQ(pool.used, 0u);
	EXPECT_EQ(pool.get(), 1u) << "around the end";
}

TEST(IdPool, GivesNoCookieTwice)
{
	Pool pool(7, 8);
	std::set<u64> seen;

	for (u32 i = 0; i < 1000; i++) {
		const u32 id = pool.get();
		const u64 cookie = sirdma_idpool_cookie(&pool, id);

		EXPECT_EQ(sirdma_cookie_id(cookie), id);
		EXPECT_TRUE(seen.insert(cookie).second);
		sirdma_idpool_put(&pool, id);
	}
}

TEST(IdPool, CostsNothingForTheMaximum)
{
	static size_t bytes;
	bytes = 0;
	port_alloc_fail = [](size_t size) {
		bytes += size;
		return false;
	};
	{
		Pool pool(1, 1 << 24);
		pool.get();
	}
	port_alloc_fail = nullptr;
	EXPECT_LE(bytes, 4096u + 4200u);
}

TEST(IdPool, EmptyRangeAndForeignNumbersAreRefused)
{
	sirdma_idpool none;
	EXPECT_EQ(sirdma_idpool_init(&none, 2, 2), -EINVAL);

	Pool pool(2, 100);
	u32 id = pool.get();
	for (u32 bad : {0u, 1u, 50u, 100u, 1u << 30})
		sirdma_idpool_put(&pool, bad);
	EXPECT_EQ(pool.used, 1u);
	sirdma_idpool_put(&pool, id);
	sirdma_idpool_put(&pool, id);
	EXPECT_EQ(pool.used, 0u);
}

TEST(IdPool, FailedAllocationLeavesItUsable)
{
	Pool pool(0, 100);
	u32 id;

	port_alloc_fail = [](size_t) { return true; };
	EXPECT_EQ(sirdma_idpool_get(&pool, &id), -ENOMEM);
	port_alloc_fail = nullptr;
	EXPECT_EQ(pool.get(), 0u);
}

TEST(IdPool, ThreadsNeverShareANumber)
{
	Pool pool(0, 200);
	std::array<std::atomic<int>, 200> owner{};
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++) {
		threads.emplace_back([&] {
			for (int i = 0; i < 5000; i++) {
				u32 id = pool.get();
				ASSERT_EQ(owner[id].fetch_add(1), 0);
				owner[id].fetch_sub(1);
				sirdma_idpool_put(&pool, id);
			}
		});
	}
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(pool.used, 0u);
}

TEST(Stag, IndexIsUniqueAndKeyVaries)
{
	FakeHost host;
	std::set<u32> indices, keys;
	std::vector<u32> stags;
	u32 stag;

	while (sirdma_stag_alloc(&host.hw, &stag) == 0) {
		EXPECT_NE(stag >> 8, 0u);
		EXPECT_TRUE(indices.insert(stag >> 8).second);
		keys.insert(stag & 0xff);
		stags.push_back(stag);
	}
	EXPECT_EQ(stags.size(), host.hw.caps.max_mrs - 1);
	EXPECT_GT(keys.size(), 200u);
	for (u32 s : stags)
		sirdma_stag_free(&host.hw, s);
}

} // namespace
} // namespace sirdma::test
