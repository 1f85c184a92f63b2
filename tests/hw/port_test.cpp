// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The userspace port layer: clocks, timers, events, RCU, threads.
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "c_api.hpp"
#include "forbid_syscall.hpp"

namespace sirdma::test
{
namespace
{

struct VirtualClock {
	explicit VirtualClock(bool is_virtual = true) : clock(port_clock_create(is_virtual)) {}
	~VirtualClock() { port_clock_destroy(clock); }
	VirtualClock(const VirtualClock &) = delete;
	VirtualClock &operator=(const VirtualClock &) = delete;

	port_clock *clock;
};

struct Timer : port_timer {
	explicit Timer(port_clock *c, std::function<void(Timer &)> f = {}) : on_fire(std::move(f))
	{
		port_timer_init(this, c, [](port_timer *t) {
			auto *self = static_cast<Timer *>(t);
			self->fired++;
			if (self->on_fire)
				self->on_fire(*self);
		});
	}
	std::function<void(Timer &)> on_fire;
	std::atomic<int> fired{0};
};

TEST(Clock, TimersFireInOrderOfTimeThenArming)
{
	VirtualClock c;
	std::vector<int> order;
	std::vector<std::unique_ptr<Timer>> timers;
	u64 start = port_now_ns(c.clock);

	for (int i = 0; i < 6; i++)
		timers.push_back(std::make_unique<Timer>(c.clock, [&, i](Timer &t) {
			order.push_back(i);
			EXPECT_EQ(port_now_ns(c.clock), t.due);
		}));
	const u64 delays[] = {300, 100, 200, 100, 300, 100};
	for (int i = 0; i < 6; i++)
		port_timer_arm(timers[i].get(), delays[i]);
	EXPECT_EQ(port_clock_next(c.clock), 100u);
	port_clock_advance(c.clock, 250);
	EXPECT_EQ(order, (std::vector<int>{1, 3, 5, 2}));
	EXPECT_EQ(port_now_ns(c.clock), start + 250);
	port_clock_advance(c.clock, 50);
	EXPECT_EQ(order, (std::vector<int>{1, 3, 5, 2, 0, 4}));
	EXPECT_EQ(port_clock_next(c.clock), ~0ull);
}

TEST(Clock, RearmingMovesATimer)
{
	VirtualClock c;
	Timer t(c.clock);

	port_timer_arm(&t, 100);
	port_timer_arm(&t, 1000);
	port_clock_advance(c.clock, 999);
	EXPECT_EQ(t.fired, 0);
	port_timer_arm(&t, 5);
	port_clock_advance(c.clock, 2000);
	EXPECT_EQ(t.fired, 1);
	port_timer_arm(&t, 5);
	port_timer_cancel(&t);
	port_timer_cancel(&t);
	port_clock_advance(c.clock, 10);
	EXPECT_EQ(t.fired, 1);
}

TEST(Clock, CallbackMayArmAndCancel)
{
	VirtualClock c;
	Timer victim(c.clock);
	Timer periodic(c.clock, [&](Timer &t) {
		port_timer_cancel_sync(&victim);
		port_timer_cancel_sync(&t);
		if (t.fired < 10)
			port_timer_arm(&t, 10);
	});

	port_timer_arm(&victim, 10);
	port_timer_arm(&periodic, 5);
	port_clock_advance(c.clock, 1000);
	EXPECT_EQ(periodic.fired, 10);
	EXPECT_EQ(victim.fired, 0);
}

TEST(Clock, AgreesWithASortedList)
{
	VirtualClock c;
	std::mt19937 rng(3);
	std::vector<std::unique_ptr<Timer>> timers;
	std::map<std::pair<u64, u64>, size_t> model; // due, arming order
	std::vector<std::optional<std::pair<u64, u64>>> where(300);
	u64 seq = 0;

	for (size_t i = 0; i < where.size(); i++)
		timers.push_back(std::make_unique<Timer>(c.clock, [&, i](Timer &) {
			ASSERT_FALSE(model.empty());
			ASSERT_EQ(model.begin()->second, i);
			model.erase(model.begin());
			where[i].reset();
		}));
	auto forget = [&](size_t i) {
		if (where[i])
			model.erase(*where[i]);
		where[i].reset();
	};
	for (int step = 0; step < 50000; step++) {
		size_t i = rng() % where.size();
		switch (rng() % 4) {
		case 0:
			forget(i);
			port_timer_cancel(timers[i].get());
			break;
		case 1:
			port_clock_advance(c.clock, rng() % 20);
			break;
		default: {
			u64 ns = rng() % 500;
			forget(i);
			where[i] = {port_now_ns(c.clock) + ns, seq++};
			model[*where[i]] = i;
			port_timer_arm(timers[i].get(), ns);
		}
		}
		if (model.empty())
			ASSERT_EQ(port_clock_next(c.clock), ~0ull);
		else
			ASSERT_EQ(port_clock_next(c.clock),
				  model.begin()->first.first - port_now_ns(c.clock));
	}
	port_clock_advance(c.clock, 1000);
	EXPECT_TRUE(model.empty());
}

TEST(Clock, RealOneFiresWhatIsDue)
{
	VirtualClock c(false);
	Timer t(c.clock);

	port_timer_arm(&t, 2000000);
	const u64 due = port_clock_due(c.clock);
	EXPECT_LE(port_clock_next(c.clock), 2000000u);
	port_clock_run(c.clock, due - 1);
	EXPECT_EQ(t.fired, 0);
	port_clock_run(c.clock, due);
	EXPECT_EQ(t.fired, 1);
	EXPECT_EQ(port_clock_next(c.clock), ~0ull);
}

TEST(Clock, CancelSyncWaitsForARunningCallback)
{
	VirtualClock c(false);
	std::atomic<bool> inside{false}, release{false};
	std::atomic<bool> cancelled{false};
	Timer t(c.clock, [&](Timer &self) {
		inside = true;
		while (!release)
			std::this_thread::yield();
		EXPECT_FALSE(cancelled);
		port_timer_arm(&self, 0); // and this must not survive the cancel
	});

	port_timer_arm(&t, 0);
	std::thread runner([&] { port_clock_run(c.clock, port_now_ns(nullptr)); });
	while (!inside)
		std::this_thread::yield();
	std::thread canceller([&] {
		port_timer_cancel_sync(&t);
		cancelled = true;
	});
	std::this_thread::sleep_for(std::chrono::milliseconds(10));
	release = true;
	canceller.join();
	runner.join();
	EXPECT_EQ(port_clock_next(c.clock), ~0ull);
	EXPECT_EQ(t.fired, 1);
}

TEST(Event, WaitSeesASetBeforeOrAfter)
{
	port_event e;

	port_event_init(&e);
	EXPECT_FALSE(port_event_wait(&e, 5));
	std::thread setter([&] { port_event_set(&e); });
	EXPECT_TRUE(port_event_wait(&e, 5000));
	setter.join();
	EXPECT_TRUE(port_event_wait(&e, 0)) << "stays set";
}

/* Replace an object that three threads read. @lock: if not null, they take it as well. */
void replace_under_readers(pthread_mutex_t *lock)
{
	struct Object {
		u64 value;
		port_rcu rcu;
	};
	auto make = [](u64 value) {
		auto *o = static_cast<Object *>(port_alloc(sizeof(Object)));
		o->value = value;
		return o;
	};
	Object *shared = make(42);
	std::atomic<bool> stop{false};
	std::atomic<u64> reads{0}, wrong{0};
	std::vector<std::thread> readers;

	for (int t = 0; t < 3; t++) {
		readers.emplace_back([&] {
			while (!stop) {
				port_rcu_read_lock();
				// A reader may take locks, and read inside them again.
				if (lock)
					pthread_mutex_lock(lock);
				port_rcu_read_lock();
				Object *o = port_rcu_deref(shared);
				if (lock)
					pthread_mutex_unlock(lock);
				wrong += READ_ONCE(o->value) != 42u;
				port_rcu_read_unlock();
				wrong += READ_ONCE(o->value) != 42u;
				port_rcu_read_unlock();
				reads++;
			}
		});
	}
	while (reads < 10)
		std::this_thread::yield();
	for (int i = 0; i < 500; i++) {
		Object *old = shared;
		port_rcu_assign(shared, make(42));
		port_rcu_wait();
		WRITE_ONCE(old->value, 0);
		port_free(old);
	}
	stop = true;
	for (auto &t : readers)
		t.join();
	port_free(shared);
	EXPECT_EQ(wrong, 0u);
}

TEST(Rcu, NothingIsFreedUnderAReader)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	replace_under_readers(&lock);
	replace_under_readers(nullptr);
}

/* A process may forbid itself system calls after its first use of the library. */
TEST(Rcu, WaitsWithoutMembarrier)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) <= 0)
		GTEST_SKIP() << "no membarrier";
	port_rcu_wait();
	EXPECT_EXIT(
		{
			if (!forbid_syscall(SYS_membarrier, EPERM))
				_exit(2);
			if (syscall(SYS_membarrier, 0, 0, 0) != -1 || errno != EPERM)
				_exit(3);
			replace_under_readers(nullptr);
			_exit(::testing::Test::HasFailure());
		},
		::testing::ExitedWithCode(0), "");
}

