/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "udp_socket.hpp"

#include <netinet/udp.h>

#include "config.hpp"
#include "core.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * Buffers of a socket, as far as the system permits: 16 windows of QPs (udp_link.cpp). The size was
 * not tuned.
 */
constexpr int buffer_bytes = 8 << 20;

/*
 * Set options of a socket that will be bound to group @addr: other sockets may have the address and
 * the port, and this socket hears @interface alone, from its bind() on. IPv4 compares the interface
 * of the membership. IPv6 does not.
 */
bool prepare_member(int fd, const IpAddress &addr, uint32_t interface) noexcept
{
	const int index = static_cast<int>(interface);

	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (addr.is_v4()) {
		set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
		return true;
	}
	set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	return !setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index));
}

} // namespace

void set_option(int fd, int level, int name, int value) noexcept
{
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

void size_buffers(int fd, uint32_t bytes) noexcept
{
	if (bytes) {
		set_option(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(bytes));
		set_option(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(bytes));
		return;
	}
	set_option(fd, SOL_SOCKET, SO_RCVBUF, buffer_bytes);
	set_option(fd, SOL_SOCKET, SO_SNDBUF, buffer_bytes);
	set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, buffer_bytes);
	set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, buffer_bytes);
}

Fd open_udp_socket(const IpAddress &addr, uint16_t port, uint32_t interface) noexcept
{
	Fd fd(socket(addr.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	sockaddr_storage sa;
	const socklen_t len = addr.to_socket(port, sa);

	if (!fd)
		return fd;
	if (interface && !prepare_member(fd.get(), addr, interface))
		return Fd();
	if (addr.is_v4()) {
		/* Never fragment the datagram, which therefore has identification 0. */
		set_option(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	} else {
		set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
		set_option(fd.get(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
		/* RoCEv2 has the ICRC: some senders do not send a UDP checksum. */
		set_option(fd.get(), SOL_UDP, UDP_NO_CHECK6_RX, 1);
	}
	if (bind(fd.get(), reinterpret_cast<const sockaddr *>(&sa), len))
		fd.reset();
	return fd;
}

void set_group_egress(int fd, const IpAddress &addr) noexcept
{
	const int interface = static_cast<int>(interface_index(addr));
	const ip_mreqn egress = {.imr_multiaddr = {}, .imr_address = {}, .imr_ifindex = interface};

	if (addr.is_v4()) {
		(void)setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &egress, sizeof(egress));
		set_option(fd, IPPROTO_IP, IP_MULTICAST_TTL, SIRDMA_DEFAULT_HOP_LIMIT);
	} else {
		set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, interface);
		set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, SIRDMA_DEFAULT_HOP_LIMIT);
	}
}

bool join_group(int fd, const IpAddress &group, uint32_t interface) noexcept
{
	if (group.is_v4()) {
		const ip_mreqn membership = {.imr_multiaddr = group.v4(),
					     .imr_address = {},
					     .imr_ifindex = static_cast<int>(interface)};

		return !setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership,
				   sizeof(membership));
	}

	ipv6_mreq membership{};

	memcpy(&membership.ipv6mr_multiaddr, group.ip().b, sizeof(membership.ipv6mr_multiaddr));
	membership.ipv6mr_interface = interface;
	return !setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &membership, sizeof(membership));
}

} // namespace sirdma::twin
