/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <utility>

namespace sirdma::twin
{

/*
 * An owned file descriptor of the device. A forked child closes all of these, because it has
 * a device of its own, and must not keep the addresses and connections of its parent in use
 * after the parent died. O_CLOEXEC does the same for a child that calls exec().
 */
class Fd {
public:
	Fd() noexcept = default;
	explicit Fd(int fd) noexcept : fd_(fd) { note(fd_, true); }
	Fd(Fd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
	Fd &operator=(Fd &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}
	~Fd() { reset(); }

	explicit operator bool() const noexcept { return fd_ >= 0; }
	int get() const noexcept { return fd_; }
	void reset() noexcept; /* keeps errno */
	/* The file is no longer a file of the device. */
	int release() noexcept;

private:
	static void note(int fd, bool open) noexcept;

	int fd_ = -1;
};

} // namespace sirdma::twin