TEST(Thread, LiveThreadsHaveDifferentNumbers)
{
	for (int round = 0; round < 3; round++) {
		std::mutex lock;
		std::set<u32> seen{port_cpu()};
		std::atomic<int> arrived{0};
		std::vector<std::thread> threads;
		constexpr int n = 40;

		for (int i = 0; i < n; i++) {
			threads.emplace_back([&] {
				u32 me = port_cpu();
				{
					std::lock_guard hold(lock);
					EXPECT_TRUE(seen.insert(me).second);
				}
				arrived++;
				while (arrived < n)
					std::this_thread::yield();
				EXPECT_EQ(port_cpu(), me);
			});
		}
		for (auto &t : threads)
			t.join();
		EXPECT_LT(*seen.rbegin(), 64u) << "numbers of dead threads are used again";
		EXPECT_LT(*seen.rbegin(), port_nr_cpus());
	}
}

TEST(Random, SeedRepeatsAndBitsAreEven)
{
	std::vector<u32> a, b;
	std::array<u32, 32> ones{};

	port_random_seed(5);
	for (int i = 0; i < 4096; i++)
		a.push_back(port_random_u32());
	port_random_seed(5);
	for (int i = 0; i < 4096; i++)
		b.push_back(port_random_u32());
	EXPECT_EQ(a, b);
	for (u32 x : a)
		for (u32 bit = 0; bit < 32; bit++)
			ones[bit] += x >> bit & 1;
	for (u32 n : ones)
		EXPECT_NEAR(n, 2048, 250);
	port_random_seed(6);
	EXPECT_NE(port_random_u32(), a[0]);
}

