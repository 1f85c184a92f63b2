// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Looking out for work instead of being kicked. */
#include "lookout.h"

#include "transport.h"

/* Kicks in a row by a poster that does not wait, before the device looks out. */
#define LOOKOUT_KICKS 8
/* Longer messages are worth a kick each, and fill a burst by themselves. */
#define LOOKOUT_MAX_LEN 16384

/*
 * Does the poster wait for what it posts: for the completion, which it has taken
 * then, or for the peer to answer with a request of its own?
 */
static bool lookout_waited(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;
	bool answered = qp->resp.epsn != req->kick_epsn;

	req->kick_epsn = qp->resp.epsn;
	return answered || (req->last_signaled && snic_cq_drained(qp->send_cq));
}

void snic_lookout_kicked(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (!qp->dev->cfg.lookout_ns)
		return;
	if (lookout_waited(qp))
		req->kicks_ahead = 0;
	else if (req->kicks_ahead < LOOKOUT_KICKS)
		req->kicks_ahead++;
}

bool snic_lookout_stay(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	if (qp->lookout_armed)
		return true;
	if (req->kicks_ahead < LOOKOUT_KICKS)
		return false;
	if (req->look_idx == req->sq_idx || req->sqe.len > LOOKOUT_MAX_LEN) {
		req->kicks_ahead = 0;
		return false;
	}
	req->look_idx = req->sq_idx;
	qp->lookout_armed = true;
	port_timer_arm(&qp->lookout, qp->dev->cfg.lookout_ns);
	return true;
}

static void lookout_timer(struct port_timer *timer)
{
	struct snic_qp *qp = container_of(timer, struct snic_qp, lookout);

	port_lock(&qp->lock);
	qp->lookout_armed = false;
	if (snic_qp_can_send(qp))
		snic_qp_defer(qp);
	port_unlock(&qp->lock);
}

void snic_lookout_init(struct snic_qp *qp)
{
	port_timer_init(&qp->lookout, qp->dev->clock, lookout_timer);
}

void snic_lookout_stop(struct snic_qp *qp)
{
	port_timer_cancel(&qp->lookout);
	qp->lookout_armed = false;
}
