// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Operations of the send queue on keys. */
#include "local.h"

#include "mw.h"
#include "send.h"

/* That of the oldest message, which often is the one decoded last. */
static const struct snic_sqe *local_sqe(struct snic_qp *qp, u32 slot)
{
	struct snic_req *req = &qp->req;

	if (req->sqe_valid && req->sqe_slot == slot)
		return &req->sqe;
	return snic_send_oldest(qp);
}

/* What came of an invalidation, or of a bind. True: it is done. */
static bool local_result(struct snic_qp *qp, struct snic_out *out, enum snic_inv_result ret)
{
	switch (ret) {
	case SNIC_INV_DONE:
		return true;
	case SNIC_INV_WAIT:
		out->flags |= SNIC_OUT_STARTED;
		return false;
	case SNIC_INV_AGAIN:
		return false;
	default:
		snic_send_mark_failed(qp, out, SIRDMA_FLUSH_MW_BIND, SIRDMA_VENDOR_MW_BIND);
		return false;
	}
}

static bool local_execute(struct snic_qp *qp, u32 slot, struct snic_out *out)
{
	bool binds = out->op == SIRDMA_OP_BIND_MW;
	const struct snic_sqe *sqe;

	if (out->flags & SNIC_OUT_STARTED) {
		if (!snic_inv_finish(&qp->inv[SNIC_INV_SQ]))
			return false;
		out->flags &= (u8)~SNIC_OUT_STARTED;
		/* The former binding has ended: now the window can be bound. */
		if (!binds)
			return true;
	}
	sqe = local_sqe(qp, slot);
	if (!sqe)
		return false;
	return local_result(qp, out,
			    binds ? snic_mw_bind(qp, sqe) :
				    snic_inv_start(&qp->inv[SNIC_INV_SQ], sqe->inv_stag,
						   SNIC_INV_LOCAL));
}

bool snic_key_op_run(struct snic_qp *qp, u32 slot)
{
	struct snic_out *out = snic_out_at(&qp->req, slot);

	if (!local_execute(qp, slot, out))
		return false;
	out->flags &= (u8)~SNIC_OUT_TODO;
	qp->req.local_done = true;
	return true;
}
