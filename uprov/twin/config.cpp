/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "config.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <sstream>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sirdma::twin
{

namespace
{

struct FreeIfAddrs {
	void operator()(ifaddrs *list) const noexcept { freeifaddrs(list); }
};

using IfAddrs = std::unique_ptr<ifaddrs, FreeIfAddrs>;

IfAddrs interface_addresses() noexcept
{
	ifaddrs *list = nullptr;

	if (getifaddrs(&list))
		return nullptr;
	return IfAddrs(list);
}

/*
 * Does the interface of @entry have the address? A loopback interface has all addresses of its
 * network.
 */
bool is_of(const ifaddrs &entry, const IpAddress &addr) noexcept
{
	const IpAddress has = IpAddress::of(entry.ifa_addr);

	if (!has.is_v4() || !addr.is_v4() || !(entry.ifa_flags & IFF_LOOPBACK) ||
	    !entry.ifa_netmask)
		return has == addr;

	const in_addr_t mask = IpAddress::of(entry.ifa_netmask).v4().s_addr;

	return !((has.v4().s_addr ^ addr.v4().s_addr) & mask);
}

uint32_t mtu_of(const char *name) noexcept
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ifreq request{};
	uint32_t mtu = 0;

	if (fd < 0)
		return 0;
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (!ioctl(fd, SIOCGIFMTU, &request))
		mtu = static_cast<uint32_t>(request.ifr_mtu);
	close(fd);
	return std::min(mtu, mtu_max);
}

template <typename T> void read_number(const char *name, T &value)
{
	const char *text = getenv(name);
	T parsed{};

	if (!text)
		return;
	const char *end = text + strlen(text);
	const auto [stop, error] = std::from_chars(text, end, parsed);
	if (error != std::errc{} || stop != end)
		fprintf(stderr, "sirdma: %s=%s is not a number, ignored\n", name, text);
	else
		value = parsed;
}

void read_percentage(const char *name, double &part)
{
	double percent = part * 100;

	read_number(name, percent);
	part = percent / 100;
}

/* Item @index of a comma-separated list. It is empty if there is none. */
std::string list_item(const char *list, unsigned index)
{
	std::istringstream items(list ? list : "");
	std::string item;

	for (unsigned i = 0; std::getline(items, item, ','); ++i)
		if (i == index)
			return item;
	return {};
}

} // namespace

bool parse_link(const char *text, LinkKind &kind) noexcept
{
	static constexpr std::pair<const char *, LinkKind> names[] = {
		{"auto", LinkKind::automatic},
		{"udp", LinkKind::udp},
		{"shm", LinkKind::shm},
	};

	for (const auto &[name, value] : names) {
		if (!strcmp(text, name)) {
			kind = value;
			return true;
		}
	}
	return false;
}

unsigned device_count() noexcept
{
	unsigned n = 1;

	read_number(env_devices, n);
	return std::clamp(n, 1u, devices_max);
}

Config Config::from_environment(unsigned device)
{
	Config c;
	const std::string addr = list_item(getenv(env_addr), device);

	if (!addr.empty() && !IpAddress::parse(addr.c_str(), c.addr))
		fprintf(stderr, "sirdma: %s=%s is not an IP address, ignored\n", env_addr,
			addr.c_str());
	if (const char *link = getenv(env_link); link && !parse_link(link, c.link))
		fprintf(stderr, "sirdma: %s=%s is none of udp, shm and auto, ignored\n", env_link,
			link);
	read_number(env_mtu, c.mtu);
	read_percentage(env_loss, c.loss);
	read_percentage(env_corrupt, c.corrupt);
	read_percentage(env_reorder, c.reorder);
	read_number(env_seed, c.seed);
	read_number(env_buffer, c.buffer);
	if (const char *pcap = getenv(env_pcap))
		c.pcap = pcap;
	if (const size_t at = c.pcap.find("%d"); at != std::string::npos)
		c.pcap.replace(at, 2, std::to_string(device));
	c.one_sided = getenv(env_one_sided) != nullptr;
	c.stats = getenv(env_stats) != nullptr;
	c.verbose = getenv(env_verbose) != nullptr;
	return c;
}

std::string interface_name(const IpAddress &addr)
{
	const IfAddrs list = interface_addresses();

	for (const ifaddrs *i = list.get(); i; i = i->ifa_next)
		if (i->ifa_addr && is_of(*i, addr))
			return i->ifa_name;
	return {};
}

uint32_t interface_mtu(const IpAddress &addr)
{
	const std::string name = interface_name(addr);

	return name.empty() ? 0 : mtu_of(name.c_str());
}

uint32_t interface_index(const IpAddress &addr)
{
	/* Several interfaces may have a link-local address. */
	return addr.scope() ? addr.scope() : if_nametoindex(interface_name(addr).c_str());
}

bool interface_addr(const char *name, IpAddress &addr) noexcept
{
	const IfAddrs list = interface_addresses();

	for (const int family : {AF_INET, AF_INET6}) {
		for (const ifaddrs *i = list.get(); i; i = i->ifa_next) {
			if (!i->ifa_addr || i->ifa_addr->sa_family != family ||
			    strcmp(i->ifa_name, name) != 0)
				continue;
			addr = IpAddress::of(i->ifa_addr);
			return true;
		}
	}
	return false;
}

} // namespace sirdma::twin
