/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast groups of a device. Each has a UDP socket, which is bound to the group's address and
 * RoCEv2's port, and is a member of the group on the interface of the device's address. All
 * processes of a host may have such sockets, and the kernel gives each of them a copy of every
 * datagram. It does so with those of this host, too: queue pairs of a sender's own device get
 * their copy from there, and from nowhere else.
 */
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "udp_link.hpp"

namespace sirdma::twin
{

class Groups {
public:
	/* @buffer: see Config. */
	Groups(const IpAddress &addr, uint32_t buffer) noexcept : addr_(addr), buffer_(buffer) {}
	~Groups();
	Groups(const Groups &) = delete;
	Groups &operator=(const Groups &) = delete;

	/* Readable when datagrams of a group wait; -1 before the first join(). Any thread. */
	int fd() const noexcept { return file_.load(std::memory_order_relaxed); }

	/*
	 * A socket that is a member of @group; null with errno. Membership takes a lock of the
	 * kernel that others may hold for long. So a caller for which no thread waits makes the
	 * socket before add(), and closes it after leave().
	 */
	std::unique_ptr<UdpReceiver> open(const IpAddress &group) const noexcept;

	/* One thread at a time may call the functions below. */

	/* Returns 0 or an errno; after an error @receiver is unchanged. */
	int add(const IpAddress &group, std::unique_ptr<UdpReceiver> &receiver) noexcept;
	/* The socket of the group, or null. */
	std::unique_ptr<UdpReceiver> leave(const IpAddress &group) noexcept;
	bool any() const noexcept { return !members_.empty(); }

	/* Deliver a batch of datagrams of one group to @sink. Returns how many were delivered. */
	u32 receive(DatagramSink &sink) noexcept;

	/* Datagrams that the kernel dropped because a socket's buffer was full. */
	u64 overruns() const noexcept;

private:
	struct Member {
		IpAddress group;
		std::unique_ptr<UdpReceiver> receiver;
	};
	using Members = std::vector<Member>;

	bool start() noexcept;
	std::unique_ptr<UdpReceiver> remove(Members::iterator member) noexcept;

	const IpAddress addr_;
	const uint32_t buffer_;
	Fd ready_; /* epoll set of the sockets */
	std::atomic<int> file_{-1}; /* descriptor of ready_ */
	Members members_;
	u64 overruns_ = 0; /* drops of groups that were left */
};

} // namespace sirdma::twin
