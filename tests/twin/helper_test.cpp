/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The helper over a device of which only the files and the clock are real. A wake-up that
 * is lost is never made good here: nothing else wakes the thread. ThreadSanitizer finds the
 * rest.
 */
#include "helper.hpp"

#include <functional>
#include <semaphore>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "answer_wait.hpp"
#include "lock.hpp"

namespace sirdma::twin::test
{

namespace
{

using namespace std::chrono_literals;
using State = Helper::State;

/* Only a failure waits so long. */
constexpr auto patience = 60s;
constexpr u64 never = ~0ull;
constexpr u64 retry_ns = 1000;
constexpr u64 poller = 100; /* polls, more than make a process a poller */

/* True as soon as @condition is. */
bool comes_true(const std::function<bool()> &condition)
{
	const auto end = std::chrono::steady_clock::now() + patience;

	for (Backoff backoff(0); !condition(); backoff.pause())
		if (std::chrono::steady_clock::now() > end)
			return false;
	return true;
}

class File {
public:
	int get() const noexcept { return fd_.get(); }

	void put() noexcept
	{
		const uint64_t one = 1;

		EXPECT_EQ(write(fd_.get(), &one, sizeof(one)), ssize_t{sizeof(one)});
	}

	/* What was put and not yet taken. */
	uint64_t take() noexcept
	{
		uint64_t n = 0;

		return read(fd_.get(), &n, sizeof(n)) < 0 ? 0 : n;
	}

private:
	Fd fd_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

/* Use a processor for longer than Pace::spin. */
void spin()
{
	timespec start, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec <
	       10 * Helper::Pace().spin);
}

class FakeDevice : public Helper::Device {
public:
	explicit FakeDevice(const Helper::Pace &pace = {}) : helper(*this, pace)
	{
		port_timer_init(&timer, clock, [](port_timer *) {});
		EXPECT_EQ(helper.start(clock), 0);
	}

	~FakeDevice()
	{
		helper.stop();
		port_clock_destroy(clock);
	}

	bool can_help() noexcept override { return true; }
	Helper::Files files() noexcept override
	{
		return {neighbour.get(), share.get(), port.get(), -1};
	}
	u64 ns_until_work() noexcept override
	{
		if (stall_early.exchange(false))
			stall();
		return never;
	}
	u64 ns_until_retry() noexcept override { return stalled ? retry_ns : never; }
	bool fall_asleep() noexcept override
	{
		if (arm_late.exchange(false)) {
			port_timer_arm(&timer, 0);
			helper.timers_armed();
		}
		if (stall_late.exchange(false))
			stall();
		return !held.load();
	}
	void wake_up() noexcept override {}

	void manage(bool readable) noexcept override
	{
		++wakes;
		if (readable)
			managed += share.take();
	}

	void help() noexcept override
	{
		const uint64_t got = port.take() + neighbour.take();

		++rounds;
		held = false;
		stalled = false;
		packets += got;
		if (got)
			helper.count_arrival();
		port_clock_run(clock, port_now_ns(clock));
		if (block) {
			blocked.release();
			go_on.acquire();
		}
	}

	/* A call finds no room for its work. */
	void stall()
	{
		stalled = true;
		helper.retry_after(retry_ns);
	}

	/* The application polls, and nothing comes. */
	void poll(u64 times)
	{
		while (times--) {
			helper.count_poll();
			helper.timers_armed();
		}
	}

	/* It is a poller, and the helper has seen it. No wake-up is left. */
	void drive_away()
	{
		const uint64_t before = managed;

		poll(poller);
		helper.enter_call();
		share.put();
		ASSERT_TRUE(comes_true([&] { return managed > before && helper.away(); }));
		helper.leave_call();
	}

	/* It does not poll, but uses a processor, and a packet comes: the helper receives it after all. */
	void drive_away_and_spin()
	{
		drive_away();

		const uint64_t before = packets, seen = managed;

		port.put();
		ASSERT_TRUE(comes_true([&] {
			spin();
			helper.wake();
			return packets > before;
		}));
		/* It has finished the round. */
		share.put();
		ASSERT_TRUE(comes_true([&] { return managed > seen; }));
	}

