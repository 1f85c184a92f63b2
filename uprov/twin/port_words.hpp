/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The words that the processes of an address share about its UDP port, and the message by
 * which the owner of the port gives them away, with the port itself.
 */
#pragma once

#include <atomic>
#include <cstdint>

#include "fd.hpp"

namespace sirdma::twin
{

struct PortWords {
	/* Each owner has a number of its own, the next one. Whoever raises it owns the port. */
	std::atomic<uint64_t> owner;
	/* The owner writes another value each time it took datagrams. */
	std::atomic<uint64_t> progress;
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

	/* False, with errno, when it could not be made. */
	static PortFile create() noexcept;
	static PortFile map(Fd file) noexcept;

	explicit operator bool() const noexcept { return words_; }
	int fd() const noexcept { return file_.get(); }
	PortWords &words() const noexcept { return *words_; }

private:
	Fd file_;
	PortWords *words_ = nullptr;
};

/* What the owner tells a member. */
struct PortGrant {
	static constexpr uint32_t magic_value = 0x53525001; /* changes with anything shared */

	uint32_t magic = magic_value;
	uint32_t rank; /* how soon it succeeds an owner that is stopped */
	uint64_t owner; /* the sender's number */
};

static_assert(sizeof(PortGrant) == 16);

/* The files of a grant. */
struct PortFiles {
	static constexpr size_t count = 3;

	Fd socket; /* bound to the port */
	Fd name; /* listens */
	Fd words;
};

bool send_grant(int sock, const PortGrant &grant, const int (&files)[PortFiles::count]) noexcept;
/*
 * False with errno: EAGAIN when nothing came, EMFILE when there was no room for the files,
 * ENOTCONN when the other end hung up, EPROTO when what came is no grant.
 */
bool receive_grant(int sock, PortGrant &grant, PortFiles &files) noexcept;

} // namespace sirdma::twin
