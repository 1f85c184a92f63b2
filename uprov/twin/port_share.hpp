/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The process of an address that receives from RoCEv2's UDP port.
 *
 * The first process binds the port, owns it, and hands packets over to the others, the
 * members. Each member keeps a connection to the owner. Over it the owner gives the member
 * the port's socket, the listening socket of the owner's name, and a file of shared words.
 * So the socket, and the packets in it, outlive the owner:
 *
 *  - An owner that dies hangs up. The first member that raises the owner's number in the
 *    shared words is the next owner; the others connect to it.
 *  - An owner that is stopped (a signal, a debugger, a core dump) takes no packets. A few
 *    members, by rank, are woken by the first packet after a pause, and check the socket
 *    by timer while packets come. When packets wait and the owner's progress did not change
 *    for some checks, the member takes over in the same way. A terminal stops a whole process
 *    group, so members of other groups than the owner's are preferred. On a machine so busy
 *    that its checks come late a member waits longer: the owner waits for a processor, too.
 *  - A stopped owner that goes on sees another number, and becomes a member.
 *
 * A process that connects while the only owner is stopped has no socket to take over.
 */
#pragma once

#include <memory>
#include <vector>

#include "port_words.hpp"
#include "rendezvous.hpp"
#include "udp_link.hpp"

namespace sirdma::twin
{

inline constexpr u64 never_ns = ~0ull;

class PortShare {
public:
	/*
	 * Null with errno. EADDRINUSE: another program or user has the port; with @alone, also another
	 * process of this user. EAGAIN, not with @alone: the owner's queue of connections has been full
	 * for 20 s. This function may wait as long.
	 */
	static std::unique_ptr<PortShare> create(const IpAddress &addr, bool alone,
						 uint32_t buffer = 0);

	/*
	 * The socket of the port, or null while another process owns the port. It lives as long as
	 * this object.
	 */
	UdpReceiver *receiver() const noexcept { return receiver_.load(std::memory_order_acquire); }

	/* Readable when serve() has something to do. */
	int fd() const noexcept { return events_.get(); }

	/*
	 * Datagrams for which the port had no room. The first owner that sees a datagram counts it.
	 */
	uint64_t overruns() noexcept;

	/* One thread at a time may call the functions below. */

	void serve() noexcept;
	/*
	 * Call UdpReceiver::ask_for_header() for the port's socket, now and after each change of
	 * its owner.
	 */
	void ask_for_headers() noexcept;
	/* Time until serve() has work; never_ns: only when fd() is readable. */
	u64 wait() const noexcept;

	/* The owner received datagrams. This is one store to memory that members seldom read. */
	void progressed() noexcept
	{
		file_.words().progress.store(++progress_, std::memory_order_relaxed);
	}
	/* Was this owner stopped, and has another process succeeded it? */
	bool succeeded() const noexcept
	{
		return receiver() && file_.words().owner.load(std::memory_order_relaxed) != number_;
	}

private:
	struct Member {
		Fd fd;
		pid_t group;
		uint32_t rank;
		bool can_watch = true; /* false: it has no descriptors for the files of a grant */
	};

	PortShare(const IpAddress &addr, uint32_t buffer) noexcept : addr_(addr), buffer_(buffer) {}
	/* The old owner died and no new one is known: call serve() again soon. */
	bool unsettled() const noexcept { return !receiver() && !owner_; }
	bool settle() noexcept;
	bool open() noexcept;
	bool join() noexcept;
	bool take_over() noexcept;
	void step_down() noexcept;
	void follow_owner() noexcept;
	void hear_owner() noexcept;
	bool keep(PortFiles files) noexcept;
	bool watch(int fd) noexcept;
	void hang_up(Fd &connection) noexcept;
	void watch_port() noexcept;
	void unwatch_port() noexcept;
	void begin_to_check(u64 now) noexcept;
	void check(u64 now) noexcept;
	void accept_members() noexcept;
	void pass_rank_on() noexcept;
	void hear_member(int fd) noexcept;
	uint32_t free_rank() const noexcept;
	bool unwatched_by(pid_t group) const noexcept;
	uint32_t rank_for(pid_t group) noexcept;
	void grant(const Member &member) noexcept;
	u64 check_ns() const noexcept;

	const IpAddress addr_;
	const uid_t opener_ = geteuid(); /* see rendezvous.hpp */
	const uint32_t buffer_; /* buffer of the port's socket; see Config */
	Fd events_;
	Fd spare_; /* see rendezvous_accept() */
	uint64_t refused_ = 0;

	/* Created with the port or granted by its owner, and then kept: all or none. */
	Fd name_;
	PortFile file_;
	std::unique_ptr<UdpReceiver> taken_;

	bool headers_ = false; /* set if headers were asked for; applies to later sockets as well */

	uint64_t number_ = 0; /* number of this process as owner, or of the owner it joined */

	/* While there is no owner: the time of the next settle(), and the time of the first one. */
	u64 settle_at_ = 0;
	u64 settle_since_ = 0;

	/* The owner uses the members below. */
	std::atomic<UdpReceiver *> receiver_{nullptr};
	uint64_t progress_ = 0;
	std::atomic<uint64_t> overruns_{0}; /* drops that this process has counted */
	std::vector<Member> members_;

	/* Members use the members below. */
	Fd owner_; /* connection to the owner */
	uint32_t rank_ = 0;
	bool watching_ = false; /* the port's socket is in events_ */
	u64 check_at_ = never_ns;
	uint64_t seen_progress_ = 0;
	unsigned stuck_ = 0; /* consecutive checks in time that found packets but no progress */
	u64 stuck_since_ = 0; /* time of the last progress, or when the checks began */
};

} // namespace sirdma::twin
