// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Events of the device find their object, or nothing when another has its number by now. */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/kthread.h>

/* Tracepoints belong to the module that is tested. */
#define SIRDMA_DRV_TRACE_H
#define trace_sirdma_async_event(dev, ev) ((void)(dev))
#define trace_sirdma_cq_event(dev, id) ((void)(dev))

/* Other suites have the real ones, or stand-ins of their own. */
#define sirdma_dev_fail_async events_test_dev_fail_async
#define sirdma_events events_test_events
#define sirdma_neigh_refresh events_test_neigh_refresh
#define sirdma_prq_drain events_test_prq_drain
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
#define sirdma_odp_ask events_test_odp_ask
#endif

#include "drv/events.c"
#include "hw/event.c"
#include "drv/neigh.h"

#define NUMBER 3

void sirdma_dev_fail_async(struct sirdma_dev *dev) {}
void sirdma_neigh_refresh(struct sirdma_dev *dev) {}
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
void sirdma_odp_ask(void *ctx, const struct sirdma_page_ask *ask) {}
#endif

static struct sirdma_hw *drained; /* the argument of the last call below */
void sirdma_prq_drain(struct sirdma_hw *hw)
{
	drained = hw;
}

/* Two objects of one number, one after the other. */
struct pair {
	struct sirdma_dev *dev;
	struct sirdma_idpool ids;
	u64 gone, present;
	u32 told;
};

static void count_event(struct ib_event *event, void *context)
{
	++*(u32 *)context;
}

static void count_completion(struct ib_cq *cq, void *context)
{
	++*(u32 *)context;
}

static void pair_init(struct kunit *test, struct pair *pair, struct xarray *table,
		      struct sirdma_obj *obj)
{
	KUNIT_ASSERT_EQ(test, sirdma_idpool_init(&pair->ids, NUMBER, NUMBER + 1), 0);
	xa_init(table);
	KUNIT_ASSERT_EQ(test, sirdma_obj_publish(table, &pair->ids, NUMBER, obj), 0);
	pair->gone = obj->cookie;
	sirdma_obj_unpublish(table, obj);
	KUNIT_ASSERT_EQ(test, sirdma_obj_publish(table, &pair->ids, NUMBER, obj), 0);
	pair->present = obj->cookie;
	KUNIT_EXPECT_EQ(test, sirdma_cookie_id(pair->gone), NUMBER);
	KUNIT_EXPECT_EQ(test, sirdma_cookie_id(pair->present), NUMBER);
}

static void pair_fini(struct pair *pair, struct xarray *table, struct sirdma_obj *obj)
{
	sirdma_obj_unpublish(table, obj);
	xa_destroy(table);
	sirdma_idpool_fini(&pair->ids);
}

/* An event of code @code about the object of @cookie. */
static u32 told_by_event(struct pair *pair, enum sirdma_ae_code code, u64 cookie)
{
	const struct sirdma_async_event ev = {
		.code = code,
		.source = SIRDMA_AE_SRC_RQ,
		.id = NUMBER,
		.cookie = cookie,
	};

	pair->told = 0;
	sirdma_events.async_event(pair->dev, &ev);
	return pair->told;
}

static struct sirdma_dev *events_dev(struct kunit *test)
{
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	return dev;
}

static void a_late_event_misses_the_next_qp(struct kunit *test)
{
	struct sirdma_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct pair pair = {.dev = events_dev(test)};

	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->ibqp.event_handler = count_event;
	qp->ibqp.qp_context = &pair.told;
	pair_init(test, &pair, &pair.dev->qps, &qp->obj);
	KUNIT_EXPECT_EQ(test, told_by_event(&pair, SIRDMA_AE_QP_CATASTROPHIC, pair.gone), 0);
	KUNIT_EXPECT_EQ(test, told_by_event(&pair, SIRDMA_AE_QP_CATASTROPHIC, pair.present), 1);
	pair_fini(&pair, &pair.dev->qps, &qp->obj);
}

static void a_late_event_misses_the_next_srq(struct kunit *test)
{
	struct sirdma_srq *srq = kunit_kzalloc(test, sizeof(*srq), GFP_KERNEL);
	struct pair pair = {.dev = events_dev(test)};

	KUNIT_ASSERT_NOT_NULL(test, srq);
	srq->ibsrq.event_handler = count_event;
	srq->ibsrq.srq_context = &pair.told;
	pair_init(test, &pair, &pair.dev->srqs, &srq->obj);
	KUNIT_EXPECT_EQ(test, told_by_event(&pair, SIRDMA_AE_SRQ_LIMIT, pair.gone), 0);
	KUNIT_EXPECT_EQ(test, told_by_event(&pair, SIRDMA_AE_SRQ_LIMIT, pair.present), 1);
	pair_fini(&pair, &pair.dev->srqs, &srq->obj);
}

