/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues, against the fake driver: their memory, what is asked of the driver, and what is refused.
 */
#include <cerrno>

#include <gtest/gtest.h>

#include "barrier.hpp"
#include "lifecycle.hpp"

namespace sirdma::test
{

TEST_F(WithCq, CqRingHasRoomForImmediateData)
{
	EXPECT_EQ(cq->cqe, 100);
	EXPECT_EQ(driver.cq_size, 202);

	const Registration *ring = registered_at(driver.cq_request.user_cq_buf);
	const Registration *shadow = registered_at(driver.cq_request.user_shadow_area);
	ASSERT_TRUE(ring && shadow);
	EXPECT_EQ(ring->length, 8192u);
	EXPECT_EQ(ring->what.cq_pages, 2);
	EXPECT_EQ(ring->what.reg_type, SIRDMA_MEMREG_CQ);
	EXPECT_EQ(shadow->length, uint64_t{SIRDMA_SHADOW_SIZE});
	EXPECT_EQ(shadow->what.cq_pages, 1);
}

TEST_F(WithCq, CqShadowFollowsTheRingWithoutTheResizeFeature)
{
	EXPECT_EQ(destroy_cq(cq), 0);
	EXPECT_EQ(dealloc_pd(pd), 0);
	cq = nullptr;
	pd = nullptr;
	close_device();
	driver.context_answer.feature_flags = 0;
	ASSERT_TRUE(open_device());
	cq = create_cq(context_, 10, nullptr, 0);
	ASSERT_TRUE(cq);
	EXPECT_EQ(driver.registrations.size(), 1u);
	EXPECT_EQ(driver.registrations.begin()->second.length, 4096u + SIRDMA_SHADOW_SIZE);
	EXPECT_EQ(driver.cq_request.user_shadow_area, driver.cq_request.user_cq_buf + 4096);
	EXPECT_EQ(resize_cq(cq, 20), EOPNOTSUPP);
}

TEST_F(WithCq, ModerationGoesToTheDriver)
{
	ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
				   .moderate = {.cq_count = 3, .cq_period = 5}};

	EXPECT_EQ(modify_cq(cq, &attr), 0);
	EXPECT_EQ(driver.moderation.cq_count, 3);
	EXPECT_EQ(driver.moderation.cq_period, 5);
	driver.failing = "modify_cq";
	EXPECT_EQ(modify_cq(cq, &attr), ENOMEM);
}

/* An event may be lost. Of the devices that read an arm word only ours clear it. */
TEST_F(Lifecycle, OurDevicesAreAskedForAnEventAsSoonAsTheyHaveRaisedOne)
{
	constexpr uint64_t bits = SIRDMA_CQ_SHADOW_ARM_NEXT | SIRDMA_CQ_SHADOW_ARM_NEXT_SE;

	for (const __u64 extension : {SIRDMA_UCTX_KICK, SIRDMA_UCTX_RING_POOL, __u64{0}}) {
		driver.context_answer.comp_mask &= ~SIRDMA_UCTX_KICK;
		driver.context_answer.comp_mask |= extension;
		ASSERT_TRUE(open_device());
		ibv_cq *cq = create_cq(context_, 10, nullptr, 0);
		ASSERT_TRUE(cq);
		__le64 &arm =
			reinterpret_cast<sirdma_cq_shadow *>(driver.cq_request.user_shadow_area)
				->arm;

		EXPECT_EQ(req_notify_cq(cq, 0), 0);
		EXPECT_EQ(get(arm) & bits, bits);
		put(arm, get(arm) & ~bits);
		EXPECT_EQ(req_notify_cq(cq, 0), 0);
		EXPECT_EQ(get(arm) & bits, extension ? bits : 0);
		cq_event(cq);
		EXPECT_EQ(get(arm) & bits, bits);
		EXPECT_EQ(destroy_cq(cq), 0);
		close_device();
		driver.context_answer.comp_mask &= ~extension;
	}
}