	port_clock *clock = port_clock_create(false);
	File neighbour, share, port;
	std::atomic<bool> held{false}; /* an acknowledgement that a call has put off */
	std::atomic<bool> stalled{false}; /* work that found no room */
	/* stall() while the helper computes how long it may sleep, and when it has done so */
	std::atomic<bool> stall_early{false}, stall_late{false};
	std::atomic<bool> arm_late{false}; /* a timer, when the helper has looked at them already */
	port_timer timer;
	std::atomic<uint64_t> packets{0}, managed{0}, rounds{0}, wakes{0};
	std::atomic<bool> block{false};
	std::binary_semaphore blocked{0}, go_on{0};
	Helper helper; /* last: it uses all of the above */
};

/* An away helper does not look by itself in the time of a test. */
constexpr Helper::Pace no_looks = {.min = never, .max = never};

} // namespace

TEST(TwinHelper, FollowsItsTable)
{
	EXPECT_EQ(Helper::next(State::watching, false), State::serving);
	EXPECT_EQ(Helper::next(State::watching, true), State::serving);
	EXPECT_EQ(Helper::next(State::serving, false), State::watching);
	EXPECT_EQ(Helper::next(State::serving, true), State::away);
	EXPECT_EQ(Helper::next(State::away, false), State::serving);
	EXPECT_EQ(Helper::next(State::away, true), State::away);
}

TEST(TwinHelper, ServesWhatComesOnEachFile)
{
	FakeDevice device;

	for (uint64_t i = 1; i <= 20; ++i) {
		device.port.put();
		ASSERT_TRUE(comes_true([&] { return device.packets == 2 * i - 1; }));
		device.neighbour.put();
		ASSERT_TRUE(comes_true([&] { return device.packets == 2 * i; }));
		device.share.put();
		ASSERT_TRUE(comes_true([&] { return device.managed == i; }));
	}
}

TEST(TwinHelper, LeavesPacketsToAProcessThatPolls)
{
	FakeDevice device(no_looks);

	device.drive_away();
	const uint64_t rounds = device.rounds, managed = device.managed;

	device.port.put();
	/* It wakes and goes away again, as long as there is a call under way. */
	device.helper.enter_call();
	for (uint64_t i = 1; i <= 20; ++i) {
		device.share.put();
		ASSERT_TRUE(comes_true([&] { return device.managed == managed + i; }));
		ASSERT_TRUE(device.helper.away());
	}
	EXPECT_EQ(device.packets, 0u);
	EXPECT_EQ(device.rounds, rounds);
	device.helper.leave_call();
	/* Neither a call nor a poll since. */
	ASSERT_TRUE(comes_true([&] {
		device.helper.wake();
		return device.packets == 1;
	}));
}

TEST(TwinHelper, LooksWhetherAProcessStillPolls)
{
	FakeDevice device;

	device.drive_away();
	device.port.put();
	EXPECT_TRUE(comes_true([&] { return device.packets == 1; }));
}

/* After a number of polls without work a thread yields; it may have kept another, which received, from its processor. */
TEST(TwinHelper, CountsPollsThatDidNotLook)
{
	FakeDevice device;
	Helper &helper = device.helper;

	helper.note_busy();
	for (u64 i = 1; i <= 5; ++i) {
		helper.count_miss();
		EXPECT_EQ(helper.idle_polls(), i);
	}
	helper.count_poll();
	EXPECT_EQ(helper.idle_polls(), 1u);
	helper.count_miss();
	helper.note_busy();
	EXPECT_EQ(helper.idle_polls(), 0u);
	helper.count_miss();
	helper.expect_event();
	EXPECT_EQ(helper.idle_polls(), 0u);
}

/* It need not poll again before a timer that is due is seen. */
TEST(TwinHelper, RunsTimersForAProcessThatPollsSeldom)
{
	FakeDevice device(no_looks);

	for (int i = 0; i < 20; ++i) {
		device.drive_away();
		port_timer_arm(&device.timer, 100000);
		device.poll(1);
		ASSERT_TRUE(comes_true([&] { return port_clock_due(device.clock) == never; })) << i;
	}
}

/* A poll does not wake the helper for a timer that ends the helper's sleep anyway. */
TEST(TwinHelper, IsNotWokenForATimerItHasSeen)
{
	FakeDevice device(no_looks);

	port_timer_arm(&device.timer, u64{1} << 40);
	device.drive_away();
	const uint64_t wakes = device.wakes;

	/* A few polls may come while the thread falls asleep. */
	device.poll(200000);
	EXPECT_LE(device.wakes, wakes + 20);
	port_timer_cancel(&device.timer);
}

TEST(TwinHelper, DoesNotSpinBesidePollersWhileATimerIsDue)
{
	FakeDevice device({.min = never, .max = never, .due = u64{1} << 40});

	device.drive_away();
	device.helper.enter_call();
	port_timer_arm(&device.timer, 0);
	device.helper.timers_armed();
	const uint64_t wakes = device.wakes;

	for (uint64_t i = 2; i <= 21; ++i) {
		device.share.put();
		ASSERT_TRUE(comes_true([&] { return device.managed == i; }));
	}
	EXPECT_TRUE(device.helper.away());
	EXPECT_LE(device.wakes, wakes + 22);
	device.helper.leave_call();
	port_clock_run(device.clock, never);
}

/* The process polls, but not when packets come. */
TEST(TwinHelper, WatchesForAProcessThatSpinsOnItsMemory)
{
	FakeDevice device(no_looks);

	device.drive_away();
	device.port.put();
	ASSERT_TRUE(comes_true([&] {
		spin();
		device.helper.wake();
		return device.packets == 1;
	}));
	for (uint64_t i = 2; i < 20; ++i) {
		device.poll(poller);
		device.port.put();
		ASSERT_TRUE(comes_true([&] { return device.packets == i; }));
	}
}

TEST(TwinHelper, IsAwayWhilePollsWaitForAnswers)
{
	FakeDevice device(no_looks);
	Helper &helper = device.helper;

	/* Make the helper see a process that spins on its memory. */
	ASSERT_TRUE(comes_true([&] {
		device.drive_away_and_spin();
		return helper.spins_by_itself();
	}));

	const uint64_t packets = device.packets;

	helper.enter_call();
	helper.set_polls_wait(true);
	ASSERT_TRUE(comes_true([&] { return helper.away(); }));
	const uint64_t managed = device.managed;

	device.port.put();
	device.share.put();
	ASSERT_TRUE(comes_true([&] { return device.managed > managed; }));
	EXPECT_TRUE(helper.away());
	EXPECT_EQ(device.packets, packets);
	/* Nothing but this wakes it. */
	helper.set_polls_wait(false);
	EXPECT_TRUE(comes_true([&] { return device.packets > packets; }));
	helper.leave_call();
}

/* It had to receive for a process whose polls are to wait for answers: they do not find them. */
TEST(TwinHelper, EndsWaitsThatDoNotFindWhatAProcessSpinsFor)
{
	FakeDevice device(no_looks);
	Helper &helper = device.helper;

	ASSERT_TRUE(comes_true([&] {
		helper.set_polls_wait(true);
		device.drive_away_and_spin();
		return !helper.polls_wait();
	}));
	EXPECT_TRUE(helper.spins_by_itself());
}

TEST(TwinAnswerWait, PausesLongerAfterEachWaitInVain)
{
	AnswerWait wait;
	const auto returned_at_once = [&] {
		u32 n = 0;

		while (!wait.is_due())
			++n;
		return n;
	};

	EXPECT_FALSE(wait.pays());
	EXPECT_EQ(wait.longest_us(), AnswerWait::attempt_us);
	for (u32 pause = 1; pause <= AnswerWait::pause_max; pause *= 2) {
		EXPECT_TRUE(wait.is_due());
		wait.note_no_answer();
		EXPECT_EQ(returned_at_once(), pause);
	}
	wait.note_no_answer();
	EXPECT_EQ(returned_at_once(), AnswerWait::pause_max);

	/* The first answer after a wait in vain makes waits pay, and limits them to limit_us, but does not halve the pause. */
	wait.note_answer();
	EXPECT_TRUE(wait.pays());
	EXPECT_EQ(wait.longest_us(), AnswerWait::limit_us);
	EXPECT_EQ(returned_at_once(), 0u);
	wait.note_no_answer();
	EXPECT_FALSE(wait.pays());
	EXPECT_EQ(returned_at_once(), AnswerWait::pause_max);

	wait.note_answer();
	for (u32 pause = AnswerWait::pause_max; pause > 1; pause /= 2)
		wait.note_answer();
	wait.note_no_answer();
	EXPECT_EQ(returned_at_once(), 1u);
}

/* The process did not poll, because another process had the processor. */
TEST(TwinHelper, LeavesPacketsToAPollerThatHadNoProcessor)
{
	constexpr Helper::Pace long_spin = {.min = never, .max = never, .spin = INT64_MAX};
	FakeDevice device(long_spin);

	for (uint64_t i = 1; i < 20; ++i) {
		device.drive_away();
		spin();
		device.port.put();
		ASSERT_TRUE(comes_true([&] {
			device.helper.wake();
			return device.packets == i;
		}));
	}
}

/* Each half of the pairs that helper.hpp draws, when it comes second by little. */
TEST(TwinHelper, SeesATimerThatIsArmedWhileItFallsAsleep)
{
	FakeDevice device;

	for (uint64_t i = 1; i <= 20; ++i) {
		device.arm_late = true;
		device.port.put();
		/* Once for the packet, once for the timer. */
		ASSERT_TRUE(comes_true([&] {
			return device.packets == i && !device.arm_late &&
			       port_clock_due(device.clock) == never;
		})) << i;
	}
}

TEST(TwinHelper, SeesARequestForAnEventThatCameWhileItServed)
{
	FakeDevice device(no_looks);

	device.block = true;
	device.port.put();
	ASSERT_TRUE(device.blocked.try_acquire_for(patience));
	device.block = false;
	device.poll(poller);
	device.helper.expect_event();
	device.go_on.release();
	ASSERT_TRUE(comes_true([&] { return device.helper.state() == State::watching; }));
	device.port.put();
	EXPECT_TRUE(comes_true([&] { return device.packets == 2; }));
}

TEST(TwinHelper, SeesWhatACallHasHeldBackWhileItWasAway)
{
	FakeDevice device(no_looks);

	device.drive_away();
	device.helper.enter_call();
	device.held = true;
	device.helper.expect_event();
	EXPECT_TRUE(comes_true([&] { return !device.held; }));
	device.helper.leave_call();
}

TEST(TwinHelper, TriesWorkWithoutRoomAgainThatComesWhileItFallsAsleep)
{
	FakeDevice device;

	for (std::atomic<bool> *when : {&device.stall_early, &device.stall_late}) {
		device.block = true;
		device.port.put();
		ASSERT_TRUE(device.blocked.try_acquire_for(patience));
		device.block = false;
		*when = true;
		device.go_on.release();
		ASSERT_TRUE(comes_true([&] { return !*when && !device.stalled; }));
	}
}

TEST(TwinHelper, LosesNoWorkWithoutRoom)
{
	constexpr int count = 300;
	FakeDevice device;

	for (int i = 0; i < count; ++i) {
		for (int spin = 0; spin < i % 64; ++spin)
			std::atomic_signal_fence(std::memory_order_seq_cst);
		device.stall();
		ASSERT_TRUE(comes_true([&] { return !device.stalled; })) << "stall " << i;
	}
}

/* Two threads arm timers of which no other wake-up tells. */
TEST(TwinHelper, LosesNoTimer)
{
	struct Timer {
		port_timer timer;
		std::atomic<u64> fired{0};
	};
	constexpr u64 each = 300;
	FakeDevice device;
	Timer timers[2];
	std::vector<std::thread> threads;

	for (Timer &t : timers) {
		port_timer_init(&t.timer, device.clock, [](port_timer *timer) {
			++reinterpret_cast<Timer *>(timer)->fired;
		});
		threads.emplace_back([&] {
			for (u64 i = 0; i < each; ++i) {
				port_timer_arm(&t.timer, i % 3 * 10000);
				device.helper.timers_armed();
				if (!comes_true([&] { return t.fired == i + 1; })) {
					ADD_FAILURE() << "timer " << i << " did not fire";
					break;
				}
			}
		});
	}
	for (std::thread &thread : threads)
		thread.join();
	for (Timer &t : timers)
		port_timer_cancel_sync(&t.timer);
}

/* While the helper may be about to leave, one thread asks for an event and another sends. */
TEST(TwinHelper, LosesNoRequestForAnEvent)
{
	constexpr uint64_t count = 300;
	FakeDevice device(no_looks);

	for (uint64_t i = 0; i < count; ++i) {
		device.poll(poller);
		device.helper.wake();
		for (uint64_t spin = 0; spin < i % 64; ++spin)
			std::atomic_signal_fence(std::memory_order_seq_cst);

		std::thread sender;

		if (i % 16 == 0)
			sender = std::thread([&] { device.port.put(); });
		device.helper.expect_event();
		if (sender.joinable())
			sender.join();
		else
			device.port.put();
		ASSERT_TRUE(comes_true([&] { return device.packets == i + 1; })) << "event " << i;
	}
}

/* What a call puts off while the helper is away is not forgotten when it comes back. */
TEST(TwinHelper, LosesNothingThatWasHeldBack)
{
	constexpr int count = 300;
	FakeDevice device(no_looks);

	for (int i = 0; i < count; ++i) {
		device.poll(poller);
		device.helper.wake();
		for (int spin = 0; spin < i % 64; ++spin)
			std::atomic_signal_fence(std::memory_order_seq_cst);
		device.held = true;
		if (!device.helper.away())
			device.held = false; /* sent by the call */
		device.helper.expect_event();
		ASSERT_TRUE(comes_true([&] { return !device.held; })) << "held " << i;
	}
}

/* What was taken in before is seen, and was answered. */
TEST(TwinHelper, IsWaitedForWhileItServes)
{
	FakeDevice device;
	std::atomic<bool> over{false};

	device.block = true;
	device.port.put();
	ASSERT_TRUE(device.blocked.try_acquire_for(patience));
	ASSERT_EQ(device.helper.state(), State::serving);

	std::binary_semaphore waiting{0};
	std::thread server([&] {
		waiting.acquire();
		/* Time for a wait that does not wait. */
		for (int i = 0; i < 1000; ++i)
			std::this_thread::yield();
		over = true;
		device.block = false;
		device.go_on.release();
	});

	waiting.release();
	/* On a busy machine the server may need longer than one wait. */
	while (!device.helper.wait_served())
		std::this_thread::yield();
	EXPECT_TRUE(over);
	server.join();
	EXPECT_EQ(device.packets, 1u);
}

TEST(TwinHelper, IsNotAwaitedForEver)
{
	FakeDevice device;

	device.block = true;
	device.port.put();
	ASSERT_TRUE(device.blocked.try_acquire_for(patience));
	EXPECT_FALSE(device.helper.wait_served());
	EXPECT_EQ(device.helper.state(), State::serving);

	/* The next ones do not wait: one of them is not interrupted for as long as a wait. */
	auto least = std::chrono::steady_clock::duration::max();

	for (int i = 0; i < 10; ++i) {
		const auto begin = std::chrono::steady_clock::now();

		EXPECT_FALSE(device.helper.wait_served());
		least = std::min(least, std::chrono::steady_clock::now() - begin);
	}
	EXPECT_LT(least, std::chrono::milliseconds(100));
	device.block = false;
	device.go_on.release();
	EXPECT_TRUE(comes_true([&] { return device.helper.wait_served(); }));
}

TEST(TwinHelper, StopsInEveryState)
{
	for (int i = 0; i < 10; ++i) {
		FakeDevice watching, away(no_looks), serving;

		away.drive_away();
		serving.block = true;
		serving.port.put();
		ASSERT_TRUE(serving.blocked.try_acquire_for(patience));
		serving.block = false;

		std::thread stopper([&] { serving.helper.stop(); });

		serving.go_on.release();
		stopper.join();
	}

	FakeDevice device;
	Helper never_started(device);

	never_started.stop();
}

/* The child has the object and no thread; its parent's goes on. */
TEST(TwinHelper, IsTheParentsAfterAFork)
{
	FakeDevice device;

	for (uint64_t i = 1; i <= 20; ++i) {
		device.neighbour.put();

		const pid_t child = fork();

		if (!child)
			_exit(0);

		int status;

		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0);
		device.port.put();
		ASSERT_TRUE(comes_true([&] { return device.packets == 2 * i; }));
	}
}

} // namespace sirdma::twin::test
