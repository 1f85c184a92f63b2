/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which process of an address has RoCEv2's port. The first one takes it, and
 * hands packets over; the others keep a connection to it, whose end tells them
 * that it died: then they race for its name, and the winner takes the port.
 */
#pragma once

#include <memory>
#include <vector>

#include "rendezvous.hpp"
#include "udp_link.hpp"

namespace sirdma::twin
{

class PortShare {
public:
	/*
	 * Null with errno: EADDRINUSE when some other program or user has the port. @alone:
	 * also when a process of this user has it.
	 */
	static std::unique_ptr<PortShare> create(const IpAddress &addr, bool alone,
						 uint32_t buffer = 0);

	/* The port's socket; null while another process has it. Lives as long as this. */
	UdpReceiver *receiver() const noexcept { return receiver_.load(std::memory_order_acquire); }

	/* Readable when serve() has something to do. */
	int fd() const noexcept { return events_.get(); }

	/* The rest is for one thread. */

	void serve() noexcept;
	/* The old owner is gone and there is no new one yet: serve() again soon. */
	bool unsettled() const noexcept { return !receiver() && !owner_; }

private:
	PortShare(const IpAddress &addr, uint32_t buffer) noexcept : addr_(addr), buffer_(buffer) {}
	bool settle() noexcept;
	bool watch(int fd) noexcept;
	void accept_members() noexcept;

	const IpAddress addr_;
	const uint32_t buffer_; /* of the port's socket; see Config */
	Fd events_;
	Fd name_; /* ours: the right to the port */
	Fd spare_; /* see rendezvous_accept() */
	uint64_t refused_ = 0;
	Fd owner_; /* who has it */
	std::vector<Fd> members_; /* they only wait for our end */
	std::unique_ptr<UdpReceiver> taken_;
	std::atomic<UdpReceiver *> receiver_{nullptr};
};

} // namespace sirdma::twin
