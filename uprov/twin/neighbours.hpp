/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Processes of this user on this host, reached through shared memory. A process
 * is named by its address and the slot of its queue pair numbers; the first
 * packet for it connects.
 */
#pragma once

#include "connection.hpp"
#include "rendezvous.hpp"

namespace sirdma::twin
{

/* Lives as long as its table. */
struct Neighbour {
	const IpAddress addr;
	const uint32_t slot;
	Neighbour *const next;
	std::atomic<Connection *> connection{nullptr}; /* read under RCU */
	std::atomic<u64> retry_at{0};
};

class Neighbours {
public:
	/*
	 * Takes a slot of @addr; null with errno, EADDRNOTAVAIL when all are taken.
	 * @supers: takes super-packets as well.
	 */
	static std::unique_ptr<Neighbours> create(const IpAddress &addr, bool supers = true);
	~Neighbours();
	Neighbours(const Neighbours &) = delete;
	Neighbours &operator=(const Neighbours &) = delete;

	uint32_t slot() const noexcept { return slot_; }

	/*
	 * Any thread. False when the destination is no neighbour; else @sent says how many
	 * packets there was room for.
	 */
	bool transmit(snic_burst &burst, u32 &sent) noexcept;
	/* Any thread. Hand over a datagram for the process of our address in @slot; false: lost. */
	bool forward(uint32_t slot, const Path &path, const uint8_t *data, size_t len, u32 index,
		     bool more) noexcept;

	/* Any thread. On return no neighbour reads what was sent by reference until now. */
	void finish_leases() noexcept;

	/* What follows is for one thread at a time. */

	/* The next bytes of the packet by reference that is being received; false: they are gone. */
	bool pull(snic_seg_iter &it, void *to, u32 len) noexcept
	{
		return sender_->pull(it, to, len);
	}

	/* Give a share of what waits to @sink; how many records. */
	u32 receive(PacketSink &sink) noexcept;
	/* Nothing was ever received or sent here. */
	bool unused() const noexcept { return !readers_used_.load(std::memory_order_relaxed); }

	/* Readable when serve() has something to do: neighbours come, go, or wake us. */
	int fd() const noexcept { return events_.get(); }
	void serve(PacketSink &sink) noexcept;
	/* From now on senders make fd() readable; false when something waits already. */
	bool fall_asleep() noexcept;
	void wake_up() noexcept;

	/* Any thread. Processes hung up on: of another user, or such that broke the rules. */
	u64 refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

private:
	class Guard;

	static constexpr size_t buckets = 256;
	static constexpr u32 share = 64; /* records of one neighbour taken in one go */
	static constexpr size_t strangers_max = 64;
	static constexpr int per_name = 4; /* connections: one each way, and some that end */

	Neighbours(const IpAddress &addr, bool supers) noexcept;
	Neighbour *find(const IpAddress &addr, uint32_t slot) noexcept;
	Connection *connection(Neighbour &to) noexcept;
	Connection *connect(Neighbour &to) noexcept;
	bool watch(int fd, void *what) noexcept;
	void tell_helper() noexcept;
	template <typename Do> void for_each_connection(Do what) noexcept;
	bool room_for_reader() noexcept;
	void add_reader(Connection *c) noexcept;
	void take_fresh() noexcept;
	void accept_some() noexcept;
	void hang_up_on_broken(PacketSink &sink) noexcept;
	bool greet(Connection &c) noexcept;
	bool refuse() noexcept;
	bool alive(Connection &c) noexcept;
	void remove(Connection *c, PacketSink &sink) noexcept;
	u32 receive_from(Connection &c, PacketSink &sink) noexcept;

	const IpAddress addr_;
	const bool supers_;
	uint32_t slot_ = 0;
	Fd listener_;
	Fd events_;
	Fd news_; /* an eventfd: connections were made, or broke, and the sleeping helper must know */
	Fd spare_; /* see rendezvous_accept() */
	std::atomic<u64> refused_{0};

	/* Never shrinks: who was met once may come again. */
	std::mutex nodes_lock_; /* protects additions */
	std::atomic<Neighbour *> nodes_[buckets] = {};
	std::mutex connect_lock_; /* one thread connects; until then its connection stays */

	std::vector<Connection *> readers_;
	Connection *sender_ = nullptr; /* of the packet being received */
	std::mutex fresh_lock_; /* protects fresh_: connections for readers_ */
	std::vector<Connection *> fresh_;
	std::atomic<bool> fresh_waiting_{false};
	std::atomic<bool> readers_used_{false};
	std::vector<std::unique_ptr<Connection>>
		strangers_; /* accepted, no hello yet; the helper's */
};

} // namespace sirdma::twin
