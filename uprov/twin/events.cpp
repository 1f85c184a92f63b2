/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "events.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <type_traits>
#include <unistd.h>

#include "core.hpp"
#include "event_file.hpp"
#include "no_cancel.hpp"

namespace sirdma::twin
{

namespace
{

/* If memory is short the event is lost, as in the kernel. */
template <typename Queue, typename Event> bool append(Queue &queue, const Event &event) noexcept
{
	try {
		queue.push_back(event);
		return true;
	} catch (const std::bad_alloc &) {
		port_warn("an event is lost: %s", strerror(ENOMEM));
		return false;
	}
}

/* The inode of @fd; 0: there is no such file. */
uint64_t inode_of(int fd) noexcept
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

} // namespace

/*
 * A read of an eventfd returns its counter. If one event was added to the counter, its value is
 * that event.
 */
static_assert(sizeof(ib_uverbs_comp_event_desc) == sizeof(eventfd_t));

ibv_comp_channel *create_comp_channel(ibv_context *context) noexcept
{
	auto *channel = static_cast<ibv_comp_channel *>(calloc(1, sizeof(ibv_comp_channel)));

	if (!channel) {
		errno = ENOMEM;
		return nullptr;
	}
	channel->context = context;
	channel->fd = create_event_file();
	if (channel->fd < 0) {
		const int err = errno;

		free(channel);
		errno = err;
		return nullptr;
	}
	return channel;
}

/* The caller holds lock_. */
void CompletionChannel::advance() noexcept
{
	if (waiting_.empty()) {
		current_ = {};
		return;
	}
	current_ = waiting_.front();
	waiting_.pop_front();
	++*current_.reported;

	const eventfd_t value = reinterpret_cast<uintptr_t>(current_.cq);

	if (raw_syscall::write(file_.get(), &value, sizeof(value)) < 0)
		return; /* this does not happen while the file is empty */
}

void CompletionChannel::post(ibv_cq *cq, uint32_t *reported)
{
	std::lock_guard hold(lock_);

	if (!append(waiting_, Event{.cq = cq, .reported = reported}))
		return;
	if (!current_.cq)
		advance();
}

void CompletionChannel::taken(const ibv_cq *cq) noexcept
{
	std::lock_guard hold(lock_);

	if (current_.cq == cq)
		advance();
}

void CompletionChannel::retract(ibv_cq *cq) noexcept
{
	std::lock_guard hold(lock_);

	std::erase_if(waiting_, [cq](const Event &event) { return event.cq == cq; });
	if (current_.cq != cq || !take_back_event(file_.get()))
		return;
	--*current_.reported;
	advance();
}

std::unique_ptr<AsyncQueue> AsyncQueue::create()
{
	int ends[2];

	/*
	 * Packets keep events apart. MSG_DONTWAIT tells whether an event waits, for all flags of
	 * the file.
	 */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return nullptr;

	Fd reader(ends[0]), writer(ends[1]);

	try {
		std::unique_ptr<AsyncQueue> queue(new AsyncQueue(ends[0], std::move(writer)));

		/* The application closes this end. */
		(void)reader.release();
		return queue;
	} catch (const std::bad_alloc &) {
		errno = ENOMEM;
		return nullptr;
	}
}

AsyncQueue::AsyncQueue(int reader, Fd writer)
	: reader_(reader), reader_file_(inode_of(reader)), writer_(std::move(writer))
{
}

bool AsyncQueue::reader_is_ours() const noexcept
{
	return reader_file_ && inode_of(reader_) == reader_file_;
}

/* The caller holds lock_. */
void AsyncQueue::advance() noexcept
{
	if (waiting_.empty()) {
		current_ = {};
		return;
	}
	current_ = waiting_.front();
	waiting_.pop_front();
	++*current_.reported;
	if (raw_syscall::send(writer_.get(), &current_.desc, sizeof(current_.desc),
			      MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return; /* the application closed its end */
}

void AsyncQueue::post(ibv_event_type type, void *object, uint32_t *reported)
{
	std::lock_guard hold(lock_);
	Event event;

	event.desc.element = reinterpret_cast<uintptr_t>(object);
	event.desc.event_type = type;
	event.reported = reported;
	if (!append(waiting_, event))
		return;
	if (!current_.reported)
		advance();
}

void AsyncQueue::taken() noexcept
{
	std::lock_guard hold(lock_);

	advance();
}

void AsyncQueue::retract(void *object) noexcept
{
	std::lock_guard hold(lock_);
	const uint64_t element = reinterpret_cast<uintptr_t>(object);
	ib_uverbs_async_event_desc desc;

	std::erase_if(waiting_,
		      [element](const Event &event) { return event.desc.element == element; });
	if (!current_.reported || current_.desc.element != element || !reader_is_ours() ||
	    recv(reader_, &desc, sizeof(desc), MSG_DONTWAIT) < 0)
		return;
	--*current_.reported;
	advance();
}

} // namespace sirdma::twin
