// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Datagrams of a consumer in the kernel, as the communication manager uses them: address
 * handles made with interrupts off, queue pairs of its own, and the general services'. The
 * device is that of the netdev below and has an address; see tests/accept/kunit.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/spinlock.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

#define NETDEV "eth-init"
#define QKEY 0x5eed
#define DEPTH 64
#define BUFFER 2048
#define MESSAGE 777 /* bytes */
#define HANDLES 3000 /* more than are ready without waiting */
#define PATIENCE (10 * HZ)
#define MAD_CLASS 0x0a /* of vendors, without an OUI */

struct datagram {
	struct ib_device *ibdev;
	struct net_device *ndev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp[2]; /* the first sends, the second receives */
	struct rdma_ah_attr attr; /* of the device's own address */
	spinlock_t lock;
	struct completion event;
	u8 *buffer;
	u64 addr;
	/* Of the general services */
	struct completion sent;
	struct completion received;
	u32 mad_src_qp;
	u64 mad_tid;
};

static void datagram_event(struct ib_cq *cq, void *context)
{
	complete(&((struct datagram *)context)->event);
}

/* The next completion. */
static int datagram_next(struct datagram *d, struct ib_wc *wc)
{
	int n;

	for (;;) {
		reinit_completion(&d->event);
		n = ib_poll_cq(d->cq, 1, wc);
		if (n)
			return n < 0 ? n : 0;
		n = ib_req_notify_cq(d->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS);
		if (n < 0)
			return n;
		if (!n && !wait_for_completion_timeout(&d->event, PATIENCE))
			return -ETIMEDOUT;
	}
}

/* An address handle to the device's own IPv4 address. */
static int datagram_find_address(struct datagram *d)
{
	const struct ib_gid_attr *attr;
	int i;

	d->attr.type = rdma_ah_find_type(d->ibdev, 1);
	rdma_ah_set_port_num(&d->attr, 1);
	ether_addr_copy(d->attr.roce.dmac, d->ndev->dev_addr);
	for (i = 0; i < d->ibdev->port_data[1].immutable.gid_tbl_len; i++) {
		attr = rdma_get_gid_attr(d->ibdev, 1, i);
		if (IS_ERR(attr))
			continue;
		if (attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
		    ipv6_addr_v4mapped((struct in6_addr *)&attr->gid)) {
			/* The reference is kept in the attributes. */
			rdma_ah_set_grh(&d->attr, (union ib_gid *)&attr->gid, 0, i, 64, 0);
			d->attr.grh.sgid_attr = attr;
			return 0;
		}
		rdma_put_gid_attr(attr);
	}
	return -ENOENT;
}

static int datagram_to_rts(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {.qp_state = IB_QPS_INIT, .port_num = 1, .qkey = QKEY};
	int err;

	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PORT | IB_QP_PKEY_INDEX | IB_QP_QKEY);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTR;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
}

static int datagram_init(struct kunit *test)
{
	struct datagram *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	struct ib_cq_init_attr cq_attr = {.cqe = 4 * DEPTH};
	struct ib_qp_init_attr init = {
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IB_QPT_UD,
	};
	int i;

	KUNIT_ASSERT_NOT_NULL(test, d);
	test->priv = d;
	spin_lock_init(&d->lock);
	init_completion(&d->event);
	init_completion(&d->sent);
	init_completion(&d->received);
	d->ndev = dev_get_by_name(&init_net, NETDEV);
	KUNIT_ASSERT_NOT_NULL_MSG(test, d->ndev, "no netdev " NETDEV);
	d->ibdev = ib_device_get_by_netdev(d->ndev, RDMA_DRIVER_UNKNOWN);
	KUNIT_ASSERT_NOT_NULL_MSG(test, d->ibdev, "no RDMA device on " NETDEV);
	KUNIT_ASSERT_EQ(test, datagram_find_address(d), 0);
	d->buffer = kunit_kzalloc(test, 2 * BUFFER, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, d->buffer);
	d->addr = ib_dma_map_single(d->ibdev, d->buffer, 2 * BUFFER, DMA_BIDIRECTIONAL);
	d->pd = ib_alloc_pd(d->ibdev, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, d->pd);
	d->cq = ib_create_cq(d->ibdev, datagram_event, NULL, d, &cq_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, d->cq);
	init.send_cq = d->cq;
	init.recv_cq = d->cq;
	for (i = 0; i < 2; i++) {
		d->qp[i] = ib_create_qp(d->pd, &init);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, d->qp[i]);
		KUNIT_ASSERT_EQ(test, datagram_to_rts(d->qp[i]), 0);
	}
	return 0;
}

