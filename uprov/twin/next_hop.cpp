/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "next_hop.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <ifaddrs.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <sirdma/roce.h>

#include "core.hpp"
#include "fd.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * The discard service (RFC 863) does not answer. The datagram only makes the kernel resolve the
 * neighbour.
 */
constexpr uint16_t discard_port = 9;
constexpr long poll_ns = 5'000'000;
constexpr uint16_t usable = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE |
			    NUD_DELAY;

/* A request to the kernel's tables of routes and neighbours, and its one answer. */
class Netlink {
public:
	template <typename Header> Header &begin(uint16_t type) noexcept
	{
		auto &nlh = message();

		bytes_ = {};
		nlh.nlmsg_len = NLMSG_LENGTH(sizeof(Header));
		nlh.nlmsg_type = type;
		nlh.nlmsg_flags = NLM_F_REQUEST;
		return *static_cast<Header *>(NLMSG_DATA(&nlh));
	}

	void add(uint16_t type, const void *data, size_t len) noexcept
	{
		auto &nlh = message();
		auto *attr = reinterpret_cast<rtattr *>(bytes_.room + NLMSG_ALIGN(nlh.nlmsg_len));

		attr->rta_type = type;
		attr->rta_len = static_cast<unsigned short>(RTA_LENGTH(len));
		memcpy(RTA_DATA(attr), data, len);
		nlh.nlmsg_len = NLMSG_ALIGN(nlh.nlmsg_len) +
				static_cast<uint32_t>(RTA_ALIGN(attr->rta_len));
	}

	/* Returns 0, the kernel's errno, or EOPNOTSUPP if it does not answer. */
	int ask(uint16_t answer) noexcept
	{
		const Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
		sockaddr_nl kernel{};
		auto &nlh = message();

		kernel.nl_family = AF_NETLINK;
		if (!fd || sendto(fd.get(), &nlh, nlh.nlmsg_len, 0,
				  reinterpret_cast<sockaddr *>(&kernel), sizeof(kernel)) < 0)
			return EOPNOTSUPP;

		/* The kernel has put its answer into the socket before sendto() returned. */
		const ssize_t len = recv(fd.get(), bytes_.room, sizeof(bytes_.room), MSG_DONTWAIT);

		if (len < 0 || !NLMSG_OK(&nlh, static_cast<size_t>(len)))
			return EOPNOTSUPP;
		if (nlh.nlmsg_type == NLMSG_ERROR)
			return -static_cast<const nlmsgerr *>(NLMSG_DATA(&nlh))->error;
		return nlh.nlmsg_type == answer ? 0 : EOPNOTSUPP;
	}

	template <typename Header> const Header &header() noexcept
	{
		return *static_cast<const Header *>(NLMSG_DATA(&message()));
	}

	/*
	 * An attribute after a Header. Returns null if the answer has none of at least @len bytes.
	 */
	template <typename Header> const void *find(uint16_t type, size_t len) noexcept
	{
		const size_t from = NLMSG_ALIGN(sizeof(Header));
		const auto *at = static_cast<const uint8_t *>(NLMSG_DATA(&message())) + from;
		int left = static_cast<int>(message().nlmsg_len - NLMSG_HDRLEN - from);

		for (auto *attr = reinterpret_cast<const rtattr *>(at); RTA_OK(attr, left);
		     attr = RTA_NEXT(attr, left))
			if (attr->rta_type == type && RTA_PAYLOAD(attr) >= len)
				return RTA_DATA(attr);
		return nullptr;
	}

private:
	nlmsghdr &message() noexcept { return *reinterpret_cast<nlmsghdr *>(bytes_.room); }

	struct alignas(nlmsghdr) Bytes {
		uint8_t room[4096];
	} bytes_;
};

/* The bytes of an address in the form of netlink */
struct Raw {
	uint8_t bytes[16];
	uint8_t len;

	explicit Raw(const IpAddress &addr) noexcept : len(addr.is_v4() ? 4 : 16)
	{
		memcpy(bytes, addr.ip().b + sizeof(bytes) - len, len);
	}
};

struct Hop {
	Raw addr;
	int family;
	int interface;
};

/* A router of the other family: the attribute is a family, and an address of it. */
void take_via(const void *attr, Hop &hop) noexcept
{
	__kernel_sa_family_t family;

	memcpy(&family, attr, sizeof(family));
	if (family != AF_INET6)
		return;
	hop.family = family;
	hop.addr.len = sizeof(hop.addr.bytes);
	memcpy(hop.addr.bytes, static_cast<const uint8_t *>(attr) + sizeof(family), hop.addr.len);
}

/*
 * Returns 0 if @hop is the next hop, or ENOENT if there is none, since the destination is on this
 * host.
 */
