/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "helper.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

#include "lock.hpp"
#include "no_cancel.hpp"

namespace sirdma::twin
{

namespace
{

constexpr u64 never = ~0ull;
constexpr u64 nsec_per_sec = 1000000000;
constexpr timespec wait_for_memory = {.tv_sec = 0, .tv_nsec = 1000000};
/*
 * After this many polls without a requested event a process counts as polling. Up to 1,024 make no
 * difference; if no process counts as polling, a round trip takes 7 us instead of 0.5 us.
 */
constexpr u64 polls_of_a_poller = 64;
/*
 * The number of times that packets wake the helper of a process that spins on memory before the
 * helper may be away again. A packet that finds it away waits for the next check, 50 us at first:
 * spread over so many packets that is 0.2 us each, and a round trip over UDP takes 4 us.
 */
constexpr u32 spins_max = 256;
/*
 * The time slice of the thread. The thread sleeps most of the time, and other threads wait for it
 * when it wakes. This is the shortest slice that Linux gives.
 */
constexpr u64 helper_slice_ns = 100000;
/*
 * Its nice value, if the process may have that. Where an application spins, the fair scheduler gives the thread half of the
 * processor. If waking it takes long, as under some hypervisors, it needs more, and then waits until a tick of the
 * clock: ib_write_lat of 8 bytes took 770 us on the average over UDP, and 170 with this.
 */
constexpr int32_t helper_nice = -10;
/* The slack of a thread is 50 us otherwise, as long as the shortest period of its checks. */
constexpr unsigned long helper_slack_ns = 2000;

/* The argument of sched_setattr(), which some C libraries do not declare. */
struct SchedAttr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime; /* for ordinary threads, since Linux 6.12: the slice wanted */
	uint64_t deadline;
	uint64_t period;
};

/*
 * Processor time of this process without that of this thread, ns. The two clocks are not read at the same
 * moment, so that the time may seem to go back a little.
 */
int64_t used_by_others() noexcept
{
	timespec all, own;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
	return (all.tv_sec - own.tv_sec) * int64_t{nsec_per_sec} + all.tv_nsec - own.tv_nsec;
}

/*
 * An application that spins on its memory waits for the helper, perhaps on the only free
 * processor. A thread with a short time slice may preempt one with a longer slice.
 */
void want_to_run_soon() noexcept
{
	SchedAttr attr{};

	prctl(PR_SET_TIMERSLACK, helper_slack_ns, 0, 0, 0);
	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.policy != SCHED_OTHER)
		return;

	const int32_t nice = attr.nice;

	attr.runtime = helper_slice_ns;
	attr.nice = std::min(nice, helper_nice);
	if (!syscall(SYS_sched_setattr, 0, &attr, 0))
		return;
	attr.nice = nice;
	(void)!syscall(SYS_sched_setattr, 0, &attr, 0);
}

} // namespace

int Helper::start(port_clock *clock) noexcept
{
	clock_ = clock;
	check_ns_ = pace_.min;
	wake_fd_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (!wake_fd_)
		return errno;

	/* The application's signals must not be delivered to this thread. */
	sigset_t all, old;
	int err = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	try {
		thread_ = std::jthread([this](const std::stop_token &stop) { run(stop); });
	} catch (const std::system_error &error) {
		err = error.code().value();
	} catch (const std::bad_alloc &) {
		err = ENOMEM;
	}
	pthread_sigmask(SIG_SETMASK, &old, nullptr);
	if (err) {
		fprintf(stderr, "sirdma: no thread for the device: %s\n", strerror(err));
		return err;
	}
	pthread_setname_np(thread_.native_handle(), "sirdma");
	return 0;
}

void Helper::stop() noexcept
{
	if (!thread_.joinable())
		return;
	thread_.request_stop();
	wake();
	thread_.join();
}

void Helper::wake() noexcept
{
	const uint64_t one = 1;

	if (raw_syscall::write(wake_fd_.get(), &one, sizeof(one)) < 0)
		return; /* the counter is full, so the thread is being woken */
}

void Helper::timers_armed() noexcept
{
	if (const u64 at = wakes_at_.load())
		wake_by(at, port_clock_due(clock_));
}

/* An away thread looks soon whether the process polls. One that leaves this state now will see the work itself. */
void Helper::retry_after(u64 ns) noexcept
{
	if (away())
		return;
	if (const u64 at = wakes_at_.load())
		wake_by(at, port_now_ns(nullptr) + ns);
}

/* Wake the thread, which sleeps until @at as far as the caller knows, if that is later than @due. */
void Helper::wake_by(u64 at, u64 due) noexcept
{
	/* One caller wakes the thread, and the other callers need not. But the thread may have stored a sooner time. */
	while (at && due < at) {
		if (wakes_at_.compare_exchange_strong(at, 0)) {
			wake();
			return;
		}
	}
}

void Helper::expect_event() noexcept
{
	forget_misses();
	armed_at_.store(polls_.load(std::memory_order_relaxed));
	if (away())
		wake();
}

bool Helper::wait_served() noexcept
{
	/* On a busy machine the helper may wait some 10 ms for a processor. Not tuned. */
	constexpr u64 wait_max_ns = 100 * 1000 * 1000;
	const u64 arrived = arrivals();
	Backoff backoff(0);

	if (state() != State::serving)
		return true;
	if (held_up_at_.load(std::memory_order_relaxed) == arrived)
		return false;
	for (const u64 begin = port_now_ns(nullptr); state() == State::serving; backoff.pause()) {
		if (port_now_ns(nullptr) - begin < wait_max_ns)
			continue;
		held_up_at_.store(arrived, std::memory_order_relaxed);
		return false;
	}
	return true;
}