static void datagram_exit(struct kunit *test)
{
	struct datagram *d = test->priv;
	int i;

	if (!d)
		return;
	for (i = 0; i < 2; i++)
		if (!IS_ERR_OR_NULL(d->qp[i]))
			ib_destroy_qp(d->qp[i]);
	if (!IS_ERR_OR_NULL(d->cq))
		ib_destroy_cq(d->cq);
	if (!IS_ERR_OR_NULL(d->pd))
		ib_dealloc_pd(d->pd);
	if (d->addr)
		ib_dma_unmap_single(d->ibdev, d->addr, 2 * BUFFER, DMA_BIDIRECTIONAL);
	if (d->attr.grh.sgid_attr)
		rdma_put_gid_attr(d->attr.grh.sgid_attr);
	if (d->ibdev)
		ib_device_put(d->ibdev);
	dev_put(d->ndev);
}

/* As the communication manager does it: with interrupts off and a lock held. */
static struct ib_ah *datagram_create_ah(struct datagram *d)
{
	unsigned long flags;
	struct ib_ah *ah;

	spin_lock_irqsave(&d->lock, flags);
	ah = rdma_create_ah(d->pd, &d->attr, 0);
	spin_unlock_irqrestore(&d->lock, flags);
	return ah;
}

static void datagram_destroy_ah(struct datagram *d, struct ib_ah *ah)
{
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	rdma_destroy_ah(ah, 0);
	spin_unlock_irqrestore(&d->lock, flags);
}

static int datagram_post(struct datagram *d, struct ib_ah *ah, u32 qpn, u32 qkey)
{
	struct ib_sge from = {d->addr, MESSAGE, d->pd->local_dma_lkey};
	struct ib_ud_wr wr = {
		.wr = {.wr_id = 1,
		       .opcode = IB_WR_SEND_WITH_IMM,
		       .send_flags = IB_SEND_SIGNALED,
		       .sg_list = &from,
		       .num_sge = 1,
		       .ex.imm_data = cpu_to_be32(0x1234)},
		.ah = ah,
		.remote_qpn = qpn,
		.remote_qkey = qkey,
	};
	unsigned long flags;
	int err;

	spin_lock_irqsave(&d->lock, flags);
	err = ib_post_send(d->qp[0], &wr.wr, NULL);
	spin_unlock_irqrestore(&d->lock, flags);
	return err;
}

static int datagram_receive(struct datagram *d)
{
	struct ib_sge to = {d->addr + BUFFER, BUFFER, d->pd->local_dma_lkey};
	const struct ib_recv_wr wr = {.wr_id = 2, .sg_list = &to, .num_sge = 1};

	return ib_post_recv(d->qp[1], &wr, NULL);
}

