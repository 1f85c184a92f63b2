/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Timestamps of completions and the clocks that they are compared with. The program is linked
 * with --wrap=clock_gettime, so that the tests set the clocks.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "clock.hpp"
#include "lifecycle.hpp"

namespace
{

constexpr int64_t second = 1000000000;

/* How far the clocks of the program are ahead of the machine's. */
std::map<clockid_t, int64_t> ahead;

} // namespace

extern "C" {

int __real_clock_gettime(clockid_t clock, timespec *now);

int __wrap_clock_gettime(clockid_t clock, timespec *now)
{
	const int rc = __real_clock_gettime(clock, now);
	const auto found = ahead.find(clock);

	if (found == ahead.end())
		return rc;

	const int64_t ns = now->tv_sec * second + now->tv_nsec + found->second;

	now->tv_sec = ns / second;
	now->tv_nsec = ns % second;
	return rc;
}
}

namespace sirdma::test
{

namespace
{

/* Only a machine that stands still is so inaccurate. */
constexpr int64_t accuracy = second / 4;

int64_t time_by(clockid_t clock)
{
	return static_cast<int64_t>(clock_ns(clock));
}

/* The device's clock at its first reading, and at each later one, as if time passed before that. */
struct DeviceClock {
	int reads = 0;
	int64_t first_behind = 0;
	int64_t each = 0;
} device_clock;

int read_device_clock(ibv_context *, uint64_t &now)
{
	const int64_t behind = device_clock.reads ? 0 : device_clock.first_behind;

	now = static_cast<uint64_t>(time_by(CLOCK_MONOTONIC) - behind +
				    device_clock.reads * device_clock.each);
	++device_clock.reads;
	return 0;
}

/* An extended CQ whose completions have the time of day. */
class Wallclock : public Lifecycle {
protected:
	void SetUp() override
	{
		Lifecycle::SetUp();
		ahead.clear();
		device_clock = {};
		driver.context_answer.comp_mask |= SIRDMA_UCTX_CQ_FLAGS;
		ASSERT_TRUE(open_device());
		commands_ = kernel_commands;
		commands_.read_clock = read_device_clock;
		Context::of(context_).commands = &commands_;

		ibv_cq_init_attr_ex attr{};

		attr.cqe = 10;
		attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
		ex = create_cq_ex(context_, &attr);
		ASSERT_TRUE(ex);
	}

	void TearDown() override
	{
		EXPECT_EQ(ex ? destroy_cq(ibv_cq_ex_to_cq(ex)) : 0, 0);
		ahead.clear();
		Lifecycle::TearDown();
	}

	/* The time of day of a completion that is written now is now. */
	void expect_now()
	{
		Cq::of(ex).current.timestamp = static_cast<uint64_t>(time_by(CLOCK_MONOTONIC));

		const int64_t now = time_by(CLOCK_REALTIME);
		const auto read = static_cast<int64_t>(ibv_wc_read_completion_wallclock_ns(ex));

		EXPECT_LT(std::abs(read - now), accuracy);
	}

	Commands commands_;
	ibv_cq_ex *ex = nullptr;
};

} // namespace

TEST_F(Wallclock, IsOfTheTimeOfDay)
{
	ahead[CLOCK_REALTIME] = 1000 * second;
	expect_now();
}

TEST_F(Wallclock, ComparesAgainAfterAPreemption)
{
	device_clock.first_behind = second;
	expect_now();
}

/* Every comparison takes long: the quickest must do. */
TEST_F(Wallclock, ComparesOnASlowMachineToo)
{
	device_clock.each = second / 1000;
	expect_now();
	EXPECT_LT(device_clock.reads, 100);
}

/* Two clocks stand still meanwhile: the device's, and the one that says how long they did. */
TEST_F(Wallclock, IsRightAfterASuspension)
{
	expect_now();
	for (clockid_t goes_on : {CLOCK_REALTIME, CLOCK_BOOTTIME})
		ahead[goes_on] = 3600 * second;
	expect_now();
}

TEST_F(Wallclock, CompletionsThatAreReadTogetherKeepTheirDistance)
{
	auto &current = Cq::of(ex).current;
	const auto first = static_cast<uint64_t>(time_by(CLOCK_MONOTONIC));

	current.timestamp = first;
	const uint64_t of_first = ibv_wc_read_completion_wallclock_ns(ex);
	current.timestamp = first + 1;
	EXPECT_EQ(ibv_wc_read_completion_wallclock_ns(ex), of_first + 1);
}

namespace
{

constexpr int not_allowed = 77;

class TimeNamespace : public Lifecycle {
protected:
	/* The exit code of a process in a time namespace whose clock is ahead: 0 if the device's is not. */
	int in_namespace()
	{
		const int64_t kernels = time_by(CLOCK_MONOTONIC);

		if (unshare(CLONE_NEWTIME) && unshare(CLONE_NEWUSER | CLONE_NEWTIME))
			return not_allowed;

		FILE *offsets = fopen("/proc/self/timens_offsets", "w");

		if (!offsets || fputs("monotonic 1234 500000000", offsets) < 0 || fclose(offsets))
			return not_allowed;
		/* Only processes that are forked from now on are in it. */
		return exit_code([&] {
			uint64_t now = 0;

			if (time_by(CLOCK_MONOTONIC) - kernels < 1234 * second)
				return 2;
			if (!open_device() || kernel_commands.read_clock(context_, now))
				return 3;
			return std::abs(static_cast<int64_t>(now) - kernels) < 600 * second ? 0 : 1;
		});
	}

	template <typename Body> static int exit_code(Body body)
	{
		const pid_t pid = fork();
		int status = 0;

		if (!pid)
			_exit(body());
		EXPECT_EQ(waitpid(pid, &status, 0), pid);
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
};

} // namespace

TEST_F(TimeNamespace, TheClockOfADeviceIsTheKernels)
{
	const int code = exit_code([&] { return in_namespace(); });

	if (code == not_allowed)
		GTEST_SKIP() << "no time namespace may be made here";
	EXPECT_EQ(code, 0);
}

} // namespace sirdma::test
