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

namespace sirdma::twin
{

/* A completion channel. The library knows only the first member. */
class CompletionChannel {
public:
	/* Null with errno. */
	static CompletionChannel *create(ibv_context *context) noexcept;
	/* 0, or EBUSY under a CQ. */
	static int destroy(ibv_comp_channel *channel) noexcept;

	static CompletionChannel &of(ibv_comp_channel *channel) noexcept
	{
		return *reinterpret_cast<CompletionChannel *>(channel);
	}

	ibv_comp_channel *base() noexcept { return &base_; }

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

	CompletionChannel() = default;
	void advance() noexcept;

	ibv_comp_channel base_{};
	std::mutex lock_; /* protects what follows and the counts of the events */
	Event current_; /* in the file, or read and not yet told */
	std::deque<Event> waiting_;
};

/* The asynchronous events of one context. */
class AsyncQueue {
public:
	/* Null with errno. */
	static std::unique_ptr<AsyncQueue> create();
	~AsyncQueue();
	AsyncQueue(const AsyncQueue &) = delete;
	AsyncQueue &operator=(const AsyncQueue &) = delete;

	/* The end that becomes the context's async_fd, which closes it. */
	int reader() const noexcept { return reader_; }

	void post(ibv_event_type type, void *object, uint32_t *reported);
	void taken() noexcept;
	void retract(void *object) noexcept;

private:
	struct Event {
		ib_uverbs_async_event_desc desc{};
		uint32_t *reported = nullptr;
	};

	AsyncQueue(int reader, int writer) noexcept : reader_(reader), writer_(writer) {}
	void advance() noexcept;

	const int reader_;
	const int writer_;
	std::mutex lock_; /* protects what follows and the counts of the events */
	Event current_;
	std::deque<Event> waiting_;
};

} // namespace sirdma::twin