/* A completion tells all that an answer needs: the source and the kind of header. */
static void datagram_arrives_with_its_source(struct kunit *test)
{
	struct datagram *d = test->priv;
	struct rdma_ah_attr back = {};
	struct ib_ah *ah, *answer;
	struct ib_wc wc;
	int i, received = 0;

	memset(d->buffer, 0x5a, MESSAGE);
	memset(d->buffer + BUFFER, 0, BUFFER);
	ah = datagram_create_ah(d);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah);
	KUNIT_ASSERT_EQ(test, datagram_receive(d), 0);
	KUNIT_ASSERT_EQ(test, datagram_post(d, ah, d->qp[1]->qp_num, QKEY), 0);
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, datagram_next(d, &wc), 0);
		KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
		if (wc.opcode != IB_WC_RECV)
			continue;
		received++;
		KUNIT_EXPECT_PTR_EQ(test, wc.qp, d->qp[1]);
		KUNIT_EXPECT_EQ(test, wc.src_qp, d->qp[0]->qp_num);
		KUNIT_EXPECT_EQ(test, wc.byte_len, sizeof(struct ib_grh) + MESSAGE);
		KUNIT_EXPECT_EQ(test, wc.wc_flags,
				IB_WC_GRH | IB_WC_WITH_IMM | IB_WC_WITH_NETWORK_HDR_TYPE);
		KUNIT_EXPECT_EQ(test, wc.network_hdr_type, RDMA_NETWORK_IPV4);
		KUNIT_EXPECT_EQ(test, be32_to_cpu(wc.ex.imm_data), 0x1234u);
		KUNIT_EXPECT_EQ(
			test,
			memcmp(d->buffer, d->buffer + BUFFER + sizeof(struct ib_grh), MESSAGE), 0);
		KUNIT_EXPECT_EQ(test,
				ib_init_ah_attr_from_wc(d->ibdev, 1, &wc,
							(struct ib_grh *)(d->buffer + BUFFER),
							&back),
				0);
		KUNIT_EXPECT_EQ(test,
				memcmp(&rdma_ah_read_grh(&back)->dgid, &d->attr.grh.dgid,
				       sizeof(union ib_gid)),
				0);
		answer = rdma_create_ah(d->pd, &back, RDMA_CREATE_AH_SLEEPABLE);
		rdma_destroy_ah_attr(&back);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, answer);
		rdma_destroy_ah(answer, RDMA_DESTROY_AH_SLEEPABLE);
	}
	KUNIT_EXPECT_EQ(test, received, 1);
	datagram_destroy_ah(d, ah);
}

static void datagram_needs_a_handle_of_its_pd(struct kunit *test)
{
	struct datagram *d = test->priv;
	struct rdma_ah_attr attr = d->attr;
	struct ib_ah *ah;
	struct ib_pd *pd;
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, datagram_post(d, NULL, d->qp[1]->qp_num, QKEY), -EINVAL);
	pd = ib_alloc_pd(d->ibdev, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	ah = rdma_create_ah(pd, &d->attr, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah);
	KUNIT_EXPECT_EQ(test, datagram_post(d, ah, d->qp[1]->qp_num, QKEY), -EINVAL);
	rdma_destroy_ah(ah, 0);
	ib_dealloc_pd(pd);

	eth_zero_addr(attr.roce.dmac);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(rdma_create_ah(d->pd, &attr, 0)), -EINVAL);

	/* Another Q_Key: it is sent, and dropped at the other end. */
	ah = datagram_create_ah(d);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah);
	KUNIT_ASSERT_EQ(test, datagram_receive(d), 0);
	KUNIT_ASSERT_EQ(test, datagram_post(d, ah, d->qp[1]->qp_num, QKEY + 1), 0);
	KUNIT_ASSERT_EQ(test, datagram_post(d, ah, d->qp[1]->qp_num, QKEY), 0);
	KUNIT_ASSERT_EQ(test, datagram_next(d, &wc), 0);
	KUNIT_ASSERT_EQ(test, datagram_next(d, &wc), 0);
	KUNIT_ASSERT_EQ(test, datagram_next(d, &wc), 0);
	datagram_destroy_ah(d, ah);
}

