// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The way of a modify through its locks. Its rules are the driver core's, tested in userspace. */
#include <kunit/test.h>

/* Tracepoints belong to the module that is tested. */
#define SIRDMA_DRV_TRACE_H
#define trace_sirdma_modify_qp(dev, qpn, cur, next, mask, err) ((void)(err))
#define trace_sirdma_modify_path(dev, qpn, key, sgid, err) ((void)(err))

/* Other suites have the real ones, or the core has. */
#define sirdma_arp_get modify_test_arp_get
#define sirdma_arp_put modify_test_arp_put
#define sirdma_sgid_get modify_test_sgid_get
#define sirdma_sgid_put modify_test_sgid_put
#define sirdma_sgid_index modify_test_sgid_index
#define sirdma_neigh_expect modify_test_neigh_expect
#define rdma_read_gid_attr_ndev_rcu modify_test_gid_ndev
#define sirdma_dev_failed modify_test_dev_failed
#define sirdma_rescue_wq system_long_wq

#include "hw/access.c"
#include "hw/path.c"
#include "hw/qp_attr.c"
#include "hw/qp_modify.c"
#include "drv/kflush.c"
#include "drv/qp_modify.c"

struct fixture {
	struct sirdma_dev dev;
	struct sirdma_qp qp;
	struct ib_gid_attr sgid_attr;
	struct net_device *ndev;
	struct ib_qp_attr attr;
	struct sirdma_arp arp;
	struct sirdma_sgid sgid;
	struct sirdma_qp_ctx ctx; /* what the driver gives the device */
};

/* Stand-ins for the device and for the tables. */
static struct {
	struct fixture *f;
	enum sirdma_qp_state state;
	enum sirdma_qp_state state_after_lookup;
	u32 lookups;
	u32 lookups_locked;
	u32 references;
	u32 modifies;
	u32 refusals;
	u32 uploads;
	bool failed; /* the device */
	struct task_struct *consumer;
	u32 told_in_call;
	u32 told_wrong; /* another event, or softirqs were on */
	atomic_t told;
} world;

bool sirdma_dev_failed(const struct sirdma_dev *dev)
{
	return world.failed;
}

int sirdma_cqp_upload_ctx(struct sirdma_hw *hw, u32 qpn, u64 ctx_pa)
{
	world.uploads++;
	world.f->ctx.state = world.state;
	return 0;
}

int sirdma_cqp_modify_qp(struct sirdma_hw *hw, const struct sirdma_cqp_modify_qp_params *params)
{
	if (params->check_cur && params->cur != world.state) {
		world.refusals++;
		return -EINVAL;
	}
	world.modifies++;
	world.state = params->next;
	return 0;
}

int sirdma_cqp_flush_wqes(struct sirdma_hw *hw, u32 qpn, bool sq, bool rq)
{
	return 0;
}

void sirdma_qpctx_buf_get(struct sirdma_dev *dev, struct sirdma_qpctx_buf *ctx)
{
	ctx->va = &world.f->ctx;
}

void sirdma_qpctx_buf_put(struct sirdma_dev *dev, struct sirdma_qpctx_buf *ctx) {}

void sirdma_kqp_modified(struct sirdma_kqp *kqp, enum ib_qp_state state) {}

enum ib_mtu sirdma_port_mtu(const struct sirdma_dev *dev)
{
	return IB_MTU_4096;
}

struct sirdma_arp *sirdma_arp_get(struct sirdma_dev *dev, const struct sirdma_route_key *key,
				  kuid_t uid)
{
	world.lookups++;
	world.lookups_locked += mutex_is_locked(&world.f->qp.lock);
	world.references++;
	world.state = world.state_after_lookup;
	return &world.f->arp;
}

void sirdma_arp_put(struct sirdma_dev *dev, struct sirdma_arp *arp)
{
	world.references--;
}

struct sirdma_sgid *sirdma_sgid_get(struct sirdma_dev *dev, const struct ib_gid_attr *attr)
{
	return &world.f->sgid;
}

void sirdma_sgid_put(struct sirdma_dev *dev, struct sirdma_sgid *sgid) {}

u16 sirdma_sgid_index(struct sirdma_dev *dev, const struct sirdma_sgid *sgid)
{
	return 0;
}

void sirdma_neigh_expect(struct sirdma_dev *dev) {}

struct net_device *rdma_read_gid_attr_ndev_rcu(const struct ib_gid_attr *attr)
{
	return world.f->ndev;
}

#define RTR_MASK \
	(IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN | \
	 IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER)

