// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cq.h"
#include "device.h"
#include "events.h"
#include "qp.h"
#include "trace.h"

#define NO_EVENT -1

/* Which ib_event an asynchronous event of a QP means. */
static int sirdma_qp_event_type(const struct sirdma_async_event *ev)
{
	switch (ev->code) {
	case SIRDMA_AE_QP_CATASTROPHIC:
	case SIRDMA_AE_RESOURCE_EXHAUSTION:
		return IB_EVENT_QP_FATAL;
	case SIRDMA_AE_CONNECTION_ESTABLISHED:
		return IB_EVENT_COMM_EST;
	case SIRDMA_AE_QP_SUSPEND_COMPLETE:
		return IB_EVENT_SQ_DRAINED;
	case SIRDMA_AE_LAST_WQE_REACHED:
		return IB_EVENT_QP_LAST_WQE_REACHED;
	default:
		break;
	}
	/* The completion tells what went wrong with a request of our own (IBTA 10.10.2). */
	if (ev->source == SIRDMA_AE_SRC_SQ || ev->source == SIRDMA_AE_SRC_OUT_RR)
		return NO_EVENT;

	switch (ev->code) {
	case SIRDMA_AE_AMP_UNALLOCATED_STAG:
	case SIRDMA_AE_AMP_INVALID_STAG:
	case SIRDMA_AE_AMP_BAD_QP:
	case SIRDMA_AE_AMP_BAD_PD:
	case SIRDMA_AE_AMP_BAD_STAG_KEY:
	case SIRDMA_AE_AMP_BAD_STAG_INDEX:
	case SIRDMA_AE_AMP_BOUNDS_VIOLATION:
	case SIRDMA_AE_AMP_RIGHTS_VIOLATION:
	case SIRDMA_AE_AMP_TO_WRAP:
	case SIRDMA_AE_IB_REMOTE_ACCESS_ERROR:
		return IB_EVENT_QP_ACCESS_ERR;
	case SIRDMA_AE_IB_RREQ_AND_Q1_FULL:
	case SIRDMA_AE_IB_INVALID_REQUEST:
	case SIRDMA_AE_INVALID_REQUEST:
	case SIRDMA_AE_MSG_TOO_LONG:
	case SIRDMA_AE_ROCE_RSP_LENGTH_ERROR:
	case SIRDMA_AE_IB_REMOTE_OP_ERROR:
	case SIRDMA_AE_WQE_UNEXPECTED_OPCODE:
	case SIRDMA_AE_WQE_INVALID_PARAMETER:
	case SIRDMA_AE_WQE_INVALID_FRAG_DATA:
		return IB_EVENT_QP_REQ_ERR;
	default:
		return NO_EVENT;
	}
}

static void sirdma_qp_event(struct sirdma_dev *dev, const struct sirdma_async_event *ev)
{
	int type = sirdma_qp_event_type(ev);
	struct ib_event event = {};
	struct sirdma_qp *qp;

	if (type == NO_EVENT)
		return;
	qp = sirdma_qp_get(dev, ev->id);
	if (!qp)
		return;
	if (qp->ibqp.event_handler) {
		event.device = &dev->ibdev;
		event.event = type;
		event.element.qp = &qp->ibqp;
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	}
	sirdma_qp_put(qp);
}

static void sirdma_cq_error(struct sirdma_dev *dev, u32 id)
{
	struct ib_event event = {};
	struct sirdma_cq *cq;

	cq = sirdma_cq_get(dev, id);
	if (!cq)
		return;
	if (cq->ibcq.event_handler) {
		event.device = &dev->ibdev;
		event.event = IB_EVENT_CQ_ERR;
		event.element.cq = &cq->ibcq;
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
	}
	sirdma_cq_put(cq);
}

static void sirdma_device_fatal(struct sirdma_dev *dev)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_DEVICE_FATAL,
	};

	ibdev_err(&dev->ibdev, "the device reports a fatal error\n");
	ib_dispatch_event(&event);
}

static void sirdma_async_event(void *ctx, const struct sirdma_async_event *ev)
{
	struct sirdma_dev *dev = ctx;

	trace_sirdma_async_event(dev, ev);
	sirdma_count(&dev->counters, SIRDMA_COUNTER_ASYNC_EVENTS);
	if (ev->overflow) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_ASYNC_OVERFLOWS);
		ibdev_err_ratelimited(&dev->ibdev, "asynchronous events were lost\n");
	}

	switch (ev->code) {
	case SIRDMA_AE_CQ_OPERATION_ERROR:
	case SIRDMA_AE_CQ_CATASTROPHIC:
		sirdma_cq_error(dev, ev->id);
		break;
	case SIRDMA_AE_FUNCTION_CATASTROPHIC:
		sirdma_device_fatal(dev);
		break;
	case SIRDMA_AE_BAD_COMMAND:
		ibdev_err_ratelimited(&dev->ibdev, "the device met a command it does not know\n");
		break;
	case SIRDMA_AE_INVALID_ARP_ENTRY:
	case SIRDMA_AE_STALE_ARP_ENTRY:
		sirdma_neigh_refresh(dev);
		break;
	default:
		sirdma_qp_event(dev, ev);
		break;
	}
}

/* The cookie is a number, not an address: a late event finds nothing, never freed memory. */
static void sirdma_cq_event(void *ctx, u64 cq_ctx)
{
	struct sirdma_dev *dev = ctx;
	struct sirdma_cq *cq;

	cq = sirdma_cq_get(dev, cq_ctx >> 1);
	if (!cq)
		return;
	trace_sirdma_cq_event(dev, cq->id);
	if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	sirdma_cq_put(cq);
}

const struct sirdma_hw_events sirdma_events = {
	.cq_event = sirdma_cq_event,
	.async_event = sirdma_async_event,
};
