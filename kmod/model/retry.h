/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Retries of the requester: ACK timeout, sequence errors, receiver not ready. */
#ifndef SNIC_RETRY_H
#define SNIC_RETRY_H

#include "qp.h"

/* Shortest ACK timeout: below it a busy peer's scheduling would count as loss. */
#define SNIC_MIN_ACK_TIMEOUT_NS 1000000ull
/* How long asking an unready receiver again and again makes a shorter wait. */
#define SNIC_MAX_RNR_BACKOFF_NS 2000000ull
/*
 * Absent memory of this side: the first wait, how often the next is twice the one before,
 * and how many there are. Together 3.4 s: a page comes from a busy disk in less.
 */
#define SNIC_ABSENT_FIRST_NS 65536ull
#define SNIC_ABSENT_DOUBLINGS 10
#define SNIC_ABSENT_WAITS 60

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
/*
 * Memory of this QP's own is absent, for what nxt begins with: try again later, sooner
 * when snic_retry_present() comes before. False: it was absent for too long.
 */
bool snic_retry_absent(struct snic_qp *qp);
/* Memory may have come. */
void snic_retry_present(struct snic_qp *qp);
/* The wait of snic_retry_rnr() or snic_retry_absent() is over. */
void snic_retry_end_wait(struct snic_qp *qp);
/* The timer fired: has the deadline passed? If not, and there still is one, it is armed again. */
bool snic_retry_due(struct snic_qp *qp);
/* It had passed: unless there was progress since, send again. */
void snic_retry_expired(struct snic_qp *qp);
/* RNR timer value in ns. */
u64 snic_rnr_ns(u8 code);

#endif
