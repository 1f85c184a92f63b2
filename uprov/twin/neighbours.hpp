/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Neighbours: processes of the same user on this host, reached through shared memory. A
 * neighbour is identified by its address and the slot of its QP numbers. The first packet
 * for a neighbour makes the connection.
 */
#pragma once

#include "grants.hpp"
#include "rendezvous.hpp"

namespace sirdma::twin
{

/* It exists as long as the table of neighbours. */
struct Neighbour {
	const IpAddress addr;
	const uint32_t slot;
	Neighbour *const next;
	std::atomic<Connection *> connection{nullptr}; /* read under RCU */
	std::atomic<u64> retry_at{0};
	/* Connections in a row that this neighbour closed without accepting. Only the helper uses it. */
	u32 refusals = 0;
};

class Neighbours {
public:
	/*
	 * Allocate a slot of @addr. Returns null with errno; EADDRNOTAVAIL: all slots are in use.
	 * @supers: accept super-packets.
	 */
	static std::unique_ptr<Neighbours> create(const IpAddress &addr, bool supers = true);
	~Neighbours();
	Neighbours(const Neighbours &) = delete;
	Neighbours &operator=(const Neighbours &) = delete;

	uint32_t slot() const noexcept { return slot_; }

	/*
	 * Send packets. Returns false if the destination is not a neighbour. Otherwise @sent is the
	 * number of packets for which there was room. Any thread.
	 */
	bool transmit(snic_burst &burst, u32 &sent) noexcept;
	/*
	 * Hand a datagram over to the process with this address and @slot. Returns false if the
	 * datagram is lost. Any thread.
	 */
	bool forward(uint32_t slot, const Path &path, const uint8_t *data, size_t len, u32 index,
		     bool more) noexcept;

	/* Call Lease::finish() for all neighbours. Any thread. */
	void finish_leases() noexcept;

	/*
	 * Let neighbours access this process's memory as @table says. Call this before there are any;
	 * @table must outlive them.
	 */
	void let_access(AccessTable &table) noexcept { grants_.set_table(table); }
	/* Access::execute_mapped() in the memory of the neighbour that @request names. Any thread. */
	OneSidedWay execute_mapped(const snic_one_sided &request) noexcept;
	/* Access::execute() there. The read sections of this thread end for the time of the call. Any thread. */
	OneSidedWay execute(const snic_one_sided &request) noexcept;
	/* Wait until no neighbour uses what was closed in the table before. Any thread. */
	void finish_accesses() noexcept;
	/* Neighbours may have mapped a region that was closed: ask them to unmap it. Any thread. */
	void ask_to_unmap() noexcept;

	/* One thread at a time may call the functions below. */

	/* Connection::pull() for the packet that is being received. */
	bool pull(snic_seg_iter &it, void *to, u32 len) noexcept
	{
		return sender_->pull(it, to, len);
	}

	/*
	 * Deliver a share of the records of each neighbour to @sink. Returns how many were
	 * delivered. Of the neighbours that have sent nothing for a while, each call polls one, round
	 * robin; and all of them if the caller wants @all, or some time after it polled all before.
	 * @paused: much time may have passed since the last call.
	 */
	u32 receive(PacketSink &sink, bool all = true, bool paused = false) noexcept;
	/* Has there never been a connection? */
	bool unused() const noexcept { return !readers_used_.load(std::memory_order_relaxed); }

	/* Readable when serve() has work: neighbours connect, die, or wake this process. */
	int fd() const noexcept { return events_.get(); }
	void serve(PacketSink &sink) noexcept;
	/* From now on, senders make fd() readable. Returns false if there is a record already. */
	bool fall_asleep() noexcept;
	void wake_up() noexcept;
	/* The time until trim() has work, ns; ~0: it has none. Only the helper calls these two. */
	u64 ns_until_trim() noexcept;
	/* Give back the memory of rings through which nothing was sent for some time, and unmap what nobody uses. */
	void trim() noexcept;

