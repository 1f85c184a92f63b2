// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Window of the requester, in packets: of requests, and of the responses that
 * READ requests will bring, so that a window of each QP is all a receiver's
 * buffer must hold. It doubles from a modest start until something is lost, and
 * grows by an eighth in each round trip from then on; a loss halves it, and
 * silence for a whole timeout, when nothing got through, starts it anew.
 */
#include "window.h"

/* What a connection starts with, bytes. */
#define WIN_FIRST (64 * 1024)
#define WIN_LEAST 2u
/* Growth beyond the size of the last loss: one packet for this many acknowledged. */
#define WIN_GROWTH 8
/* Messages up to here count as packets of 1 << WIN_SMALL_SHIFT bytes, with what holds a packet. */
#define WIN_SMALL 256u
#define WIN_SMALL_SHIFT 10
/* READ requests a window is divided into. */
#define WIN_PIECES 4u

static u32 win_packets(const struct snic_qp *qp, u32 bytes)
{
	return max(min_t(u32, bytes >> qp->mtu_shift, SNIC_MAX_WINDOW), WIN_LEAST);
}

static u32 win_max(const struct snic_qp *qp)
{
	u32 bytes = qp->limits.window ? qp->limits.window : qp->dev->cfg.window_bytes;

	return win_packets(qp, bytes ? bytes : SNIC_DEFAULT_WINDOW);
}

void snic_win_start(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	req->ssthresh = win_max(qp);
	req->cwnd = min(req->ssthresh, win_packets(qp, WIN_FIRST));
	req->grow = 0;
	req->probe = 0;
}

void snic_win_progress(struct snic_qp *qp, u32 npkts)
{
	struct snic_req *req = &qp->req;

	if (req->probe) {
		req->probe += npkts;
		if (req->probe >= req->cwnd)
			req->probe = 0;
	}
	if (req->cwnd < req->ssthresh) {
		req->cwnd += npkts;
	} else {
		req->grow += npkts;
		req->cwnd += req->grow / WIN_GROWTH;
		req->grow %= WIN_GROWTH;
	}
	req->cwnd = min(req->cwnd, win_max(qp));
}

void snic_win_loss(struct snic_qp *qp, bool silence)
{
	struct snic_req *req = &qp->req;

	req->ssthresh = max(req->cwnd / 2, WIN_LEAST);
	req->cwnd = silence ? WIN_LEAST : req->ssthresh;
	req->grow = 0;
}

void snic_win_probe(struct snic_qp *qp)
{
	qp->req.probe = 1;
}

static u32 win_limit(const struct snic_qp *qp)
{
	const struct snic_req *req = &qp->req;

	return req->probe ? min(req->probe, req->cwnd) : req->cwnd;
}

static u32 win_left(const struct snic_qp *qp, u32 limit)
{
	u32 flying = snic_psn_fwd(qp->req.nxt, qp->req.una);

	return flying < limit ? limit - flying : 0;
}

u32 snic_win_left(const struct snic_qp *qp)
{
	return win_left(qp, win_limit(qp));
}

u32 snic_win_burst(const struct snic_qp *qp, u32 len, u32 want)
{
	const struct snic_req *req = &qp->req;
	u32 limit = win_limit(qp), left;

	/* As many small ones as take the receiver's buffer what full ones would. */
	if (len <= WIN_SMALL && !req->probe && qp->mtu_shift > WIN_SMALL_SHIFT)
		limit <<= qp->mtu_shift - WIN_SMALL_SHIFT;
	left = win_left(qp, limit);
	/* Bursts that fill whatever an acknowledgement leaves free become ever smaller: wait for half the window. */
	if (left < min(want, limit / 2) && req->nxt != req->una)
		return 0;
	return min(left, want);
}

u32 snic_win_piece(const struct snic_qp *qp)
{
	u32 n = qp->req.cwnd / max_t(u32, min_t(u32, qp->ord, WIN_PIECES), 1);

	n = max_t(u32, min_t(u32, n, SNIC_READ_CHUNK >> qp->mtu_shift), 1);
	while (n & (n - 1))
		n &= n - 1;
	return n;
}
