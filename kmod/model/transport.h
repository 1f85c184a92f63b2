/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transports: what queue pairs of a type do in their own way. What all of them have,
 * rings, CQs, state and flush, is in qp.c, send.c and recv.c. QP lock held throughout.
 */
#ifndef SNIC_TRANSPORT_H
#define SNIC_TRANSPORT_H

#include "send.h"

#define SNIC_SQ_OP(op) (1ull << SIRDMA_OP_##op)
#define SNIC_SQ_OPS_SEND_WRITE \
	(SNIC_SQ_OP(NOP) | SNIC_SQ_OP(SEND) | SNIC_SQ_OP(SEND_SOL) | SNIC_SQ_OP(WRITE) | \
	 SNIC_SQ_OP(WRITE_SOL))

struct snic_transport {
	u64 sq_ops; /* send WQE operations it knows; others complete in error */
	u8 bth; /* SIRDMA_BTH_RC ..: of its opcodes */
	bool has_sqe; /* a failed send leaves the receive queue alone: SQE instead of ERR (IBTA 10.3.1) */
	/* RTR entered; RTS entered with no message under way. */
	void (*recv_start)(struct snic_qp *qp);
	void (*send_start)(struct snic_qp *qp);
	/* Is @pkt of the QP's peer? Its opcode is of the transport; state and partition are right. *why: the counter. */
	bool (*admit)(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx,
		      enum sirdma_stat *why);
	/* Is all of super-packet @pkt what the QP waits for? If not, its packets come one by one. NULL: it always is. */
	bool (*fits)(const struct snic_qp *qp, const struct snic_pkt *pkt);
	void (*rx_request)(struct snic_qp *qp, const struct snic_pkt *pkt,
			   const struct snic_rx_pkt *rx);
	/* NULL: it has no responses. */
	void (*rx_response)(struct snic_qp *qp, const struct snic_pkt *pkt,
			    const struct snic_rx_pkt *rx);
	/* @pkt is handled. @more: another one of the flow follows at once. NULL: nothing is to be done. */
	void (*rx_done)(struct snic_qp *qp, const struct snic_pkt *pkt, bool more);
	/* Send what the peer is owed. NULL: never anything. */
	void (*respond)(struct snic_qp *qp);
	/* Send requests as long as that is possible; burst() sends one burst of them. */
	void (*request)(struct snic_qp *qp);
	enum snic_send_stop (*burst)(struct snic_qp *qp);
	/*
	 * snic_qp.timer fired: is there anything to do? If not, it may be armed again. If so,
	 * the bottom half calls timer_expired(). NULL: it is never armed.
	 */
	bool (*timer_due)(struct snic_qp *qp);
	void (*timer_expired)(struct snic_qp *qp);
};

extern const struct snic_transport snic_rc;
extern const struct snic_transport snic_uc;

/* By enum sirdma_qp_type; NULL: this device has none such. */
const struct snic_transport *snic_transport(u8 qp_type);
/* admit() of the connected ones: the packet is from the one peer. */
bool snic_connected_admit(struct snic_qp *qp, const struct snic_pkt *pkt,
			  const struct snic_rx_pkt *rx, enum sirdma_stat *why);
/* recv_start() of the connected ones: expect the PSN the QP was given. */
void snic_connected_recv_start(struct snic_qp *qp);

#endif
