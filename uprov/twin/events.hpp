/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event queues as the library reads them from the kernel's files. One event at a
 * time is in the file; the rest waits here, where it can be taken back when its
 * object is destroyed. The library calls the provider after each event it read,
 * and that puts in the next.
 */
#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "fd.hpp"

namespace sirdma::twin
{

/*
 * A completion channel as the library makes them, which destroys it, over a file of
 * ours (see also preload_write.cpp). Null with errno.
 */
ibv_comp_channel *create_comp_channel(ibv_context *context) noexcept;

/* The events of a completion channel. */
class CompletionChannel {
public:
	/*
	 * @file: another descriptor of the channel's file. The application may close its
	 * own, and the number may come to mean another file.
	 */
	explicit CompletionChannel(Fd file) : file_(std::move(file)) {}

	void post(ibv_cq *cq, uint32_t *reported);
	/* The application read the event. */
	void taken() noexcept;
	/* @cq goes away: what the application has not read is taken back. */
	void retract(ibv_cq *cq) noexcept;

private:
	struct Event {
		ibv_cq *cq = nullptr;
		uint32_t *reported = nullptr;
	};

	void advance() noexcept;

	const Fd file_;
	std::mutex lock_; /* protects what follows and the counts of the events */
	Event current_; /* in the file, or read and not yet told */
	std::deque<Event> waiting_;
};

/* The asynchronous events of one context. */
class AsyncQueue {
public:
	/* Null with errno. */
	static std::unique_ptr<AsyncQueue> create();
	AsyncQueue(const AsyncQueue &) = delete;
	AsyncQueue &operator=(const AsyncQueue &) = delete;

	/* The end that becomes the context's async_fd, which closes it. */
	int reader() const noexcept { return reader_; }

	void post(ibv_event_type type, void *object, uint32_t *reported);
	void post_device_fatal() { post(IBV_EVENT_DEVICE_FATAL, nullptr, &device_reported_); }
	void taken() noexcept;
	void retract(void *object) noexcept;

private:
	struct Event {
		ib_uverbs_async_event_desc desc{};
		uint32_t *reported = nullptr;
	};

	AsyncQueue(int reader, Fd writer);
	void advance() noexcept;
	bool reader_is_ours() const noexcept;

	const int reader_;
	const uint64_t reader_file_; /* its inode: the application may have closed it */
	const Fd writer_;
	std::mutex lock_; /* protects what follows and the counts of the events */
	Event current_;
	std::deque<Event> waiting_;
	uint32_t device_reported_ = 0; /* events of no object */
};

} // namespace sirdma::twin
