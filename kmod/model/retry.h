/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Retries of the requester: ACK timeout, sequence errors, receiver not ready, absent memory. */
#ifndef SNIC_RETRY_H
#define SNIC_RETRY_H

#include "qp.h"

/* Minimum of the ACK timeout: scheduling delays of a busy peer must not count as loss. */
#define SNIC_MIN_ACK_TIMEOUT_NS 1000000ull
/* Backoff does not extend an RNR wait beyond this; a longer wait that the peer asks for is kept. */
#define SNIC_MAX_RNR_BACKOFF_NS 2000000ull
/*
 * Waits for absent local memory: the first wait, how often a wait is doubled, and how many waits
 * there are. Together they take 3.4 s; a busy disk provides a page in less time.
 */
#define SNIC_ABSENT_FIRST_NS 65536ull
#define SNIC_ABSENT_DOUBLINGS 10
#define SNIC_ABSENT_WAITS 60
/*
 * If the driver is asked for the memory, it rings the doorbell once the memory is present or found
 * missing, which ends a wait early. The number of waits has no limit then: a page may come from a slow
 * disk or a file server. The longest wait, 1.07 s, is the time until a request that was lost, or whose
 * page could not be had at the moment, is made again.
 */
#define SNIC_ABSENT_DOUBLINGS_ASKED 14
#define SNIC_ASK_AGAIN_NS (SNIC_ABSENT_FIRST_NS << SNIC_ABSENT_DOUBLINGS_ASKED)

/* Requests are in flight: make sure that the timer runs. @fresh: none were in flight before. */
void snic_retry_start(struct snic_qp *qp, bool fresh);
/* Start the ACK timeout now. */
void snic_retry_set_deadline(struct snic_qp *qp);
/*
 * Packets from una on were lost: retransmit them if the retry count allows it. @timeout: the ACK
 * timer detected the loss.
 */
void snic_retry_lost(struct snic_qp *qp, bool timeout);
/*
 * An RNR NAK arrived for una: wait for the time that it names, or longer. @code: see IBTA table 45.
 */
void snic_retry_rnr(struct snic_qp *qp, u8 code);
/*
 * Local memory for the packet nxt is absent: wait, then try again. Returns false if the memory was
 * absent for too long, and the message failed.
 */
bool snic_retry_absent(struct snic_qp *qp);
/* End the wait of snic_retry_absent(): a kick says that the memory may be present. */
void snic_retry_end_absent(struct snic_qp *qp);
/*
 * Memory of a READ that the peer makes is absent (snic_resp.absent), and the driver may have lost the
 * request: the timer fires within SNIC_ASK_AGAIN_NS, and lets the responder try again.
 */
void snic_retry_ask_again(struct snic_qp *qp);
/* The wait of snic_retry_rnr() or snic_retry_absent() is over. */
void snic_retry_end_wait(struct snic_qp *qp);
/*
 * timer_due(): has the deadline passed? If not, the timer is armed again while there is a
 * deadline.
 */
bool snic_retry_due(struct snic_qp *qp);
/* timer_expired(): retransmit, or end the wait, unless the deadline has moved since. */
void snic_retry_expired(struct snic_qp *qp);
/* The time of an RNR timer value, in ns. */
u64 snic_rnr_ns(u8 code);
/* The value of rnr_retry that means no limit (IBTA 9.7.5.2.8). */
#define SNIC_RNR_RETRY_INFINITE 7

#endif