/* A query gives what the handle was made of, and no reference to a GID. */
static void datagram_handles_tell_their_attributes(struct kunit *test)
{
	struct datagram *d = test->priv;
	struct rdma_ah_attr wanted = d->attr;
	struct rdma_ah_attr other = d->attr;
	struct rdma_ah_attr got;
	struct ib_ah *ah[2];
	int i;

	wanted.sl = 3;
	wanted.grh.traffic_class = 0x68;
	wanted.grh.flow_label = 0x54321;
	wanted.grh.hop_limit = 7;
	ah[0] = rdma_create_ah(d->pd, &wanted, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah[0]);
	ah[1] = rdma_create_ah(d->pd, &other, RDMA_CREATE_AH_SLEEPABLE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah[1]);
	for (i = 0; i < 2; i++) {
		const struct rdma_ah_attr *attr = i ? &other : &wanted;

		memset(&got, 0xa5, sizeof(got));
		KUNIT_ASSERT_EQ(test, rdma_query_ah(ah[i], &got), 0);
		KUNIT_EXPECT_EQ(test, got.type, RDMA_AH_ATTR_TYPE_ROCE);
		KUNIT_EXPECT_EQ(test, rdma_ah_get_port_num(&got), 1);
		KUNIT_EXPECT_EQ(test, rdma_ah_get_ah_flags(&got), IB_AH_GRH);
		KUNIT_EXPECT_EQ(test, rdma_ah_get_sl(&got), attr->sl);
		KUNIT_EXPECT_EQ(test, rdma_ah_get_static_rate(&got), attr->static_rate);
		KUNIT_EXPECT_TRUE(test, ether_addr_equal(got.roce.dmac, attr->roce.dmac));
		KUNIT_EXPECT_MEMEQ(test, &got.grh.dgid, &attr->grh.dgid, sizeof(got.grh.dgid));
		KUNIT_EXPECT_EQ(test, got.grh.sgid_index, attr->grh.sgid_index);
		KUNIT_EXPECT_EQ(test, got.grh.traffic_class, attr->grh.traffic_class);
		KUNIT_EXPECT_EQ(test, got.grh.flow_label, attr->grh.flow_label);
		KUNIT_EXPECT_EQ(test, got.grh.hop_limit, attr->grh.hop_limit);
		KUNIT_EXPECT_NULL(test, got.grh.sgid_attr);
		rdma_destroy_ah(ah[i], RDMA_DESTROY_AH_SLEEPABLE);
	}
}

struct datagram_request {
	struct ib_cqe cqe;
	enum ib_wc_status status;
};

static void datagram_request_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct datagram_request *request = container_of(wc->wr_cqe, struct datagram_request, cqe);

	request->status = wc->status;
}

/* ib_drain_qp() returns when all that was posted has completed, on any type of queue pair. */
static void datagram_queues_are_drained(struct kunit *test)
{
	struct datagram *d = test->priv;
	struct ib_qp_init_attr init = {
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IB_QPT_UD,
	};
	struct datagram_request requests[4] = {};
	struct ib_recv_wr wr = {};
	struct ib_cq *cq;
	struct ib_qp *qp;
	int i;

	cq = ib_alloc_cq(d->ibdev, NULL, 4 * DEPTH, 0, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ib_create_qp(d->pd, &init);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, qp);
	KUNIT_ASSERT_EQ(test, datagram_to_rts(qp), 0);
	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		requests[i].cqe.done = datagram_request_done;
		wr.wr_cqe = &requests[i].cqe;
		KUNIT_EXPECT_EQ(test, ib_post_recv(qp, &wr, NULL), 0);
	}
	ib_drain_qp(qp);
	for (i = 0; i < ARRAY_SIZE(requests); i++)
		KUNIT_EXPECT_EQ(test, requests[i].status, IB_WC_WR_FLUSH_ERR);
	ib_destroy_qp(qp);
	ib_free_cq(cq);
}

/* Whoever cannot wait is told to try again, and soon gets what it wants. */
static void datagram_handles_are_made_with_interrupts_off(struct kunit *test)
{
	struct ib_ah **ahs = kunit_kcalloc(test, HANDLES, sizeof(*ahs), GFP_KERNEL);
	unsigned long deadline = jiffies + PATIENCE;
	struct datagram *d = test->priv;
	u32 n = 0, i;

	KUNIT_ASSERT_NOT_NULL(test, ahs);
	while (n < HANDLES && time_before(jiffies, deadline)) {
		ahs[n] = datagram_create_ah(d);
		if (!IS_ERR(ahs[n])) {
			n++;
			continue;
		}
		if (PTR_ERR(ahs[n]) != -EAGAIN)
			break;
		usleep_range(100, 200);
	}
	KUNIT_EXPECT_EQ(test, n, HANDLES);
	for (i = 0; i < n; i++)
		datagram_destroy_ah(d, ahs[i]);
	/* They are ready now. */
	for (n = 0; n < HANDLES; n++) {
		ahs[n] = datagram_create_ah(d);
		if (IS_ERR(ahs[n]))
			break;
	}
	KUNIT_EXPECT_EQ(test, n, HANDLES);
	while (n--)
		datagram_destroy_ah(d, ahs[n]);
}

