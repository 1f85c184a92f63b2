/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The helper: a thread that serves the device for a process that makes no calls. A
 * process that polls serves itself, and the helper stays away from it.
 *
 *   state     the thread                                     packets are taken in by
 *   watching  sleeps on every file of the device             the helper and pollers
 *   away      sleeps, but not on the port of datagrams; it   pollers
 *             wakes now and then to see whether they poll
 *   serving   is awake and runs the device                   the helper and pollers
 *
 *   state     when it wakes, or has served:
 *             the process polled   the process did not
 *   watching  serving              serving
 *   serving   away *               watching
 *   away      away *               serving
 *
 *   * and at once watching, while a thread is about to sleep until an event, or the
 *     process spins on its memory between polls: see enter() and spins_.
 *
 * stop() ends it in any state. A forked child has a copy of the object and no thread;
 * it neither uses nor destroys the copy (see Instance).
 *
 * There is one way to wake the thread, an eventfd, which stays readable until the
 * thread has read it: no wake() is lost. Calls are spared the system call by asking
 * first whether the thread sleeps so that it would miss something. Each question is
 * half of a pair; a side stores its own word before it reads the other's:
 *
 *   caller                                helper
 *   armed_at_ = polls; away? wake()       state_ = away; armed of late? watching
 *   timer armed; wakes_at_ later? wake()  wakes_at_ = never; timer armed? sleep shorter
 *   work put off; away? the next poll     state_ = watching; work put off? do not sleep
 *     does it, else this call
 *
 * So at least one of the two sees the other. For this state_, armed_at_ and wakes_at_ are
 * sequentially consistent. Of a timer the store is the clock's, under its mutex, whose
 * unlocking no processor we know moves behind a sequentially consistent load. The other
 * words are counters and hints, and relaxed.
 */
#pragma once

#include <stop_token>
#include <thread>

#include "core.hpp"
#include "fd.hpp"

namespace sirdma::twin
{

class Helper {
public:
	enum class State : u32 { watching, away, serving };

	/* Files that become readable; -1: none. */
	enum File : u32 { neighbours, port_share, port, num_files };
	using Files = std::array<int, num_files>;

	/* What is served. Called by the helper's thread alone. */
	class Device {
	public:
		/* False: there is no memory for this thread's work yet. */
		virtual bool can_help() noexcept = 0;
		virtual Files files() noexcept = 0;
		/* ns until there is work of which neither a file nor a timer tells; ~0: none. */
		virtual u64 ns_until_work() noexcept = 0;
		/* From now on a file tells of all work; false: there is some already. */
		virtual bool fall_asleep() noexcept = 0;
		/* The end of that. */
		virtual void wake_up() noexcept = 0;
		/* @readable: a file other than the port is. */
		virtual void manage(bool readable) noexcept = 0;
		/* One round of everything that waits. */
		virtual void help() noexcept = 0;

	protected:
		~Device() = default;
	};

	/* How often an away helper looks whether the process still polls, ns. */
	struct Pace {
		/* Where it stops now and then to watch its memory instead. */
		u64 min = 50000;
		/* Where it always did: the time doubles from one look to the next. */
		u64 max = 1000000;
	};

	explicit Helper(Device &device) noexcept : Helper(device, Pace()) {}
	Helper(Device &device, const Pace &pace) noexcept : device_(device), pace_(pace) {}
	~Helper() { stop(); }
	Helper(const Helper &) = delete;
	Helper &operator=(const Helper &) = delete;

	/* @clock has the device's timers and outlives the thread. 0 or an errno. */
	int start(port_clock *clock) noexcept;
	/* Its thread has ended when this returns. Also when it was never started. */
	void stop() noexcept;

	/* The rest is for any other thread. */

	State state() const noexcept { return state_.load(); }
	bool away() const noexcept { return state() == State::away; }

	void wake() noexcept;
	/* Timers were armed: one may be due before the sleeping thread would look. */
	void timers_armed() noexcept;
	/* The calling thread is about to sleep until an event. */
	void expect_event() noexcept;
	/* What the thread took in just now, it is done with. */
	void wait_served() const noexcept;

	/* Around a call that serves the device. With many threads inside, a hint. */
	void enter_call() noexcept { inside_.store(true, std::memory_order_relaxed); }
	void leave_call() noexcept { inside_.store(false, std::memory_order_relaxed); }

	void count_poll() noexcept { polls_.fetch_add(1, std::memory_order_relaxed); }
	/* The poll was of use. */
	void note_busy() noexcept
	{
		busy_at_.store(polls_.load(std::memory_order_relaxed), std::memory_order_relaxed);
	}
	/* Polls in a row that were of none. */
	u64 idle_polls() const noexcept
	{
		return polls_.load(std::memory_order_relaxed) -
		       busy_at_.load(std::memory_order_relaxed);
	}

	/* Any thread took in packets. */
	void count_arrival() noexcept { arrivals_.fetch_add(1, std::memory_order_relaxed); }
	u64 arrivals() const noexcept { return arrivals_.load(std::memory_order_relaxed); }

	/* The table above. */
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
	void run(const std::stop_token &stop) noexcept;
	bool sleep(State state) noexcept;
	State enter(State next) noexcept;
	bool process_polled() const noexcept;
	bool expects_event() const noexcept;

	Device &device_;
	const Pace pace_;
	port_clock *clock_ = nullptr;
	Fd wake_fd_;
	std::jthread thread_;

	/* The thread's own. */
	u64 seen_polls_ = 0; /* polls_ when it fell asleep */
	u64 check_ns_ = 0; /* until an away thread looks at polls_ */
	u32 spins_ = 0; /* times it is woken by packets before it may be away again */

	/* What follows is one cache line, which calls read and pollers write. */
	alignas(64) std::atomic<State> state_{State::watching};
	std::atomic<bool> inside_{false};
	std::atomic<u64> wakes_at_{
		0}; /* when the sleeping thread wakes by itself; 0: it is awake */
	std::atomic<u64> polls_{0};
	std::atomic<u64> armed_at_{0}; /* polls_ when an event was last expected */
	std::atomic<u64> busy_at_{0}; /* polls_ when one was last of use */
	std::atomic<u64> arrivals_{0}; /* rounds in which packets came */
};

} // namespace sirdma::twin
