/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * XRC: domains, their shared receive queues, and queue pairs of both ends.
 */
#include <cerrno>

#include "lifecycle.hpp"
#include "qp.hpp"

namespace sirdma::test
{

namespace
{

class WithXrcd : public WithCq {
protected:
	void SetUp() override
	{
		WithCq::SetUp();
		xrcd = open_xrcd(context_, &domain);
		ASSERT_TRUE(xrcd);
	}
	void TearDown() override
	{
		EXPECT_EQ(close_xrcd(xrcd), 0);
		EXPECT_TRUE(driver.xrcds.empty());
		WithCq::TearDown();
	}

	ibv_xrcd_init_attr domain{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				  .fd = -1,
				  .oflags = 0};
	ibv_xrcd *xrcd = nullptr;
};

TEST_F(WithXrcd, TargetsHaveNoRingsAndTakeNoRequests)
{
	const size_t rings = driver.registrations.size();
	ibv_qp_init_attr_ex attr{};

	attr.qp_type = IBV_QPT_XRC_RECV;
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	attr.xrcd = xrcd;
	attr.send_cq = cq; /* to be ignored */
	ibv_qp *qp = create_qp_ex(context_, &attr);
	ASSERT_TRUE(qp);
	EXPECT_EQ(qp->qp_num, 78u);
	EXPECT_EQ(driver.registrations.size(), rings);

	ibv_qp_attr state{};
	state.qp_state = IBV_QPS_RTS;
	EXPECT_EQ(modify_qp(qp, &state, IBV_QP_STATE), 0);
	ibv_send_wr wr{}, *bad = nullptr;
	EXPECT_EQ(post_send(qp, &wr, &bad), EINVAL);
	EXPECT_EQ(bad, &wr);
	ibv_recv_wr recv{}, *bad_recv = nullptr;
	EXPECT_EQ(post_recv(qp, &recv, &bad_recv), EINVAL);
	state.qp_state = IBV_QPS_RESET;
	EXPECT_EQ(modify_qp(qp, &state, IBV_QP_STATE), 0);

	ibv_qp_open_attr open{};
	open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	open.qp_num = 78;
	open.qp_type = IBV_QPT_XRC_RECV;
	open.xrcd = xrcd;
	ibv_qp *again = open_qp(context_, &open);
	ASSERT_TRUE(again);
	EXPECT_EQ(again->qp_num, 78u);
	EXPECT_EQ(destroy_qp(again), 0);
	EXPECT_EQ(destroy_qp(qp), 0);
	open.qp_type = IBV_QPT_RC;
	EXPECT_FALSE(open_qp(context_, &open));
	EXPECT_EQ(errno, EINVAL);

	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd;
	EXPECT_FALSE(create_qp_ex(context_, &attr));
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(WithXrcd, InitiatorsHaveASendQueueAlone)
{
	ibv_qp_init_attr attr = qp_attr(cq);

	attr.qp_type = IBV_QPT_XRC_SEND;
	attr.recv_cq = nullptr;
	ibv_qp *qp = create_qp(pd, &attr);
	ASSERT_TRUE(qp);
	EXPECT_EQ(attr.cap.max_recv_wr, 0u);
	EXPECT_EQ(driver.qp_cap.max_recv_wr, 0u);
	ibv_recv_wr recv{}, *bad = nullptr;
	Qp::of(qp).queues().set_state(IBV_QPS_RTS);
	EXPECT_EQ(post_recv(qp, &recv, &bad), EINVAL);
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(WithXrcd, QueuesOfADomainHaveANumber)
{
	ibv_srq_init_attr_ex attr{};
	uint32_t number = 0;

	attr.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			 IBV_SRQ_INIT_ATTR_CQ;
	attr.srq_type = IBV_SRQT_XRC;
	attr.pd = pd;
	attr.xrcd = xrcd;
	attr.cq = cq;
	attr.srq_context = this;
	ibv_srq *srq = create_srq_ex(context_, &attr);
	ASSERT_TRUE(srq);
	EXPECT_EQ(get_srq_num(srq, &number), 0);
	EXPECT_EQ(number, 9u);
	EXPECT_EQ(srq->srq_context, this);
	EXPECT_TRUE(registered_at(driver.srq_request.user_srq_buf));
	EXPECT_EQ(destroy_srq(srq), 0);
	EXPECT_TRUE(driver.srqs.empty());

	attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ;
	EXPECT_FALSE(create_srq_ex(context_, &attr));
	EXPECT_EQ(errno, EINVAL);
	attr.srq_type = IBV_SRQT_TM;
	EXPECT_FALSE(create_srq_ex(context_, &attr));
	EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(WithXrcd, FailuresLeaveNothing)
{
	driver.failing = "open_xrcd";
	EXPECT_FALSE(open_xrcd(context_, &domain));
	EXPECT_EQ(errno, ENOMEM);
	driver.failing = "close_xrcd";
	EXPECT_EQ(close_xrcd(xrcd), EBUSY);
	driver.failing.clear();
	domain.comp_mask = IBV_XRCD_INIT_ATTR_FD;
	EXPECT_FALSE(open_xrcd(context_, &domain));
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(driver.xrcds.size(), 1u);
}

} // namespace

} // namespace sirdma::test
