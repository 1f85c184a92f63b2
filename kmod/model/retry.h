/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Retries of the requester: ACK timeout, sequence errors, receiver not ready. */
#ifndef SNIC_RETRY_H
#define SNIC_RETRY_H

#include "qp.h"

/* Shortest ACK timeout: below it a busy peer's scheduling would count as loss. */
#define SNIC_MIN_ACK_TIMEOUT_NS 1000000ull
/* How long asking an unready receiver again and again makes a shorter wait. */
#define SNIC_MAX_RNR_BACKOFF_NS 2000000ull

/* Requests are in flight: make sure the timer runs. @fresh: none were before. */
void snic_retry_start(struct snic_qp *qp, bool fresh);
/* Progress: the timeout begins anew. */
void snic_retry_touch(struct snic_qp *qp);
/*
 * Packets from una on were lost: send them again, if the retry count allows.
 * @silence: the timer says so.
 */
void snic_retry_lost(struct snic_qp *qp, bool silence);
/* The receiver was not ready at una: wait as it asked, or longer. @code: IBTA table 45. */
void snic_retry_rnr(struct snic_qp *qp, u8 code);
/* The timer fired: has the deadline passed? If not, and there still is one, it is armed again. */
bool snic_retry_due(struct snic_qp *qp);
/* It had passed: unless there was progress since, send again. */
void snic_retry_expired(struct snic_qp *qp);
/* RNR timer value in ns. */
u64 snic_rnr_ns(u8 code);

#endif
