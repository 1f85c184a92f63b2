/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event queues behind files, which the library reads as it reads those of the kernel. At most
 * one event is in the file. The others wait in this process, where they can be removed when
 * their object is destroyed. The library calls the provider after it has read an event, and
 * the provider then writes the next one.
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
 * Create a completion channel. The library destroys it like one of its own (see
 * also preload_write.cpp). Returns null with errno.
 */
ibv_comp_channel *create_comp_channel(ibv_context *context) noexcept;

/* The events of a completion channel. */
class CompletionChannel {
public:
	/*
	 * @file: another descriptor of the channel's file. The application may close its own
	 * one, and the kernel may then use the number for another file.
	 */
	explicit CompletionChannel(Fd file) : file_(std::move(file)) {}

	void post(ibv_cq *cq, uint32_t *reported);
	/* The application read the event of @cq, which may be destroyed meanwhile: see retract(). */
	void taken(const ibv_cq *cq) noexcept;
	/*
	 * @cq is destroyed: remove its events that the application has not read. An event that was
	 * read and not yet reported by taken() stays the current one until then.
	 */
	void retract(ibv_cq *cq) noexcept;

private:
	struct Event {
		ibv_cq *cq = nullptr;
		uint32_t *reported = nullptr;
	};

	void advance() noexcept;

	const Fd file_;
	std::mutex lock_; /* protects the members below and the counts of the events */
	Event current_; /* an event is in the file, or was read without a call of taken() yet */
	std::deque<Event> waiting_;
};

/* The asynchronous events of one context. */
class AsyncQueue {
public:
	/* Returns null with errno. */
	static std::unique_ptr<AsyncQueue> create();
	AsyncQueue(const AsyncQueue &) = delete;
	AsyncQueue &operator=(const AsyncQueue &) = delete;

	/* The end that becomes async_fd of the context, which closes it. */
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
	const uint64_t reader_file_; /* its inode, to detect that the application closed it */
	const Fd writer_;
	std::mutex lock_; /* protects the members below and the counts of the events */
	Event current_;
	std::deque<Event> waiting_;
	uint32_t device_reported_ = 0; /* number of reported events of no object */
};

} // namespace sirdma::twin
