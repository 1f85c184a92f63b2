/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transports: the operations in which QPs of different types differ. What all QPs have
 * in common (rings, CQs, state, flush) is in qp.c, send.c and recv.c. QP lock held
 * throughout.
 */
#ifndef SNIC_TRANSPORT_H
#define SNIC_TRANSPORT_H

#include "send.h"

#define SNIC_SQ_OP(op) (1ull << SIRDMA_OP_##op)
#define SNIC_SQ_OPS_SEND (SNIC_SQ_OP(NOP) | SNIC_SQ_OP(SEND) | SNIC_SQ_OP(SEND_SOL))
#define SNIC_SQ_OPS_SEND_WRITE (SNIC_SQ_OPS_SEND | SNIC_SQ_OP(WRITE) | SNIC_SQ_OP(WRITE_SOL))

struct snic_transport {
	u64 sq_ops; /* send WQE operations it supports; others complete in error */
	u8 bth; /* upper bits of its opcodes: SIRDMA_BTH_RC .. */
	bool is_datagram; /* a WQE names its destination, and a packet is a whole message */
	bool may_share_rq; /* its QPs may receive from a shared queue */
	bool has_sqe; /* a failed send moves the QP to SQE, not to ERR (IBTA 10.3.1) */
	/* The QP enters RTR; it enters RTS with no message in flight. */
	void (*recv_start)(struct snic_qp *qp);
	void (*send_start)(struct snic_qp *qp);
	/*
	 * Is @pkt from the QP's peer? If not, *why is the counter. Opcode, state and P_Key are
	 * checked.
	 */
	bool (*admit)(struct snic_qp *qp, const struct snic_pkt *pkt, const struct snic_rx_pkt *rx,
		      enum sirdma_stat *why);
	/*
	 * Does the QP expect every packet of super-packet @pkt? If not, it gets them one by one.
	 * NULL: it always gets the super-packet.
	 */
	bool (*fits)(const struct snic_qp *qp, const struct snic_pkt *pkt);
	void (*rx_request)(struct snic_qp *qp, const struct snic_pkt *pkt,
			   const struct snic_rx_pkt *rx);
	/* NULL: the transport has no responses. */
	void (*rx_response)(struct snic_qp *qp, const struct snic_pkt *pkt,
			    const struct snic_rx_pkt *rx);
	/*
	 * Called after @pkt was handled. @more: another packet of the flow follows at once.
	 * May be NULL.
	 */
	void (*rx_done)(struct snic_qp *qp, const struct snic_pkt *pkt, bool more);
	/* Send responses and acknowledgements that are due. NULL: the transport has none. */
	void (*respond)(struct snic_qp *qp);
	/* Send requests as long as possible; burst() sends one burst of them. */
	void (*request)(struct snic_qp *qp);
	enum snic_send_stop (*burst)(struct snic_qp *qp);
	/*
	 * snic_qp.timer fired. True: the bottom half calls timer_expired(). False: nothing is
	 * to be done; the transport may have armed the timer again. NULL: it arms no timer.
	 */
	bool (*timer_due)(struct snic_qp *qp);
	void (*timer_expired)(struct snic_qp *qp);
};

extern const struct snic_transport snic_rc;
extern const struct snic_transport snic_uc;
extern const struct snic_transport snic_ud;

/*
 * Operation @op of a QP's transport, to be tested for NULL, and a call of it. RC, which most QPs
 * are, is called directly: an indirect call costs as much as what some operations do.
 */
#define snic_transport_is_rc(qp) (PORT_ONE_UNIT && (qp)->transport == &snic_rc)
#define snic_transport_op(qp, op) (snic_transport_is_rc(qp) ? snic_rc.op : (qp)->transport->op)
#define snic_transport_call(qp, op, ...) \
	(snic_transport_is_rc(qp) ? snic_rc.op(__VA_ARGS__) : (qp)->transport->op(__VA_ARGS__))

/* By enum sirdma_qp_type; NULL: not supported. */
const struct snic_transport *snic_transport(u8 qp_type);
/* admit() of connected transports: the packet must come from the QP's one peer. */
bool snic_connected_admit(struct snic_qp *qp, const struct snic_pkt *pkt,
			  const struct snic_rx_pkt *rx, enum sirdma_stat *why);
/* recv_start() of connected transports: expect the receive PSN that modify set. */
void snic_connected_recv_start(struct snic_qp *qp);

#endif
