/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transports: the operations in which QPs of different types differ. The parts that all QPs have in
 * common (rings, CQs, state, flush) are in qp.c, send.c and recv.c. All operations need the QP
 * lock.
 */
#ifndef SNIC_TRANSPORT_H
#define SNIC_TRANSPORT_H

#include "send.h"

#define SNIC_SQ_OP(op) (1ull << SIRDMA_OP_##op)
#define SNIC_SQ_OPS_SEND (SNIC_SQ_OP(NOP) | SNIC_SQ_OP(SEND) | SNIC_SQ_OP(SEND_SOL))
#define SNIC_SQ_OPS_SEND_WRITE (SNIC_SQ_OPS_SEND | SNIC_SQ_OP(WRITE) | SNIC_SQ_OP(WRITE_SOL))

struct snic_transport {
	u64 sq_ops; /* send WQE operations that the transport supports; others complete in error */
	u8 bth; /* upper bits of the transport's opcodes: SIRDMA_BTH_RC .. */
	bool adds_header; /* to each request: a datagram's DETH, or else an XRCETH */
	bool names_srq; /* each request names a remote shared receive queue, in an XRCETH */
	bool no_sq; /* QPs of the transport have no send queue */
	/*
	 * They have no receive queue, and none is given at creation; packets may name shared ones
	 * (XRC).
	 */
	bool no_rq;
	bool is_datagram; /* a WQE names its destination, and a packet is a whole message */
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
	 * Does the QP expect every packet of super-packet @pkt? If not, the QP gets them one by
	 * one. NULL: the QP always gets the super-packet.
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
	void (*rx_done)(struct snic_qp *qp, bool response, bool more);
	/* Send responses and acknowledgements that are due. NULL: the transport has none. */
	void (*respond)(struct snic_qp *qp);
	/* Send requests as long as possible; burst() sends one burst of them. */
	void (*request)(struct snic_qp *qp);
	enum snic_send_stop (*burst)(struct snic_qp *qp);
	/*
	 * snic_qp.timer fired. Returns true if the bottom half must call timer_expired(). Returns
	 * false if there is nothing to do; the transport may have armed the timer again. NULL: the
	 * transport arms no timer.
	 */
	bool (*timer_due)(struct snic_qp *qp);
	void (*timer_expired)(struct snic_qp *qp);
};

extern const struct snic_transport snic_rc;
extern const struct snic_transport snic_uc;
extern const struct snic_transport snic_ud;
extern const struct snic_transport snic_xrc_ini;
extern const struct snic_transport snic_xrc_tgt;

/*
 * snic_transport_op() is operation @op of a QP's transport, to test it for NULL;
 * snic_transport_call() calls it. RC, which most QPs are, is called directly: an indirect call
 * costs as much as some operations.
 */
#define snic_transport_is_rc(qp) (PORT_ONE_UNIT && (qp)->transport == &snic_rc)
#define snic_transport_op(qp, op) (snic_transport_is_rc(qp) ? snic_rc.op : (qp)->transport->op)
#define snic_transport_call(qp, op, ...) \
	(snic_transport_is_rc(qp) ? snic_rc.op(__VA_ARGS__) : (qp)->transport->op(__VA_ARGS__))

/* The transports by enum sirdma_qp_type. NULL: the type is not supported. */
const struct snic_transport *snic_transport(u8 qp_type);
/* Does the transport acknowledge? */
static inline bool snic_is_reliable(const struct snic_qp *qp)
{
	return snic_transport_op(qp, rx_done) != NULL;
}
/* Does @rx come from the one peer of a connected QP, and over its VLAN? */
bool snic_is_from_peer(struct snic_qp *qp, const struct snic_rx_pkt *rx);
/* admit() of connected transports */
bool snic_connected_admit(struct snic_qp *qp, const struct snic_pkt *pkt,
			  const struct snic_rx_pkt *rx, enum sirdma_stat *why);
/* fits() and rx_done() of reliable transports */
bool snic_reliable_fits(const struct snic_qp *qp, const struct snic_pkt *pkt);
void snic_reliable_rx_done(struct snic_qp *qp, bool response, bool more);
/* recv_start() of connected transports: expect the receive PSN that modify set. */
void snic_connected_recv_start(struct snic_qp *qp);

#endif
