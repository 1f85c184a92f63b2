/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "rendezvous.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/un.h>

namespace sirdma::twin
{

namespace
{

/* Many processes of one address may connect together. */
constexpr int backlog = 1024;
/*
 * Connections examined at once, so that a process that connects again and again cannot block
 * this one.
 */
constexpr unsigned accept_batch = 64;
/* The default value, if /proc does not tell the value. */
constexpr uid_t usual_overflow_uid = 65534;
constexpr unsigned long all_uids = 0xffffffff;

/*
 * An abstract name: a null byte, then text. The user id in it avoids accidental conflicts
 * between users; security comes from the check of credentials.
 */
socklen_t make_name(const IpAddress &addr, uint32_t slot, uid_t user, sockaddr_un &sa) noexcept
{
	const uint8_t *b = addr.ip().b;
	char *text = sa.sun_path + 1;
	const size_t room = sizeof(sa.sun_path) - 1;
	int len;

	sa = {};
	sa.sun_family = AF_UNIX;
	len = snprintf(text, room, "sirdma/%u/", static_cast<unsigned>(user));
	for (unsigned i = 0; i < sizeof(addr.ip().b); ++i)
		len += snprintf(text + len, room - static_cast<size_t>(len), "%02x", b[i]);
	len += snprintf(text + len, room - static_cast<size_t>(len), "/%u/%u", addr.scope(), slot);
	return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
				      static_cast<size_t>(len));
}

/*
 * The address in a name of make_name() in a line of /proc/net/unix. Returns false if the name is
 * not of @slot.
 */
bool parse_name(const char *line, uint32_t slot, IpAddress &addr) noexcept
{
	const char *name = strstr(line, "@sirdma/");
	sirdma_ip ip;
	unsigned uid, scope, of;
	int at = 0;

	if (!name || sscanf(name, "@sirdma/%u/%n", &uid, &at) != 1 || !at || uid != geteuid())
		return false;
	name += at;
	for (uint8_t &byte : ip.b) {
		if (sscanf(name, "%2hhx%n", &byte, &at) != 1 || at != 2)
			return false;
		name += at;
	}
	if (sscanf(name, "/%u/%u\n", &scope, &of) != 2 || scope || of != slot)
		return false;
	addr = IpAddress(ip);
	return true;
}

Fd open_socket() noexcept
{
	return Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* Credentials of the process at the other end, as of its connect() or listen(). */
bool peer_of(int fd, ucred &peer) noexcept
{
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
}

uid_t overflow_uid() noexcept
{
	const Fd fd(open("/proc/sys/kernel/overflowuid", O_RDONLY | O_CLOEXEC));
	char text[16] = {};

	return fd && read(fd.get(), text, sizeof(text) - 1) > 0 ?
		       static_cast<uid_t>(strtoul(text, nullptr, 10)) :
		       usual_overflow_uid;
}

/* Does the user namespace map all users? The overflow uid then is an ordinary user. */
bool maps_every_uid() noexcept
{
	const Fd fd(open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC));
	char text[256] = {};
	unsigned long inside, outside, count;

	return fd && read(fd.get(), text, sizeof(text) - 1) > 0 &&
	       sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && count == all_uids;
}

/*
 * In a user namespace every unmapped user appears as the overflow uid, `nobody`, so equal ids
 * may be different users. Then permission to send a signal shows whether the user is the same.
 */
bool is_of_this_user(const ucred &peer) noexcept
{
	if (peer.uid != geteuid())
		return false;
	return peer.uid != overflow_uid() || maps_every_uid() ||
	       (peer.pid > 0 && !kill(peer.pid, 0));
}

bool is_trusted(int fd, uid_t opener, Trust trust) noexcept
{
	constexpr uid_t root = 0;
	ucred peer;

	if (!peer_of(fd, peer))
		return false;
	return is_of_this_user(peer) ||
	       (trust == Trust::opener_if_root && opener == root && peer.uid == root);
}

/* Any process can bind a name with the address of another host, so check the address. */
bool is_of_this_host(const IpAddress &addr) noexcept
{
	sockaddr_storage sa;
	const socklen_t len = addr.to_socket(0, sa);
	const Fd fd(socket(addr.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));

	return fd && !addr.any() && !bind(fd.get(), reinterpret_cast<const sockaddr *>(&sa), len);
}

} // namespace

