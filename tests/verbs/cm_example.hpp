/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the example's server and client share: a connection's resources and its messages.
 *
 *   client                                        server
 *   rdma_resolve_addr, rdma_resolve_route         rdma_bind_addr, rdma_listen
 *   QP, receives posted, rdma_connect  ────────>  CONNECT_REQUEST: QP, receives posted, rdma_accept
 *   ESTABLISHED                        <────────
 *   SEND "keys": its buffer            ────────>
 *                                      <────────  SEND "keys": its buffer
 *   RDMA WRITE a pattern, SEND "written" ──────>  compares the pattern
 *                                      <────────  RDMA WRITE another, SEND "written"
 *   compares the pattern
 *   rdma_disconnect                    ────────>  DISCONNECTED
 */
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <rdma/rdma_cma.h>

namespace example
{

inline constexpr uint32_t buffer_bytes = 1 << 16;
inline constexpr uint32_t receives = 4; /* posted at any time */
inline constexpr uint32_t queue_depth = 16;

/* Like most examples, it ends when a call fails. */
inline void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

enum class Kind : uint32_t { keys = 1, written = 2 };

/* Both programs run on hosts of one byte order; a real protocol would fix it. */
struct Message {
	Kind kind;
	uint32_t rkey; /* of keys: what the peer may write to */
	uint64_t addr;
	uint32_t length;
	uint32_t seed; /* of written: the pattern */
};

/* The byte at @i of the pattern of @seed. */
inline uint8_t pattern(uint32_t seed, uint32_t i)
{
	return static_cast<uint8_t>(seed + i * 7 + (i >> 8));
}

/*
 * The queue pair of a connection and what it works on. The completion channel lets wait() sleep
 * until there is a completion.
 */
class Connection {
public:
	explicit Connection(rdma_cm_id *of) : id(of), buffer_(buffer_bytes)
	{
		const int local_access = IBV_ACCESS_LOCAL_WRITE;
		ibv_qp_init_attr init{};

		pd_ = ibv_alloc_pd(id->verbs);
		check(pd_, "ibv_alloc_pd");
		channel_ = ibv_create_comp_channel(id->verbs);
		check(channel_, "ibv_create_comp_channel");
		cq_ = ibv_create_cq(id->verbs, 2 * queue_depth, nullptr, channel_, 0);
		check(cq_, "ibv_create_cq");
		check(!ibv_req_notify_cq(cq_, 0), "ibv_req_notify_cq");

		/* What the peer writes to, and the messages, which only this side writes to */
		buffer_mr_ = ibv_reg_mr(pd_, buffer_.data(), buffer_.size(),
					local_access | IBV_ACCESS_REMOTE_WRITE);
		check(buffer_mr_, "ibv_reg_mr");
		messages_mr_ = ibv_reg_mr(pd_, messages_, sizeof(messages_), local_access);
		check(messages_mr_, "ibv_reg_mr");

		init.send_cq = init.recv_cq = cq_;
		init.qp_type = IBV_QPT_RC;
		init.cap.max_send_wr = init.cap.max_recv_wr = queue_depth;
		init.cap.max_send_sge = init.cap.max_recv_sge = 1;
		init.sq_sig_all = 1;
		check(!rdma_create_qp(id, pd_, &init), "rdma_create_qp");

		/* Before the connection is there, so that no message finds the queue empty */
		for (uint32_t i = 0; i < receives; ++i)
			post_receive(i);
	}

	~Connection()
	{
		rdma_destroy_qp(id);
		check(!ibv_dereg_mr(messages_mr_), "ibv_dereg_mr");
		check(!ibv_dereg_mr(buffer_mr_), "ibv_dereg_mr");
		ibv_ack_cq_events(cq_, events_);
		check(!ibv_destroy_cq(cq_), "ibv_destroy_cq");
		check(!ibv_destroy_comp_channel(channel_), "ibv_destroy_comp_channel");
		check(!ibv_dealloc_pd(pd_), "ibv_dealloc_pd");
	}

	Connection(const Connection &) = delete;
	Connection &operator=(const Connection &) = delete;

	/* Tell the peer where it may write. */
	void send_keys()
	{
		send({.kind = Kind::keys,
		      .rkey = buffer_mr_->rkey,
		      .addr = reinterpret_cast<uintptr_t>(buffer_.data()),
		      .length = buffer_bytes,
		      .seed = 0});
	}

