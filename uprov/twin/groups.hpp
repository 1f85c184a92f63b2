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
	 * A socket that is a member of @group; null with errno. Membership takes a lock of the kernel
	 * that others may hold for long. So the socket is made before add(), and closed after leave(),
	 * by a caller whom nobody waits for.
	 */
	std::unique_ptr<UdpReceiver> open(const IpAddress &group) const noexcept;

	/* The methods that follow: one thread at a time. */

	/* 0 or an errno; then @receiver is left as it was. */
	int add(const IpAddress &group, std::unique_ptr<UdpReceiver> &receiver) noexcept;
	/* Its socket, or null. */
	std::unique_ptr<UdpReceiver> leave(const IpAddress &group) noexcept;
	bool any() const noexcept { return !members_.empty(); }

	/* Deliver a batch of datagrams of one group to @sink; returns how many. */
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
	Fd ready_; /* the sockets, in an epoll set */
	std::atomic<int> file_{-1}; /* of ready_ */
	Members members_;
	u64 overruns_ = 0; /* of groups that were left */
};

} // namespace sirdma::twin