static int modify_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->ndev = kunit_kzalloc(test, sizeof(*f->ndev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->ndev);
	f->dev.ndev = f->ndev;
	mutex_init(&f->qp.lock);
	f->qp.ibqp.device = &f->dev.ibdev;
	f->dev.hw.caps.max_ird = 16;
	f->dev.hw.caps.max_ord = 16;
	f->sgid_attr.gid_type = IB_GID_TYPE_ROCE_UDP_ENCAP;
	f->qp.state = SIRDMA_QPS_INIT;
	f->attr.qp_state = IB_QPS_RTR;
	f->attr.path_mtu = IB_MTU_1024;
	f->attr.dest_qp_num = 17;
	f->attr.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_port_num(&f->attr.ah_attr, 1);
	rdma_ah_set_grh(&f->attr.ah_attr, NULL, 0, 0, 64, 0);
	f->attr.ah_attr.grh.sgid_attr = &f->sgid_attr;
	f->attr.ah_attr.grh.dgid.raw[15] = 9;
	memset(&world, 0, sizeof(world));
	world.f = f;
	world.state = SIRDMA_QPS_INIT;
	world.state_after_lookup = SIRDMA_QPS_INIT;
	return 0;
}

static int modify(void)
{
	return sirdma_modify_qp(&world.f->qp.ibqp, &world.f->attr, RTR_MASK, NULL);
}

/* A neighbour that does not answer is waited for: for seconds, in which the QP can be queried. */
static void neighbour_is_waited_for_without_the_lock(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, modify(), 0);
	KUNIT_EXPECT_EQ(test, world.uploads, 0);
	KUNIT_EXPECT_EQ(test, world.lookups, 1);
	KUNIT_EXPECT_EQ(test, world.lookups_locked, 0);
	KUNIT_EXPECT_EQ(test, world.modifies, 1);
	KUNIT_EXPECT_EQ(test, (u32)world.state, SIRDMA_QPS_RTR);
	KUNIT_EXPECT_PTR_EQ(test, world.f->qp.arp, &world.f->arp);
	KUNIT_EXPECT_FALSE(test, mutex_is_locked(&world.f->qp.lock));
}

/* The netdev of the GID is in another namespace, which has other indices and routes. */
static void gid_of_another_namespace_is_refused(struct kunit *test)
{
	struct net_device *here = kunit_kzalloc(test, sizeof(*here), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, here);
	dev_net_set(here, &init_net);
	world.f->dev.ndev = here;
	KUNIT_EXPECT_EQ(test, modify(), -ENETUNREACH);
	KUNIT_EXPECT_EQ(test, world.lookups, 0);
	KUNIT_EXPECT_EQ(test, world.modifies, 0);
}

static void state_that_changed_meanwhile_is_seen(struct kunit *test)
{
	world.state_after_lookup = SIRDMA_QPS_ERR;
	KUNIT_EXPECT_EQ(test, modify(), -EINVAL);
	KUNIT_EXPECT_EQ(test, world.lookups, 1);
	KUNIT_EXPECT_EQ(test, world.modifies, 0);
	KUNIT_EXPECT_EQ(test, world.references, 0);
	KUNIT_EXPECT_NULL(test, world.f->qp.arp);
	KUNIT_EXPECT_FALSE(test, mutex_is_locked(&world.f->qp.lock));
}

static int modify_state(enum ib_qp_state next, int mask)
{
	world.f->attr.qp_state = next;
	return sirdma_modify_qp(&world.f->qp.ibqp, &world.f->attr, IB_QP_STATE | mask, NULL);
}

/* The driver knows RTS, the device says @device. */
static void move(enum sirdma_qp_state device)
{
	world.f->qp.state = SIRDMA_QPS_RTS;
	world.state = device;
}

static void one_command_when_the_state_is_known(struct kunit *test)
{
	move(SIRDMA_QPS_RTS);
	KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_SQD, 0), 0);
	KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_RTS, 0), 0);
	KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_ERR, 0), 0);
	KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_RESET, 0), 0);
	KUNIT_EXPECT_EQ(test, world.modifies, 4);
	KUNIT_EXPECT_EQ(test, world.refusals, 0);
	KUNIT_EXPECT_EQ(test, world.uploads, 0);
}

/* The check refuses what the driver knows, and what the device has is right. */
static void named_state_of_the_device_is_right(struct kunit *test)
{
	move(SIRDMA_QPS_SQE);
	world.f->attr.cur_qp_state = IB_QPS_SQE;
	world.f->qp.type = SIRDMA_QPT_UC;
	KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_RTS, IB_QP_CUR_STATE), 0);
	KUNIT_EXPECT_EQ(test, world.modifies, 1);
	KUNIT_EXPECT_EQ(test, world.uploads, 1);
	KUNIT_EXPECT_EQ(test, world.f->qp.state, SIRDMA_QPS_RTS);
}

