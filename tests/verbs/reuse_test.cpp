// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Memory is the application's again when its request has ended or its region is gone, although packets with it may still be under
// way: what is written then reaches nobody.
#include "fixture.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

namespace verbs
{
namespace
{

constexpr size_t length = 2 << 20;
constexpr auto old_byte = std::byte{1}, new_byte = std::byte{2};

// What a device writes may be looked at while it writes, which the thread sanitizer, for which the twin's device is a thread
// like any other, would call a race.
[[gnu::no_sanitize_thread]] std::byte look(const std::byte &memory)
{
	return *static_cast<const volatile std::byte *>(&memory);
}

class Reuse : public VerbsTest {
protected:
	static constexpr int rounds = 120;

	// One thread posts, whose call may send and deliver all of it; another one takes the memory back when a part has
	// arrived, and uses it.
	template <typename TakeBack>
	void run(const End &poster_end, const SendSpec &request, const Region &source,
		 const Region &target, TakeBack &&take_back)
	{
		const auto from = source.bytes(0, length), to = target.bytes(0, length);
		const size_t part = random_.below(128) << 12;
		std::atomic<int> posted = -1;

		std::memset(from.data(), int(old_byte), length);
		std::memset(to.data(), 0, length);
		std::thread poster([&] { posted = post(poster_end, request); });
		while (look(to[part]) != old_byte && posted == -1)
			std::this_thread::yield();
		take_back();
		// What is under way is behind that part.
		std::memset(from.data() + part, int(new_byte), length - part);
		std::memset(from.data(), int(new_byte), part);
		poster.join();
		EXPECT_EQ(posted, 0);
	}
	// All that was under way has been dealt with, since the queue pair to which it was sent is gone.
	void expect_nothing_new(const Region &target)
	{
		const auto to = target.bytes(0, length);

		EXPECT_EQ(std::memchr(to.data(), int(new_byte), length), nullptr);
		cut_off_ += to.back() != old_byte && to.front() == old_byte;
	}
	static SendSpec request(ibv_wr_opcode op, const Region &local, const Region &remote)
	{
		return {.op = op,
			.sges = {local.sge(0, length)},
			.remote_addr = remote.address(),
			.rkey = remote.mr->rkey};
	}
	// A new pair with a region at each end for each round, and in the end how many messages were cut off.
	template <typename Round> void each_round(Round &&round)
	{
		random_ = Random(seed());
		for (int i = 0; i < rounds && !HasFailure(); i++) {
			Pair pair = make_pair();
			Region local = make_region(pair.a.pd, length);
			const Region remote = make_region(pair.b.pd, length);

			ASSERT_TRUE(local && remote);
			round(pair, local, remote);
		}
		std::printf("%d messages of %d were cut off\n", cut_off_, rounds);
	}

private:
	Random random_{0};
	int cut_off_ = 0; // rounds in which a part of the message arrived
};

TEST_F(Reuse, OfMemoryWhoseRequestWasFlushed)
{
	each_round([&](Pair &pair, Region &local, const Region &remote) {
		run(pair.a, request(IBV_WR_RDMA_WRITE, local, remote), local, remote, [&] {
			ASSERT_EQ(to_state(pair.a.qp.get(), IBV_QPS_ERR), 0);
			ASSERT_TRUE(await(pair.a.scq)); // flushed, or done
		});
		pair.b.qp.reset();
		expect_nothing_new(remote);
	});
}

TEST_F(Reuse, OfMemoryWhoseRegionIsGone)
{
	each_round([&](Pair &pair, Region &local, const Region &remote) {
		run(pair.a, request(IBV_WR_RDMA_WRITE, local, remote), local, remote,
		    [&] { local.mr.reset(); });
		pair.b.qp.reset();
		expect_nothing_new(remote);
	});
}

// Its answers to READs, too, are not read once the responder was stopped.
TEST_F(Reuse, OfMemoryWhoseResponderWasStopped)
{
	each_round([&](Pair &pair, Region &local, const Region &remote) {
		run(pair.a, request(IBV_WR_RDMA_READ, local, remote), remote, local,
		    [&] { ASSERT_EQ(to_state(pair.b.qp.get(), IBV_QPS_ERR), 0); });
		pair.a.qp.reset();
		expect_nothing_new(local);
	});
}

} // namespace
} // namespace verbs
