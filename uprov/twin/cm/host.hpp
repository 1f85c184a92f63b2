/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The functions of the process that the connection manager needs: devices, a clock, and names of
 * services.
 */
#pragma once

#include <span>

#include <sirdma/cm.h>

#include "address.hpp"
#include "core.hpp"
#include "fd.hpp"

namespace sirdma::twin::cm
{

/* A device for the connection manager. */
class Port {
public:
	virtual const IpAddress &address() const noexcept = 0;
	/* The range of QP numbers that this process has: see rendezvous.hpp. */
	virtual u32 slot() const noexcept = 0;
	/* IP MTU, bytes. */
	virtual u32 ip_mtu() const noexcept = 0;
	/* Send a datagram from QP 1 to QP 1 of @dst. The datagram may be lost. Any thread. */
	virtual void send(const IpAddress &dst, const sirdma_mad &mad) noexcept = 0;
	/*
	 * The application is about to learn that its peer has disconnected, and may destroy the queue pair
	 * when a poll finds no completion: that poll has to find the peer's last message. Any thread.
	 */
	virtual void note_end() noexcept = 0;

protected:
	~Port() = default;
};

/* The agent calls the functions below with its lock held. */
class Host {
public:
	/* The devices of this process. May throw std::bad_alloc. */
	virtual std::span<Port *const> ports() = 0;
	/* @port is about to be destroyed: ports() does not contain it any more. */
	virtual void detach(const Port &port) noexcept = 0;
	virtual u64 now_ns() noexcept = 0;
	/* The first timer is earlier than it was. */
	virtual void timer_changed() noexcept = 0;
	/*
	 * Reserve service @service of @port for this process until release(). Returns an invalid
	 * file with errno on failure. EADDRINUSE: another process has the service.
	 */
	virtual Fd claim(Port &port, u32 service) noexcept = 0;
	/* The result of check_next_hop(): 0, EAGAIN (ask again later) or another errno. */
	virtual int next_hop(const Port &port, const IpAddress &dst) noexcept = 0;
	/*
	 * From now on, other processes of the address hand over requests for it. Returns false with
	 * errno.
	 */
	virtual bool serve(const Fd &claim) noexcept = 0;
	/* End the reservation @claim. The caller does not close the file itself. */
	virtual void release(Fd claim) noexcept = 0;
	/*
	 * The address where a client finds @service if it names @dst, 127.0.0.1 or ::1 but not an
	 * address of this process: at @dst if a process of this user serves it there; else at the
	 * lowest loopback address where one does; else at @dst if a process of this user has its
	 * RoCE port; else any().
	 */
	virtual IpAddress loopback_of(const IpAddress &dst, u32 service) noexcept = 0;

protected:
	~Host() = default;
};

} // namespace sirdma::twin::cm
