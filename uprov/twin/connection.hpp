/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Both directions to and from one process of this user. Two things travel, as records
 * of a ring each way: packets of the model, complete but for the ICRC, and datagrams
 * that came to a shared port and are another's.
 *
 * Packets of one message travel together (super-packets). Where the machine lets
 * one process of a user read another's memory, long ones do so by reference: the
 * receiver copies from the sender's buffer to its own, once. The sender may want some
 * of its memory back, because a region goes or a request failed: then it waits until
 * all that it lent before was read, which a reader that runs does soon. For one that
 * was stopped or killed the lease of all memory ends: each reference names the lease it
 * was given under. The ring says which lease holds and whether something is being read:
 * who revokes waits for that. A reader that does not end is not waited for long; it
 * finds out by a word of the sender's, read together with the bytes, which has another
 * value once the lease is over.
 */
#pragma once

#include <mutex>
#include <span>

#include "shm_ring.hpp"
#include "udp_link.hpp"

namespace sirdma::twin
{

struct SuperPacket {
	std::span<const snic_seg> segs; /* the first has the headers */
	u32 len; /* BTH to ICRC */
	u32 payload_len;
	u32 npkts;
	bool by_reference;
};

class PacketSink : public DatagramSink {
public:
	/* A packet from a process of this host, BTH to ICRC; its ICRC was never computed. */
	virtual void packet(const IpAddress &src, uint8_t *data, size_t len,
			    bool more) noexcept = 0;
	virtual void packet(const IpAddress &src, const SuperPacket &super, bool more) noexcept = 0;
	/* Something came that is neither. */
	virtual void malformed() noexcept = 0;
	/* After those of one process. */
	virtual void end_turn() noexcept = 0;

protected:
	~PacketSink() = default;
};

/* Of a process: its memory, as far as neighbours may read it. Any thread. */
class Lease {
public:
	Lease();

	/* What something is about to be sent under. */
	uint64_t lend() noexcept
	{
		uint64_t lease;

		/* Who renews it sees that this one was used, or is seen. */
		do {
			lease = word_.load();
			if (!lent_.load())
				lent_.store(true);
		} while (word_.load() != lease);
		return lease;
	}

	/* Another lease begins, unless nothing was sent under this one: then false. */
	bool renew() noexcept
	{
		if (!lent_.load(std::memory_order_relaxed) || !lent_.exchange(false))
			return false;
		word_.fetch_add(1);
		return true;
	}

	bool lent() const noexcept { return lent_.load(); }
	uint64_t current() const noexcept { return word_.load(); }
	const void *word() const noexcept { return &word_; }

private:
	std::atomic<uint64_t> word_; /* not 0; neighbours read it */
	std::atomic<bool> lent_{false}; /* something was sent under it */
};

struct Neighbour;

class Connection {
public:
	Neighbour *node = nullptr; /* whom it leads to */

	Connection(Fd sock, RingPair rings, unsigned writes) noexcept : sock_(std::move(sock))
	{
		attach(std::move(rings), writes);
	}

	/* Write to ring @writes of the pair, read from the other. */
	void attach(RingPair rings, unsigned writes) noexcept;
	bool attached() const noexcept { return static_cast<bool>(rings_); }
	/* Say what is taken from the neighbour, and what is lent to it. */
	void set_up(const Lease &own, bool supers) noexcept;

	/* Its end is the neighbour's; a byte on it wakes. */
	int fd() const noexcept { return sock_.get(); }
	bool waiting() const noexcept { return in_.waiting(); }
	void wake() noexcept;
	/* The neighbour wrote what no neighbour writes: nothing is taken or sent any more. */
	bool broken() const noexcept { return broken_.load(std::memory_order_relaxed); }

	/* Any thread. How many packets there was room for. */
	u32 push(snic_burst &burst, Lease &own) noexcept;
	/* Any thread. A datagram that came by @path, for the neighbour; false: no room. */
	bool push(const Path &path, const uint8_t *data, size_t len, u32 index, bool more) noexcept;
	/* Any thread. What was pushed by reference until now was read; false: not before @until. */
	bool delivered(u64 until) noexcept;
	/* Any thread. What was pushed by reference until now is not read any more; @own was renewed. */
	void revoke(const Lease &own) noexcept;

	/* What follows is for one thread at a time. */

	/* Give at most @share of the records that wait to @sink, at our @addr; how many. */
	u32 receive(const IpAddress &addr, PacketSink &sink, u32 share) noexcept;
	/*
	 * The next bytes of the packet by reference that is being received. False: they
	 * are gone, and what @to had may be as well.
	 */
	bool pull(snic_seg_iter &it, void *to, u32 len) noexcept;
	/* False when there is a record after all. */
	bool fall_asleep() noexcept { return in_.fall_asleep(); }
	void wake_up() noexcept { in_.wake_up(); }

private:
	uint8_t *reserve(size_t len) noexcept;
	bool put(const snic_burst &burst, u32 at, snic_seg_iter &payload) noexcept;
	bool put_super(const snic_burst &burst, u32 at, u32 n, uint64_t lease,
		       snic_seg_iter &payload) noexcept;
	u32 put_all(snic_burst &burst, Lease &own) noexcept;
	uint64_t lend(Lease &own) noexcept;
	bool read_is_over() noexcept;
	bool take(const IpAddress &addr, const RecordHead &head, uint8_t *data,
		  PacketSink &sink) noexcept;
	bool take_super(const RecordHead &head, const uint8_t *data, PacketSink &sink) noexcept;
	void probe() noexcept;
	void release() noexcept;

	Fd sock_;
	RingPair rings_;
	RingReader in_;
	pid_t pid_ = 0; /* the neighbour's; 0: not one we see */
	bool probed_ = false;
	std::atomic<bool> broken_{false};
	uint64_t lease_ = 0; /* of the packet being received */

	std::mutex tx_lock_; /* protects what follows */
	RingWriter out_;
	u64 full_since_ = 0; /* 0: there was room */
	uint64_t lent_until_ = 0; /* of the ring: behind the last record that lends; 0: none */
	bool lends_ = true; /* false: the neighbour did not end what it read */
};

} // namespace sirdma::twin
