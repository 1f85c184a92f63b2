// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Control queue pair: fetch, dispatch, complete. */
#include "cqp.h"
#include "cq.h"
#include "cqp_tables.h"
#include "dev.h"
#include "mcast.h"
#include "mr.h"
#include "prq.h"
#include "qp_cmd.h"
#include "srq.h"

#define CQP_RING_ALIGN 512
#define VERSION_GENERATION(v) ((v) >> 16)

typedef u32 (*snic_cqp_fn)(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret);

static const snic_cqp_fn cqp_ops[SIRDMA_CQP_OP_COUNT] = {
	[SIRDMA_CQP_CREATE_QP] = snic_cqp_create_qp,
	[SIRDMA_CQP_MODIFY_QP] = snic_cqp_modify_qp,
	[SIRDMA_CQP_DESTROY_QP] = snic_cqp_destroy_qp,
	[SIRDMA_CQP_CREATE_CQ] = snic_cqp_create_cq,
	[SIRDMA_CQP_MODIFY_CQ] = snic_cqp_modify_cq,
	[SIRDMA_CQP_DESTROY_CQ] = snic_cqp_destroy_cq,
	[SIRDMA_CQP_CREATE_SRQ] = snic_cqp_create_srq,
	[SIRDMA_CQP_MODIFY_SRQ] = snic_cqp_modify_srq,
	[SIRDMA_CQP_DESTROY_SRQ] = snic_cqp_destroy_srq,
	[SIRDMA_CQP_QUERY_SRQ] = snic_cqp_query_srq,
	[SIRDMA_CQP_ALLOC_STAG] = snic_cqp_alloc_stag,
	[SIRDMA_CQP_REG_MR] = snic_cqp_reg_mr,
	[SIRDMA_CQP_QUERY_STAG] = snic_cqp_query_stag,
	[SIRDMA_CQP_DEALLOC_STAG] = snic_cqp_dealloc_stag,
	[SIRDMA_CQP_MANAGE_ARP] = snic_cqp_manage_arp,
	[SIRDMA_CQP_UPLOAD_CONTEXT] = snic_cqp_upload_ctx,
	[SIRDMA_CQP_CREATE_CEQ] = snic_cqp_create_ceq,
	[SIRDMA_CQP_DESTROY_CEQ] = snic_cqp_destroy_ceq,
	[SIRDMA_CQP_CREATE_AEQ] = snic_cqp_create_aeq,
	[SIRDMA_CQP_DESTROY_AEQ] = snic_cqp_destroy_aeq,
	[SIRDMA_CQP_CREATE_PRQ] = snic_cqp_create_prq,
	[SIRDMA_CQP_DESTROY_PRQ] = snic_cqp_destroy_prq,
	[SIRDMA_CQP_UPDATE_SDS] = snic_cqp_update_sds,
	[SIRDMA_CQP_QUERY_FPM] = snic_cqp_query_fpm,
	[SIRDMA_CQP_COMMIT_FPM] = snic_cqp_commit_fpm,
	[SIRDMA_CQP_FLUSH_WQES] = snic_cqp_flush_wqes,
	[SIRDMA_CQP_CREATE_MCAST_GRP] = snic_cqp_create_mcast,
	[SIRDMA_CQP_MODIFY_MCAST_GRP] = snic_cqp_modify_mcast,
	[SIRDMA_CQP_DESTROY_MCAST_GRP] = snic_cqp_destroy_mcast,
	[SIRDMA_CQP_NOP] = snic_cqp_nop,
	[SIRDMA_CQP_GATHER_STATS] = snic_cqp_gather_stats,
	[SIRDMA_CQP_MANAGE_SGID] = snic_cqp_manage_sgid,
};

void snic_cqp_init(struct snic_dev *dev)
{
	port_mutex_init(&dev->cqp.run);
}

