/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The words that all processes of an address share, about the owner of its UDP port, and the
 * message by which the owner grants them to a member, together with the port's socket.
 */
#pragma once

#include <atomic>
#include <cstdint>

#include "fd.hpp"

namespace sirdma::twin
{

struct PortWords {
	/* Number of the owner. A process that increments it becomes the owner. */
	std::atomic<uint64_t> owner;
	/* The owner stores another value each time it has received datagrams. */
	std::atomic<uint64_t> progress;
	/* Datagrams that found no room in the socket, as far as an owner has counted them. */
	std::atomic<uint64_t> overruns;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

/* The file of the words and its mapping. */
class PortFile {
public:
	PortFile() noexcept = default;
	PortFile(PortFile &&other) noexcept
		: file_(std::move(other.file_)), words_(std::exchange(other.words_, nullptr))
	{
	}
	PortFile &operator=(PortFile &&other) noexcept
	{
		std::swap(file_, other.file_);
		std::swap(words_, other.words_);
		return *this;
	}
	~PortFile();

	/* Returns false with errno if the file could not be created. */
	static PortFile create() noexcept;
	static PortFile map(Fd file) noexcept;

	explicit operator bool() const noexcept { return words_; }
	int fd() const noexcept { return file_.get(); }
	PortWords &words() const noexcept { return *words_; }

private:
	Fd file_;
	PortWords *words_ = nullptr;
};

/* Message from the owner to a member. */
struct PortGrant {
	static constexpr uint32_t magic_value =
		0x53525002; /* a change of the layout of anything shared changes this number */

	uint32_t magic = magic_value;
	uint32_t rank; /* order in which members succeed a stopped owner */
	uint64_t owner; /* number of the sender */
};

static_assert(sizeof(PortGrant) == 16);

/* The files of a grant. */
struct PortFiles {
	static constexpr size_t count = 3;

	Fd socket; /* the port's UDP socket */
	Fd name; /* the listening socket of the owner's name */
	Fd words;
};

bool send_grant(int sock, const PortGrant &grant, const int (&files)[PortFiles::count]) noexcept;
/*
 * Returns false with errno: EAGAIN: there is no message; EMFILE: no descriptors are left for the
 * files; ENOTCONN: the other end closed the connection; EPROTO: it is not a grant.
 */
bool receive_grant(int sock, PortGrant &grant, PortFiles &files) noexcept;

} // namespace sirdma::twin
