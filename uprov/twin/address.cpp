/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "address.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <endian.h>
#include <net/if.h>

namespace sirdma::twin
{

namespace
{

constexpr size_t v4_in_mapped = 12;
constexpr uint8_t mapped_prefix[v4_in_mapped] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

} // namespace

IpAddress::IpAddress(in_addr v4) noexcept
{
	memcpy(ip_.b, mapped_prefix, sizeof(mapped_prefix));
	memcpy(ip_.b + v4_in_mapped, &v4, sizeof(v4));
}

IpAddress IpAddress::default_address(uint32_t n) noexcept
{
	constexpr uint32_t first = 127u << 24 | 64u << 16;

	return IpAddress(in_addr{htonl(first | n % default_count)});
}

bool IpAddress::parse(const char *text, IpAddress &out) noexcept
{
	const char *percent = strchr(text, '%');
	const std::string host(text, percent ? static_cast<size_t>(percent - text) : strlen(text));
	in_addr v4;

	if (!percent && inet_pton(AF_INET, text, &v4) == 1) {
		out = IpAddress(v4);
		return true;
	}

	IpAddress parsed;

	if (inet_pton(AF_INET6, host.c_str(), parsed.ip_.b) != 1)
		return false;
	if (percent) {
		parsed.scope_ = if_nametoindex(percent + 1);
		if (!parsed.scope_)
			return false;
	}
	out = parsed;
	return true;
}

IpAddress IpAddress::of(const sockaddr *sa) noexcept
{
	if (sa && sa->sa_family == AF_INET)
		return IpAddress(reinterpret_cast<const sockaddr_in *>(sa)->sin_addr);

	IpAddress a;

	if (sa && sa->sa_family == AF_INET6) {
		const auto *v6 = reinterpret_cast<const sockaddr_in6 *>(sa);

		memcpy(a.ip_.b, &v6->sin6_addr, sizeof(a.ip_.b));
		a.scope_ = v6->sin6_scope_id;
	}
	return a;
}

bool IpAddress::any() const noexcept
{
	return *this == IpAddress() || *this == IpAddress(in_addr{INADDR_ANY});
}

bool IpAddress::is_loopback() const noexcept
{
	if (is_v4())
		return be32toh(v4().s_addr) >> 24 == IN_LOOPBACKNET;
	return !memcmp(ip_.b, &in6addr_loopback, sizeof(ip_.b));
}

bool IpAddress::is_v4() const noexcept
{
	return sirdma_ip_is_v4(&ip_);
}

in_addr IpAddress::v4() const noexcept
{
	in_addr addr;

	memcpy(&addr, ip_.b + v4_in_mapped, sizeof(addr));
	return addr;
}

socklen_t IpAddress::to_socket(uint16_t port, sockaddr_storage &out) const noexcept
{
	out = {};
	if (is_v4()) {
		auto &sa = reinterpret_cast<sockaddr_in &>(out);

		sa.sin_family = AF_INET;
		sa.sin_port = htons(port);
		sa.sin_addr = v4();
		return sizeof(sa);
	}

	auto &sa = reinterpret_cast<sockaddr_in6 &>(out);

	sa.sin6_family = AF_INET6;
	sa.sin6_port = htons(port);
	memcpy(&sa.sin6_addr, ip_.b, sizeof(sa.sin6_addr));
	sa.sin6_scope_id = scope_;
	return sizeof(sa);
}

std::string IpAddress::text() const
{
	char text[INET6_ADDRSTRLEN];

	if (is_v4()) {
		const in_addr addr = v4();

		return inet_ntop(AF_INET, &addr, text, sizeof(text));
	}
	inet_ntop(AF_INET6, ip_.b, text, sizeof(text));

	char interface[IF_NAMESIZE];

	return scope_ && if_indextoname(scope_, interface) ? std::string(text) + "%" + interface :
							     text;
}

} // namespace sirdma::twin