// The key and the words are the bytes 0 to 15. The value is of the kernel's lib/tests/siphash_kunit.c.
TEST(Hash, IsTheKernels)
{
	port_hash_key key{{0x0706050403020100, 0x0f0e0d0c0b0a0908}};

	EXPECT_EQ(port_hash_4u32(&key, 0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c),
		  0x7d908b66u);
}

TEST(Warn, IsRateLimited)
{
	testing::internal::CaptureStderr();
	for (int i = 0; i < 100; i++)
		port_warn("number %d", i);
	std::string out = testing::internal::GetCapturedStderr();
	EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 10);
	EXPECT_EQ(out.rfind("sirdma: number 0\n", 0), 0u);
}

TEST(Stats, ThreadsLoseNoUpdate)
{
	constexpr u32 counters = 9, each = 100000, nthreads = 4;
	port_stats stats;
	std::vector<std::thread> threads;
	std::atomic<u32> done{0};

	ASSERT_EQ(port_stats_init(&stats, counters), 0);
	for (u32 t = 0; t < nthreads; t++)
		threads.emplace_back([&] {
			for (u32 i = 0; i < each; i++) {
				port_stats_add(&stats, 0, 1);
				port_stats_add(&stats, counters - 1, 3);
			}
			done++;
		});
	for (u64 before = 0, now; done < nthreads; before = now) {
		now = port_stats_read(&stats, 0);
		ASSERT_GE(now, before);
	}
	for (std::thread &thread : threads)
		thread.join();
	/* Threads that ended have counted. */
	port_stats_add(&stats, 0, 5);
	EXPECT_EQ(port_stats_read(&stats, 0), each * nthreads + 5);
	EXPECT_EQ(port_stats_read(&stats, counters - 1), each * nthreads * 3);
	for (u32 i = 1; i + 1 < counters; i++)
		EXPECT_EQ(port_stats_read(&stats, i), 0u);
	port_stats_fini(&stats);
}

TEST(Alloc, HookFailsAllocations)
{
	static size_t asked;
	port_alloc_fail = [](size_t size) {
		asked = size;
		return true;
	};
	EXPECT_EQ(port_alloc(123), nullptr);
	EXPECT_EQ(asked, 123u);
	port_alloc_fail = nullptr;
	auto *p = static_cast<u8 *>(port_alloc(1000));
	EXPECT_EQ(std::count(p, p + 1000, 0), 1000) << "zeroed";
	port_free(p);
	port_free(port_alloc(0));
	port_free(nullptr);
}

} // namespace
} // namespace sirdma::test
