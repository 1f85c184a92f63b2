/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Telling the device. A doorbell is a store that never traps; a device that
 * negotiated SIRDMA_UCTX_KICK says in the QP's shadow area when it sleeps, and
 * is then woken by a system call.
 */
#pragma once

#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>
#include <sirdma/regs.h>
#include <sirdma/shadow.h>

#include "barrier.hpp"

namespace sirdma
{

/*
 * The uverbs command POST_SEND without work requests: the driver's post_send
 * gets a null list and runs the device for this QP. Built once per QP.
 */
class Kick {
public:
	Kick() noexcept = default;
	Kick(const Kick &) = delete;
	Kick &operator=(const Kick &) = delete;

	/* @qp_handle is the uverbs handle of the QP; until then wake() does nothing. */
	void prepare(int cmd_fd, uint32_t qp_handle) noexcept
	{
		fd_ = cmd_fd;
		message_ = {};
		message_.hdr.command = IB_USER_VERBS_CMD_POST_SEND;
		message_.hdr.in_words = sizeof(message_) / 4;
		message_.hdr.out_words = sizeof(answer_) / 4;
		message_.response = reinterpret_cast<uintptr_t>(&answer_);
		message_.qp_handle = qp_handle;
		message_.wqe_size = sizeof(ib_uverbs_send_wr);
	}

	/* A device in this process: @run is called with @device and @qp_id instead. */
	using Run = void (*)(void *device, uint32_t qp_id) noexcept;

	void prepare_local(Run run, void *device, uint32_t qp_id) noexcept
	{
		run_ = run;
		device_ = device;
		qp_id_ = qp_id;
	}

	bool ready() const noexcept { return fd_ >= 0 || run_; }

	/* A device that is gone cannot be woken: its fatal event tells the application. */
	void wake() const noexcept
	{
		if (run_)
			run_(device_, qp_id_);
		else if (ready() && syscall(SYS_write, fd_, &message_, sizeof(message_)) < 0)
			return; /* write() would be a cancellation point */
	}

private:
	/* ib_uverbs_post_send without its flexible tail. */
	struct Message {
		ib_uverbs_cmd_hdr hdr;
		__aligned_u64 response;
		uint32_t qp_handle;
		uint32_t wr_count;
		uint32_t sge_count;
		uint32_t wqe_size;
	};
	static_assert(sizeof(Message) == sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_post_send));

	int fd_ = -1;
	Run run_ = nullptr;
	void *device_ = nullptr;
	uint32_t qp_id_ = 0;
	Message message_{};
	/* The kernel writes "first bad request: none" here, perhaps from two threads at once. */
	uint32_t answer_ = 0;
};

/*
 * Both rings of one QP tell the device through this, after the queue's lock is dropped:
 * a kick may run the device for a long time. That is safe because a doorbell carries no
 * ring index. It tells the device to look at the ring, so two threads may ring in
 * another order than they posted, and a ring too many finds the ring empty.
 */
class QpDoorbell {
public:
	/* Words of the doorbell page and of the QP's shadow area; any of them may be null. */
	void attach(sirdma_db_page *page, sirdma_qp_shadow *shadow, uint32_t qp_id) noexcept
	{
		page_ = page;
		shadow_ = shadow;
		qp_id_ = qp_id;
	}

	Kick &kick() noexcept { return kick_; }

	/*
	 * Send WQEs became valid. The fence pairs with the one the device executes
	 * between "need_kick = 1" and its last look at the ring.
	 */
	void ring_send() const noexcept
	{
		if (page_)
			put(page_->wqe_alloc, qp_id_);
		wake_if(shadow_ ? &shadow_->need_kick : nullptr);
	}

	/* Receive WQEs became valid; only a device in the error state wants to know. */
	void ring_recv() const noexcept { wake_if(shadow_ ? &shadow_->rq_need_kick : nullptr); }

private:
	void wake_if(const __le64 *asleep) const noexcept
	{
		if (!kick_.ready() || !asleep)
			return;
		full_fence();
		if (get(*asleep) != 0) [[unlikely]]
			kick_.wake();
	}

	sirdma_db_page *page_ = nullptr;
	sirdma_qp_shadow *shadow_ = nullptr;
	uint32_t qp_id_ = 0;
	Kick kick_;
};

} // namespace sirdma
