// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A consumer in the kernel posts with interrupts off and a lock held that the completion handler
 * takes as well; it is told, and flushed, and shares a receive queue.
 */
#include "consumer.h"

#include <linux/module.h>
#include <linux/netdevice.h>
#include <rdma/ib_cache.h>

#define NETDEV "eth-init"
#define DEPTH 64
#define ROUNDS 500
#define LIST 8 /* requests of one post */
#define PATIENCE (10 * HZ)

static void consumer_check(struct consumer *c, const struct ib_wc *wc)
{
	bool send = wc->qp == c->qp[0] && !(wc->opcode & IB_WC_RECV);

	if (wc->status == IB_WC_WR_FLUSH_ERR) {
		c->flushed++;
		return;
	}
	if (wc->status != IB_WC_SUCCESS) {
		c->wrong++;
		return;
	}
	if (send) {
		c->wrong += wc->wr_id != c->sends || wc->opcode != IB_WC_SEND;
		c->sends++;
		return;
	}
	c->wrong += wc->qp != c->qp[1] || wc->wr_id != c->recvs || wc->opcode != IB_WC_RECV ||
		    !(wc->wc_flags & IB_WC_WITH_IMM) || be32_to_cpu(wc->ex.imm_data) != c->recvs ||
		    wc->byte_len;
	c->recvs++;
}

/* Take what is there, with the lock held. */
static void consumer_poll(struct consumer *c)
{
	struct ib_wc wc[4];
	int n, i;

	while ((n = ib_poll_cq(c->cq, ARRAY_SIZE(wc), wc)) > 0)
		for (i = 0; i < n; i++)
			consumer_check(c, &wc[i]);
	c->wrong += n < 0;
	if (c->sends + c->recvs + c->flushed >= c->wanted)
		complete(&c->done);
}

static void consumer_event(struct ib_cq *cq, void *context)
{
	struct consumer *c = context;
	unsigned long flags;

	/* A handler inside the poster's call would wait here for ever; lockdep says so before. */
	c->events_in_call += READ_ONCE(c->caller) == raw_smp_processor_id();
	spin_lock_irqsave(&c->lock, flags);
	c->events++;
	if (c->rearm) {
		do
			consumer_poll(c);
		while (ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0);
	} else {
		complete(&c->done);
	}
	spin_unlock_irqrestore(&c->lock, flags);
}

static unsigned long consumer_lock(struct consumer *c)
{
	unsigned long flags;

	spin_lock_irqsave(&c->lock, flags);
	WRITE_ONCE(c->caller, smp_processor_id());
	return flags;
}

static void consumer_unlock(struct consumer *c, unsigned long flags)
{
	WRITE_ONCE(c->caller, -1);
	spin_unlock_irqrestore(&c->lock, flags);
}

static int consumer_wait(struct consumer *c)
{
	return wait_for_completion_timeout(&c->done, PATIENCE) ? 0 : -ETIMEDOUT;
}

int consumer_next(struct consumer *c, struct ib_wc *wc)
{
	int n;

	for (;;) {
		reinit_completion(&c->done);
		n = ib_poll_cq(c->cq, 1, wc);
		if (!n)
			n = ib_req_notify_cq(c->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS);
		else
			return n < 0 ? n : 0;
		if (!n)
			n = consumer_wait(c);
		if (n < 0)
			return n;
	}
}

void consumer_succeed(struct kunit *test, u32 count)
{
	struct ib_wc wc;
	u32 i;

	for (i = 0; i < count; i++) {
		KUNIT_ASSERT_EQ(test, consumer_next(test->priv, &wc), 0);
		KUNIT_ASSERT_EQ(test, wc.status, IB_WC_SUCCESS);
	}
}

enum ib_wc_status consumer_complete(struct kunit *test, struct ib_qp *qp,
				    const struct ib_send_wr *wr)
{
	const struct ib_send_wr *bad;
	struct ib_wc wc;

	KUNIT_ASSERT_EQ(test, ib_post_send(qp, wr, &bad), 0);
	KUNIT_ASSERT_EQ(test, consumer_next(test->priv, &wc), 0);
	KUNIT_EXPECT_PTR_EQ(test, wc.qp, qp);
	KUNIT_EXPECT_EQ(test, wc.wr_id, wr->wr_id);
	if (wc.status == IB_WC_SUCCESS && wr->opcode == IB_WR_REG_MR)
		KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_REG_MR);
	return wc.status;
}