TEST_F(WithCq, BadCqSizesAreEinval)
{
	for (int cqe : {0, -1, 1 << 20}) {
		EXPECT_EQ(create_cq(context_, cqe, nullptr, 0), nullptr) << cqe;
		EXPECT_EQ(errno, EINVAL) << cqe;
	}
}

TEST_F(WithCq, FailedCqLeavesNothing)
{
	const size_t before = driver.registrations.size();

	for (const char *step : {"create_cq", "reg_mr", "dontfork"}) {
		driver.failing = step;
		EXPECT_EQ(create_cq(context_, 10, nullptr, 0), nullptr) << step;
		EXPECT_EQ(errno, ENOMEM) << step;
	}
	driver.failing.clear();
	EXPECT_EQ(driver.registrations.size(), before);
}

TEST_F(WithCq, ExtendedCqChecksWhatItIsAskedFor)
{
	ibv_cq_init_attr_ex attr{};

	attr.cqe = 10;
	attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	EXPECT_EQ(create_cq_ex(context_, &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	attr.wc_flags = IBV_WC_STANDARD_FLAGS;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	EXPECT_EQ(create_cq_ex(context_, &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	attr.parent_domain = pd;
	EXPECT_EQ(create_cq_ex(context_, &attr), nullptr) << "not a parent domain";
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(WithCq, ExtendedCqReadsEveryField)
{
	ibv_cq_init_attr_ex attr{};

	attr.cqe = 10;
	attr.wc_flags = IBV_WC_STANDARD_FLAGS;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	ibv_cq_ex *ex = create_cq_ex(context_, &attr);
	ASSERT_TRUE(ex);
	auto *ring = reinterpret_cast<sirdma_cqe *>(driver.cq_request.user_cq_buf);
	auto *shadow = reinterpret_cast<sirdma_cq_shadow *>(driver.cq_request.user_shadow_area);
	CompletionWriter writer({ring, 22}, *shadow);

	ibv_qp_init_attr init = qp_attr(ibv_cq_ex_to_cq(ex));
	ibv_qp *qp = create_qp(pd, &init);
	ASSERT_TRUE(qp);
	ibv_qp_attr qattr{};
	qattr.qp_state = IBV_QPS_INIT;
	ASSERT_EQ(modify_qp(qp, &qattr, IBV_QP_STATE), 0);
	ibv_recv_wr recv{};
	ibv_recv_wr *bad;
	recv.wr_id = 31;
	ASSERT_EQ(post_recv(qp, &recv, &bad), 0);

	ibv_poll_cq_attr poll_attr{};
	EXPECT_EQ(ibv_start_poll(ex, &poll_attr), ENOENT);
	CqeSpec spec;
	spec.compl_ctx = driver.qp_request.user_compl_ctx;
	spec.send = false;
	spec.op = 0x05;
	spec.imm = 0x11223344;
	spec.length = 640;
	writer.write(spec);
	ASSERT_EQ(ibv_start_poll(ex, &poll_attr), 0);
	EXPECT_EQ(ex->wr_id, 31u);
	EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_RECV);
	EXPECT_EQ(ibv_wc_read_byte_len(ex), 640u);
	EXPECT_EQ(ibv_wc_read_imm_data(ex), htobe32(0x11223344));
	EXPECT_EQ(ibv_wc_read_wc_flags(ex), unsigned{IBV_WC_WITH_IMM});
	EXPECT_EQ(ibv_wc_read_qp_num(ex), 7u);
	EXPECT_EQ(ibv_wc_read_src_qp(ex), 7u);
	EXPECT_EQ(ibv_wc_read_vendor_err(ex), 0u);
	EXPECT_EQ(ibv_wc_read_slid(ex) + ibv_wc_read_sl(ex) + ibv_wc_read_dlid_path_bits(ex), 0u);
	EXPECT_EQ(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);

	EXPECT_EQ(destroy_qp(qp), 0);
	EXPECT_EQ(destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

} // namespace sirdma::test
