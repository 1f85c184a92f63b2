/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What asynchronous events mean to whoever hears them. */
#ifndef SIRDMA_HW_EVENT_H
#define SIRDMA_HW_EVENT_H

#include "eq.h"

enum sirdma_event_class {
	SIRDMA_EVENT_NONE, /* nobody is told: a completion says it */
	SIRDMA_EVENT_QP_FATAL,
	SIRDMA_EVENT_QP_REQUEST, /* the peer's request was invalid */
	SIRDMA_EVENT_QP_ACCESS, /* the peer's request had no right to what it wanted */
	SIRDMA_EVENT_COMM_EST,
	SIRDMA_EVENT_SQ_DRAINED,
	SIRDMA_EVENT_LAST_WQE,
	SIRDMA_EVENT_CQ_ERROR,
	SIRDMA_EVENT_DEVICE_FATAL,
	SIRDMA_EVENT_BAD_COMMAND,
	SIRDMA_EVENT_ADDRESS, /* an address table entry is of no use any more */
};

enum sirdma_event_class sirdma_event_classify(const struct sirdma_async_event *ev);
/* The event of the verbs API (enum ib_event_type, enum ibv_event_type) that says it; -1: none does. */
int sirdma_event_verbs_type(enum sirdma_event_class kind);

#endif
