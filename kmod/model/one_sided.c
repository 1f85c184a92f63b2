// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* One-sided execution of WRITEs, READs and atomics, where hosts reach the memory of their peers. */
#include "one_sided.h"

/*
 * After the host has refused a request, the next one is sent without asking it again; after two refusals in
 * a row the next two, and so on, up to this many. A host refuses while packets are the better way, and a
 * question takes 10 ns of the 120 ns that a small message takes then.
 */
#define ONE_SIDED_SKIP_MAX 16

/* How a request goes on. */
enum one_sided_end {
	ONE_SIDED_DONE,
	ONE_SIDED_REFUSED, /* it has to be sent */
	ONE_SIDED_FAILED, /* its answer could not be placed: it is marked as failed */
	ONE_SIDED_LOST, /* meanwhile the QP was reset, or failed: the request is none any more */
};

/* Copy the payload of the current WRITE from the segments of the burst to its copies. */
static u8 *one_sided_copy(struct snic_tx *tx, u32 len)
{
	const struct snic_seg *seg = tx->burst->segs;
	u8 *to = tx->burst->copies;
	u32 off;

	for (off = 0; off < len; off += seg->len, seg++) {
		/* Memory that may be missing was copied to its place already. */
		if (seg->ptr != to + off)
			memcpy(to + off, seg->ptr, seg->len);
	}
	return to;
}

/* Where the payload of the current WRITE lies. NULL: it cannot be read now. */
static u8 *one_sided_payload(struct snic_tx *tx, u32 len)
{
	struct snic_burst *burst = tx->burst;
	u8 *data = NULL;
	u32 got;

	if (snic_send_gather(tx, 0, len, &got) == SNIC_GATHER_OK)
		data = burst->nsegs == 1 ? burst->segs[0].ptr : one_sided_copy(tx, len);
	snic_tx_trim(tx, got);
	if (PORT_MEMORY_MAY_FAULT)
		burst->transient = false;
	return data;
}

/*
 * Can the value that an atomic gets be placed? If not the message is sent, and fails or waits as others do:
 * it cannot be executed twice.
 */
static bool one_sided_can_place(struct snic_qp *qp)
{
	const struct snic_sge *result = &qp->req.sqe.atomic.result;
	enum sirdma_ae_code ae;
	struct snic_mrc mrc;
	struct snic_mr *mr;
	bool can;

	snic_mrc_init(&mrc, SIRDMA_ACCESS_LOCAL_WRITE);
	mr = snic_mrc_get(qp, &mrc, result->stag, result->addr, result->len, &ae);
	can = mr && !snic_mr_may_fault(mr);
	snic_mrc_put(&mrc);
	return can;
}

/* Place the answer to the current READ or atomic, @len bytes at @from. */
static bool one_sided_scatter(struct snic_qp *qp, u32 len, u8 *from)
{
	const struct snic_sqe *sqe = &qp->req.sqe;
	struct snic_seg answer = {.ptr = from, .len = len};
	struct snic_seg_iter it = {.seg = &answer};
	struct snic_rx_mem mem = {};
	enum sirdma_ae_code ae;
	bool placed;

	qp->rx_mem = &mem;
	placed = snic_sge_scatter(qp, SNIC_REQUESTER, sqe->sge, sqe->nsge, 0, &it, len, &ae) ==
		 SNIC_PLACED;
	snic_qp_put_rx_mr(qp);
	qp->rx_mem = NULL;
	return placed;
}

/*
 * Let the host execute @request. It may wait for a page of the peer's memory, so the lock is dropped
 * meanwhile, and no local region is in use: other threads use the QP as usual, only that its
 * requester waits (SNIC_WAIT_HOST).
 */
static enum one_sided_end one_sided_execute(struct snic_tx *tx,
					    const struct snic_one_sided *request)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	bool done;

	snic_tx_put_memory(tx);
	req->wait = SNIC_WAIT_HOST;
	req->executes = tx;
	/* Work that others defer does not wait for this thread. */
	qp->in_run = false;
	port_unlock(&qp->lock);
	done = snic_dev_ops(qp->dev)->one_sided(qp->dev->host, request);
	port_lock(&qp->lock);
	qp->in_run = true;
	/* A reset clears it, and what another thread executes since then has another value. */
	if (req->executes != tx || !snic_qp_can_send(qp))
		return ONE_SIDED_LOST;
	req->executes = NULL;
	req->wait = SNIC_WAIT_NONE;
	req->one_sided_note = *request->note;
	return done ? ONE_SIDED_DONE : ONE_SIDED_REFUSED;
}

