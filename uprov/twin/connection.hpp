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

struct Neighbour;

class Connection {
public:
	Neighbour *node = nullptr; /* whom it leads to */

	/* Not attached, it has a socket and nothing else. */
	explicit Connection(Fd sock) noexcept : sock_(std::move(sock)), lease_(sock_.get()) {}

	/* Write to ring @writes of the pair, read from the other. @supers: take super-packets. */
	void attach(RingPair rings, unsigned writes, bool supers) noexcept;
	bool attached() const noexcept { return static_cast<bool>(rings_); }

	/* Its end is the neighbour's; a byte on it wakes. */
	int fd() const noexcept { return sock_.get(); }
	bool waiting() const noexcept { return in_.waiting(); }
	void wake() noexcept;
	/* The neighbour wrote what no neighbour writes: nothing is taken or sent any more. */
	bool broken() const noexcept { return broken_.load(std::memory_order_relaxed); }

	/* Any thread. How many packets there was room for. */
	u32 push(snic_burst &burst) noexcept;
	/* Any thread. A datagram that came by @path, for the neighbour; false: no room. */
	bool push(const Path &path, const uint8_t *data, size_t len, u32 index, bool more) noexcept;
	/* Any thread. Of the memory the neighbour may read. */
	Lease &lease() noexcept { return lease_; }

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
	u32 put_all(snic_burst &burst) noexcept;
	bool take(const IpAddress &addr, const RecordHead &head, uint8_t *data,
		  PacketSink &sink) noexcept;
	bool take_packets(const RecordHead &head, uint8_t *data, PacketSink &sink) noexcept;
	void take_kinds(uint32_t kinds) noexcept;
	void release() noexcept;

	Fd sock_;
	RingPair rings_;
	RingReader in_;
	LeaseReader leased_; /* the neighbour's memory */
	uint64_t received_under_ = 0; /* the number of the lease, of the packet being received */
	bool supers_ = false;
	std::atomic<bool> broken_{false};

	std::mutex tx_lock_; /* protects what follows; of the lease, its references */
	RingWriter out_;
	u64 full_since_ = 0; /* 0: there was room */
	Lease lease_; /* goes before the rings, which have its number */
};

} // namespace sirdma::twin