	/*
	 * The number of connections that were closed because of another user or a protocol
	 * violation. Any thread.
	 */
	u64 refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

private:
	static constexpr size_t buckets = 256;
	/*
	 * Records of one neighbour delivered at once, before those of the next. The ring holds four
	 * times as many of the packets that a path MTU of 1024 gives, so a neighbour does not run
	 * out of room while it waits for its next share.
	 */
	static constexpr u32 share = 64;
	/*
	 * Of the idle neighbours a call of receive() polls one, round robin. With 63 of them a call that
	 * finds nothing takes 10.0 ns then; it takes 11.6 ns if it polls 2 of them, 16.8 with 4, 29 with 8,
	 * 208 with all, and 6.0 ns with one neighbour alone. (scripts/accept twin-mesh-64 compares the
	 * cost of ibv_poll_cq().) The first record of one is found by the 63rd call, within 2 us if the
	 * process only polls.
	 *
	 * But a call that reads the clock polls all of them if this time has passed since the last that did, us: a
	 * process that polls seldom, or yields its processor, would find the record late. For 63
	 * neighbours that takes 0.2 us, or 1 us if their records are in no cache of the processor: with 10
	 * us, empty polls of a process that yields cost 1.13 times those with one neighbour.
	 */
	static constexpr u64 idle_us = 20;
	/*
	 * To read the clock at each call would take 4 of the 30 ns of an empty ibv_poll_cq() (scripts/accept twin-mesh-64).
	 * So of the calls that find no record of a busy neighbour one in so many reads it. A process that computes between
	 * its polls finds the record of an idle neighbour so many polls late. Not tuned.
	 */
	static constexpr u32 calls_to_clock = 4;
	/* A neighbour is idle after this many calls that found no record of it. Not tuned. */
	static constexpr u32 quiet_max = 256;
	/*
	 * Connections without a hello, which bounds the files that other processes of the user can
	 * make this one keep. A process sends its hello at once, so few are without one. Not tuned.
	 */
	static constexpr size_t strangers_max = 64;
	/* Connections of a neighbour: one each way, and as many that are closing. */
	static constexpr int per_name = 4;

	Neighbours(const IpAddress &addr, bool supers) noexcept;
	Neighbour *find(const IpAddress &addr, uint32_t slot) noexcept;
	Connection *connection(Neighbour &to) noexcept;
	Connection *connect(Neighbour &to) noexcept;
	bool watch(int fd, void *what) noexcept;
	void unwatch(const Connection &c) noexcept;
	void tell_helper() noexcept;
	void ask_for_trim() noexcept;
	template <typename Do> void for_each_neighbour(Do what) noexcept;
	bool room_for_reader() noexcept;
	void add_reader(Connection *c) noexcept;
	void take_fresh() noexcept;
	void accept_some() noexcept;
	void hang_up_on_broken(PacketSink &sink) noexcept;
	bool greet(Connection &c) noexcept;
	Connection *connection_for(const snic_one_sided &request) noexcept;
	bool refuse() noexcept;
	bool alive(Connection &c) noexcept;
	void remove(Connection *c, PacketSink &sink) noexcept;
	u32 receive_from(Connection &c, PacketSink &sink) noexcept;
	u32 receive_from_idle(size_t at, PacketSink &sink) noexcept;
	bool remove_reader(Connection *c) noexcept;
	static u64 retry_at(const Connection &c) noexcept;

	const IpAddress addr_;
	const uid_t opener_ = geteuid(); /* see rendezvous.hpp */
	const bool supers_;
	uint32_t slot_ = 0;
	Fd listener_;
	Fd events_;
	Fd news_; /* eventfd: connections were made or broke, and the helper must handle them */
	Fd spare_; /* see rendezvous_accept() */
	std::atomic<u64> refused_{0};
	Grants grants_;

	/* Neighbours are never removed: the same address and slot may connect again. */
	std::mutex nodes_lock_; /* protects additions */
	std::atomic<Neighbour *> nodes_[buckets] = {};
	std::mutex connect_lock_; /* one thread connects; its new connection is not freed meanwhile */

	std::vector<Connection *> readers_; /* first those that each call of receive() polls */
	size_t busy_ = 0; /* how many these are */
	size_t next_idle_ = 0; /* index of the idle reader that is polled next */
	u32 empty_calls_ = 0; /* calls that found no record of a busy reader */
	u64 polled_all_at_ = 0; /* when a call that read the clock polled all readers, ticks() */
	const u64 idle_ticks_; /* idle_us in ticks */
	Connection *sender_ = nullptr; /* connection from which a packet is being received */
	std::mutex fresh_lock_; /* protects fresh_: connections for readers_ */
	std::vector<Connection *> fresh_;
	std::atomic<bool> fresh_waiting_{false};
	std::atomic<bool> readers_used_{false};
	std::atomic<bool> trim_asked_{false}; /* trim() will have work; cleared by the helper */
	u64 trim_at_ = 0; /* time of the next trim(); 0: none; used by the helper only */
	std::vector<std::unique_ptr<Connection>>
		strangers_; /* accepted, no hello received yet; used by the helper only */
};

} // namespace sirdma::twin