bool Helper::process_polled() const noexcept
{
	return polls_.load(std::memory_order_relaxed) != seen_polls_ ||
	       inside_.load(std::memory_order_relaxed);
}

bool Helper::expects_event() const noexcept
{
	/*
	 * The order of these reads ensures that polls_ is not less than the values copied from it.
	 */
	const u64 armed_at = armed_at_.load();

	return polls_.load(std::memory_order_relaxed) - armed_at < polls_of_a_poller;
}

Helper::State Helper::enter(State next) noexcept
{
	if (next == State::away && process_spins() && !polls_wait())
		next = State::watching;
	state_.store(next);
	if (next == State::away && expects_event()) {
		next = State::watching;
		state_.store(next);
	}
	return next;
}

/* The thread was away, and had to receive for a process that used so much of a processor, ns, without a poll. */
void Helper::note_spinning(int64_t used) noexcept
{
	/* pace_.spin may be INT64_MIN (watch_after_yields()), so compare with the default. */
	if (used >= Pace().spin)
		uses_processor_.store(true, std::memory_order_relaxed);
	else if (!process_spins())
		uses_processor_.store(false, std::memory_order_relaxed);
	spins_ = spins_max;
	/* The waits of polls did not find this packet. */
	polls_wait_.store(false, std::memory_order_relaxed);
}

/* Sleep until there is work. Returns true if packets may have come. */
bool Helper::sleep(State state) noexcept
{
	const bool is_away = state == State::away;
	const Files files = device_.files();
	const pollfd none = {.fd = -1, .events = POLLIN, .revents = 0};
	pollfd fds[num_files + 1] = {none, none, none, none, none};
	pollfd &wakes = fds[num_files];

	for (u32 i = 0; i < num_files; ++i)
		fds[i].fd = (i == port || i == groups) && is_away ? -1 : files[i];
	wakes.fd = wake_fd_.get();
	seen_polls_ = polls_.load(std::memory_order_relaxed);
	if (is_away)
		seen_used_ = used_by_others();

	const u64 now = port_now_ns(nullptr);
	const auto from_now = [now](u64 ns) { return ns < never - now ? now + ns : never; };
	u64 end = std::min({port_clock_due(clock_), from_now(device_.ns_until_work()),
			    from_now(is_away ? check_ns_ : never)});

	/*
	 * Store the end of the sleep, then look at the timers again, and for work without room. A thread that armed a
	 * timer before the store may have seen this thread awake (0); a thread that arms one later wakes it.
	 */
	wakes_at_.store(end);
	if (const u64 due = std::min(port_clock_due(clock_), from_now(device_.ns_until_retry()));
	    due < end) {
		wakes_at_.compare_exchange_strong(end, due);
		end = due;
	}

	const bool has_work = !is_away && !device_.fall_asleep();
	u64 wait = end == never ? never : end - std::min(port_now_ns(nullptr), end);

	/*
	 * Work is due. If the process polls, it does the work. If it does not, the thread sees that after this sleep,
	 * and does the work itself.
	 */
	if (is_away && !wait)
		wait = pace_.due;
	if (has_work)
		wait = 0;

	const timespec ts = {.tv_sec = static_cast<time_t>(wait / nsec_per_sec),
			     .tv_nsec = static_cast<long>(wait % nsec_per_sec)};

	ppoll(fds, std::size(fds), wait == never ? nullptr : &ts, nullptr);
	wakes_at_.store(0);
	if (!is_away)
		device_.wake_up();
	if (wakes.revents) {
		uint64_t count;

		(void)!read(wake_fd_.get(), &count, sizeof(count));
	}
	device_.manage(fds[neighbours].revents || fds[port_share].revents);
	return fds[neighbours].revents || fds[port].revents || fds[groups].revents;
}

void Helper::run(const std::stop_token &stop) noexcept
{
	State state = State::watching;

	want_to_run_soon();
	/* Without a transmit buffer the helper cannot work, and no other thread does its work. */
	while (!device_.can_help() && !stop.stop_requested())
		nanosleep(&wait_for_memory, nullptr);
	while (!stop.stop_requested()) {
		const bool packets = sleep(state);
		const State before = state;

		state = enter(next(before, process_polled()));
		if (state != State::serving) {
			check_ns_ = std::min(check_ns_ * 2, pace_.max);
			continue;
		}

		const u64 arrivals_before = arrivals();
		const int64_t used = before == State::away ? used_by_others() - seen_used_ : 0;

		device_.help();
		if (held_up_at_.load(std::memory_order_relaxed) != UINT64_MAX) [[unlikely]]
			held_up_at_.store(UINT64_MAX, std::memory_order_relaxed);
		/*
		 * A process may poll for completions and spin on its memory in between. Packets
		 * that came while it had not polled for some time, but had a processor, show this.
		 */
		if (before == State::watching)
			spins_ -= process_spins() && packets;
		else if (before == State::away && used >= pace_.spin &&
			 arrivals() != arrivals_before)
			note_spinning(used);
		if (before == State::away)
			check_ns_ = pace_.min;
		state = enter(next(State::serving, process_polled()));
	}
}

} // namespace sirdma::twin
