/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The meaning of an asynchronous event of the device for the driver and for applications. */
#ifndef SIRDMA_HW_EVENT_H
#define SIRDMA_HW_EVENT_H

#include "eq.h"

enum sirdma_event_class {
	SIRDMA_EVENT_NONE, /* the driver does not report it: a completion does */
	SIRDMA_EVENT_QP_FATAL,
	SIRDMA_EVENT_QP_REQUEST, /* the peer's request was invalid */
	SIRDMA_EVENT_QP_ACCESS, /* the peer's request lacked an access right */
	SIRDMA_EVENT_COMM_EST,
	SIRDMA_EVENT_SQ_DRAINED,
	SIRDMA_EVENT_LAST_WQE,
	SIRDMA_EVENT_SRQ_LIMIT, /* the event is about a shared receive queue, not a queue pair */
	SIRDMA_EVENT_CQ_ERROR,
	SIRDMA_EVENT_DEVICE_FATAL,
	SIRDMA_EVENT_BAD_COMMAND,
	SIRDMA_EVENT_PAGES, /* the page request queue has requests */
	SIRDMA_EVENT_ADDRESS, /* an entry of the address table is stale */
};

enum sirdma_event_class sirdma_event_classify(const struct sirdma_async_event *ev);
/* The event of the verbs API to report (enum ib_event_type, enum ibv_event_type); -1: none. */
int sirdma_event_verbs_type(enum sirdma_event_class kind);

#endif
