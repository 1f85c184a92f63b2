/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queues over plain memory, with the fake device attached, and work requests by
 * the line.
 */
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "completion_queue.hpp"
#include "fake_device.hpp"
#include "queue_pair.hpp"

namespace sirdma::test
{

struct QpShape {
	uint32_t sq_quanta = 1024;
	uint32_t rq_wqes = 16;
	uint32_t rq_shift = 1;
	uint32_t max_send_sge = SIRDMA_MAX_SGE;
	uint32_t max_recv_sge = 3;
	uint32_t max_inline = SIRDMA_MAX_INLINE;
	bool signal_all = false;
	uint32_t lacks = 0; /* see sirdma_sq */
	uint32_t qp_type = SIRDMA_SEND_ON_RC;
	bool kicked = true; /* the device maintains need_kick */
};

/* A QP in RTS whose kicks arrive in a pipe. */
class TestQp {
public:
	explicit TestQp(const QpShape &shape = {})
		: sq_(shape.sq_quanta), rq_(shape.rq_wqes << shape.rq_shift),
		  slots_(shape.sq_quanta), wr_ids_(shape.rq_wqes << shape.rq_shift),
		  queues_(memory(shape.rq_shift), limits(shape), shape.max_recv_sge, true),
		  sends(sq_), recvs(rq_, shape.rq_shift)
	{
		if (pipe(pipe_.data()))
			ADD_FAILURE() << "no pipe";
		queues_.attach(&page, number);
		if (shape.kicked)
			queues_.send.doorbell.kick_by_command(pipe_[1], 0x55);
		queues_.set_state(IBV_QPS_RTS);
	}

	~TestQp()
	{
		close(pipe_[0]);
		close(pipe_[1]);
	}

	QueuePair &operator*() { return queues_; }

	QueuePair *operator->() { return &queues_; }

	/* Bytes of the next kick; empty when none was sent. */
	std::vector<uint8_t> take_kick()
	{
		std::vector<uint8_t> bytes(256);

		if (!kicked_fd_ready())
			return {};
		bytes.resize(static_cast<size_t>(read(pipe_[0], bytes.data(), bytes.size())));
		return bytes;
	}

	/* CQE fields for the request seen as @wqe. */
	CqeSpec completion_of(const SeenWqe &wqe, bool send = true)
	{
		CqeSpec spec;

		spec.compl_ctx = reinterpret_cast<uintptr_t>(&queues_);
		spec.position = wqe.position;
		spec.op = wqe.op;
		spec.send = send;
		spec.qp_id = number;
		return spec;
	}

	static constexpr uint32_t number = 0x123;

	sirdma_db_page page{};
	sirdma_qp_shadow shadow{};

private:
	QueuePairMemory memory(uint32_t rq_shift)
	{
		return {.sq = sq_,
			.rq = rq_,
			.send_slots = slots_,
			.recv_wr_ids = wr_ids_,
			.recv_shift = rq_shift,
			.shadow = &shadow};
	}

	static SendLimits limits(const QpShape &shape)
	{
		return {.max_sge = shape.max_send_sge,
			.max_read_sge = SIRDMA_MAX_READ_SGE,
			.max_inline = shape.max_inline,
			.signal_all = shape.signal_all,
			.qp_type = shape.qp_type,
			.lacks = shape.lacks};
	}

	bool kicked_fd_ready()
	{
		fd_set set;
		timeval none{};

		FD_ZERO(&set);
		FD_SET(pipe_[0], &set);
		return select(pipe_[0] + 1, &set, nullptr, nullptr, &none) == 1;
	}

	std::vector<sirdma_wqe> sq_;
	std::vector<sirdma_wqe> rq_;
	std::vector<SendSlot> slots_;
	std::vector<__u64> wr_ids_;
	std::array<int, 2> pipe_{};
	QueuePair queues_;

public:
	SendRingReader sends;
	RecvRingReader recvs;
};

class TestCq {
public:
	explicit TestCq(uint32_t size = 64, bool clears_arm = false)
		: ring_(size), queue_(ring_, &shadow, true), device(ring_, shadow)
	{
		queue_.attach(&page, 0x44, clears_arm);
	}

	CompletionQueue &operator*() { return queue_; }

	CompletionQueue *operator->() { return &queue_; }

	std::vector<ibv_wc> poll(size_t max = 64)
	{
		std::vector<ibv_wc> wcs(max);

		wcs.resize(static_cast<size_t>(queue_.poll(static_cast<int>(max), wcs.data())));
		return wcs;
	}

	sirdma_cq_shadow shadow{};
	sirdma_db_page page{};

private:
	std::vector<sirdma_cqe> ring_;
	CompletionQueue queue_;

public:
	CompletionWriter device;
};

inline uint32_t arm_field(const TestCq &cq, uint64_t mask)
{
	return static_cast<uint32_t>(SIRDMA_GET(mask, le64toh(cq.shadow.arm)));
}

/* The device completes @seen, and @cq is polled; nothing when no such request is outstanding. */
inline std::optional<ibv_wc> complete(TestQp &qp, TestCq &cq, const SeenWqe &seen, bool send = true)
{
	cq.device.write(qp.completion_of(seen, send));

	const std::vector<ibv_wc> wcs = cq.poll(1);

	return wcs.empty() ? std::nullopt : std::optional(wcs[0]);
}

/* @n fragments that can be told apart. */
inline std::vector<ibv_sge> make_sges(uint32_t n, uint32_t length = 100)
{
	std::vector<ibv_sge> sges;

	for (uint32_t i = 0; i < n; ++i)
		sges.push_back({.addr = 0x7f0000001000u + i,
				.length = length + i,
				.lkey = 0xabcd0000 + i});
	return sges;
}

inline bool same(const ibv_sge &a, const ibv_sge &b)
{
	return a.addr == b.addr && a.length == b.length && a.lkey == b.lkey;
}

inline ibv_send_wr make_send(std::vector<ibv_sge> &sges, uint64_t wr_id = 1,
			     ibv_wr_opcode opcode = IBV_WR_SEND, unsigned flags = IBV_SEND_SIGNALED)
{
	ibv_send_wr wr{};

	wr.wr_id = wr_id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	wr.opcode = opcode;
	wr.send_flags = flags;
	return wr;
}

inline int post(QueuePair &qp, const ibv_send_wr &wr)
{
	const ibv_send_wr *bad = nullptr;
	const int err = qp.send.post(&wr, &bad);

	EXPECT_EQ(bad, err ? &wr : nullptr);
	return err;
}

inline int post_recv(QueuePair &qp, uint64_t wr_id, std::vector<ibv_sge> &sges)
{
	ibv_recv_wr wr{};
	const ibv_recv_wr *bad = nullptr;

	wr.wr_id = wr_id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	const int err = qp.recv.post(&wr, &bad);

	EXPECT_EQ(bad, err ? &wr : nullptr);
	return err;
}

/* Posts one signaled send and lets the device see it. */
inline SeenWqe send_one(TestQp &qp, uint64_t wr_id, uint32_t length = 100)
{
	auto sges = make_sges(1, length);

	EXPECT_EQ(post(*qp, make_send(sges, wr_id)), 0);
	auto seen = qp.sends.next_request();
	EXPECT_TRUE(seen);
	return seen.value_or(SeenWqe{});
}

} // namespace sirdma::test
