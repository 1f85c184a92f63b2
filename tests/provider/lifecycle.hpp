/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A device that the provider opened, with the fake driver behind it.
 */
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "cq.hpp"
#include "fake_device.hpp"
#include "fake_ibverbs.hpp"
#include "verbs.hpp"

namespace sirdma::test
{

inline int to_state(ibv_qp *qp, ibv_qp_state state)
{
	ibv_qp_attr attr{};

	attr.qp_state = state;
	return modify_qp(qp, &attr, IBV_QP_STATE);
}

class Lifecycle : public testing::Test {
protected:
	void SetUp() override
	{
		driver.reset();
		/* The doorbell page is mapped from the command file. */
		fd_ = open("/tmp", O_TMPFILE | O_RDWR, 0600);
		ASSERT_GE(fd_, 0);
		ASSERT_EQ(ftruncate(fd_, 4096), 0);
	}

	void TearDown() override
	{
		close_device();
		close(fd_);
		EXPECT_EQ(driver.contexts, 0);
		EXPECT_TRUE(driver.pds.empty());
		EXPECT_TRUE(driver.registrations.empty());
	}

	bool open_device(uint32_t driver_id = SIRDMA_DRIVER_ID, int ibdev_idx = 0)
	{
		verbs_sysfs_dev found{};

		found.driver_id = driver_id;
		found.ibdev_idx = ibdev_idx;
		device_ = driver.ops->alloc_device(&found);
		context_ = sirdma::open_device(&device_->device, fd_, kernel_commands);
		return context_;
	}

	void close_device()
	{
		if (context_)
			free_context(context_);
		context_ = nullptr;
		if (device_)
			driver.ops->uninit_device(device_);
		device_ = nullptr;
	}

	ibv_qp_init_attr qp_attr(ibv_cq *cq)
	{
		ibv_qp_init_attr attr{};

		attr.send_cq = cq;
		attr.recv_cq = cq;
		attr.qp_type = IBV_QPT_RC;
		attr.cap = {.max_send_wr = 100,
			    .max_recv_wr = 50,
			    .max_send_sge = 2,
			    .max_recv_sge = 3,
			    .max_inline_data = 32};
		return attr;
	}

	FakeDriver &driver = fake_driver();
	verbs_device *device_ = nullptr;
	ibv_context *context_ = nullptr;
	int fd_ = -1;
};

/* Context, PD and CQ are there. */
class WithCq : public Lifecycle {
protected:
	void SetUp() override
	{
		Lifecycle::SetUp();
		ASSERT_TRUE(open_device());
		pd = alloc_pd(context_);
		cq = create_cq(context_, 100, nullptr, 0);
		ASSERT_TRUE(pd && cq);
	}

	void TearDown() override
	{
		EXPECT_EQ(cq ? destroy_cq(cq) : 0, 0);
		EXPECT_EQ(pd ? dealloc_pd(pd) : 0, 0);
		Lifecycle::TearDown();
	}

	const Registration *registered_at(uint64_t start)
	{
		for (const auto &[handle, r] : driver.registrations) {
			if (r.start == start)
				return &r;
		}
		return nullptr;
	}

	/* The device completes a receive request of the QP and the CQ that were created last, as the CQ's first. */
	void complete_receive()
	{
		auto *ring = reinterpret_cast<sirdma_cqe *>(driver.cq_request.user_cq_buf);
		auto *shadow =
			reinterpret_cast<sirdma_cq_shadow *>(driver.cq_request.user_shadow_area);
		CqeSpec spec;

		spec.compl_ctx = driver.qp_request.user_compl_ctx;
		spec.send = false;
		CompletionWriter({ring, static_cast<size_t>(driver.cq_size)}, *shadow).write(spec);
	}

	ibv_pd *pd = nullptr;
	ibv_cq *cq = nullptr;
};

} // namespace sirdma::test
