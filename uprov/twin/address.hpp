/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The address of a device. IPv4 addresses are v4-mapped, as in the model. */
#pragma once

#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>

#include <linux/types.h>
#include <sirdma/qpctx.h>

namespace sirdma::twin
{

class IpAddress {
public:
	/* Devices for which the user gave no address have one of 127.64.0.0/16. */
	static constexpr uint32_t default_count = 1u << 16;

	/* any() means that no address is chosen. */
	constexpr IpAddress() noexcept = default;
	explicit IpAddress(const sirdma_ip &ip, uint32_t scope = 0) noexcept
		: ip_(ip), scope_(scope)
	{
	}
	explicit IpAddress(in_addr v4) noexcept;

	/*
	 * Parse an IPv4 or IPv6 address, link-local with %INTERFACE. Returns false if it is
	 * neither.
	 */
	static bool parse(const char *text, IpAddress &out) noexcept;
	/* Default address number @n, modulo default_count. */
	static IpAddress default_address(uint32_t n) noexcept;
	/* The address in @sa; any() for other families. */
	static IpAddress of(const sockaddr *sa) noexcept;

	const sirdma_ip &ip() const noexcept { return ip_; }
	/* Interface index of a link-local address, otherwise 0. */
	uint32_t scope() const noexcept { return scope_; }
	bool any() const noexcept;
	/* Is the address in 127.0.0.0/8, or is it ::1? */
	bool is_loopback() const noexcept;
	bool is_v4() const noexcept;
	in_addr v4() const noexcept;
	int family() const noexcept { return is_v4() ? AF_INET : AF_INET6; }

	/* Returns the length of the address. */
	socklen_t to_socket(uint16_t port, sockaddr_storage &out) const noexcept;
	std::string text() const;

	friend bool operator==(const IpAddress &a, const IpAddress &b) noexcept
	{
		return !memcmp(&a.ip_, &b.ip_, sizeof(a.ip_));
	}

private:
	sirdma_ip ip_{};
	uint32_t scope_ = 0;
};

} // namespace sirdma::twin