enum ib_wc_status consumer_rdma(struct kunit *test, enum ib_wr_opcode opcode, struct ib_sge local,
				u64 remote, u32 rkey)
{
	struct consumer *c = test->priv;
	struct ib_rdma_wr wr = {
		.wr = {.wr_id = opcode,
		       .opcode = opcode,
		       .send_flags = IB_SEND_SIGNALED,
		       .sg_list = &local,
		       .num_sge = 1},
		.remote_addr = remote,
		.rkey = rkey,
	};

	return consumer_complete(test, c->qp[0], &wr.wr);
}

/* Empty messages: their immediate data is the only content that needs no region. */
static int consumer_post_sends(struct consumer *c, u32 first, u32 count,
			       const struct ib_send_wr **bad)
{
	struct ib_send_wr wr[LIST] = {};
	u32 i;

	for (i = 0; i < count; i++) {
		wr[i].wr_id = first + i;
		wr[i].opcode = IB_WR_SEND_WITH_IMM;
		wr[i].send_flags = IB_SEND_SIGNALED;
		wr[i].ex.imm_data = cpu_to_be32(first + i);
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
	}
	return ib_post_send(c->qp[0], wr, bad);
}

int consumer_post_recvs(struct ib_qp *qp, u32 first, u32 count)
{
	struct ib_recv_wr wr[LIST] = {};
	u32 i;

	for (i = 0; i < count; i++) {
		wr[i].wr_id = first + i;
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
	}
	return ib_post_recv(qp, wr, NULL);
}

static int consumer_find_gid(struct ib_device *ibdev, union ib_gid *gid)
{
	const struct ib_gid_attr *attr;
	int i, found = -ENOENT;

	for (i = 0; i < ibdev->port_data[1].immutable.gid_tbl_len && found < 0; i++) {
		attr = rdma_get_gid_attr(ibdev, 1, i);
		if (IS_ERR(attr))
			continue;
		if (attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
		    ipv6_addr_v4mapped((struct in6_addr *)&attr->gid)) {
			*gid = attr->gid;
			found = i;
		}
		rdma_put_gid_attr(attr);
	}
	return found;
}

static int consumer_to_init(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |
				   IB_ACCESS_REMOTE_ATOMIC,
	};

	return ib_modify_qp(qp, &attr,
			    IB_QP_STATE | IB_QP_PORT | IB_QP_PKEY_INDEX | IB_QP_ACCESS_FLAGS);
}

static int consumer_to_rts(struct ib_qp *qp, u32 peer)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	union ib_gid gid;
	int err, index;

	index = consumer_find_gid(qp->device, &gid);
	if (index < 0)
		return index;
	attr.ah_attr.type = rdma_ah_find_type(qp->device, 1);
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	rdma_ah_set_grh(&attr.ah_attr, &gid, 0, index, 64, 0);
	err = ib_modify_qp(qp, &attr,
			   IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(qp, &attr,
			    IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
				    IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

static int consumer_to(struct ib_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = {.qp_state = state};

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

void consumer_connect(struct kunit *test)
{
	struct consumer *c = test->priv;

	KUNIT_ASSERT_EQ(test, consumer_to_init(c->qp[0]), 0);
	KUNIT_ASSERT_EQ(test, consumer_to_init(c->qp[1]), 0);
	KUNIT_ASSERT_EQ(test, consumer_to_rts(c->qp[0], c->qp[1]->qp_num), 0);
	KUNIT_ASSERT_EQ(test, consumer_to_rts(c->qp[1], c->qp[0]->qp_num), 0);
}

void consumer_make_qps_on(struct kunit *test, struct ib_srq *srq)
{
	struct consumer *c = test->priv;
	struct ib_qp_init_attr init = {
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};

	c->qp[0] = ib_create_qp(c->pd, &init);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, c->qp[0]);
	init.srq = srq;
	c->qp[1] = ib_create_qp(c->pd, &init);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, c->qp[1]);
}

void consumer_make_qps(struct kunit *test, unsigned int pd_flags)
{
	struct consumer *c = test->priv;

	c->pd = ib_alloc_pd(c->ibdev, pd_flags);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, c->pd);
	consumer_make_qps_on(test, NULL);
}

void consumer_destroy_qps(struct consumer *c)
{
	int i;

	for (i = 1; i >= 0; i--) {
		if (!IS_ERR_OR_NULL(c->qp[i]))
			ib_destroy_qp(c->qp[i]);
		c->qp[i] = NULL;
	}
}

void consumer_free_qps(struct consumer *c)
{
	consumer_destroy_qps(c);
	if (!IS_ERR_OR_NULL(c->srq))
		ib_destroy_srq(c->srq);
	c->srq = NULL;
	if (!IS_ERR_OR_NULL(c->pd))
		ib_dealloc_pd(c->pd);
	c->pd = NULL;
}

