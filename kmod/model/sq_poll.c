// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Polling the send queue by timer. */
#include "sq_poll.h"

#include "sirdma/roce.h"
#include "transport.h"

/*
 * After this many consecutive kicks by a poster that does not wait, the timer polls for it.
 * Measured in an emulated guest over veth: without the timer streams of 64-byte messages have half
 * their rate, 4 KiB messages 0.6 of it. Between 2 and 64 kicks make no difference above the noise
 * of 20 %.
 */
#define SQ_POLL_KICKS 8
/*
 * The same number for a datagram queue pair. Programs that send a few datagrams destroy address
 * handle and queue pair without waiting for completions (mckey: 10), and the datagrams that the
 * device has not seen are lost.
 */
#define SQ_POLL_DATAGRAM_KICKS 64
/*
 * For messages longer than this, bytes, a kick costs little, and a few of them fill a burst. With
 * the timer for 64 KiB WRITEs these have 0.8 of their bandwidth; 4 KiB here would do as well.
 */
#define SQ_POLL_MAX_LEN 16384
/*
 * A period costs credit, and each message that it finds earns some, so that the timer survives a
 * few empty periods of a stream. A period may be empty because the timer and the poster share a
 * processor: at 16 ns per instruction a poster that never pauses was kicked for every message. A
 * poster of one message per period runs out of credit and has the shorter latency of kicks again.
 * Datagrams of 64 and 1,024 bytes over veth have 1.2 and 1.35 times the rate that they have if the
 * first empty period stops the timer.
 */
#define SQ_POLL_CREDIT 8u
#define SQ_POLL_COST 2u
/* After a stream of at least this many messages, few kicks start the timer again. */
#define SQ_POLL_STREAM 16u
#define SQ_POLL_STREAM_KICKS 2

static u32 sq_poll_kicks(const struct snic_qp *qp)
{
	return qp->transport->is_datagram ? SQ_POLL_DATAGRAM_KICKS : SQ_POLL_KICKS;
}

/*
 * Does the poster wait for each message? Either it has polled the completion of the last
 * one, or the peer has sent a request since the last kick, as in a ping-pong.
 */
static bool sq_poll_waited(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	bool answered = qp->resp.epsn != req->kick_epsn;

	req->kick_epsn = qp->resp.epsn;
	return answered || (req->last_signaled && snic_cq_drained(qp->send_cq));
}

void snic_sq_poll_kicked(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	/* A task takes many messages of the GSI QP at once (host/defer.h). */
	if (!qp->dev->cfg.sq_poll_ns || qp->obj.id == SIRDMA_GSI_QPN)
		return;
	if (sq_poll_waited(qp))
		req->kicks_ahead = 0;
	else if (req->kicks_ahead < sq_poll_kicks(qp) && ++req->kicks_ahead == sq_poll_kicks(qp)) {
		req->polled_tail = req->tail;
		req->poll_credit = SQ_POLL_CREDIT;
		req->poll_found = 0;
	}
}

/* Stop the timer: the poster pauses, or its messages are long. */
static void sq_poll_end(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	req->kicks_ahead = 0;
	if (req->poll_found >= SQ_POLL_STREAM && !qp->transport->is_datagram)
		req->kicks_ahead = SQ_POLL_KICKS - SQ_POLL_STREAM_KICKS;
}

bool snic_sq_poll_stay(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	u32 found, credit;

	if (qp->sq_poll_armed)
		return true;
	if (req->kicks_ahead < sq_poll_kicks(qp))
		return false;
	found = req->tail - req->polled_tail;
	req->polled_tail = req->tail;
	req->poll_found = (u8)min(req->poll_found + found, SQ_POLL_STREAM);
	credit = min(req->poll_credit + found, SQ_POLL_CREDIT);
	if (credit < SQ_POLL_COST || snic_out_at(req, req->tail - 1)->len > SQ_POLL_MAX_LEN) {
		sq_poll_end(qp);
		return false;
	}
	req->poll_credit = (u8)(credit - SQ_POLL_COST);
	qp->sq_poll_armed = true;
	port_timer_arm(&qp->sq_poll, qp->dev->cfg.sq_poll_ns);
	return true;
}

static void sq_poll_timer(struct port_timer *timer)
{
	struct snic_qp *qp = container_of(timer, struct snic_qp, sq_poll);

	port_lock(&qp->lock);
	qp->sq_poll_armed = false;
	if (snic_qp_can_send(qp))
		snic_qp_defer(qp);
	port_unlock(&qp->lock);
}

void snic_sq_poll_init(struct snic_qp *qp)
{
	port_timer_init(&qp->sq_poll, qp->dev->clock, sq_poll_timer);
}

void snic_sq_poll_stop(struct snic_qp *qp)
{
	port_timer_cancel(&qp->sq_poll);
	qp->sq_poll_armed = false;
}
