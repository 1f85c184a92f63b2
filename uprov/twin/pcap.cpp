/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "pcap.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <optional>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "no_cancel.hpp"

namespace sirdma::twin
{

namespace
{

struct FileHeader {
	uint32_t magic = 0xa1b23c4d; /* nanoseconds */
	uint16_t major = 2;
	uint16_t minor = 4;
	uint32_t zone = 0;
	uint32_t accuracy = 0;
	uint32_t max_len = 65535;
	uint32_t link_type = 101; /* raw IP */
};

struct PacketHeader {
	uint32_t seconds;
	uint32_t nanoseconds;
	uint32_t captured;
	uint32_t length;
};

/*
 * While it exists, this thread gets no SIGPIPE from a write to a pipe without a reader. If the
 * application has blocked the signal and one is pending, another one changes nothing.
 */
class NoPipeSignal {
public:
	NoPipeSignal() noexcept
	{
		sigset_t pending;

		sigemptyset(&pipe_);
		sigaddset(&pipe_, SIGPIPE);
		sigpending(&pending);
		was_pending_ = sigismember(&pending, SIGPIPE);
		pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
	}
	~NoPipeSignal()
	{
		const timespec no_time{};

		/* sigtimedwait() is a cancellation point. */
		if (!was_pending_)
			(void)syscall(SYS_rt_sigtimedwait, &pipe_, nullptr, &no_time, _NSIG / 8);
		pthread_sigmask(SIG_SETMASK, &before_, nullptr);
	}
	NoPipeSignal(const NoPipeSignal &) = delete;
	NoPipeSignal &operator=(const NoPipeSignal &) = delete;

private:
	sigset_t pipe_, before_;
	bool was_pending_;
};

bool is_pipe(int fd) noexcept
{
	struct stat st;

	return !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

/*
 * Each writer holds a shared flock while it is open. A process that gets the exclusive
 * lock is the only writer and may truncate (@anew). Going from one lock to the other is
 * not atomic (flock(2)): another process may truncate in between, so that a file found
 * empty under the shared lock is started again.
 */
bool start_capture(int fd, bool anew) noexcept
{
	const FileHeader first;
	struct stat st;

	for (;;) {
		const bool alone = !flock(fd, LOCK_EX | LOCK_NB);

		if (alone && (fstat(fd, &st) || (anew && S_ISREG(st.st_mode) && ftruncate(fd, 0))))
			return false;
		if (alone && (!st.st_size || anew) &&
		    ::write(fd, &first, sizeof(first)) != ssize_t{sizeof(first)})
			return false;
		if (flock(fd, LOCK_SH) || fstat(fd, &st))
			return false;
		if (st.st_size || !S_ISREG(st.st_mode))
			return true;
		(void)flock(fd, LOCK_UN);
	}
}

} // namespace

std::unique_ptr<PcapWriter> PcapWriter::create(const std::string &name)
{
	std::string path = name;
	const size_t at = path.find("%p");
	const bool own = at != std::string::npos;

	if (own)
		path.replace(at, 2, std::to_string(getpid()));

	Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));

	const bool pipe = file && is_pipe(file.get());
	std::optional<NoPipeSignal> no_signal;

	if (pipe)
		no_signal.emplace();
	if (!file || !start_capture(file.get(), own)) {
		fprintf(stderr, "sirdma: no capture, %s: %s\n", path.c_str(), strerror(errno));
		return nullptr;
	}
	return std::unique_ptr<PcapWriter>(new PcapWriter(std::move(file), path, pipe));
}

void PcapWriter::report(int err) noexcept
{
	const NoCancel no_cancel;

	if (!reported_.exchange(true))
		fprintf(stderr, "sirdma: the capture lacks packets, %s: %s\n", path_.c_str(),
			strerror(err));
}

/* Append a packet, with @icrc in place of the last four bytes of the datagram. */
void PcapWriter::append(const Path &path, uint16_t id, const uint8_t *datagram, size_t len,
			const void *icrc) noexcept
{
	uint8_t headers[headers_len_max];
	const size_t headers_len = path.headers_len();
	timespec now;

	/* Nobody reads the pipe any more, and a new reader would lack the file's header. */
	if (is_pipe_ && reported_.load(std::memory_order_relaxed))
		return;
	put_headers(path, id, len, headers);
	clock_gettime(CLOCK_REALTIME, &now);

	const uint32_t length = static_cast<uint32_t>(headers_len + len);
	const PacketHeader header = {
		.seconds = static_cast<uint32_t>(now.tv_sec),
		.nanoseconds = static_cast<uint32_t>(now.tv_nsec),
		.captured = length,
		.length = length,
	};
	const iovec pieces[] = {
		{.iov_base = const_cast<PacketHeader *>(&header), .iov_len = sizeof(header)},
		{.iov_base = headers, .iov_len = headers_len},
		{.iov_base = const_cast<uint8_t *>(datagram), .iov_len = len - SIRDMA_ICRC_LEN},
		{.iov_base = const_cast<void *>(icrc), .iov_len = SIRDMA_ICRC_LEN},
	};

	std::optional<NoPipeSignal> no_signal;

	if (is_pipe_)
		no_signal.emplace();
	/* If the disk is full or the reader ended, the capture lacks packets. Nothing else fails. */
	if (raw_syscall::writev(file_.get(), pieces, std::size(pieces)) < 0)
		report(errno);
}

void PcapWriter::write(const Path &path, uint16_t id, const uint8_t *datagram, size_t len) noexcept
{
	if (len >= SIRDMA_ICRC_LEN)
		append(path, id, datagram, len, datagram + len - SIRDMA_ICRC_LEN);
}

void PcapWriter::write_unsummed(const Path &path, const uint8_t *datagram, size_t len) noexcept
{
	if (len < sizeof(sirdma_bth) + SIRDMA_ICRC_LEN)
		return;

	const uint32_t icrc = icrc_of(path, 0, datagram, len);

	append(path, 0, datagram, len, &icrc);
}

} // namespace sirdma::twin