	/* Write a pattern into the buffer that @keys names, and then say so: messages keep their order. */
	void write_pattern(const Message &keys, uint32_t seed)
	{
		ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(buffer_.data()),
			       .length = buffer_bytes,
			       .lkey = buffer_mr_->lkey};
		ibv_send_wr wr{}, *bad;

		if (keys.length != buffer_bytes) {
			fprintf(stderr, "the peer offers %u bytes, not %u\n", keys.length,
				buffer_bytes);
			exit(1);
		}
		for (uint32_t i = 0; i < buffer_bytes; ++i)
			buffer_[i] = pattern(seed, i);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = keys.addr;
		wr.wr.rdma.rkey = keys.rkey;
		check(!(errno = ibv_post_send(id->qp, &wr, &bad)), "ibv_post_send");
		wait(IBV_WC_RDMA_WRITE);
		send({.kind = Kind::written,
		      .rkey = 0,
		      .addr = 0,
		      .length = buffer_bytes,
		      .seed = seed});
	}

	/* Wait for the peer's next message, which must be of @kind. */
	Message receive(Kind kind)
	{
		const uint64_t which = wait(IBV_WC_RECV);
		const Message message = messages_[which];

		post_receive(which);
		if (message.kind != kind) {
			fprintf(stderr, "a message of kind %u, not %u\n",
				static_cast<unsigned>(message.kind), static_cast<unsigned>(kind));
			exit(1);
		}
		return message;
	}

	/* Compare what the peer wrote. */
	void compare(uint32_t seed) const
	{
		for (uint32_t i = 0; i < buffer_bytes; ++i) {
			if (buffer_[i] == pattern(seed, i))
				continue;
			fprintf(stderr, "byte %u is %u, not %u\n", i, buffer_[i], pattern(seed, i));
			exit(1);
		}
	}

	rdma_cm_id *const id;

private:
	void post_receive(uint64_t which)
	{
		ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(&messages_[which]),
			       .length = sizeof(Message),
			       .lkey = messages_mr_->lkey};
		ibv_recv_wr wr{}, *bad;

		wr.wr_id = which;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		check(!(errno = ibv_post_recv(id->qp, &wr, &bad)), "ibv_post_recv");
	}

	void send(const Message &message)
	{
		Message &from = messages_[receives];
		ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(&from),
			       .length = sizeof(from),
			       .lkey = messages_mr_->lkey};
		ibv_send_wr wr{}, *bad;

		from = message;
		wr.opcode = IBV_WR_SEND;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		check(!(errno = ibv_post_send(id->qp, &wr, &bad)), "ibv_post_send");
		wait(IBV_WC_SEND);
	}

	/*
	 * Wait for the next completion of @opcode, and return its wr_id. A completion of the other kind
	 * that comes first is kept: a receive may complete while this side still waits for its own send.
	 */
	uint64_t wait(ibv_wc_opcode opcode)
	{
		for (;;) {
			for (auto wc = done_.begin(); wc != done_.end(); ++wc) {
				if (wc->opcode != opcode)
					continue;

				const uint64_t which = wc->wr_id;

				done_.erase(wc);
				return which;
			}
			take_completions();
		}
	}

	void take_completions()
	{
		ibv_cq *cq;
		void *context;
		ibv_wc wc;
		int n;

		while ((n = ibv_poll_cq(cq_, 1, &wc)) == 0) {
			/* Sleep. Requested again before the next poll, so that no completion is missed. */
			check(!ibv_get_cq_event(channel_, &cq, &context), "ibv_get_cq_event");
			++events_;
			check(!ibv_req_notify_cq(cq_, 0), "ibv_req_notify_cq");
		}
		check(n > 0, "ibv_poll_cq");
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "a completion with status %d: %s\n", wc.status,
				ibv_wc_status_str(wc.status));
			exit(1);
		}
		done_.push_back(wc);
	}

	ibv_pd *pd_;
	ibv_comp_channel *channel_;
	ibv_cq *cq_;
	unsigned events_ = 0; /* to be acknowledged before the CQ is destroyed */
	std::vector<uint8_t> buffer_;
	Message messages_[receives + 1]; /* received ones, and the one that is sent */
	ibv_mr *buffer_mr_, *messages_mr_;
	std::vector<ibv_wc> done_;
};

/* What both ends allow: one RDMA READ at a time, and repeat for ever while a receive is missing. */
inline rdma_conn_param conn_param()
{
	rdma_conn_param param{};

	param.responder_resources = param.initiator_depth = 1;
	param.retry_count = 7;
	param.rnr_retry_count = 7;
	return param;
}

} // namespace example
