// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Congestion window of the requester, in packets. Requests count, and so do the responses
 * that READ requests will bring: a receiver's buffer then has to hold one window per QP.
 * The window doubles in each round trip until the first loss, and grows by an eighth after
 * it. A loss halves the window. A mark halves it at most once in a round trip, and not after a loss in it. An ACK
 * timeout resets it to the least.
 */
#include "window.h"

/*
 * Initial window, bytes: one burst, which a receiver's socket buffer of Linux's default size, 212,992
 * bytes, holds. Not tuned.
 */
#define WIN_FIRST (64 * 1024)
/* The least ssthresh, packets, as TCP's (RFC 5681, equation 4). */
#define WIN_MIN 2u
/*
 * Above ssthresh, this many acknowledged packets increase the window by one packet. TCP waits for a
 * whole window of them; a window here has few packets. Not tuned.
 */
#define WIN_GROWTH 8
/*
 * Messages up to SNIC_WIN_SMALL bytes count as 1 << WIN_SMALL_SHIFT bytes, since their packet buffers
 * take memory too: 768 bytes of a socket's buffer in Linux on x86-64, rounded up to a power of two.
 */
#define WIN_SMALL_SHIFT 10
/*
 * A window is divided into at least this many READ requests, so that one is answered while the next is
 * under way. Not tuned.
 */
#define WIN_READS 4u
/*
 * So many READ requests of any length fill the window: messages are a little longer than a multiple of the
 * length as well as a little shorter.
 */
#define WIN_READS_MANY 16u

static u32 win_packets(const struct snic_qp *qp, u32 bytes)
{
	return max(min_t(u32, bytes >> qp->mtu_shift, SNIC_MAX_WINDOW), WIN_MIN);
}

static u32 win_max(const struct snic_qp *qp)
{
	u32 bytes = qp->limits.window ? qp->limits.window : qp->dev->cfg.window_bytes;

	return win_packets(qp, bytes ? bytes : SNIC_DEFAULT_WINDOW);
}

static void win_set(struct snic_req *req, u32 cwnd)
{
	req->cwnd = cwnd;
	req->ask_after = (u16)min_t(u32, SNIC_ACKREQ_PKTS, max_t(u32, cwnd / 4, 1));
}

void snic_win_start(struct snic_qp *qp)
{
	struct snic_req *req = &qp->req;

	req->ssthresh = win_max(qp);
	win_set(req, min(req->ssthresh, win_packets(qp, WIN_FIRST)));
	req->grow = 0;
	req->probe = 0;
	req->cut_left = 0;
}

void snic_win_progress(struct snic_qp *qp, u32 npkts)
{
	struct snic_req *req = &qp->req;
	u32 cwnd = req->cwnd;

	if (req->probe) {
		req->probe += npkts;
		if (req->probe >= cwnd)
			req->probe = 0;
	}
	if (unlikely(req->cut_left))
		req->cut_left -= (u16)min_t(u32, req->cut_left, npkts);
	if (cwnd < req->ssthresh) {
		cwnd += npkts;
	} else {
		req->grow += npkts;
		cwnd += req->grow / WIN_GROWTH;
		req->grow %= WIN_GROWTH;
	}
	win_set(req, min(cwnd, win_max(qp)));
}

void snic_win_loss(struct snic_qp *qp, bool timeout)
{
	struct snic_req *req = &qp->req;
	/* After a restart nxt may be behind what is in flight. */
	u32 in_flight = max(snic_psn_fwd(req->max, req->una), snic_psn_fwd(req->nxt, req->una));

	req->ssthresh = max(req->cwnd / 2, WIN_MIN);
	win_set(req, timeout ? WIN_MIN : req->ssthresh);
	req->grow = 0;
	req->cut_left = (u16)min_t(u32, max_t(u32, in_flight, 1), 0xffff);
}

void snic_win_congested(struct snic_qp *qp)
{
	if (!qp->req.cut_left)
		snic_win_loss(qp, false);
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
	u32 in_flight = snic_psn_fwd(qp->req.nxt, qp->req.una);

	return in_flight < limit ? limit - in_flight : 0;
}

u32 snic_win_left(const struct snic_qp *qp)
{
	return win_left(qp, win_limit(qp));
}

u32 snic_win_small(const struct snic_qp *qp)
{
	u32 limit = win_limit(qp);

	/*
	 * Allow as many small messages as take the same space in the receiver's buffer as full
	 * packets.
	 */
	if (!qp->req.probe && qp->mtu_shift > WIN_SMALL_SHIFT)
		limit <<= qp->mtu_shift - WIN_SMALL_SHIFT;
	return win_left(qp, limit);
}

u32 snic_win_burst(const struct snic_qp *qp, u32 len, u32 want)
{
	const struct snic_req *req = &qp->req;
	u32 limit = win_limit(qp), left;

	if (len <= SNIC_WIN_SMALL)
		return min(snic_win_small(qp), want);
	left = win_left(qp, limit);
	/*
	 * Bursts that fill only what each acknowledgement frees would become smaller and smaller:
	 * wait until half of the window is free.
	 */
	if (left < min(want, limit / 2) && req->nxt != req->una)
		return 0;
	return min(left, want);
}

u32 snic_win_read_pkts(const struct snic_qp *qp)
{
	u32 n = qp->req.cwnd / max_t(u32, min_t(u32, qp->ord, WIN_READS), 1);
	u32 bytes = SNIC_READ_CHUNK;

	if (qp->dev->cfg.read_bytes && qp->ord >= WIN_READS_MANY)
		bytes = min(bytes, qp->dev->cfg.read_bytes);
	n = max_t(u32, min_t(u32, n, bytes >> qp->mtu_shift), 1);
	while (n & (n - 1))
		n &= n - 1;
	return n;
}
