/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The helper: a thread that serves the device for a process that makes no calls. A
 * process that polls serves itself, and the helper stays away from it.
 *
 *   state     the thread                                     packets are received by
 *   watching  sleeps on every file of the device             the helper and pollers
 *   away      sleeps, but not on UDP sockets; wakes from     pollers
 *             time to time to check whether they still poll
 *   serving   is awake and runs the device                   the helper and pollers
 *
 *   state     when it wakes, or has served:
 *             the process polled   the process did not
 *   watching  serving              serving
 *   serving   away *               watching
 *   away      away *               serving
 *
 *   * but watching if a thread is about to sleep until an event, or if the process spins on
 *     its memory and its polls do not receive what it spins for: see enter(), spins_ and polls_wait_.
 *
 * stop() ends it in any state. A forked child has a copy of the object but no thread; it
 * neither uses nor destroys the copy (see Instance).
 *
 * wake() writes an eventfd, which stays readable until the thread has read it, so no wake() is
 * lost. To avoid the system call, callers first check whether the thread sleeps and would
 * miss something. Each check is one half of a pair, in which each side stores its own word
 * before it reads the word of the other:
 *
 *   caller                                helper
 *   armed_at_ = polls; away? wake()       state_ = away; armed recently? watching
 *   timer armed; wakes_at_ later? wake()  wakes_at_ = end of sleep; timer sooner? end sooner
 *   work without room; the same           the same with the time of the next try
 *   work deferred; away? the next call    state_ = watching; work deferred? do not sleep
 *     does it, else this one
 *
 * So at least one of the two sees the other's store. For this state_, armed_at_ and wakes_at_
 * are sequentially consistent, and so is what ns_until_retry() reads. A timer is stored by the
 * clock under its mutex; no known processor moves the unlock behind a sequentially consistent
 * load. The other words are counters and hints, with relaxed access.
 */
#pragma once

#include <algorithm>
#include <stop_token>
#include <thread>

#include "core.hpp"
#include "fd.hpp"

namespace sirdma::twin
{

class Helper {
public:
	enum class State : u32 { watching, away, serving };

	/* Indices of the files whose events wake the thread; a file may be -1. */
	enum File : u32 { neighbours, port_share, port, groups, num_files };
	using Files = std::array<int, num_files>;

	/* The device that the helper serves. Only the helper's thread calls these methods. */
	class Device {
	public:
		/*
		 * Returns false if this thread has no transmit buffer yet, because memory is short.
		 */
		virtual bool can_help() noexcept = 0;
		virtual Files files() noexcept = 0;
		/*
		 * The time until there is work that no file and no timer announces, ns; ~0: there
		 * is none.
		 */
		virtual u64 ns_until_work() noexcept = 0;
		/* The time until work that found no room is to be tried again, ns; ~0: there is none. */
		virtual u64 ns_until_retry() noexcept = 0;
		/* From now on, files announce all work. Returns false if there is some already. */
		virtual bool fall_asleep() noexcept = 0;
		/* Undo fall_asleep(). */
		virtual void wake_up() noexcept = 0;
		/* Manage connections. @readable: a file other than a UDP socket is readable. */
		virtual void manage(bool readable) noexcept = 0;
		/* Do a share of all pending work. */
		virtual void help() noexcept = 0;

	protected:
		~Device() = default;
	};

	/* Times, ns: how often an away helper checks whether the process still polls, and what it concludes. */
	struct Pace {
		/*
		 * The period if the process stops from time to time to spin on its memory. A packet
		 * may wait so long for the helper. A check costs about 15 us of a processor, the
		 * sleep included, so shorter periods would cost more than they find.
		 */
		u64 min = 50000;
		/*
		 * The period if the process always polled: it doubles with each check, up to this,
		 * where the checks cost 1.5 % of a processor.
		 */
		u64 max = 1000000;
		/*
		 * How long a timer that is due is left to a process that polls: it reads the clock at one poll in 16
		 * (clock_seldom). As min; not tuned.
		 */
		u64 due = 50000;
		/*
		 * A process that used a processor for this time without a poll spins on its memory. One
		 * that polls is found without a poll, too, if it had no processor: others had it, or the
		 * process yielded it. Watching for such a process has each packet wake the helper. On two
		 * processors with ten compilers at nice 10, a one-way message of 8 bytes over UDP took 7.5
		 * us where the two were not distinguished, and 4.6 us otherwise. Half of the shortest
		 * period; not tuned.
		 */
		int64_t spin = 25000;
	};

	explicit Helper(Device &device) noexcept : Helper(device, Pace()) {}
	Helper(Device &device, const Pace &pace) noexcept : device_(device), pace_(pace) {}
	~Helper() { stop(); }
	Helper(const Helper &) = delete;
	Helper &operator=(const Helper &) = delete;

	/*
	 * Watch for a process that had no processor, too; call this before start(). Polls of shared memory
	 * are so short that the process soon yields its processor to others, and the helper that a record
	 * wakes gets it back: on a busy machine a round trip takes less than a ms only by this.
	 */
	void watch_after_yields() noexcept { pace_.spin = INT64_MIN; }
	/* @clock has the device's timers and must outlive the thread. Returns 0 or an errno. */
	int start(port_clock *clock) noexcept;
	/* End the thread and wait for it. May be called if it was never started. */
	void stop() noexcept;

	/* Other threads call the functions below. */

	State state() const noexcept { return state_.load(); }
	bool away() const noexcept { return state() == State::away; }

