// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "event.h"

/* Events about a request of the peer, or about our own request. */
static enum sirdma_event_class request_class(enum sirdma_ae_code code)
{
	switch (code) {
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
		return SIRDMA_EVENT_QP_ACCESS;
	case SIRDMA_AE_IB_RREQ_AND_Q1_FULL:
	case SIRDMA_AE_IB_INVALID_REQUEST:
	case SIRDMA_AE_INVALID_REQUEST:
	case SIRDMA_AE_MSG_TOO_LONG:
	case SIRDMA_AE_ROCE_RSP_LENGTH_ERROR:
	case SIRDMA_AE_IB_REMOTE_OP_ERROR:
	case SIRDMA_AE_WQE_UNEXPECTED_OPCODE:
	case SIRDMA_AE_WQE_INVALID_PARAMETER:
	case SIRDMA_AE_WQE_INVALID_FRAG_DATA:
		return SIRDMA_EVENT_QP_REQUEST;
	default:
		return SIRDMA_EVENT_NONE;
	}
}

enum sirdma_event_class sirdma_event_classify(const struct sirdma_async_event *ev)
{
	switch (ev->code) {
	case SIRDMA_AE_QP_CATASTROPHIC:
	case SIRDMA_AE_RESOURCE_EXHAUSTION:
		return SIRDMA_EVENT_QP_FATAL;
	case SIRDMA_AE_CONNECTION_ESTABLISHED:
		return SIRDMA_EVENT_COMM_EST;
	case SIRDMA_AE_QP_SUSPEND_COMPLETE:
		return SIRDMA_EVENT_SQ_DRAINED;
	case SIRDMA_AE_LAST_WQE_REACHED:
		return SIRDMA_EVENT_LAST_WQE;
	case SIRDMA_AE_SRQ_LIMIT:
		return SIRDMA_EVENT_SRQ_LIMIT;
	case SIRDMA_AE_CQ_OPERATION_ERROR:
	case SIRDMA_AE_CQ_CATASTROPHIC:
		return SIRDMA_EVENT_CQ_ERROR;
	case SIRDMA_AE_FUNCTION_CATASTROPHIC:
		return SIRDMA_EVENT_DEVICE_FATAL;
	case SIRDMA_AE_BAD_COMMAND:
		return SIRDMA_EVENT_BAD_COMMAND;
	case SIRDMA_AE_PAGE_REQUEST:
		return SIRDMA_EVENT_PAGES;
	case SIRDMA_AE_INVALID_ARP_ENTRY:
	case SIRDMA_AE_STALE_ARP_ENTRY:
		return SIRDMA_EVENT_ADDRESS;
	default:
		break;
	}
	/* The completion reports the error of our own request (IBTA 10.10.2). */
	if (ev->source == SIRDMA_AE_SRC_SQ || ev->source == SIRDMA_AE_SRC_OUT_RR)
		return SIRDMA_EVENT_NONE;
	return request_class(ev->code);
}

int sirdma_event_verbs_type(enum sirdma_event_class kind)
{
	switch (kind) {
	case SIRDMA_EVENT_CQ_ERROR:
		return 0;
	case SIRDMA_EVENT_QP_FATAL:
		return 1;
	case SIRDMA_EVENT_QP_REQUEST:
		return 2;
	case SIRDMA_EVENT_QP_ACCESS:
		return 3;
	case SIRDMA_EVENT_COMM_EST:
		return 4;
	case SIRDMA_EVENT_SQ_DRAINED:
		return 5;
	case SIRDMA_EVENT_DEVICE_FATAL:
		return 8;
	case SIRDMA_EVENT_SRQ_LIMIT:
		return 15;
	case SIRDMA_EVENT_LAST_WQE:
		return 16;
	default:
		return -1;
	}
}
