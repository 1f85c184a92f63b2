/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Both directions to and from one process of this user: a ring of records each way (record.hpp), a
 * socket that wakes and tells of the neighbour's end, a lease each way for payload by reference
 * (lease.hpp), and one-sided access each way (one_sided.hpp). Records are sent as room allows. A
 * neighbour that takes no records any more loses packets.
 */
#pragma once

#include "lease.hpp"
#include "no_cancel.hpp"
#include "one_sided.hpp"
#include "payload_choice.hpp"
#include "rcu_guard.hpp"
#include "record.hpp"
#include "short_lock.hpp"

namespace sirdma::twin
{

class PacketSink : public DatagramSink {
public:
	/* A packet from a process of this host, BTH to ICRC; its ICRC was never computed. */
	virtual void packet(const IpAddress &src, uint8_t *data, size_t len, uint8_t traffic_class,
			    bool more) noexcept = 0;
	virtual void packet(const IpAddress &src, const SuperPacket &super, bool more) noexcept = 0;
	/* The packets of a stream. The default calls packet() for each. */
	virtual void stream(const IpAddress &src, const snic_stream &stream, uint8_t traffic_class,
			    bool more) noexcept;
	/* A record came that is neither of these. */
	virtual void malformed() noexcept = 0;
	/* All records that were taken from one process are delivered. */
	virtual void end_batch() noexcept = 0;

protected:
	~PacketSink() = default;
};

struct Neighbour;

class Connection {
public:
	Neighbour *node = nullptr; /* the process at the other end */
	u32 quiet = 0; /* consecutive polls that found no record; used by Neighbours::receive() */
	std::atomic<Connection *> next_granted{nullptr}; /* see Grants */
	bool granted = false; /* the connection is in that list, or was */

	/*
	 * The table of neighbours uses the connection, and so do threads that wait for the peer: they
	 * cannot be readers under RCU, for which others wait. The last user frees the connection.
	 */
	void get() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
	void put() noexcept
	{
		if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1)
			return;

		const NoCancel no_cancel; /* files are closed */

		delete this;
	}

	/* Before attach() a connection has only its socket. */
	explicit Connection(Fd sock) noexcept : sock_(std::move(sock)), lease_(sock_.get()) {}

	/*
	 * Write to ring @writes of the pair and read from the other. @supers: accept super-
	 * packets.
	 */
	void attach(RingPair rings, unsigned writes, bool supers) noexcept;
	bool attached() const noexcept { return static_cast<bool>(rings_); }
	/* Has the neighbour attached the rings, too? A connection that it refused has ended before. */
	bool accepted() const noexcept { return leased_.offered(); }

	/* A byte on the socket wakes this process; its end means that the neighbour died. */
	int fd() const noexcept { return sock_.get(); }
	bool waiting() const noexcept { return in_.waiting(); }
	void wake() noexcept;
	/*
	 * The neighbour wrote a malformed record: the connection receives and sends nothing any
	 * more.
	 */
	bool broken() const noexcept { return broken_.load(std::memory_order_relaxed); }

	/* Send packets. Returns for how many packets there was room. Any thread. */
	u32 push(snic_burst &burst) noexcept;
	/*
	 * Hand over a datagram that came by @path to the neighbour. Returns false if there is no
	 * room. Any thread.
	 */
	bool push(const Path &path, const uint8_t *data, size_t len, u32 index, bool more) noexcept;
	/*
	 * Give memory of the ring back if nothing was sent since the last call. Returns true if the
	 * function has to be called again: something was, or the neighbour has not read all of it.
	 */
	bool trim() noexcept;
	/* The neighbour's permission to read memory of this process. Any thread. */
	Lease &lease() noexcept { return lease_; }
	/* This process's access to the memory of the neighbour, and the neighbour's to ours. Any thread. */
	Access &access() noexcept { return access_; }
	Grant &grant() noexcept { return grant_; }
	/* The neighbour violates the protocol. Any thread. */
	void set_broken() noexcept { broken_.store(true, std::memory_order_relaxed); }

	/* One thread at a time may call the functions below. */

	/*
	 * Deliver records to @sink, as received at @addr, until they have @share packets; the last stream may have more. A
	 * super-packet counts as one. Returns how many were
	 * delivered.
	 */
	u32 receive(const IpAddress &addr, PacketSink &sink, u32 share) noexcept;
	/*
	 * Copy the next bytes of the packet by reference that is being received. Returns false if
	 * they cannot be read any more: the contents of @to are undefined then.
	 */
	bool pull(snic_seg_iter &it, void *to, u32 len) noexcept;
	/* Return all room to the writer, and wake the writer if it waits for room. */
	void release() noexcept;
	/* See RingReader. */
	void fall_asleep() noexcept
	{
		release();
		in_.fall_asleep();
	}
	void wake_up() noexcept { in_.wake_up(); }

private:
	u32 put_all(snic_burst &burst) noexcept;
	u32 take(const IpAddress &addr, const RecordHead &head, uint8_t *data,
		 PacketSink &sink) noexcept;
	bool take_packets(const RecordHead &head, uint8_t *data, PacketSink &sink) noexcept;
	u32 deliver_stream(const RecordHead &head, const uint8_t *data, PacketSink &sink) noexcept;
	void deliver(const SuperRecord &super, bool more, PacketSink &sink) noexcept;
	void take_kinds(uint32_t kinds) noexcept;
	void take_references() noexcept;

	Fd sock_;
	RingPair rings_;
	RingReader in_;
	LeaseReader leased_; /* reader of the neighbour's memory */
	PayloadChoice choice_;
	uint64_t received_under_ = 0; /* lease number of the packet that is being received */
	bool unreleased_reference_ = false; /* a packet by reference was received since release() */
	/* Of threads that post: apart from what the receiver writes. */
	alignas(64) std::atomic<u32> users_{1};
	Access access_;
	Grant grant_;
	bool supers_ = false;
	std::atomic<bool> broken_{false};

	ShortLock tx_lock_; /* protects the members below; of the lease: its references */
	RingWriter out_;
	uint64_t seen_tail_ = 0; /* position of the ring when trim() was called last */
	u64 full_since_ = 0; /* time when the ring became full; 0: it is not full */
	Lease lease_; /* destroyed before the rings, which contain its number */
};

/*
 * A connection that @find, under a guard, has found. It is not freed while this exists, and nobody waits
 * for this thread, unless it has another guard.
 */
class CountedConnection {
public:
	template <typename Find> explicit CountedConnection(Find find) noexcept
	{
		const RcuGuard guard;

		connection_ = find();
		if (connection_)
			connection_->get();
	}
	~CountedConnection()
	{
		if (connection_)
			connection_->put();
	}
	CountedConnection(const CountedConnection &) = delete;
	CountedConnection &operator=(const CountedConnection &) = delete;
	explicit operator bool() const noexcept { return connection_; }
	Connection *operator->() const noexcept { return connection_; }

private:
	Connection *connection_;
};

} // namespace sirdma::twin