static bool cqp_ctx_valid(struct snic_dev *dev, const struct sirdma_cqp_ctx *ctx)
{
	u64 base = le64_to_cpu(ctx->sq_base);
	u32 entries = le32_to_cpu(ctx->sq_entries);

	if (VERSION_GENERATION(le32_to_cpu(ctx->version)) != VERSION_GENERATION(SIRDMA_HW_VERSION))
		return false;
	if (entries < SIRDMA_CQP_MIN_ENTRIES || entries > SIRDMA_CQP_MAX_ENTRIES ||
	    (entries & (entries - 1)))
		return false;
	return !(base % CQP_RING_ALIGN) &&
	       port_dma_ptr(dev->dma, base, entries * sizeof(struct sirdma_cqp_wqe));
}

/* Check and accept the context; false: refused. The caller holds the run mutex. */
static bool cqp_accept_ctx(struct snic_dev *dev, u64 ctx_addr)
{
	const struct sirdma_cqp_ctx *mem;
	struct snic_cqp *cqp = &dev->cqp;
	struct sirdma_cqp_ctx ctx;

	if (cqp->entries || !(READ_ONCE(dev->status) & SIRDMA_STATUS_READY))
		return false;
	if (ctx_addr % sizeof(ctx))
		return false;
	mem = port_dma_ptr(dev->dma, ctx_addr, sizeof(*mem));
	if (!mem)
		return false;
	memcpy(&ctx, mem, sizeof(ctx));
	if (!cqp_ctx_valid(dev, &ctx))
		return false;
	cqp->sq_base = le64_to_cpu(ctx.sq_base);
	cqp->compl_ctx = le64_to_cpu(ctx.compl_ctx);
	snic_aeq_events_init(&cqp->async, 0, cqp->compl_ctx);
	cqp->polarity = true;
	WRITE_ONCE(cqp->tail, 0);
	WRITE_ONCE(cqp->head, 0);
	WRITE_ONCE(cqp->entries, le32_to_cpu(ctx.sq_entries));
	WRITE_ONCE(cqp->tail_reg, 0);
	WRITE_ONCE(cqp->err_codes, 0);
	return true;
}

void snic_cqp_start(struct snic_dev *dev, u64 ctx_addr)
{
	struct snic_cqp *cqp = &dev->cqp;
	bool taken;

	port_mutex_lock(&cqp->run);
	taken = cqp_accept_ctx(dev, ctx_addr);
	WRITE_ONCE(cqp->status, taken ? SIRDMA_CCQPSTATUS_DONE : SIRDMA_CCQPSTATUS_ERR);
	port_mutex_unlock(&cqp->run);
	if (!taken)
		/* Do not print the address: on the kernel's bus it is a kernel address. */
		port_warn("command queue: context refused");
}

void snic_cqp_stop(struct snic_dev *dev)
{
	struct snic_cqp *cqp = &dev->cqp;

	port_mutex_lock(&cqp->run);
	WRITE_ONCE(cqp->entries, 0);
	WRITE_ONCE(cqp->head, cqp->tail);
	WRITE_ONCE(cqp->status, 0);
	WRITE_ONCE(cqp->tail_reg, 0);
	WRITE_ONCE(cqp->err_codes, 0);
	port_mutex_unlock(&cqp->run);
}

/* Only a defect of the driver can cause these failures. */
static bool cqp_status_is_bad_command(u32 status)
{
	switch (status) {
	case SIRDMA_CQP_BAD_OPCODE:
	case SIRDMA_CQP_BAD_INDEX:
	case SIRDMA_CQP_BAD_ADDRESS:
	case SIRDMA_CQP_BAD_RING:
	case SIRDMA_CQP_NO_OBJECT:
		return true;
	default:
		return false;
	}
}

static u32 cqp_execute(struct snic_dev *dev, const struct sirdma_cqp_wqe *wqe, u64 *ret)
{
	u64 hdr = le64_to_cpu(wqe->hdr);
	snic_cqp_fn fn = cqp_ops[SIRDMA_GET(SIRDMA_CQP_OPCODE, hdr)];

	if (!!(hdr & SIRDMA_CQP_VALID) != dev->cqp.polarity)
		return SIRDMA_CQP_BAD_RING;
	return fn ? fn(dev, wqe, ret) : SIRDMA_CQP_BAD_OPCODE;
}

