// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Operations of the send queue on keys. */
#include "key_op.h"

#include "mw.h"
#include "send.h"

/* The WQE of the oldest message. It is often the WQE that was decoded last. */
static const struct snic_sqe *key_op_sqe(struct snic_qp *qp, u32 slot)
{
	struct snic_req *req = &qp->req;

	if (req->sqe_valid && req->sqe_slot == slot)
		return &req->sqe;
	return snic_send_oldest(qp);
}

/* Handle the result of an invalidation or a bind. Returns true if the operation is done. */
static bool key_op_result(struct snic_qp *qp, struct snic_out *out, enum snic_inv_result ret)
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

static bool key_op_execute(struct snic_qp *qp, u32 slot, struct snic_out *out)
{
	bool binds = out->op == SIRDMA_OP_BIND_MW;
	const struct snic_sqe *sqe;

	if (out->flags & SNIC_OUT_STARTED) {
		if (!snic_inv_finish(&qp->inv[SNIC_INV_SQ]))
			return false;
		out->flags &= (u8)~SNIC_OUT_STARTED;
		/* The former binding has ended: the window can be bound now. */
		if (!binds)
			return true;
	}
	sqe = key_op_sqe(qp, slot);
	if (!sqe)
		return false;
	return key_op_result(qp, out,
			     binds ? snic_mw_bind(qp, sqe) :
				     snic_inv_start(&qp->inv[SNIC_INV_SQ], sqe->inv_stag,
						    SNIC_INV_LOCAL));
}

bool snic_key_op_run(struct snic_qp *qp, u32 slot)
{
	struct snic_out *out = snic_out_at(&qp->req, slot);

	if (!key_op_execute(qp, slot, out))
		return false;
	out->flags &= (u8)~SNIC_OUT_TODO;
	qp->req.local_done = true;
	return true;
}