int consumer_init(struct kunit *test)
{
	struct ib_cq_init_attr cq_attr = {.cqe = 4 * DEPTH};
	struct consumer *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	struct net_device *ndev;

	KUNIT_ASSERT_NOT_NULL(test, c);
	test->priv = c;
	c->test = test;
	spin_lock_init(&c->lock);
	init_completion(&c->done);
	c->caller = -1;
	c->wanted = U32_MAX;
	ndev = dev_get_by_name(&init_net, NETDEV);
	KUNIT_ASSERT_NOT_NULL_MSG(test, ndev, "no netdev " NETDEV);
	c->ibdev = ib_device_get_by_netdev(ndev, RDMA_DRIVER_UNKNOWN);
	dev_put(ndev);
	KUNIT_ASSERT_NOT_NULL_MSG(test, c->ibdev, "no RDMA device on " NETDEV);
	c->cq = ib_create_cq(c->ibdev, consumer_event, NULL, c, &cq_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, c->cq);
	consumer_make_qps(test, 0);
	return 0;
}

void consumer_exit(struct kunit *test)
{
	struct consumer *c = test->priv;

	if (!c)
		return;
	consumer_free_qps(c);
	if (!IS_ERR_OR_NULL(c->cq))
		ib_destroy_cq(c->cq);
	if (c->ibdev)
		ib_device_put(c->ibdev);
}

/* No handler and no completion inside a call; all of them, in order, afterwards. */
static void consumer_posts_with_interrupts_off(struct kunit *test)
{
	struct consumer *c = test->priv;
	const struct ib_send_wr *bad;
	unsigned long flags;
	u32 round, i;
	int err = 0;

	consumer_connect(test);
	c->rearm = true;
	KUNIT_ASSERT_EQ(test, ib_req_notify_cq(c->cq, IB_CQ_NEXT_COMP), 0);
	for (round = 0; round < ROUNDS && !err; round++) {
		u32 first = round * LIST;

		reinit_completion(&c->done);
		flags = consumer_lock(c);
		c->wanted = 2 * (first + LIST);
		err = consumer_post_recvs(c->qp[1], first, LIST);
		for (i = 0; i < LIST && !err; i += round % 2 ? 1 : LIST)
			err = consumer_post_sends(c, first + i, round % 2 ? 1 : LIST, &bad);
		consumer_unlock(c, flags);
		if (!err)
			err = consumer_wait(c);
	}
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, c->wrong, 0);
	KUNIT_EXPECT_EQ(test, c->sends, ROUNDS * LIST);
	KUNIT_EXPECT_EQ(test, c->recvs, ROUNDS * LIST);
	KUNIT_EXPECT_EQ(test, c->events_in_call, 0);
	KUNIT_EXPECT_GE(test, c->events, 1);
}

/* A request for a solicited event ignores other completions, and says that some wait. */
static void consumer_asks_for_events(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct ib_send_wr solicited = {
		.wr_id = 1,
		.opcode = IB_WR_SEND_WITH_IMM,
		.send_flags = IB_SEND_SIGNALED | IB_SEND_SOLICITED,
		.ex.imm_data = cpu_to_be32(1),
	};
	const struct ib_send_wr *bad;
	unsigned long flags;

	consumer_connect(test);
	KUNIT_ASSERT_EQ(test, consumer_post_recvs(c->qp[1], 0, 2), 0);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(c->cq, IB_CQ_SOLICITED), 0);
	KUNIT_ASSERT_EQ(test, consumer_post_sends(c, 0, 1, &bad), 0);
	KUNIT_ASSERT_EQ(test, ib_post_send(c->qp[0], &solicited, &bad), 0);
	KUNIT_ASSERT_EQ(test, consumer_wait(c), 0);
	/* The event came with the second message, so the first is there as well. */
	KUNIT_EXPECT_EQ(test, c->events, 1);
	flags = consumer_lock(c);
	KUNIT_EXPECT_GT(test, ib_req_notify_cq(c->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS),
			0);
	consumer_poll(c);
	consumer_unlock(c, flags);
	KUNIT_EXPECT_EQ(test, c->recvs, 2);
	KUNIT_EXPECT_EQ(test, c->wrong, 0);
}