static void datagram_mad_sent(struct ib_mad_agent *agent, struct ib_mad_send_wc *wc)
{
	struct datagram *d = agent->context;

	if (wc->status == IB_WC_SUCCESS)
		complete(&d->sent);
}

static void datagram_mad_received(struct ib_mad_agent *agent, struct ib_mad_send_buf *buf,
				  struct ib_mad_recv_wc *wc)
{
	struct datagram *d = agent->context;

	d->mad_src_qp = wc->wc->src_qp;
	d->mad_tid = be64_to_cpu(wc->recv_buf.mad->mad_hdr.tid);
	ib_free_recv_mad(wc);
	complete(&d->received);
}

static void datagram_fill_mad(struct ib_mad *mad, u64 tid)
{
	mad->mad_hdr.base_version = IB_MGMT_BASE_VERSION;
	mad->mad_hdr.mgmt_class = MAD_CLASS;
	mad->mad_hdr.class_version = 1;
	mad->mad_hdr.method = IB_MGMT_METHOD_SEND;
	mad->mad_hdr.tid = cpu_to_be64(tid);
}

/* The core's MAD layer has queue pair 1, and datagrams of management go through it. */
static void datagram_general_services_work(struct kunit *test)
{
	struct ib_mad_reg_req request = {.mgmt_class = MAD_CLASS, .mgmt_class_version = 1};
	struct datagram *d = test->priv;
	struct ib_mad_send_buf *buf;
	struct ib_mad_agent *agent;
	struct ib_ah *ah;

	KUNIT_EXPECT_TRUE(test, rdma_cap_ib_mad(d->ibdev, 1));
	KUNIT_EXPECT_TRUE(test, rdma_cap_ib_cm(d->ibdev, 1));
	set_bit(IB_MGMT_METHOD_SEND, request.method_mask);
	agent = ib_register_mad_agent(d->ibdev, 1, IB_QPT_GSI, &request, 0, datagram_mad_sent,
				      datagram_mad_received, d, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, agent);
	KUNIT_EXPECT_EQ(test, agent->qp->qp_num, 1);
	/* The handle is of the MAD layer's protection domain. */
	ah = rdma_create_ah(agent->qp->pd, &d->attr, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ah);
	buf = ib_create_send_mad(agent, 1, 0, 0, IB_MGMT_MAD_HDR, IB_MGMT_MAD_DATA, GFP_KERNEL,
				 IB_MGMT_BASE_VERSION);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, buf);
	datagram_fill_mad(buf->mad, 0xfeed);
	buf->ah = ah;
	KUNIT_ASSERT_EQ(test, ib_post_send_mad(buf, NULL), 0);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&d->sent, PATIENCE), 0);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&d->received, PATIENCE), 0);
	KUNIT_EXPECT_EQ(test, d->mad_src_qp, 1);
	KUNIT_EXPECT_EQ(test, d->mad_tid & U32_MAX, 0xfeed);
	ib_free_send_mad(buf);
	rdma_destroy_ah(ah, 0);
	ib_unregister_mad_agent(agent);
}

static struct kunit_case datagram_cases[] = {
	KUNIT_CASE(datagram_arrives_with_its_source),
	KUNIT_CASE(datagram_needs_a_handle_of_its_pd),
	KUNIT_CASE(datagram_handles_tell_their_attributes),
	KUNIT_CASE(datagram_queues_are_drained),
	KUNIT_CASE(datagram_handles_are_made_with_interrupts_off),
	KUNIT_CASE(datagram_general_services_work),
	{},
};

static struct kunit_suite datagram_suite = {
	.name = "sirdma_datagram",
	.init = datagram_init,
	.exit = datagram_exit,
	.test_cases = datagram_cases,
};

kunit_test_suite(datagram_suite);

MODULE_DESCRIPTION("datagrams of a consumer of sirdma in the kernel");
MODULE_LICENSE("GPL");
