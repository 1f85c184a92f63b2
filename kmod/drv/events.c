// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cq.h"
#include "device.h"
#include "events.h"
#include "health.h"
#include "hw/event.h"
#include "odp.h"
#include "qp.h"
#include "srq.h"
#include "trace.h"

static void sirdma_qp_event(struct sirdma_dev *dev, u64 cookie, enum sirdma_event_class class)
{
	struct ib_event event = {};
	struct sirdma_obj *obj = sirdma_obj_get(&dev->qps, cookie);
	struct sirdma_qp *qp;

	if (!obj)
		return;
	qp = container_of(obj, struct sirdma_qp, obj);
	if (qp->ibqp.event_handler) {
		event.device = &dev->ibdev;
		event.event = sirdma_event_verbs_type(class);
		event.element.qp = &qp->ibqp;
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	}
	sirdma_obj_put(obj);
}

static void sirdma_cq_error(struct sirdma_dev *dev, u64 cookie)
{
	struct ib_event event = {};
	struct sirdma_obj *obj = sirdma_obj_get(&dev->cqs, cookie);
	struct sirdma_cq *cq;

	if (!obj)
		return;
	cq = container_of(obj, struct sirdma_cq, obj);
	if (cq->ibcq.event_handler) {
		event.device = &dev->ibdev;
		event.event = IB_EVENT_CQ_ERR;
		event.element.cq = &cq->ibcq;
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
	}
	sirdma_obj_put(obj);
}

static void sirdma_srq_limit(struct sirdma_dev *dev, u64 cookie)
{
	struct ib_event event = {};
	struct sirdma_obj *obj = sirdma_obj_get(&dev->srqs, cookie);
	struct sirdma_srq *srq;

	if (!obj)
		return;
	srq = container_of(obj, struct sirdma_srq, obj);
	if (srq->ibsrq.event_handler) {
		event.device = &dev->ibdev;
		event.event = IB_EVENT_SRQ_LIMIT_REACHED;
		event.element.srq = &srq->ibsrq;
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
	}
	sirdma_obj_put(obj);
}

static void sirdma_async_event(void *ctx, const struct sirdma_async_event *ev)
{
	enum sirdma_event_class class = sirdma_event_classify(ev);
	struct sirdma_dev *dev = ctx;

	trace_sirdma_async_event(dev, ev);
	sirdma_count(&dev->counters, SIRDMA_COUNTER_ASYNC_EVENTS);
	if (ev->overflow) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_ASYNC_OVERFLOWS);
		ibdev_dbg(&dev->ibdev, "asynchronous events were lost\n");
	}

	switch (class) {
	case SIRDMA_EVENT_NONE:
		break;
	case SIRDMA_EVENT_CQ_ERROR:
		sirdma_cq_error(dev, ev->cookie);
		break;
	case SIRDMA_EVENT_SRQ_LIMIT:
		sirdma_srq_limit(dev, ev->cookie);
		break;
	case SIRDMA_EVENT_DEVICE_FATAL:
		sirdma_dev_fail_async(dev);
		break;
	case SIRDMA_EVENT_BAD_COMMAND:
		ibdev_err_ratelimited(&dev->ibdev, "the device met a command it does not know\n");
		break;
	case SIRDMA_EVENT_PAGES:
		sirdma_prq_drain(&dev->hw);
		break;
	case SIRDMA_EVENT_ADDRESS:
		sirdma_neigh_refresh(dev);
		break;
	default:
		sirdma_qp_event(dev, ev->cookie, class);
		break;
	}
}

/* The numbers of the kernel's events are those of the verbs API. */
static_assert(IB_EVENT_CQ_ERR == 0 && IB_EVENT_DEVICE_FATAL == 8 &&
	      IB_EVENT_SRQ_LIMIT_REACHED == 15 && IB_EVENT_QP_LAST_WQE_REACHED == 16);

/* The device knows a cookie, not an address: a late event finds no CQ instead of freed memory. */
static void sirdma_cq_event(void *ctx, u64 cookie)
{
	struct sirdma_dev *dev = ctx;
	struct sirdma_obj *obj = sirdma_obj_get(&dev->cqs, cookie);
	struct sirdma_cq *cq;

	if (!obj)
		return;
	cq = container_of(obj, struct sirdma_cq, obj);
	trace_sirdma_cq_event(dev, cq->id);
	if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	sirdma_obj_put(obj);
}

const struct sirdma_hw_events sirdma_events = {
	.cq_event = sirdma_cq_event,
	.async_event = sirdma_async_event,
	.page_request = sirdma_odp_ask,
};
