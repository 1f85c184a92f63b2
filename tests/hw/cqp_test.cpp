// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The command queue against a device that misbehaves.
#include "fake_device.hpp"
#include "nop.hpp"

#include <fstream>
#include <unistd.h>

namespace sirdma::test
{
namespace
{

constexpr u32 failed(sirdma_cqp_status minor)
{
	return u32{SIRDMA_CQP_MAJ_ERROR} << 16 | minor;
}

// Answers each NOP with its tag.
std::optional<FakeDevice::Reply> echo(const FakeDevice::Command &cmd)
{
	if (cmd.op != SIRDMA_CQP_NOP)
		return std::nullopt;
	return FakeDevice::Reply{.retval = cmd.wqe.w0};
}

template <typename Predicate> bool eventually(Predicate done, int ms = 5000)
{
	for (int i = 0; i < ms; i++) {
		if (done())
			return true;
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	return false;
}

u32 in_flight(sirdma_hw &hw)
{
	port_lock(&hw.cqp.lock);
	u32 n = (hw.cqp.head - hw.cqp.tail) & (hw.cqp.entries - 1);
	port_unlock(&hw.cqp.lock);
	return n;
}

// Commands whose issuers have a slot of the ring and have not posted yet.
u32 reserved(sirdma_hw &hw)
{
	port_lock(&hw.cqp.lock);
	u32 n = hw.cqp.reserved;
	port_unlock(&hw.cqp.lock);
	return n;
}

// Does thread @tid of this process wait for something?
bool asleep(pid_t tid)
{
	std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
	std::string stat{std::istreambuf_iterator<char>(file), {}};
	const size_t name_end = stat.rfind(')');

	return name_end != std::string::npos && stat.substr(name_end).starts_with(") S");
}

u32 waiting(sirdma_hw &hw)
{
	u32 n = 0;

	port_lock(&hw.cqp.lock);
	for (auto *w = hw.cqp.waiters; w; w = w->next)
		n++;
	port_unlock(&hw.cqp.lock);
	return n;
}

TEST(Cqp, WrapsManyLapsWithRightPolarity)
{
	for (u32 entries : {4u, 8u, 64u}) {
		FakeHost host({}, {.cqp_entries = entries});

		host.dev.set_script(echo);
		for (u64 i = 0; i < entries * 10 + 3; i++) {
			u64 ret = 0;
			ASSERT_EQ(nop(host.hw, i, &ret), 0);
			ASSERT_EQ(ret, i);
		}
		EXPECT_EQ(host.hw.cqp.failures, 0u);
	}
}

TEST(Cqp, RefusesRingSizesTheDeviceCannotHave)
{
	for (u32 entries : {1u, 2u, 3u, 5u, 100u, 4096u}) {
		FakeDevice dev;
		sirdma_hw hw{};
		sirdma_hw_config cfg = Config{.cqp_entries = entries};

		EXPECT_EQ(sirdma_hw_probe(&hw, dev.bus(), &cfg, nullptr, nullptr), -EINVAL);
	}
}

TEST(Cqp, StatusBecomesErrno)
{
	const std::pair<u32, int> expected[] = {
		{failed(SIRDMA_CQP_BAD_OPCODE), -EOPNOTSUPP},
		{failed(SIRDMA_CQP_BAD_INDEX), -EINVAL},
		{failed(SIRDMA_CQP_IN_USE), -EBUSY},
		{failed(SIRDMA_CQP_NO_OBJECT), -ENOENT},
		{failed(SIRDMA_CQP_BAD_PARAM), -EINVAL},
		{failed(SIRDMA_CQP_BAD_STATE), -EINVAL},
		{failed(SIRDMA_CQP_NO_MEMORY), -ENOMEM},
		{failed(SIRDMA_CQP_BAD_ADDRESS), -EFAULT},
		{failed(SIRDMA_CQP_BAD_RING), -EIO},
		{failed(SIRDMA_CQP_RESET), -EIO},
		{failed(SIRDMA_CQP_AGAIN), -EAGAIN},
		{0xffff0000u, -EIO},
		{0xffff00ffu, -EIO},
	};
	FakeHost host;

	for (auto [status, err] : expected) {
		host.dev.set_script(
			[status = status](auto &) { return FakeDevice::Reply{.status = status}; });
		EXPECT_EQ(nop(host.hw), err) << std::hex << status;
	}
	host.dev.set_script(nullptr);
	EXPECT_EQ(nop(host.hw), 0);
	EXPECT_GE(host.hw.cqp.failures, std::size(expected));
	EXPECT_FALSE(host.hw.cqp.dead);
}

TEST(Cqp, AQueuePairIsDestroyedAndFlushedInParts)
{
	FakeHost host({.max_ids = 8 * SIRDMA_CQP_DESTROY_WINDOWS});
	u32 commands = 0;
	const auto script = [&](u32 parts) {
		commands = 0;
		host.dev.set_script([&commands, parts](auto &) {
			return ++commands < parts ?
				       FakeDevice::Reply{.status = failed(SIRDMA_CQP_AGAIN)} :
				       FakeDevice::Reply{};
		});
	};

	for (u32 parts : {1u, 2u, 8u, 9u}) {
		script(parts);
		EXPECT_EQ(sirdma_cqp_destroy_qp(&host.hw, 2), 0);
		EXPECT_EQ(commands, parts);
	}
	// A device that never ends it
	script(~0u);
	EXPECT_EQ(sirdma_cqp_destroy_qp(&host.hw, 2), -EIO);
	EXPECT_EQ(commands, host.hw.caps.max_mrs / SIRDMA_CQP_DESTROY_WINDOWS + 2);

	// The longest send queue is flushed in so many
	constexpr u32 flushes = SIRDMA_MAX_WQ_QUANTA / SIRDMA_CQP_MODIFY_FLUSHES;
	sirdma_cqp_modify_qp_params modify{};

	modify.qpn = 2;
	modify.next = SIRDMA_QPS_RTS;
	for (u32 parts : {1u, 2u, flushes + 1}) {
		script(parts);
		EXPECT_EQ(sirdma_cqp_modify_qp(&host.hw, &modify), 0);
		EXPECT_EQ(commands, parts);
	}
	script(~0u);
	EXPECT_EQ(sirdma_cqp_modify_qp(&host.hw, &modify), -EIO);
	EXPECT_EQ(commands, flushes + 2);
	host.dev.set_script(nullptr);
}

TEST(Cqp, MemoryIsReclaimedWhileNobodyWaits)
{
	constexpr u32 tries = 8;
	static u32 reclaimed;
	static bool locked;
	static sirdma_cqp *cqp;
	const sirdma_cqp_cq_params cq{};
	sirdma_cqp_reg_mr_params mr{};
	FakeHost host;
	u32 commands = 0;

	mr.block_shift = 12;
	mr.len = 1;
	cqp = &host.hw.cqp;
	const auto script = [&](u32 failures) {
		commands = 0;
		host.dev.set_script([&commands, failures](auto &) {
			return commands++ < failures ?
				       FakeDevice::Reply{.status = failed(SIRDMA_CQP_NO_MEMORY)} :
				       FakeDevice::Reply{};
		});
	};
	const std::function<int()> makes[] = {
		[&] { return sirdma_cqp_create_cq(&host.hw, &cq); },
		[&] { return sirdma_cqp_reg_mr(&host.hw, &mr); },
	};
	for (const auto &make : makes) {
		for (u32 failures : {0u, 1u, 2u, tries - 1, 100u}) {
			reclaimed = 0;
			locked = false;
			script(failures);
			port_alloc_fail = [](size_t size) {
				reclaimed += size == PORT_RECLAIM;
				if (port_mutex_trylock(&cqp->doorbell))
					port_mutex_unlock(&cqp->doorbell);
				else
					locked = true;
				return false;
			};
			EXPECT_EQ(make(), failures < 100 ? 0 : -ENOMEM);
			EXPECT_EQ(commands, std::min(failures + 1, tries));
			EXPECT_EQ(reclaimed, commands - 1);
			EXPECT_FALSE(locked);
			// There is none: the first failure is the last.
			script(failures);
			port_alloc_fail = [](size_t) { return true; };
			EXPECT_EQ(make(), failures ? -ENOMEM : 0);
			EXPECT_EQ(commands, 1u);
			port_alloc_fail = nullptr;
		}
	}
	// Whoever issues these holds a buffer or a lock meanwhile, and reclaims nothing.
	const std::function<int()> others[] = {
		[&] { return sirdma_cqp_create_qp(&host.hw, 5, 0x1000); },
		[&] {
			const sirdma_sd_entry entry{};
			return sirdma_cqp_update_sds(&host.hw, &entry, 1);
		},
		[&] { return nop(host.hw); },
	};
	for (const auto &other : others) {
		reclaimed = 0;
		script(100);
		port_alloc_fail = [](size_t) {
			reclaimed++;
			return false;
		};
		EXPECT_EQ(other(), -ENOMEM);
		port_alloc_fail = nullptr;
		EXPECT_EQ(commands, 1u);
		EXPECT_EQ(reclaimed, 0u);
	}
	host.dev.set_script(nullptr);
}

TEST(Cqp, ErrorBeforeTheCompletionQueueExistsIsSeen)
{
	// CREATE_AEQ is polled through the tail register.
	FakeDevice dev;
	sirdma_hw hw{};
	sirdma_hw_config cfg{};

	dev.set_script([](auto &cmd) -> std::optional<FakeDevice::Reply> {
		if (cmd.op == SIRDMA_CQP_CREATE_AEQ)
			return FakeDevice::Reply{.status = failed(SIRDMA_CQP_NO_MEMORY)};
		return std::nullopt;
	});
	EXPECT_EQ(sirdma_hw_probe(&hw, dev.bus(), &cfg, nullptr, nullptr), -ENOMEM);
}

TEST(Cqp, SleepersAreWokenByTheEvent)
{
	FakeHost host({.async = true});

	host.dev.set_script([](auto &cmd) {
		std::this_thread::sleep_for(std::chrono::milliseconds(2));
		return echo(cmd);
	});
	for (u64 i = 0; i < 50; i++) {
		u64 ret = ~0ull;
		ASSERT_EQ(nop(host.hw, i, &ret), 0);
		ASSERT_EQ(ret, i);
	}
}

TEST(Cqp, FullRingQueuesInOrderAndLosesNoWakeup)
{
	constexpr u32 entries = 8, extra = 12;
	FakeHost host({.async = true}, {.cqp_entries = entries});
	std::vector<std::thread> threads;
	std::atomic<u32> done{0};

	host.dev.set_script(echo);
	host.dev.keep_history();
	host.dev.hold(true);
	auto post = [&](u64 tag) {
		threads.emplace_back([&, tag] {
			u64 ret = 0;
			EXPECT_EQ(nop(host.hw, tag, &ret), 0);
			EXPECT_EQ(ret, tag);
			done++;
		});
	};
	for (u64 i = 1; i < entries; i++) {
		post(i);
		ASSERT_TRUE(eventually([&] { return in_flight(host.hw) == i; }));
	}
	for (u64 i = 0; i < extra; i++) {
		post(100 + i);
		ASSERT_TRUE(eventually([&] { return waiting(host.hw) == i + 1; }));
	}
	EXPECT_EQ(in_flight(host.hw), entries - 1);
	EXPECT_EQ(done, 0u);
	// One slot at a time goes to who waits longest. (Of those granted together any may post first.)
	for (u64 i = 0; i < extra; i++) {
		host.dev.allow(1);
		ASSERT_TRUE(eventually([&] {
			return waiting(host.hw) == extra - 1 - i &&
			       in_flight(host.hw) == entries - 1;
		}));
	}
	host.dev.hold(false);
	for (auto &t : threads)
		t.join();

	std::vector<u64> tags, expected;
	for (auto &cmd : host.dev.history())
		if (cmd.op == SIRDMA_CQP_NOP)
			tags.push_back(cmd.wqe.w0);
	for (u64 i = 1; i < entries; i++)
		expected.push_back(i);
	for (u64 i = 0; i < extra; i++)
		expected.push_back(100 + i);
	EXPECT_EQ(tags, expected);
	EXPECT_EQ(in_flight(host.hw), 0u);
	EXPECT_EQ(host.hw.cqp.reserved, 0u);
}

TEST(Cqp, WhoIssuesACommandExecutesIt)
{
	constexpr u32 threads = 6;
	static thread_local u64 issued;
	std::vector<std::thread> others;
	std::array<std::atomic<pid_t>, 1 + threads> tids{};
	std::atomic<u32> foreign{0};
	FakeHost host;

	auto issue = [&](u64 tag) {
		issued = tag;
		tids[tag] = gettid();
		EXPECT_EQ(nop(host.hw, tag), 0);
	};
	// This device executes within the doorbell write. The first command takes until all others have a slot
	// of the ring and have gone as far as they come.
	host.dev.set_script([&](auto &cmd) {
		if (cmd.op != SIRDMA_CQP_NOP)
			return std::optional<FakeDevice::Reply>{};
		if (!cmd.wqe.w0) {
			EXPECT_TRUE(eventually([&] {
				return reserved(host.hw) + in_flight(host.hw) == 1 + threads &&
				       std::all_of(tids.begin() + 1, tids.end(),
						   [](auto &tid) { return asleep(tid); });
			}));
		}
		foreign += cmd.wqe.w0 != issued;
		return echo(cmd);
	});
	others.emplace_back(issue, 0);
	ASSERT_TRUE(eventually([&] { return in_flight(host.hw) == 1; }));
	for (u64 tag = 1; tag <= threads; tag++)
		others.emplace_back(issue, tag);
	for (auto &t : others)
		t.join();
	EXPECT_EQ(foreign, 0u);
}

TEST(Cqp, ManyThreadsOnASmallRing)
{
	for (bool async : {false, true}) {
		FakeHost host({.async = async}, {.cqp_entries = 4});
		std::vector<std::thread> threads;

		host.dev.set_script(echo);
		for (u64 t = 0; t < 8; t++) {
			threads.emplace_back([&, t] {
				for (u64 i = 0; i < 300; i++) {
					u64 ret = 0;
					ASSERT_EQ(nop(host.hw, t << 32 | i, &ret), 0);
					ASSERT_EQ(ret, t << 32 | i);
				}
			});
		}
		for (auto &t : threads)
			t.join();
		EXPECT_EQ(host.hw.cqp.timeouts, 0u);
		EXPECT_EQ(in_flight(host.hw), 0u);
	}
}

TEST(Cqp, LostCommandTimesOutResetsAndKillsTheQueue)
{
	FakeHost host({}, {.cmd_timeout_ms = 50});
	u32 resets = host.dev.resets();

	host.dev.set_script([](auto &) { return FakeDevice::Reply{.lost = true}; });
	EXPECT_EQ(nop(host.hw), -ETIMEDOUT);
	EXPECT_EQ(host.dev.resets(), resets + 1);
	EXPECT_EQ(host.log.count(SIRDMA_AE_FUNCTION_CATASTROPHIC), 1u);
	EXPECT_EQ(in_flight(host.hw), 0u) << "the slot comes back";

	u64 executed = host.dev.executed();
	EXPECT_EQ(nop(host.hw), -EIO);
	EXPECT_EQ(nop(host.hw), -EIO);
	EXPECT_EQ(host.dev.executed(), executed) << "a dead queue takes no commands";
	EXPECT_EQ(host.log.count(SIRDMA_AE_FUNCTION_CATASTROPHIC), 1u);
	EXPECT_EQ(host.hw.cqp.timeouts, 1u);
}

TEST(Cqp, FaultIsSeenAndTheDeviceDeclaredDead)
{
	FakeHost host({}, {.cmd_timeout_ms = 50});
	u32 resets = host.dev.resets();

	EXPECT_EQ(sirdma_hw_check(&host.hw), 0);
	host.dev.set_status(SIRDMA_STATUS_READY | SIRDMA_STATUS_FAULT);
	EXPECT_EQ(sirdma_hw_check(&host.hw), -EIO);
	host.dev.set_status(~0u);
	EXPECT_EQ(sirdma_hw_check(&host.hw), -EIO) << "gone from its bus";
	for (int i = 0; i < 2; i++)
		sirdma_cqp_kill(&host.hw);
	EXPECT_EQ(host.dev.resets(), resets + 1) << "once";
	EXPECT_EQ(host.log.count(SIRDMA_AE_FUNCTION_CATASTROPHIC), 1u);

	u64 executed = host.dev.executed();
	EXPECT_EQ(nop(host.hw), -EIO);
	EXPECT_EQ(host.dev.executed(), executed) << "a dead queue takes no commands";
	EXPECT_EQ(sirdma_hw_check(&host.hw), -EIO) << "also after the reset";
}

TEST(Cqp, KillReleasesCommandsInFlightAndWaiters)
{
	constexpr u32 entries = 4;
	FakeHost host({.async = true}, {.cqp_entries = entries, .cmd_timeout_ms = 60000});
	std::atomic<u32> dead{0};
	std::vector<std::thread> threads;

	host.dev.hold(true);
	for (u32 i = 0; i < 10; i++)
		threads.emplace_back([&] { dead += nop(host.hw) == -EIO; });
	EXPECT_TRUE(eventually([&] {
		return in_flight(host.hw) == entries - 1 && waiting(host.hw) == 10 - (entries - 1);
	}));
	sirdma_cqp_kill(&host.hw);
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(dead, 10u);
	EXPECT_EQ(in_flight(host.hw), 0u);
	host.dev.hold(false);
}

TEST(Cqp, TimeoutReleasesEveryoneWhoWaits)
{
	constexpr u32 entries = 4;
	FakeHost host({.async = true}, {.cqp_entries = entries, .cmd_timeout_ms = 100});
	std::atomic<u32> timeouts{0}, dead{0};
	std::vector<std::thread> threads;

	host.dev.hold(true);
	for (u32 i = 0; i < 10; i++) {
		threads.emplace_back([&] {
			int err = nop(host.hw);
			timeouts += err == -ETIMEDOUT;
			dead += err == -EIO;
		});
	}
	for (auto &t : threads)
		t.join();
	EXPECT_GE(timeouts, 1u);
	EXPECT_LE(timeouts, entries - 1);
	EXPECT_EQ(timeouts + dead, 10u);
	EXPECT_EQ(in_flight(host.hw), 0u);
	host.dev.hold(false);
}

TEST(Cqp, SlowQueueThatMakesProgressDoesNotTimeOut)
{
	FakeHost host({.async = true}, {.cqp_entries = 16, .cmd_timeout_ms = 100});
	std::vector<std::thread> threads;

	host.dev.set_script([](auto &cmd) {
		std::this_thread::sleep_for(std::chrono::milliseconds(30));
		return echo(cmd);
	});
	// The last of them waits for longer than the timeout.
	for (u64 i = 0; i < 10; i++)
		threads.emplace_back([&] { EXPECT_EQ(nop(host.hw), 0); });
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(host.hw.cqp.timeouts, 0u);
}

TEST(Cqp, CompletionOfAnotherSlotIsAProtocolError)
{
	FakeHost host({}, {.cmd_timeout_ms = 200});

	host.dev.set_script([](auto &) { return FakeDevice::Reply{.skew = 1}; });
	EXPECT_EQ(nop(host.hw), -EIO);
	EXPECT_TRUE(host.hw.cqp.dead);
	EXPECT_EQ(host.log.count(SIRDMA_AE_FUNCTION_CATASTROPHIC), 1u);
	EXPECT_EQ(in_flight(host.hw), 0u);
}

TEST(Cqp, TimeoutWhileBringingUpUnwinds)
{
	for (u32 op :
	     {u32{SIRDMA_CQP_QUERY_FPM}, u32{SIRDMA_CQP_CREATE_AEQ}, u32{SIRDMA_CQP_CREATE_CEQ},
	      u32{SIRDMA_CQP_CREATE_CQ}, u32{SIRDMA_CQP_COMMIT_FPM}}) {
		FakeDevice dev;
		sirdma_hw hw{};
		sirdma_hw_config cfg = Config{.cmd_timeout_ms = 20};

		dev.set_script([op](auto &cmd) -> std::optional<FakeDevice::Reply> {
			if (cmd.op == op)
				return FakeDevice::Reply{.lost = true};
			return std::nullopt;
		});
		EXPECT_EQ(sirdma_hw_probe(&hw, dev.bus(), &cfg, nullptr, nullptr), -ETIMEDOUT)
			<< op;
	}
}

TEST(CqpCommand, StatsAndFpmComeBackThroughTheBuffer)
{
	FakeHost host;
	u64 stats[SIRDMA_STAT_COUNT];

	ASSERT_EQ(sirdma_cqp_gather_stats(&host.hw, stats), 0);
	for (u32 i = 0; i < SIRDMA_STAT_COUNT; i++)
		EXPECT_EQ(stats[i], 1000 + i);
	EXPECT_EQ(host.hw.caps.max_qps, 1024u);
	EXPECT_EQ(host.hw.caps.max_cqe, 4096u);
}

TEST(CqpCommand, RegistrationFieldsLandWhereTheHeaderSays)
{
	FakeHost host;
	const sirdma_cqp_reg_mr_params params{
		.stag = 0xabcdef12,
		.pd = 0xfedcba,
		.va = 0x7f0012345678,
		.len = 0x123456789a,
		.access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_REMOTE_WRITE |
			  SIRDMA_ACCESS_REMOTE_ATOMIC,
		.block_shift = 21,
		.level = 2,
		.addr = 0,
		.first_pble = 0x7654321,
		.zero_based = false,
	};

	host.dev.keep_history();
	ASSERT_EQ(sirdma_cqp_reg_mr(&host.hw, &params), 0);
	auto cmd = host.dev.history().back();
	EXPECT_EQ(cmd.op, 0x0au);
	EXPECT_EQ(cmd.wqe.w0, 0x7f0012345678u);
	EXPECT_EQ(cmd.wqe.w1, 0x123456789aull | (0xfedcbaull & 0x3ffff) << 46);
	EXPECT_EQ(cmd.wqe.w2, 0xabcdef12u);
	EXPECT_EQ(cmd.wqe.w4, 0u);
	EXPECT_EQ(cmd.wqe.w5, 0xfedcbau >> 18);
	EXPECT_EQ(cmd.wqe.w6, 0x7654321u);
	u64 hdr = cmd.wqe.hdr & ~(1ull << 63);
	const u64 expected = 0x0aull << 32 | 1ull << 43 | 2ull << 44 | 1ull << 46 | 0x09ull << 48 |
			     1ull << 53 | 1ull << 55 | 1ull << 59;
	EXPECT_EQ(hdr, expected);

	sirdma_cqp_reg_mr_params again = params;

	again.replace = true;
	ASSERT_EQ(sirdma_cqp_reg_mr(&host.hw, &again), 0);
	hdr = host.dev.history().back().wqe.hdr & ~(1ull << 63);
	EXPECT_EQ(hdr, expected | 1ull << 57);

	sirdma_cqp_reg_mr_params sparse = params;

	sparse.va = 0;
	sparse.len = 0;
	sparse.block_shift = 12;
	sparse.level = SIRDMA_PBL_LEVEL_SPARSE;
	ASSERT_EQ(sirdma_cqp_reg_mr(&host.hw, &sparse), 0);
	cmd = host.dev.history().back();
	EXPECT_EQ(cmd.wqe.w1, (0xfedcbaull & 0x3ffff) << 46);
	EXPECT_EQ(cmd.wqe.w6, 0x7654321u);
	EXPECT_EQ(cmd.wqe.hdr & ~(1ull << 63), (expected & ~(1ull << 46)) | 3ull << 44);
}

TEST(CqpCommand, RegistrationThatDoesNotFitItsFieldsIsRefused)
{
	FakeHost host;
	u64 before = host.dev.executed();
	sirdma_cqp_reg_mr_params good{
		.stag = 0x100,
		.pd = 1,
		.va = 0x1000,
		.len = 4096,
		.access = 1,
		.block_shift = 12,
		.level = 0,
		.addr = 0x1000,
		.first_pble = 0,
		.zero_based = false,
	};
	auto refused = [&](auto change) {
		sirdma_cqp_reg_mr_params p = good;
		change(p);
		return sirdma_cqp_reg_mr(&host.hw, &p) == -EINVAL;
	};

	EXPECT_TRUE(refused([](auto &p) {
		p.len = 0;
		p.level = 1;
	}));
	EXPECT_TRUE(refused([](auto &p) { p.len = 1ull << 46; }));
	EXPECT_TRUE(refused([](auto &p) { p.level = 4; }));
	EXPECT_TRUE(refused([](auto &p) { p.level = SIRDMA_PBL_LEVEL_SPARSE; }));
	const auto sparse = [](auto &p) {
		p.level = SIRDMA_PBL_LEVEL_SPARSE;
		p.len = 0;
	};
	EXPECT_FALSE(refused(sparse));
	before = host.dev.executed();
	EXPECT_TRUE(refused([&](auto &p) { sparse(p), p.replace = true; }));
	EXPECT_TRUE(refused([&](auto &p) { sparse(p), p.all_memory = true; }));
	EXPECT_TRUE(refused([&](auto &p) { sparse(p), p.may_fault = true; }));
	EXPECT_TRUE(refused([](auto &p) { p.block_shift = 13; }));
	EXPECT_TRUE(refused([](auto &p) { p.block_shift = 255; }));
	EXPECT_TRUE(refused([](auto &p) { p.level = 3; }));
	EXPECT_TRUE(refused([](auto &p) { p.addr = 0x1001; }));
	EXPECT_TRUE(refused([](auto &p) {
		p.va = p.len = p.addr = 0;
		p.all_memory = p.replace = true;
	}));
	EXPECT_EQ(host.dev.executed(), before);
	EXPECT_FALSE(refused([](auto &p) {
		p.level = 1;
		p.may_fault = true;
	}));
	EXPECT_EQ(sirdma_cqp_reg_mr(&host.hw, &good), 0);
}

TEST(CqpCommand, CqWithoutEventsNamesNoCeq)
{
	constexpr u64 events = SIRDMA_CQP_CQ_ENCEQE | SIRDMA_CQP_CQ_CEQIDVALID;
	FakeHost host;
	sirdma_cqp_cq_params params{};

	host.dev.keep_history();
	params.cq_id = 5;
	params.entries = 64;
	params.ceq_id = 3;
	ASSERT_EQ(sirdma_cqp_create_cq(&host.hw, &params), 0);
	EXPECT_EQ(host.dev.history().back().wqe.hdr & events, events);
	params.no_events = true;
	ASSERT_EQ(sirdma_cqp_create_cq(&host.hw, &params), 0);
	EXPECT_EQ(host.dev.history().back().wqe.hdr & (events | SIRDMA_CQP_CQ_CEQID), 0u);
}

TEST(CqpCommand, ModerationHasLimits)
{
	FakeHost host;

	host.dev.keep_history();
	EXPECT_EQ(sirdma_cqp_moderate_cq(&host.hw, 5, SIRDMA_MAX_CQ_COUNT + 1, 1), -EINVAL);
	EXPECT_EQ(sirdma_cqp_moderate_cq(&host.hw, 5, 1, SIRDMA_MAX_CQ_PERIOD + 1), -EINVAL);
	ASSERT_EQ(sirdma_cqp_moderate_cq(&host.hw, 5, SIRDMA_MAX_CQ_COUNT, 0x1234), 0);
	auto cmd = host.dev.history().back();
	EXPECT_EQ(cmd.op, 0x04u);
	EXPECT_EQ(cmd.wqe.w7, 0x12347fffu);
	EXPECT_EQ(cmd.wqe.hdr & ~(1ull << 63), 0x04ull << 32 | 1ull << 52 | 5);
}

TEST(CqpCommand, ManySegmentsUseTheBuffer)
{
	FakeHost host;
	std::vector<sirdma_dma_mem> blocks;
	std::vector<sirdma_sd_entry> entries;
	auto *ops = host.dev.bus()->ops;

	EXPECT_EQ(sirdma_cqp_update_sds(&host.hw, nullptr, 0), -EINVAL);
	EXPECT_EQ(sirdma_cqp_update_sds(&host.hw, nullptr, 12), -EINVAL);
	for (u32 i = 0; i < 7; i++) {
		sirdma_dma_mem mem;
		ASSERT_EQ(ops->dma_alloc(host.dev.bus(), 2 << 20, &mem), 0);
		blocks.push_back(mem);
		entries.push_back({.cmd = SIRDMA_SDCMD_VALID | SIRDMA_SDCMD_WR | (i + 1),
				   .data = mem.pa | SIRDMA_SDDATA_DIRECT | SIRDMA_SDDATA_VALID});
	}
	ASSERT_EQ(sirdma_cqp_update_sds(&host.hw, entries.data(), 7), 0);
	for (u32 i = 1; i <= 7; i++)
		EXPECT_TRUE(host.dev.sd_direct(i));
	for (auto &e : entries)
		e.data = 0;
	ASSERT_EQ(sirdma_cqp_update_sds(&host.hw, entries.data(), 7), 0);
	for (auto &mem : blocks)
		ops->dma_free(host.dev.bus(), &mem);
}

TEST(CqpCommand, AddressesAreInWireOrder)
{
	FakeHost host;
	const u8 mac[6] = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
	sirdma_cqp_sgid_params sgid{
		.idx = 7, .ip = {}, .mac = {}, .has_vlan = true, .vlan_id = 0x123};

	host.dev.keep_history();
	ASSERT_EQ(sirdma_cqp_set_arp(&host.hw, 5, mac), 0);
	auto arp = host.dev.history().back();
	EXPECT_EQ(arp.wqe.w2, 0x021122334455u);
	EXPECT_EQ(arp.wqe.hdr & 0xffff, 5u);
	EXPECT_TRUE(arp.wqe.hdr >> 42 & 1);
	ASSERT_EQ(sirdma_cqp_clear_arp(&host.hw, 5), 0);
	EXPECT_FALSE(host.dev.history().back().wqe.hdr >> 42 & 1);

	for (u8 i = 0; i < 16; i++)
		sgid.ip.b[i] = i;
	memcpy(sgid.mac, mac, 6);
	ASSERT_EQ(sirdma_cqp_set_sgid(&host.hw, &sgid), 0);
	auto cmd = host.dev.history().back();
	EXPECT_EQ(cmd.wqe.w0, 0x0706050403020100u);
	EXPECT_EQ(cmd.wqe.w1, 0x0f0e0d0c0b0a0908u);
	EXPECT_EQ(cmd.wqe.w2, 0x021122334455u | 0x123ull << 48 | 1ull << 63);
}

} // namespace
} // namespace sirdma::test