static u32 told_by_completion(struct pair *pair, u64 cookie)
{
	pair->told = 0;
	sirdma_events.cq_event(pair->dev, cookie);
	return pair->told;
}

static void late_events_miss_the_next_cq(struct kunit *test)
{
	struct sirdma_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	struct pair pair = {.dev = events_dev(test)};
	const enum sirdma_ae_code code = SIRDMA_AE_CQ_CATASTROPHIC;

	KUNIT_ASSERT_NOT_NULL(test, cq);
	cq->ibcq.event_handler = count_event;
	cq->ibcq.comp_handler = count_completion;
	cq->ibcq.cq_context = &pair.told;
	pair_init(test, &pair, &pair.dev->cqs, &cq->obj);
	KUNIT_EXPECT_EQ(test, told_by_event(&pair, code, pair.gone), 0);
	KUNIT_EXPECT_EQ(test, told_by_event(&pair, code, pair.present), 1);
	KUNIT_EXPECT_EQ(test, told_by_completion(&pair, pair.gone), 0);
	KUNIT_EXPECT_EQ(test, told_by_completion(&pair, pair.present), 1);
	pair_fini(&pair, &pair.dev->cqs, &cq->obj);
}

static void page_requests_are_read(struct kunit *test)
{
	struct pair pair = {.dev = events_dev(test)};

	drained = NULL;
	told_by_event(&pair, SIRDMA_AE_PAGE_REQUEST, 0);
	KUNIT_EXPECT_PTR_EQ(test, drained, &pair.dev->hw);
}

/* An object that is unpublished while an event of it is delivered. */
struct destruction {
	struct xarray table;
	struct sirdma_idpool ids;
	struct sirdma_obj obj;
	struct completion event_begun, ended;
	bool unpublished;
};

static int unpublish_during_event(void *context)
{
	struct destruction *destruction = context;

	wait_for_completion(&destruction->event_begun);
	sirdma_obj_unpublish(&destruction->table, &destruction->obj);
	WRITE_ONCE(destruction->unpublished, true);
	kthread_complete_and_exit(&destruction->ended, 0);
}

static void an_object_stays_while_an_event_of_it_is_delivered(struct kunit *test)
{
	struct destruction *destruction = kunit_kzalloc(test, sizeof(*destruction), GFP_KERNEL);
	struct sirdma_obj_entry destroyed = {.refs = REFCOUNT_INIT(0)};
	struct sirdma_obj *held, *late;
	int tries;

	KUNIT_ASSERT_NOT_NULL(test, destruction);
	xa_init(&destruction->table);
	init_completion(&destruction->event_begun);
	init_completion(&destruction->ended);
	KUNIT_ASSERT_EQ(test, sirdma_idpool_init(&destruction->ids, NUMBER, NUMBER + 1), 0);
	KUNIT_ASSERT_EQ(test,
			sirdma_obj_publish(&destruction->table, &destruction->ids, NUMBER,
					   &destruction->obj),
			0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(unpublish_during_event, destruction,
						    "kunit_destruction")));
	held = sirdma_obj_get(&destruction->table, destruction->obj.cookie);
	KUNIT_EXPECT_PTR_EQ(test, held, &destruction->obj);
	complete(&destruction->event_begun);
	for (tries = 0; !xa_empty(&destruction->table) && tries < 1000; tries++)
		msleep(10);
	/* No event finds it any more, and it is still there. */
	KUNIT_EXPECT_NULL(test, sirdma_obj_tryget(&destroyed));
	late = sirdma_obj_get(&destruction->table, destruction->obj.cookie);
	KUNIT_EXPECT_NULL(test, late);
	if (late)
		sirdma_obj_put(late);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(destruction->unpublished));
	if (held)
		sirdma_obj_put(held);
	wait_for_completion(&destruction->ended);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(destruction->unpublished));
	xa_destroy(&destruction->table);
	sirdma_idpool_fini(&destruction->ids);
}

static struct kunit_case events_cases[] = {
	KUNIT_CASE(a_late_event_misses_the_next_qp),
	KUNIT_CASE(a_late_event_misses_the_next_srq),
	KUNIT_CASE(late_events_miss_the_next_cq),
	KUNIT_CASE(an_object_stays_while_an_event_of_it_is_delivered),
	KUNIT_CASE(page_requests_are_read),
	{},
};

static struct kunit_suite events_suite = {
	.name = "sirdma_events",
	.test_cases = events_cases,
};
kunit_test_suite(events_suite);