int find_hop(const IpAddress &from, const IpAddress &to, Hop &hop) noexcept
{
	const Raw src(from), dst(to);
	const int scope = static_cast<int>(from.scope());
	Netlink netlink;
	auto &ask = netlink.begin<rtmsg>(RTM_GETROUTE);

	ask.rtm_family = static_cast<uint8_t>(to.family());
	ask.rtm_dst_len = static_cast<uint8_t>(dst.len * 8);
	ask.rtm_src_len = static_cast<uint8_t>(src.len * 8);
	netlink.add(RTA_DST, dst.bytes, dst.len);
	netlink.add(RTA_SRC, src.bytes, src.len);
	if (scope)
		netlink.add(RTA_OIF, &scope, sizeof(scope));
	if (const int err = netlink.ask(RTM_NEWROUTE))
		return err;
	if (netlink.header<rtmsg>().rtm_type != RTN_UNICAST)
		return ENOENT;

	const void *interface = netlink.find<rtmsg>(RTA_OIF, sizeof(hop.interface));
	const void *router = netlink.find<rtmsg>(RTA_GATEWAY, dst.len);
	const void *via =
		netlink.find<rtmsg>(RTA_VIA, sizeof(__kernel_sa_family_t) + sizeof(hop.addr.bytes));

	if (!interface)
		return EOPNOTSUPP;
	memcpy(&hop.interface, interface, sizeof(hop.interface));
	if (router)
		memcpy(hop.addr.bytes, router, dst.len);
	else if (via)
		take_via(via, hop);
	return 0;
}

/*
 * Do neighbours at @interface have link-layer addresses? The kernel's RDMA core asks for none where
 * ARP is off. A point-to-point link, a tunnel for example, has one entry for all IPv4 addresses.
 */
bool has_neighbours(const Fd &any_socket, int interface) noexcept
{
	ifreq request{};

	request.ifr_ifindex = interface;
	return !ioctl(any_socket.get(), SIOCGIFNAME, &request) &&
	       !ioctl(any_socket.get(), SIOCGIFFLAGS, &request) &&
	       !(request.ifr_flags & (IFF_NOARP | IFF_POINTOPOINT | IFF_LOOPBACK));
}

/*
 * The state of a neighbour, NUD_*. NUD_NONE: the kernel does not know the neighbour. Returns 0 or
 * an errno.
 */
int state_of(const Hop &hop, uint16_t &state) noexcept
{
	Netlink netlink;
	auto &ask = netlink.begin<ndmsg>(RTM_GETNEIGH);

	ask.ndm_family = static_cast<uint8_t>(hop.family);
	ask.ndm_ifindex = hop.interface;
	netlink.add(NDA_DST, hop.addr.bytes, hop.addr.len);
	state = NUD_NONE;

	const int err = netlink.ask(RTM_NEWNEIGH);

	if (!err)
		state = netlink.header<ndmsg>().ndm_state;
	return err == ENOENT ? 0 : err;
}

/*
 * Is the netdev of this address without a link? It has no routes then. The addresses of IPv6 go with
 * the link, those of IPv4 stay.
 */
bool is_link_down(const IpAddress &addr) noexcept
{
	ifaddrs *list;
	bool down = false;

	if (!addr.is_v4() || getifaddrs(&list))
		return false;
	for (const ifaddrs *entry = list; entry && !down; entry = entry->ifa_next) {
		if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET)
			continue;
		const auto *in = reinterpret_cast<const sockaddr_in *>(entry->ifa_addr);

		down = !memcmp(&in->sin_addr, Raw(addr).bytes, sizeof(in->sin_addr)) &&
		       !(entry->ifa_flags & IFF_RUNNING);
	}
	freeifaddrs(list);
	return down;
}

int connect_from(const IpAddress &from, const IpAddress &to, uint16_t port, Fd &fd) noexcept
{
	sockaddr_storage sa;
	socklen_t len = from.to_socket(0, sa);

	fd = Fd(socket(from.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr *>(&sa), len))
		return errno;
	len = IpAddress(to.ip(), from.scope()).to_socket(port, sa);
	if (!::connect(fd.get(), reinterpret_cast<sockaddr *>(&sa), len))
		return 0;
	/* Linux returns EINVAL for a route from a loopback address to another host. */
	return errno == EINVAL ? ENETUNREACH : errno;
}

} // namespace

int check_route(const IpAddress &from, const IpAddress &to) noexcept
{
	Fd fd;

	return connect_from(from, to, SIRDMA_ROCE_UDP_PORT, fd);
}

int check_next_hop(const IpAddress &from, const IpAddress &to) noexcept
{
	Hop hop{.addr = Raw(to), .family = to.family(), .interface = 0};
	uint16_t state;
	Fd fd;

	if (const int err = connect_from(from, to, discard_port, fd)) {
		/* The netdev may have come up since. */
		const bool may_come = err == ENETUNREACH &&
				      (is_link_down(from) || !check_route(from, to));

		return may_come ? EAGAIN : err;
	}
	if (to.is_loopback() || find_hop(from, to, hop) || !has_neighbours(fd, hop.interface) ||
	    state_of(hop, state) || state & usable)
		return 0;
	if (!(state & NUD_INCOMPLETE))
		(void)!send(fd.get(), nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
	return EAGAIN;
}

int await_next_hop(const IpAddress &from, const IpAddress &to) noexcept
{
	const uint64_t end = port_now_ns(nullptr) + next_hop_wait_ms * 1'000'000ull;
	constexpr timespec pause = {0, poll_ns};

	for (;;) {
		const int err = check_next_hop(from, to);

		if (err != EAGAIN)
			return err;
		if (port_now_ns(nullptr) >= end) {
			const int unrouted = check_route(from, to);

			return unrouted ? unrouted : ETIMEDOUT;
		}
		nanosleep(&pause, nullptr);
	}
}

} // namespace sirdma::twin