/* The ring takes what create_qp promised, and says which request found it full. */
static void consumer_fills_the_queue(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct ib_recv_wr recv = {}, more = {};
	const struct ib_recv_wr *bad = NULL;
	const struct ib_send_wr *bad_send = NULL;
	u32 i;

	KUNIT_ASSERT_EQ(test, ib_query_qp(c->qp[1], &attr, IB_QP_CAP, &init), 0);
	KUNIT_EXPECT_EQ(test, consumer_post_recvs(c->qp[1], 0, 1), -EINVAL);
	KUNIT_ASSERT_EQ(test, consumer_to_init(c->qp[1]), 0);
	KUNIT_EXPECT_EQ(test, consumer_post_sends(c, 0, 1, &bad_send), -EINVAL);
	KUNIT_EXPECT_NOT_NULL(test, bad_send);
	for (i = 0; i < init.cap.max_recv_wr - 1; i++)
		KUNIT_ASSERT_EQ(test, consumer_post_recvs(c->qp[1], i, 1), 0);
	recv.next = &more;
	KUNIT_EXPECT_EQ(test, ib_post_recv(c->qp[1], &recv, &bad), -ENOMEM);
	KUNIT_EXPECT_PTR_EQ(test, bad, (const struct ib_recv_wr *)&more);
}

/* The error state flushes what was posted before and what is posted then, a RESET forgets it. */
static void consumer_is_flushed_and_reset(struct kunit *test)
{
	struct consumer *c = test->priv;
	const struct ib_send_wr *bad;
	unsigned long flags;
	struct ib_wc wc;
	int err;

	consumer_connect(test);
	c->rearm = true;
	c->wanted = LIST;
	KUNIT_ASSERT_EQ(test, ib_req_notify_cq(c->cq, IB_CQ_NEXT_COMP), 0);
	KUNIT_ASSERT_EQ(test, consumer_post_recvs(c->qp[1], 0, LIST), 0);
	KUNIT_ASSERT_EQ(test, consumer_to(c->qp[1], IB_QPS_ERR), 0);
	KUNIT_ASSERT_EQ(test, consumer_wait(c), 0);
	KUNIT_EXPECT_EQ(test, c->flushed, LIST);

	reinit_completion(&c->done);
	KUNIT_ASSERT_EQ(test, consumer_to(c->qp[0], IB_QPS_ERR), 0);
	flags = consumer_lock(c);
	c->wanted = 3 * LIST;
	err = consumer_post_recvs(c->qp[1], LIST, LIST);
	if (!err)
		err = consumer_post_sends(c, 0, LIST, &bad);
	consumer_unlock(c, flags);
	KUNIT_ASSERT_EQ(test, err, 0);
	KUNIT_ASSERT_EQ(test, consumer_wait(c), 0);
	KUNIT_EXPECT_EQ(test, c->flushed, 3 * LIST);

	c->rearm = false;
	KUNIT_ASSERT_EQ(test, consumer_post_recvs(c->qp[1], 0, LIST), 0);
	KUNIT_ASSERT_EQ(test, consumer_to(c->qp[0], IB_QPS_RESET), 0);
	KUNIT_ASSERT_EQ(test, consumer_to(c->qp[1], IB_QPS_RESET), 0);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(c->cq, 1, &wc), 0);
	consumer_connect(test);
	c->wanted = U32_MAX;
	KUNIT_ASSERT_EQ(test, consumer_post_recvs(c->qp[1], 0, 1), 0);
	KUNIT_ASSERT_EQ(test, consumer_post_sends(c, 0, 1, &bad), 0);
	reinit_completion(&c->done);
	if (!ib_req_notify_cq(c->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS))
		KUNIT_EXPECT_EQ(test, consumer_wait(c), 0);
	KUNIT_EXPECT_EQ(test, c->wrong, 0);
}

static void consumer_srq_event(struct ib_event *event, void *context)
{
	struct consumer *c = context;

	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED && event->element.srq == c->srq)
		complete(&c->limit);
}

static int consumer_post_srq_recv(struct consumer *c, u64 wr_id)
{
	const struct ib_recv_wr wr = {.wr_id = wr_id};
	unsigned long flags;
	int err;

	spin_lock_irqsave(&c->lock, flags);
	err = ib_post_srq_recv(c->srq, &wr, NULL);
	spin_unlock_irqrestore(&c->lock, flags);
	return err;
}

