/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Both directions to and from one process of this user: a ring of records each way
 * (record.hpp), a socket that wakes and tells of the neighbour's end, and a lease each way for
 * payload by reference (lease.hpp). Records are sent as room allows; a neighbour that takes
 * nothing any more loses packets.
 */
#pragma once

#include <mutex>

#include "lease.hpp"
#include "record.hpp"

namespace sirdma::twin
{

class PacketSink : public DatagramSink {
public:
	/* A packet from a process of this host, BTH to ICRC; its ICRC was never computed. */
	virtual void packet(const IpAddress &src, uint8_t *data, size_t len, uint8_t traffic_class,
			    bool more) noexcept = 0;
	virtual void packet(const IpAddress &src, const SuperPacket &super, bool more) noexcept = 0;
	/* A record that is neither came. */
	virtual void malformed() noexcept = 0;
	/* All records taken from one process were delivered. */
	virtual void end_batch() noexcept = 0;

protected:
	~PacketSink() = default;
};

struct Neighbour;

class Connection {
public:
	Neighbour *node = nullptr; /* the process at the other end */

	/* Before attach() a connection has only its socket. */
	explicit Connection(Fd sock) noexcept : sock_(std::move(sock)), lease_(sock_.get()) {}

	/*
	 * Write to ring @writes of the pair and read from the other. @supers: accept super-
	 * packets.
	 */
	void attach(RingPair rings, unsigned writes, bool supers) noexcept;
	bool attached() const noexcept { return static_cast<bool>(rings_); }

	/* A byte on the socket wakes this process; its end means that the neighbour died. */
	int fd() const noexcept { return sock_.get(); }
	bool waiting() const noexcept { return in_.waiting(); }
	void wake() noexcept;
	/* The neighbour wrote a malformed record: nothing is received or sent any more. */
	bool broken() const noexcept { return broken_.load(std::memory_order_relaxed); }

	/* Any thread. Returns how many packets there was room for. */
	u32 push(snic_burst &burst) noexcept;
	/* Any thread. Hand over a datagram received by @path to the neighbour; false: no room. */
	bool push(const Path &path, const uint8_t *data, size_t len, u32 index, bool more) noexcept;
	/* Any thread. The neighbour's permission to read memory of this process. */
	Lease &lease() noexcept { return lease_; }

	/* The methods that follow: one thread at a time. */

	/* Deliver at most @share records to @sink, as received at @addr; returns how many. */
	u32 receive(const IpAddress &addr, PacketSink &sink, u32 share) noexcept;
	/*
	 * Copy the next bytes of the packet by reference that is being received. False: they
	 * cannot be read any more, and the contents of @to are undefined.
	 */
	bool pull(snic_seg_iter &it, void *to, u32 len) noexcept;
	/* Announce that this reader will sleep. False: there is a record after all. */
	bool fall_asleep() noexcept { return in_.fall_asleep(); }
	void wake_up() noexcept { in_.wake_up(); }

private:
	u32 put_all(snic_burst &burst) noexcept;
	bool take(const IpAddress &addr, const RecordHead &head, uint8_t *data,
		  PacketSink &sink) noexcept;
	bool take_packets(const RecordHead &head, uint8_t *data, PacketSink &sink) noexcept;
	void take_kinds(uint32_t kinds) noexcept;
	void release() noexcept;

	Fd sock_;
	RingPair rings_;
	RingReader in_;
	LeaseReader leased_; /* reads the neighbour's memory */
	uint64_t received_under_ = 0; /* lease number of the packet being received */
	bool supers_ = false;
	std::atomic<bool> broken_{false};

	std::mutex tx_lock_; /* protects what follows; of the lease, its references */
	RingWriter out_;
	u64 full_since_ = 0; /* when the ring became full; 0: it is not */
	Lease lease_; /* destroyed before the rings, which hold its number */
};

} // namespace sirdma::twin
