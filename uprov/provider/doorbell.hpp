/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Doorbells and kicks. A doorbell is a store to the doorbell page, without a trap. With
 * SIRDMA_UCTX_KICK there are no doorbells: the device sets need_kick in the QP's shadow area when
 * it stops reading the ring, and the provider then starts it again by a system call, the kick.
 */
#pragma once

#include <cerrno>
#include <cstdint>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <sirdma/regs.h>
#include <sirdma/shadow.h>

#include "barrier.hpp"
#include "ioctl.hpp"

namespace sirdma
{

/*
 * The kick, by which the driver runs the device for this QP: SIRDMA_METHOD_KICK, or with drivers that
 * do not know it the uverbs command POST_SEND without work requests. Built once per QP.
 */
class Kick {
public:
	Kick() noexcept = default;
	Kick(const Kick &) = delete;
	Kick &operator=(const Kick &) = delete;

	/* Before one of these calls wake() does nothing. */
	void prepare_method(int cmd_fd, uint32_t driver_id, uint32_t qp_id) noexcept
	{
		fd_ = cmd_fd;
		by_method_ = true;
		method_.in<uint32_t>(SIRDMA_ATTR_KICK_QPN, qp_id).build(driver_id);
	}

	/*
	 * @qp_handle is the uverbs handle of the QP. The kernel takes this kick only from the process
	 * that opened the file.
	 */
	void prepare_command(int cmd_fd, uint32_t qp_handle) noexcept
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

	/*
	 * Set up the kick of a device in this process: wake() calls @run with @device and @qp_id.
	 */
	using Run = void (*)(void *device, uint32_t qp_id) noexcept;

	void prepare_local(Run run, void *device, uint32_t qp_id) noexcept
	{
		run_ = run;
		device_ = device;
		qp_id_ = qp_id;
	}

	bool ready() const noexcept { return fd_ >= 0 || run_; }

	/*
	 * A kick for which the kernel has no memory is repeated: without it the device would sleep
	 * beside a full ring. Other errors are ignored: if the device is gone, a fatal event
	 * reports it.
	 */
	void wake() const noexcept
	{
		if (run_) {
			run_(device_, qp_id_);
			return;
		}
		if (!ready())
			return;
		while (send() < 0 && errno == ENOMEM)
			sched_yield();
	}

private:
	long send() const noexcept
	{
		if (by_method_) [[likely]]
			return method_.send_again(fd_);
		/* write() would be a cancellation point. */
		return syscall(SYS_write, fd_, &message_, sizeof(message_));
	}

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
	bool by_method_ = false;
	Run run_ = nullptr;
	void *device_ = nullptr;
	uint32_t qp_id_ = 0;
	Ioctl<1> method_{UVERBS_OBJECT_DEVICE, SIRDMA_METHOD_KICK};
	Message message_{};
	/*
	 * The kernel writes the number of the first bad request (0) here, perhaps for two threads
	 * at once.
	 */
	uint32_t answer_ = 0;
};

/*
 * Doorbells of both rings of a QP. They are rung after the queue's lock is dropped, since a
 * kick may run the device for a long time. This is safe because a doorbell carries no
 * index and only makes the device read the ring: threads may ring in another order than
 * they posted, and a superfluous doorbell finds the ring empty.
 *
 * Each ring has a word that says whether the device must be woken: need_kick of a device that is
 * kicked, a constant for another. So posting is the same for both.
 */
class QpDoorbell {
public:
	/* @page and @shadow may be null. */
	void attach(sirdma_db_page *page, sirdma_qp_shadow *shadow, uint32_t qp_id) noexcept
	{
		page_ = page;
		shadow_ = shadow;
		qp_id_ = qp_id;
		watch();
	}

	/* Kick the device by the method, the command, or the call that class Kick describes. */
	void kick_by_method(int cmd_fd, uint32_t driver_id, uint32_t qp_id) noexcept
	{
		kick_.prepare_method(cmd_fd, driver_id, qp_id);
		watch();
	}

	void kick_by_command(int cmd_fd, uint32_t qp_handle) noexcept
	{
		kick_.prepare_command(cmd_fd, qp_handle);
		watch();
	}

	void kick_by_call(Kick::Run run, void *device, uint32_t qp_id) noexcept
	{
		kick_.prepare_local(run, device, qp_id);
		watch();
	}

	/* Send WQEs became valid. */
	void ring_send() const noexcept
	{
		full_fence();
		if (get(*send_asleep_)) [[unlikely]]
			wake();
	}

	/*
	 * Receive WQEs became valid. The device needs a kick only in the error state, to flush
	 * them.
	 */
	void ring_recv() const noexcept
	{
		full_fence();
		if (get(*recv_asleep_)) [[unlikely]]
			kick_.wake();
	}

private:
	static constexpr __le64 always = ~__le64{0};
	static constexpr __le64 never = 0;

	/* Choose the words. */
	void watch() noexcept
	{
		if (!shadow_ || !kick_.ready())
			return;
		send_asleep_ = &shadow_->need_kick;
		recv_asleep_ = &shadow_->rq_need_kick;
	}

	[[gnu::cold, gnu::noinline]] void wake() const noexcept
	{
		if (kick_.ready()) {
			kick_.wake();
		} else if (page_) {
			device_store_fence();
			put(page_->wqe_alloc, qp_id_);
		}
	}

	const __le64 *send_asleep_ = &always;
	const __le64 *recv_asleep_ = &never;
	sirdma_db_page *page_ = nullptr;
	sirdma_qp_shadow *shadow_ = nullptr;
	uint32_t qp_id_ = 0;
	Kick kick_;
};

} // namespace sirdma
