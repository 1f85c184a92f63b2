// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One timer per QP serves the ACK timeout, the RNR wait and the wait for absent memory, which exclude
 * each other. When the timer fires before the deadline it is armed again, so that an acknowledgement
 * only has to store a new deadline. While a responder waits for memory, it fires more often.
 */
#include "retry.h"

#include "completer.h"
#include "requester.h"
#include "window.h"

/* The waits of IBTA table 45, in units of 10 us. */
static const u32 rnr_10us[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

u64 snic_rnr_ns(u8 code)
{
	return rnr_10us[code & 31] * 10000ull;
}

static u64 ack_timeout_ns(const struct snic_qp *qp)
{
	return max_t(u64, 4096ull << qp->ack_timeout, SNIC_MIN_ACK_TIMEOUT_NS);
}

static bool retry_asks(const struct snic_qp *qp)
{
	return qp->resp.absent && READ_ONCE(qp->dev->prq.entries);
}

static void retry_arm(struct snic_qp *qp, u64 ns)
{
	qp->timer_armed = true;
	port_timer_arm(&qp->timer, retry_asks(qp) ? min_t(u64, ns, SNIC_ASK_AGAIN_NS) : ns);
}

void snic_retry_ask_again(struct snic_qp *qp)
{
	const u64 latest = port_now_ns(qp->dev->clock) + SNIC_ASK_AGAIN_NS;

	if (!retry_asks(qp) || (qp->timer_armed && qp->req.deadline <= latest))
		return;
	/* timer_armed remains: the requester may need the timer sooner, and then arms it again. */
	port_timer_arm(&qp->timer, SNIC_ASK_AGAIN_NS);
}

void snic_retry_set_deadline(struct snic_qp *qp)
{
	if (qp->ack_timeout)
		qp->req.deadline = port_now_ns(qp->dev->clock) + ack_timeout_ns(qp);
}

void snic_retry_start(struct snic_qp *qp, bool fresh)
{
	if (!qp->ack_timeout || qp->req.wait != SNIC_WAIT_NONE)
		return;
	if (fresh || !qp->timer_armed)
		snic_retry_set_deadline(qp);
	if (!qp->timer_armed)
		retry_arm(qp, ack_timeout_ns(qp));
}

void snic_retry_lost(struct snic_qp *qp, bool timeout)
{
	struct snic_req *req = &qp->req;

	if (!req->retry_left) {
		snic_stat_inc(qp->dev, SIRDMA_STAT_RETRY_EXCEEDED);
		snic_send_fail_oldest(qp, SIRDMA_FLUSH_RETRY_EXC, SIRDMA_VENDOR_RETRY_EXC);
		return;
	}
	req->retry_left--;
	snic_win_loss(qp, timeout);
	snic_req_restart(qp);
	snic_retry_set_deadline(qp);
}

/*
 * The time in the RNR NAK is the minimum wait (IBTA 9.7.5.2.8). Each wait without progress is twice
 * as long as the one before, because repeated requests take processor time from a receiver that is
 * not ready.
 */
static u64 rnr_wait_ns(u8 code, u8 tries)
{
	u64 asked = snic_rnr_ns(code);

	return max_t(u64, asked, min_t(u64, asked << tries, SNIC_MAX_RNR_BACKOFF_NS));
}

/* Send no packet for @ns. */
static void retry_wait(struct snic_qp *qp, enum snic_req_wait why, u64 ns)
{
	qp->req.wait = why;
	qp->req.deadline = port_now_ns(qp->dev->clock) + ns;
	retry_arm(qp, ns);
}

void snic_retry_rnr(struct snic_qp *qp, u8 code)
{
	struct snic_req *req = &qp->req;
	u64 wait = rnr_wait_ns(code, req->rnr_tries);

	if (qp->rnr_retry != SNIC_RNR_RETRY_INFINITE) {
		if (!req->rnr_left) {
			snic_stat_inc(qp->dev, SIRDMA_STAT_RNR_RETRY_EXCEEDED);
			snic_send_fail_oldest(qp, SIRDMA_FLUSH_RNR_RETRY_EXC,
					      SIRDMA_VENDOR_RNR_RETRY_EXC);
			return;
		}
		req->rnr_left--;
	}
	req->rnr_tries = min_t(u8, req->rnr_tries + 1, 16);
	/* An RNR NAK is an answer: the ACK timeout's retry count starts again. */
	req->retry_left = qp->retry_cnt;
	snic_req_restart(qp);
	snic_win_probe(qp);
	retry_wait(qp, SNIC_WAIT_RNR, wait);
}

bool snic_retry_absent(struct snic_qp *qp)
{
	const bool asked = READ_ONCE(qp->dev->prq.entries);
	struct snic_req *req = &qp->req;
	u64 wait;

	if (req->absent_psn != req->nxt) {
		req->absent_psn = req->nxt;
		req->absent_waits = 0;
	}
	if (req->absent_waits >= SNIC_ABSENT_WAITS && !asked) {
		req->absent_waits = 0;
		snic_send_fail_oldest(qp, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
		return false;
	}
	wait = SNIC_ABSENT_FIRST_NS
	       << min_t(u8, req->absent_waits,
			asked ? SNIC_ABSENT_DOUBLINGS_ASKED : SNIC_ABSENT_DOUBLINGS);
	req->absent_waits = min_t(u8, req->absent_waits + 1, SNIC_ABSENT_WAITS);
	retry_wait(qp, SNIC_WAIT_ABSENT, wait);
	return true;
}

void snic_retry_end_wait(struct snic_qp *qp)
{
	qp->req.wait = SNIC_WAIT_NONE;
	qp->timer_armed = false; /* it was armed for the wait: snic_retry_start() arms it again */
}

void snic_retry_end_absent(struct snic_qp *qp)
{
	if (qp->req.wait != SNIC_WAIT_ABSENT)
		return;
	/* A wait that ended early does not count. */
	qp->req.absent_waits--;
	snic_retry_end_wait(qp);
	snic_retry_set_deadline(qp);
}

bool snic_retry_due(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	u64 now;

	if (!snic_qp_can_send(qp) || req->wait == SNIC_WAIT_HOST)
		return false;
	/* Without an ACK timeout the deadline is that of a wait that is over. */
	if (req->wait == SNIC_WAIT_NONE && (!snic_req_in_flight(req) || !qp->ack_timeout))
		return false;
	now = port_now_ns(qp->dev->clock);
	if (now < req->deadline) {
		retry_arm(qp, req->deadline - now);
		return false;
	}
	return true;
}

void snic_retry_expired(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (!snic_retry_due(qp))
		return;
	if (req->wait != SNIC_WAIT_NONE) {
		snic_retry_end_wait(qp);
	} else if (qp->tx_stalled || req->inv_wait) {
		/*
		 * Packets that the host did not accept are not lost. Answers that are dropped while
		 * an invalidation is under way are not lost either.
		 */
		snic_retry_set_deadline(qp);
	} else if (snic_req_request_ack(qp)) {
		snic_retry_set_deadline(qp);
	} else {
		snic_stat_inc(qp->dev, SIRDMA_STAT_ACK_TIMEOUTS);
		snic_retry_lost(qp, true);
	}
	if (snic_qp_can_send(qp))
		snic_retry_start(qp, false);
}