static u8 one_sided_op(u8 op)
{
	if (op == SIRDMA_OP_READ)
		return SNIC_ONE_SIDED_READ;
	if (snic_op_is_write(op))
		return SNIC_ONE_SIDED_WRITE;
	return op == SIRDMA_OP_FETCH_ADD ? SNIC_ONE_SIDED_FETCH_ADD : SNIC_ONE_SIDED_CMP_SWAP;
}

/*
 * Place what the request has read. A READ whose answer cannot be placed is sent, and fails as others do. An
 * atomic was executed, and its region is gone since one_sided_can_place().
 */
static enum one_sided_end one_sided_finish(struct snic_qp *qp, struct snic_out *out, u8 *data)
{
	if (one_sided_scatter(qp, out->len, data))
		return ONE_SIDED_DONE;
	if (!snic_op_is_atomic(out->op))
		return ONE_SIDED_REFUSED;
	snic_send_mark_failed(qp, out, SIRDMA_FLUSH_PROT, SIRDMA_VENDOR_LOC_PROT);
	return ONE_SIDED_FAILED;
}

/* On a local fault the message is sent, and fails as others do. */
static enum one_sided_end one_sided_try(struct snic_tx *tx, struct snic_out *out)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	u64 note = req->one_sided_note;
	struct snic_flow flow;
	struct snic_one_sided request = {
		.flow = &qp->path.flow,
		.qpn = qp->obj.id,
		.dest_qpn = qp->dest_qpn,
		.va = req->sqe.remote_va,
		.rkey = req->sqe.rkey,
		.len = out->len,
		.op = one_sided_op(out->op),
		.data = tx->burst->copies,
		.note = &note,
	};
	enum snic_one_sided_status status;
	enum one_sided_end end;

	snic_path_refresh(qp->dev, &qp->path);
	if (!qp->path.src_ok || !qp->path.dst_ok)
		return ONE_SIDED_REFUSED;
	if (request.op == SNIC_ONE_SIDED_WRITE) {
		request.data = one_sided_payload(tx, out->len);
		if (!request.data)
			return ONE_SIDED_REFUSED;
	}
	if (snic_op_is_atomic(out->op)) {
		if (!one_sided_can_place(qp))
			return ONE_SIDED_REFUSED;
		request.swap_add = req->sqe.atomic.swap_add;
		request.compare = req->sqe.atomic.compare;
	}
	status = snic_dev_ops(qp->dev)->one_sided_nowait(qp->dev->host, &request);
	req->one_sided_note = note;
	end = status == SNIC_ONE_SIDED_EXECUTED ? ONE_SIDED_DONE : ONE_SIDED_REFUSED;
	if (status == SNIC_ONE_SIDED_WOULD_BLOCK) {
		/* The path and the payload may change when the lock is dropped. */
		flow = qp->path.flow;
		request.flow = &flow;
		if (request.data != tx->burst->copies)
			memcpy(tx->burst->copies, request.data, request.len);
		request.data = tx->burst->copies;
		end = one_sided_execute(tx, &request);
	}
	if (end == ONE_SIDED_REFUSED)
		out->flags |= SNIC_OUT_REFUSED;
	if (end == ONE_SIDED_DONE && request.op != SNIC_ONE_SIDED_WRITE)
		return one_sided_finish(qp, out, request.data);
	return end;
}

bool snic_one_sided_execute(struct snic_tx *tx, struct snic_out *out, enum snic_send_stop *why)
{
	struct snic_qp *qp = tx->qp;
	struct snic_req *req = &qp->req;
	enum one_sided_end end = ONE_SIDED_REFUSED;

	if (req->one_sided_skip) {
		req->one_sided_skip--;
		return false;
	}
	/* Packets of several requests cost less than so many calls of the host. */
	if (!snic_sqe_peek(qp, req->sq_idx, req->sq_polarity))
		end = one_sided_try(tx, out);
	switch (end) {
	case ONE_SIDED_DONE:
		break;
	case ONE_SIDED_REFUSED:
		req->one_sided_pause =
			(u8)min_t(u32, max_t(u32, 2 * req->one_sided_pause, 1), ONE_SIDED_SKIP_MAX);
		req->one_sided_skip = req->one_sided_pause;
		return false;
	case ONE_SIDED_FAILED:
		*why = SNIC_SEND_BLOCKED;
		return true;
	case ONE_SIDED_LOST:
		/* The QP may be in use again: the next run finds out what there is to do. */
		snic_qp_defer(qp);
		*why = SNIC_SEND_BLOCKED;
		return true;
	}
	req->one_sided_pause = 0;
	/* The PSNs that the message was to get are those of the next one. */
	req->psn = out->psn;
	out->flags |= SNIC_OUT_LOCAL;
	req->cur++;
	snic_stat_inc(qp->dev, SIRDMA_STAT_ONE_SIDED);
	*why = SNIC_SEND_MORE;
	return true;
}
