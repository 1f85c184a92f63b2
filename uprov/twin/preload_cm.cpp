/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event channels of librdmacm. For the kernel's connection manager a channel is an open
 * /dev/infiniband/rdma_cm, to which the library writes commands. Here it is an eventfd that
 * counts the events of the channel, and the twin executes the commands.
 */
#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>

#include "shim.hpp"

namespace
{

/* One bit for each descriptor. A channel with a higher number is refused with EMFILE. */
constexpr unsigned fds_max = 1 << 20;
constexpr unsigned word_bits = 64;

std::atomic<uint64_t> channels[fds_max / word_bits];
std::atomic<unsigned> words_used{0};
/*
 * The process that closes channels. A child of vfork() shares this memory, and must not close
 * those of its parent; it has another process ID.
 */
std::atomic<pid_t> owner{0};

__attribute__((constructor)) void hook_fork() noexcept
{
	owner = getpid();
	pthread_atfork(nullptr, nullptr, [] { owner = getpid(); });
}

/* librdmacm's event channel, which librdmacm frees */
struct EventChannel {
	int fd;
};

bool note_channel(int fd) noexcept
{
	const unsigned number = static_cast<unsigned>(fd), word = number / word_bits;

	if (number >= fds_max)
		return false;
	channels[word].fetch_or(1ull << number % word_bits);
	for (unsigned used = words_used; used <= word;)
		if (words_used.compare_exchange_weak(used, word + 1))
			break;
	return true;
}

bool waits_for_event(const void *bytes, size_t len) noexcept
{
	rdma_ucm_cmd_hdr hdr;

	if (len < sizeof(hdr))
		return false;
	memcpy(&hdr, bytes, sizeof(hdr));
	return hdr.cmd == RDMA_USER_CM_CMD_GET_EVENT;
}

} // namespace

namespace sirdma::twin
{

bool is_event_channel(int fd) noexcept
{
	const unsigned number = static_cast<unsigned>(fd);

	return number / word_bits < words_used.load(std::memory_order_relaxed) &&
	       channels[number / word_bits].load(std::memory_order_relaxed) >> number % word_bits &
		       1;
}

void close_event_channels(unsigned first, unsigned last) noexcept
{
	const unsigned end = words_used.load();

	if (!end || getpid() != owner)
		return;
	for (unsigned i = first / word_bits; i < end && i <= last / word_bits; ++i) {
		uint64_t bits = channels[i];

		for (; bits; bits &= bits - 1) {
			const unsigned fd =
				i * word_bits + static_cast<unsigned>(std::countr_zero(bits));

			if (fd < first || fd > last)
				continue;
			channels[i].fetch_and(~(bits & -bits));
			shim_twin()->cm_close_channel(static_cast<int>(fd));
		}
	}
}

ssize_t write_event_channel(int fd, const void *bytes, size_t len)
{
	const bool waits = waits_for_event(bytes, len);
	uint64_t token;

	for (;;) {
		/*
		 * This read waits, or fails with EAGAIN or EINTR, just as the kernel's command
		 * does.
		 */
		if (waits && read(fd, &token, sizeof(token)) < 0)
			return -1;

		const ssize_t result = shim_twin()->cm_command(fd, bytes, len);

		if (result >= 0)
			return result;
		/* The event was removed between the two steps. */
		if (waits && result == -EAGAIN)
			continue;
		/*
		 * Or the channel was closed between them, as by a program that ends while another
		 * thread of it waits for events. The kernel's command waits on then.
		 */
		if (waits && result == -ENODEV && !is_event_channel(fd)) {
			pause();
			errno = EINTR;
			return -1;
		}
		/* The event still exists. */
		if (waits)
			eventfd_write(fd, 1);
		errno = static_cast<int>(-result);
		return -1;
	}
}

} // namespace sirdma::twin

extern "C" __attribute__((visibility("default"))) void *rdma_create_event_channel(void)
{
	const sirdma_twin_ops *twin = sirdma::twin::shim_twin();

	if (!twin) {
		errno = ENODEV;
		return nullptr;
	}

	auto *channel = static_cast<EventChannel *>(malloc(sizeof(EventChannel)));

	if (!channel)
		return nullptr;
	channel->fd = twin->cm_open_channel();
	if (channel->fd >= 0 && note_channel(channel->fd))
		return channel;

	const int err = channel->fd < 0 ? errno : EMFILE;

	if (channel->fd >= 0)
		close(channel->fd);
	free(channel);
	errno = err;
	return nullptr;
}