Fd rendezvous_bind(const IpAddress &addr, uint32_t slot, uid_t opener) noexcept
{
	sockaddr_un sa;
	const socklen_t len = make_name(addr, slot, opener, sa);
	Fd fd = open_socket();

	if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr *>(&sa), len))
		return Fd();
	return fd;
}

Fd rendezvous_listen(const IpAddress &addr, uint32_t slot, uid_t opener) noexcept
{
	Fd fd = rendezvous_bind(addr, slot, opener);

	return fd && !listen(fd.get(), backlog) ? std::move(fd) : Fd();
}

bool rendezvous_take(int listener) noexcept
{
	return !fcntl(listener, F_SETFL, O_NONBLOCK) && !listen(listener, backlog);
}

Fd rendezvous_connect(const IpAddress &addr, uint32_t slot, uid_t opener, Trust trust) noexcept
{
	sockaddr_un sa;
	const socklen_t len = make_name(addr, slot, opener, sa);
	Fd fd = open_socket();

	if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr *>(&sa), len))
		return Fd();
	if (!is_trusted(fd.get(), opener, trust)) {
		errno = EACCES;
		return Fd();
	}
	if (!is_of_this_host(addr)) {
		errno = EADDRNOTAVAIL;
		return Fd();
	}
	return fd;
}

IpAddress rendezvous_find_loopback(bool v4, uint32_t slot) noexcept
{
	FILE *names = fopen("/proc/net/unix", "re");
	IpAddress found;
	char line[256];

	while (names && fgets(line, sizeof(line), names)) {
		IpAddress addr;

		if (!parse_name(line, slot, addr) || !addr.is_loopback() || addr.is_v4() != v4)
			continue;
		/* Any user may bind such a name: a connection shows which user did. */
		if ((found.any() || memcmp(addr.ip().b, found.ip().b, sizeof(addr.ip().b)) < 0) &&
		    rendezvous_connect(addr, slot))
			found = addr;
	}
	if (names)
		fclose(names);
	return found;
}

bool rendezvous_is(int sock, const IpAddress &addr, uint32_t slot, uid_t opener) noexcept
{
	const Fd holder = rendezvous_connect(addr, slot, opener, Trust::opener_if_root);
	ucred claims, has;

	if (!holder || !peer_of(sock, claims) || !peer_of(holder.get(), has))
		return false;
	/*
	 * All processes that are outside this PID namespace have pid 0 here. Those of one user are not told apart, because
	 * processes of several PID namespaces may share an address and its port.
	 */
	errno = EACCES;
	return claims.pid == has.pid && (claims.pid || claims.uid == has.uid);
}

pid_t rendezvous_group(int sock) noexcept
{
	ucred peer;

	return peer_of(sock, peer) && peer.pid > 0 ? std::max(getpgid(peer.pid), 0) : 0;
}

Fd spare_file() noexcept
{
	return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

Fd rendezvous_accept(int listener, Fd &spare, uint64_t &refused, uid_t opener) noexcept
{
	for (unsigned i = 0; i < accept_batch; ++i) {
		Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));

		if (fd && is_trusted(fd.get(), opener, Trust::opener_if_root))
			return fd;
		if (!fd && errno != EMFILE && errno != ENFILE)
			return fd;
		if (!fd) {
			/* The kernel reports EMFILE even when no connection waits. */
			spare.reset();
			fd = Fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));

			const bool was_one = static_cast<bool>(fd);

			fd.reset();
			spare = spare_file();
			if (!was_one)
				return Fd();
		}
		++refused;
	}
	errno = EBUSY;
	return Fd();
}

} // namespace sirdma::twin