	void wake() noexcept;
	/* Timers were armed: wake the thread if one is due before it would wake. */
	void timers_armed() noexcept;
	/*
	 * Work found no room, and Device::ns_until_retry() says so: try it again after @ns, ns. A thread that is away
	 * does that when the process stops polling.
	 */
	void retry_after(u64 ns) noexcept;
	/* The calling thread is about to sleep until an event. */
	void expect_event() noexcept;
	/*
	 * Wait until the thread has finished the packets it is receiving. Returns false if it has not after 100 ms: memory of
	 * a neighbour holds it up (lease.hpp), or it has no processor. Further calls then return false at once, until it has
	 * finished them.
	 */
	bool wait_served() noexcept;

	/*
	 * Called around a call that serves the device. If there are several threads, it is only a
	 * hint.
	 */
	void enter_call() noexcept { inside_.store(true, std::memory_order_relaxed); }
	void leave_call() noexcept { inside_.store(false, std::memory_order_relaxed); }
	/* The process spins on its memory between polls, as far as known. */
	bool process_spins() const noexcept { return spins_.load(std::memory_order_relaxed); }
	/* It used its processor when that was found: it did not wait for one. */
	bool spins_by_itself() const noexcept
	{
		return process_spins() && uses_processor_.load(std::memory_order_relaxed);
	}
	/*
	 * Do polls of a process that spins on its memory wait for the answer (answer_wait.hpp)? Then the thread may be
	 * away, else it watches. A change wakes it. The thread clears it when it finds that it has to receive.
	 */
	void set_polls_wait(bool wait) noexcept
	{
		if (polls_wait() == wait) [[likely]]
			return;
		polls_wait_.store(wait, std::memory_order_relaxed);
		wake();
	}
	bool polls_wait() const noexcept { return polls_wait_.load(std::memory_order_relaxed); }
	/* How often polls have received packets, or looked for them; one that yields looks twice. */
	u64 polls() const noexcept { return polls_.load(std::memory_order_relaxed); }
	/* The caller holds the device's lock of receivers (Nic::rx_lock_). */
	void count_poll() noexcept
	{
		count(polls_);
		forget_misses();
	}
	/* A poll did not look, because another thread did. */
	void count_miss() noexcept { misses_.fetch_add(1, std::memory_order_relaxed); }
	/* The poll found work, or a completion of work that another thread did. */
	void note_busy() noexcept
	{
		busy_at_.store(polls_.load(std::memory_order_relaxed), std::memory_order_relaxed);
		forget_misses();
	}
	/*
	 * Consecutive polls without work since the process last asked for an event, those that did not look
	 * included. Other threads may poll meanwhile, so a value read later may be behind; then there are none.
	 */
	u64 idle_polls() const noexcept
	{
		const u64 since = std::max(busy_at_.load(std::memory_order_relaxed),
					   armed_at_.load(std::memory_order_relaxed));
		const u64 polls = polls_.load(std::memory_order_relaxed);

		return polls - std::min(since, polls) + misses_.load(std::memory_order_relaxed);
	}

	/* A thread received packets. The caller holds that lock, too. */
	void count_arrival() noexcept
	{
		arrivals_.store(arrivals_.load(std::memory_order_relaxed) + 1,
				std::memory_order_release);
	}
	u64 arrivals() const noexcept { return arrivals_.load(std::memory_order_acquire); }

	/* The states of the table above. */
	static constexpr State next(State from, bool process_polled) noexcept
	{
		constexpr State table[][2] = {
			/* watching */ {State::serving, State::serving},
			/* away     */ {State::serving, State::away},
			/* serving  */ {State::watching, State::away},
		};

		return table[static_cast<u32>(from)][process_polled];
	}

private:
	static void count(std::atomic<u64> &n) noexcept
	{
		n.store(n.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
	}

	void forget_misses() noexcept
	{
		if (misses_.load(std::memory_order_relaxed)) [[unlikely]]
			misses_.store(0, std::memory_order_relaxed);
	}

	void wake_by(u64 at, u64 due) noexcept;
	void run(const std::stop_token &stop) noexcept;
	bool sleep(State state) noexcept;
	State enter(State next) noexcept;
	bool process_polled() const noexcept;
	bool expects_event() const noexcept;
	void note_spinning(int64_t used) noexcept;

	Device &device_;
	Pace pace_; /* not changed once the thread runs */
	port_clock *clock_ = nullptr;
	Fd wake_fd_;
	std::jthread thread_;

	/* Only the thread uses the members below. */
	u64 seen_polls_ = 0; /* value of polls_ when the thread fell asleep */
	int64_t seen_used_ = 0; /* processor time of the other threads then, ns */
	u64 check_ns_ = 0; /* period until an away thread checks polls_ */

	/* The members that follow share one cache line, which calls read and pollers write. */
	alignas(64) std::atomic<State> state_{State::watching};
	std::atomic<bool> inside_{false};
	std::atomic<u64> wakes_at_{
		0}; /* when the sleeping thread wakes, or the time of a timer that is due already: then it wakes after Pace::due; 0: it is awake */
	std::atomic<u64> polls_{0};
	std::atomic<u64> armed_at_{0}; /* value of polls_ when a thread last expected an event */
	std::atomic<u64> busy_at_{0}; /* value of polls_ when a poll last found work */
	std::atomic<u64> arrivals_{0}; /* how often packets were received */
	/* arrivals_ when a poll last gave up waiting for the thread; UINT64_MAX: none has */
	std::atomic<u64> held_up_at_{UINT64_MAX};
	std::atomic<u64> misses_{0}; /* polls that did not look, since the last one that did */
	/* How often packets must wake the thread before it may be away again. Only the thread writes. */
	std::atomic<u32> spins_{0};
	std::atomic<bool> uses_processor_{false}; /* only the thread writes */
	std::atomic<bool> polls_wait_{false};
};

} // namespace sirdma::twin