/* The check accepts what the driver knows, and the device refuses it. */
static void state_that_the_device_left_is_repeated(struct kunit *test)
{
	move(SIRDMA_QPS_ERR);
	KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_RESET, 0), 0);
	KUNIT_EXPECT_EQ(test, world.refusals, 1);
	KUNIT_EXPECT_EQ(test, world.modifies, 1);
	KUNIT_EXPECT_EQ(test, world.f->qp.state, SIRDMA_QPS_RESET);
}

static void wrong_state_of_the_device_is_refused(struct kunit *test)
{
	move(SIRDMA_QPS_ERR);
	KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_RTS, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, world.modifies, 0);
	KUNIT_EXPECT_EQ(test, world.f->qp.state, SIRDMA_QPS_ERR);
}

static void hear_event(struct ib_event *event, void *context)
{
	world.told_in_call += current == world.consumer;
	world.told_wrong += event->event != IB_EVENT_QP_LAST_WQE_REACHED ||
			    event->element.qp != &world.f->qp.ibqp || !in_softirq();
	atomic_inc(&world.told);
}

/* A queue pair of a kernel consumer with a shared receive queue, as the driver's tables have it. */
struct drained {
	struct sirdma_kqp kqp;
	struct sirdma_cq cq;
	struct sirdma_kcq kcq;
	struct ib_srq srq;
	struct sirdma_idpool ids;
};

static void drained_init(struct kunit *test, struct drained *d)
{
	struct fixture *f = world.f;

	f->qp.kqp = &d->kqp;
	d->kqp.qp = &f->qp;
	d->cq.kcq = &d->kcq;
	f->qp.ibqp.send_cq = f->qp.ibqp.recv_cq = &d->cq.ibcq;
	f->qp.ibqp.srq = &d->srq;
	f->qp.ibqp.event_handler = hear_event;
	xa_init(&f->dev.qps);
	KUNIT_ASSERT_EQ(test, sirdma_idpool_init(&d->ids, 2, 4), 0);
	KUNIT_ASSERT_EQ(test, sirdma_obj_publish(&f->dev.qps, &d->ids, 3, &f->qp.obj), 0);
	sirdma_kflush_init(&f->dev);
}

static void drained_fini(struct drained *d)
{
	struct fixture *f = world.f;

	sirdma_kflush_fini(&f->dev);
	sirdma_obj_unpublish(&f->dev.qps, &f->qp.obj);
	sirdma_idpool_fini(&d->ids);
	xa_destroy(&f->dev.qps);
}

/* The driver says in place of the failed device that the queue is drained, and not in the consumer's call. */
static void drained_queue_is_told_out_of_the_call(struct kunit *test)
{
	struct drained *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, d);
	drained_init(test, d);
	world.failed = true;
	world.consumer = current;
	/* The device still completes requests: it was not reset yet. */
	KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_ERR, 0), 0);
	flush_work(&world.f->dev.kflush);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.told), 0);
	world.consumer = NULL;
	sirdma_kflush_start(&world.f->dev);
	world.consumer = current;
	KUNIT_EXPECT_EQ(test, atomic_read(&world.told), 1);
	for (i = 2; i <= 20; i++) {
		KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_ERR, 0), 0);
		flush_work(&world.f->dev.kflush);
		KUNIT_EXPECT_EQ(test, atomic_read(&world.told), i);
	}
	/* Once for each time. */
	queue_work(sirdma_rescue_wq, &world.f->dev.kflush);
	flush_work(&world.f->dev.kflush);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.told), i - 1);
	/* Without a shared queue there is no such event. */
	world.f->qp.ibqp.srq = NULL;
	KUNIT_EXPECT_EQ(test, modify_state(IB_QPS_ERR, 0), 0);
	flush_work(&world.f->dev.kflush);
	KUNIT_EXPECT_EQ(test, atomic_read(&world.told), i - 1);
	KUNIT_EXPECT_EQ(test, world.told_in_call, 0u);
	KUNIT_EXPECT_EQ(test, world.told_wrong, 0u);
	KUNIT_EXPECT_EQ(test, world.modifies, 0);
	drained_fini(d);
}

static struct kunit_case modify_cases[] = {
	KUNIT_CASE(neighbour_is_waited_for_without_the_lock),
	KUNIT_CASE(gid_of_another_namespace_is_refused),
	KUNIT_CASE(state_that_changed_meanwhile_is_seen),
	KUNIT_CASE(one_command_when_the_state_is_known),
	KUNIT_CASE(named_state_of_the_device_is_right),
	KUNIT_CASE(state_that_the_device_left_is_repeated),
	KUNIT_CASE(wrong_state_of_the_device_is_refused),
	KUNIT_CASE(drained_queue_is_told_out_of_the_call),
	{},
};

static struct kunit_suite modify_suite = {
	.name = "sirdma_qp_modify",
	.init = modify_init,
	.test_cases = modify_cases,
};
kunit_test_suite(modify_suite);