/* Completions name the queue pair that received, and the limit's event comes once. */
static void consumer_shares_a_receive_queue(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct ib_srq_init_attr init = {
		.event_handler = consumer_srq_event,
		.srq_context = c,
		.attr = {.max_wr = DEPTH, .max_sge = 1},
		.srq_type = IB_SRQT_BASIC,
	};
	struct ib_srq_attr attr = {.srq_limit = DEPTH / 2};
	struct ib_qp_init_attr qp_init;
	struct ib_qp_attr qp_attr;
	struct ib_wc wc;
	u32 i, n;

	init_completion(&c->limit);
	consumer_destroy_qps(c);
	c->srq = ib_create_srq(c->pd, &init);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, c->srq);
	KUNIT_EXPECT_GE(test, init.attr.max_wr, DEPTH);
	consumer_make_qps_on(test, c->srq);
	consumer_connect(test);
	for (i = 0; i < DEPTH; i++)
		KUNIT_ASSERT_EQ(test, consumer_post_srq_recv(c, 100 + i), 0);
	KUNIT_ASSERT_EQ(test, ib_modify_srq(c->srq, &attr, IB_SRQ_LIMIT), 0);
	KUNIT_ASSERT_EQ(test, ib_query_srq(c->srq, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.srq_limit, DEPTH / 2);
	for (i = 0; i <= DEPTH / 2; i++) {
		KUNIT_ASSERT_EQ(test, consumer_post_sends(c, i, 1, NULL), 0);
		for (n = 0; n < 2; n++) {
			KUNIT_ASSERT_EQ(test, consumer_next(c, &wc), 0);
			KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
			if (wc.qp == c->qp[0])
				continue;
			KUNIT_EXPECT_PTR_EQ(test, wc.qp, c->qp[1]);
			KUNIT_EXPECT_EQ(test, wc.wr_id, 100ull + i);
			KUNIT_EXPECT_EQ(test, be32_to_cpu(wc.ex.imm_data), i);
		}
		if (i < DEPTH / 2)
			KUNIT_EXPECT_FALSE(test, completion_done(&c->limit));
	}
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&c->limit, PATIENCE), 0);
	KUNIT_ASSERT_EQ(test, ib_query_srq(c->srq, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.srq_limit, 0);
	KUNIT_EXPECT_EQ(test, ib_post_recv(c->qp[1], &(struct ib_recv_wr){}, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_modify_srq(c->srq, &attr, 0x80), -EINVAL);
	KUNIT_ASSERT_EQ(test, ib_query_qp(c->qp[1], &qp_attr, IB_QP_STATE, &qp_init), 0);
	KUNIT_EXPECT_PTR_EQ(test, qp_init.srq, c->srq);
	KUNIT_EXPECT_EQ(test, ib_destroy_srq_user(c->srq, NULL), -EBUSY);
}

/* What kernel consumers cannot have yet is not offered, so that those which need it do not attach. */
static void consumer_is_told_what_is_missing(struct kunit *test)
{
	struct consumer *c = test->priv;
	struct ib_reg_wr reg = {.wr = {.wr_id = 7, .opcode = IB_WR_REG_MR_INTEGRITY}};
	struct ib_send_wr bind = {.wr_id = 8, .opcode = IB_WR_BIND_MW};
	const struct ib_send_wr *bad = NULL;

	KUNIT_EXPECT_TRUE(test, c->ibdev->kverbs_provider);
	/* There is a key for each PD instead. */
	KUNIT_EXPECT_FALSE(test, c->ibdev->attrs.kernel_cap_flags & IBK_LOCAL_DMA_LKEY);
	KUNIT_EXPECT_FALSE(test, c->ibdev->attrs.kernel_cap_flags & IBK_INTEGRITY_HANDOVER);
	KUNIT_EXPECT_FALSE(test, c->ibdev->attrs.kernel_cap_flags & IBK_SG_GAPS_REG);
	consumer_connect(test);
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[0], &reg.wr, &bad), -EOPNOTSUPP);
	KUNIT_EXPECT_PTR_EQ(test, bad, (const struct ib_send_wr *)&reg.wr);
	KUNIT_EXPECT_EQ(test, ib_post_send(c->qp[0], &bind, &bad), -EOPNOTSUPP);
}

static struct kunit_case consumer_cases[] = {
	KUNIT_CASE(consumer_posts_with_interrupts_off),
	KUNIT_CASE(consumer_asks_for_events),
	KUNIT_CASE(consumer_fills_the_queue),
	KUNIT_CASE(consumer_is_flushed_and_reset),
	KUNIT_CASE(consumer_shares_a_receive_queue),
	KUNIT_CASE(consumer_is_told_what_is_missing),
	{},
};

static struct kunit_suite consumer_suite = {
	.name = "sirdma_consumer",
	.init = consumer_init,
	.exit = consumer_exit,
	.test_cases = consumer_cases,
};

kunit_test_suite(consumer_suite);

MODULE_DESCRIPTION("a consumer of sirdma in the kernel");
MODULE_LICENSE("GPL");