/* Complete the command at the tail: in the registers, by an event, in the CCQ. */
static void cqp_complete(struct snic_dev *dev, u8 opcode, u32 status, u64 ret)
{
	struct snic_cqp *cqp = &dev->cqp;
	u32 idx = cqp->tail, reg;

	snic_stat_inc(dev, SIRDMA_STAT_CQP_COMMANDS);
	WRITE_ONCE(cqp->tail, idx + 1 == cqp->entries ? 0 : idx + 1);
	if (!cqp->tail)
		cqp->polarity = !cqp->polarity;
	reg = SIRDMA_PREP(SIRDMA_CQPTAIL_WQTAIL, cqp->tail);
	if (status) {
		if (status != SIRDMA_CQP_AGAIN)
			snic_stat_inc(dev, SIRDMA_STAT_CQP_ERRORS);
		reg |= SIRDMA_CQPTAIL_OP_ERR;
		WRITE_ONCE(cqp->err_codes, SIRDMA_CQP_MAJ_ERROR << 16 | status);
	}
	/*
	 * This store is a release: the effects of the command and its error codes are visible
	 * before the tail moves.
	 */
	smp_store_release(&cqp->tail_reg, reg);
	if (cqp_status_is_bad_command(status))
		snic_aeq_post(dev, &cqp->async, SIRDMA_AE_BAD_COMMAND, SIRDMA_AE_SRC_NONE, idx,
			      SIRDMA_QPS_RESET);
	if (cqp->ccq)
		snic_ccq_post(dev, cqp->ccq, idx, opcode, status, ret);
}

/* Execute the command at the tail. */
static void cqp_step(struct snic_dev *dev)
{
	struct snic_cqp *cqp = &dev->cqp;
	const struct sirdma_cqp_wqe *mem;
	struct sirdma_cqp_wqe wqe;
	u64 ret = 0;
	u32 status;

	mem = port_dma_ptr(dev->dma, cqp->sq_base + (u64)cqp->tail * sizeof(wqe), sizeof(wqe));
	if (!mem) {
		/* The ring is not accessible: no command can be fetched or completed. */
		port_warn("command queue: ring does not resolve");
		snic_fault(dev);
		WRITE_ONCE(cqp->entries, 0);
		return;
	}
	memcpy(&wqe, mem, sizeof(wqe));
	status = cqp_execute(dev, &wqe, &ret);
	cqp_complete(dev, SIRDMA_GET(SIRDMA_CQP_OPCODE, le64_to_cpu(wqe.hdr)), status, ret);
}

/*
 * The answer is exact under the run mutex, and a hint otherwise. A head that was written before a
 * restart may be beyond the ring.
 */
static bool cqp_has_work(struct snic_cqp *cqp)
{
	/* This load pairs with snic_cqp_ring(): the commands below the head are visible. */
	u32 head = smp_load_acquire(&cqp->head);

	return head < READ_ONCE(cqp->entries) && head != READ_ONCE(cqp->tail);
}

void snic_cqp_ring(struct snic_dev *dev, u32 head)
{
	struct snic_cqp *cqp = &dev->cqp;
	u32 entries = READ_ONCE(cqp->entries);

	if (head >= entries) {
		snic_stat_inc(dev, SIRDMA_STAT_CQP_ERRORS);
		snic_aeq_post(dev, &cqp->async, SIRDMA_AE_BAD_COMMAND, SIRDMA_AE_SRC_NONE, 0,
			      SIRDMA_QPS_RESET);
		return;
	}
	/* This store pairs with cqp_has_work() on the CPU that executes commands. */
	smp_store_release(&cqp->head, head);
	do {
		/*
		 * The head is written before the mutex is tried; its holder reads the head again
		 * after it unlocked. So either this thread or the holder executes the commands.
		 */
		smp_mb();
		if (!port_mutex_trylock(&cqp->run))
			return;
		while (cqp_has_work(cqp))
			cqp_step(dev);
		port_mutex_unlock(&cqp->run);
		smp_mb(); /* pairs with the barrier above, of a thread whose trylock failed */
	} while (cqp_has_work(cqp));
}
