/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_wr_*(): requests become valid together, or never.
 */
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fake_device.hpp"
#include "fake_ibverbs.hpp"
#include "qp.hpp"
#include "rings.hpp"
#include "verbs.hpp"

namespace sirdma::test
{

namespace
{

constexpr uint64_t all_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			     IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			     IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_WRITE;

class WrApi : public testing::Test {
protected:
	void SetUp() override
	{
		fake_driver().reset();
		fd_ = open("/tmp", O_TMPFILE | O_RDWR, 0600);
		ASSERT_EQ(ftruncate(fd_, 4096), 0);
		verbs_sysfs_dev found{};
		found.driver_id = SIRDMA_DRIVER_ID;
		device_ = fake_driver().ops->alloc_device(&found);
		context_ = sirdma::open_device(&device_->device, fd_, kernel_commands);
		pd_ = alloc_pd(context_);
		cq_ = create_cq(context_, 100, nullptr, 0);
		qp_ = create(all_ops);
		ASSERT_TRUE(qp_);
		Qp::of(qp_).queues().set_state(IBV_QPS_RTS);
		ex_ = &Qp::of(qp_).ex;
		const sirdma_sq &sq = Qp::of(qp_).queues().send.queue();
		reader_.emplace(std::span<const sirdma_wqe>(sq.ring, sq.size));
	}

	void TearDown() override
	{
		EXPECT_EQ(destroy_qp(qp_), 0);
		EXPECT_EQ(destroy_cq(cq_), 0);
		EXPECT_EQ(dealloc_pd(pd_), 0);
		free_context(context_);
		fake_driver().ops->uninit_device(device_);
		close(fd_);
	}

	ibv_qp *create(uint64_t send_ops, uint32_t max_send_sge = 6, uint32_t max_inline_data = 64)
	{
		ibv_qp_init_attr_ex attr{};

		attr.send_cq = cq_;
		attr.recv_cq = cq_;
		attr.qp_type = IBV_QPT_RC;
		attr.cap = {.max_send_wr = 20,
			    .max_recv_wr = 1,
			    .max_send_sge = max_send_sge,
			    .max_recv_sge = 1,
			    .max_inline_data = max_inline_data};
		attr.pd = pd_;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = send_ops;
		return create_qp_ex(context_, &attr);
	}

	int fd_ = -1;
	verbs_device *device_ = nullptr;
	ibv_context *context_ = nullptr;
	ibv_pd *pd_ = nullptr;
	ibv_cq *cq_ = nullptr;
	ibv_qp *qp_ = nullptr;
	ibv_qp_ex *ex_ = nullptr;
	std::optional<SendRingReader> reader_;
};

} // namespace

/* Behind the operations lie the library's mask and its pointer to an XRC domain. */
TEST_F(WrApi, OnlyTheLibrarysMaskIsSet)
{
	const auto *words = reinterpret_cast<const uint64_t *>(&Qp::of(qp_).reserved);
	std::vector<uint64_t> set;

	/* The first of these words is the newest of the operations. */
	for (size_t at = offsetof(ibv_qp_ex, wr_atomic_write) + 8; at < private_abi::qp_size_max;
	     at += 8)
		if (words[at / 8])
			set.push_back(words[at / 8]);
	EXPECT_EQ(set, std::vector<uint64_t>{VERBS_QP_EX});
	EXPECT_EQ(ibv_qp_to_qp_ex(qp_), ex_);
}

TEST_F(WrApi, RefusesOperationsItDoesNotHave)
{
	EXPECT_EQ(create(all_ops | IBV_QP_EX_WITH_TSO), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(WrApi, WritesInvalidations)
{
	EXPECT_EQ(destroy_qp(qp_), 0);
	qp_ = create(all_ops | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV);
	ASSERT_TRUE(qp_);
	Qp::of(qp_).queues().set_state(IBV_QPS_RTS);
	ex_ = &Qp::of(qp_).ex;
	const sirdma_sq &sq = Qp::of(qp_).queues().send.queue();
	reader_.emplace(std::span<const sirdma_wqe>(sq.ring, sq.size));

	ibv_wr_start(ex_);
	ex_->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(ex_, 0x1234);
	ibv_wr_send_inv(ex_, 0x5678);
	ibv_wr_set_sge(ex_, 5, 0x1000, 64);
	ibv_wr_local_inv(ex_, 0x9abc);
	EXPECT_EQ(ibv_wr_complete(ex_), 0);
	for (auto [op, key] : {std::pair{SIRDMA_OP_LOCAL_INV, 0x1234u},
			       {SIRDMA_OP_SEND_INV, 0x5678u},
			       {SIRDMA_OP_LOCAL_INV, 0x9abcu}}) {
		const auto seen = reader_->next_request();

		ASSERT_TRUE(seen);
		EXPECT_EQ(seen->op, op);
		EXPECT_EQ(seen->key, key);
		EXPECT_EQ(seen->sges.size(), op == SIRDMA_OP_SEND_INV ? 1u : 0u);
	}
}

TEST_F(WrApi, WritesBinds)
{
	EXPECT_EQ(destroy_qp(qp_), 0);
	qp_ = create(all_ops | IBV_QP_EX_WITH_BIND_MW);
	ASSERT_TRUE(qp_);
	Qp::of(qp_).queues().set_state(IBV_QPS_RTS);
	ex_ = &Qp::of(qp_).ex;
	const sirdma_sq &sq = Qp::of(qp_).queues().send.queue();
	reader_.emplace(std::span<const sirdma_wqe>(sq.ring, sq.size));

	verbs_mr region{};
	ibv_mw window{};
	ibv_mw_bind_info info = {.mr = &region.mr,
				 .addr = 77,
				 .length = 88,
				 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};

	region.mr.lkey = 5;
	window.rkey = 0x700;
	window.type = IBV_MW_TYPE_2;
	ibv_wr_start(ex_);
	ex_->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex_, &window, 3, &info);
	info = {}; /* it is the application's again */
	/* A bind has no data. */
	ibv_wr_set_sge(ex_, 5, 0x1000, 64);
	ibv_wr_send(ex_);
	ibv_wr_set_sge(ex_, 5, 0x1000, 64);
	EXPECT_EQ(ibv_wr_complete(ex_), 0);
	const auto bind = reader_->next_request();
	ASSERT_TRUE(bind);
	EXPECT_EQ(bind->op, SIRDMA_OP_BIND_MW);
	EXPECT_EQ(bind->key, 0x703u);
	EXPECT_EQ(bind->remote, 77u);
	EXPECT_EQ(bind->length, 88u);
	EXPECT_EQ(bind->region, 5u);
	const auto send = reader_->next_request();
	ASSERT_TRUE(send);
	EXPECT_EQ(send->op, SIRDMA_OP_SEND);

	info.length = 1; /* of no region */
	ibv_wr_start(ex_);
	ibv_wr_send(ex_);
	ibv_wr_set_sge(ex_, 5, 0x1000, 64);
	ibv_wr_bind_mw(ex_, &window, 4, &info);
	EXPECT_EQ(ibv_wr_complete(ex_), EINVAL);
	EXPECT_FALSE(reader_->next_request());
}

TEST_F(WrApi, AtomicWriteCopiesItsValue)
{
	uint64_t value = 0x1122334455667788;

	ibv_wr_start(ex_);
	ex_->wr_id = 5;
	ex_->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	ibv_wr_atomic_write(ex_, 0x66, 0x9000, &value);
	value = 0;
	ibv_wr_rdma_read(ex_, 1, 2);
	ibv_wr_set_sge(ex_, 3, 4, 5);
	ASSERT_EQ(ibv_wr_complete(ex_), 0);

	value = 0x1122334455667788;
	const auto seen = reader_->next_request();
	ASSERT_TRUE(seen && seen->inline_data);
	EXPECT_EQ(seen->op, SIRDMA_OP_ATOMIC_WRITE);
	EXPECT_EQ(seen->key, 0x66u);
	EXPECT_EQ(seen->remote, 0x9000u);
	EXPECT_TRUE(seen->signaled && seen->read_fence);
	ASSERT_EQ(seen->inline_data->size(), 8u);
	EXPECT_FALSE(memcmp(seen->inline_data->data(), &value, 8));
	const auto read = reader_->next_request();
	ASSERT_TRUE(read);
	EXPECT_EQ(read->op, SIRDMA_OP_READ);
	EXPECT_FALSE(reader_->next());
}

/* A library whose structure has no member for it does not offer it. */
TEST_F(WrApi, FlushesWhereTheLibraryKnowsThem)
{
	bool known = true;
	{
		QpBase probe = {.reserved = {}};
		const uint32_t mask = VERBS_QP_EX;

		for (size_t at = private_abi::qp_ex_size_min; at <= private_abi::qp_ex_wr_flush;
		     at += 8) {
			memset(&probe, 0, sizeof(probe));
			memcpy(probe.reserved + at, &mask, sizeof(mask));
			known = known && !ibv_qp_to_qp_ex(&probe.qp);
		}
	}
	errno = 0;
	ibv_qp *qp = create(private_abi::qp_ex_with_flush | IBV_QP_EX_WITH_RDMA_WRITE);
	if (!known) {
		EXPECT_EQ(qp, nullptr);
		EXPECT_EQ(errno, EOPNOTSUPP);
		return;
	}
	ASSERT_TRUE(qp);
	Qp::of(qp).queues().set_state(IBV_QPS_RTS);
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	ASSERT_TRUE(ex);
	private_abi::WrFlush flush;
	memcpy(&flush, reinterpret_cast<const uint8_t *>(ex) + private_abi::qp_ex_wr_flush,
	       sizeof(flush));
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	flush(ex, 0x66, 0x9000, 4096, 1, 0);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	const sirdma_sq &sq = Qp::of(qp).queues().send.queue();
	SendRingReader reader({sq.ring, sq.size});
	const auto seen = reader.next_request();
	ASSERT_TRUE(seen);
	EXPECT_EQ(seen->op, SIRDMA_OP_FLUSH);
	EXPECT_EQ(seen->length, 4096u);
	for (auto [length, type, level] : {std::tuple{1ull << 32, 1, 0}, {8, 0, 0}, {8, 1, 2}}) {
		ibv_wr_start(ex);
		flush(ex, 0x66, 0x9000, length, static_cast<uint8_t>(type),
		      static_cast<uint8_t>(level));
		EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	}
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(WrApi, AtomicWriteHasNoOtherData)
{
	const uint64_t value = 1;

	ibv_wr_start(ex_);
	ibv_wr_atomic_write(ex_, 0x66, 0x9000, &value);
	ibv_wr_set_sge(ex_, 3, 4, 8);
	/* The request was complete, so there is none that the data could be of. */
	ASSERT_EQ(ibv_wr_complete(ex_), 0);
	const auto seen = reader_->next_request();
	ASSERT_TRUE(seen && seen->inline_data);
	EXPECT_FALSE(reader_->next());
}

TEST_F(WrApi, NothingIsValidBeforeComplete)
{
	uint8_t bytes[40];

	memset(bytes, 0x5a, sizeof(bytes));
	ibv_wr_start(ex_);
	ex_->wr_id = 1;
	ex_->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex_);
	ibv_wr_set_sge(ex_, 5, 0x1000, 64);
	ex_->wr_id = 2;
	ibv_wr_rdma_write_imm(ex_, 0xaa, 0xbb, htobe32(7));
	ibv_wr_set_inline_data(ex_, bytes, sizeof(bytes));
	EXPECT_FALSE(reader_->next());
	EXPECT_EQ(ibv_wr_complete(ex_), 0);

	auto send = reader_->next_request();
	ASSERT_TRUE(send);
	EXPECT_EQ(send->op, SIRDMA_OP_SEND);
	ASSERT_EQ(send->sges.size(), 1u);
	EXPECT_EQ(send->sges[0].addr, 0x1000u);
	auto write = reader_->next_request();
	ASSERT_TRUE(write);
	EXPECT_EQ(write->op, SIRDMA_OP_WRITE);
	EXPECT_EQ(write->key, 0xaau);
	EXPECT_EQ(write->remote, 0xbbu);
	EXPECT_EQ(write->imm, 7u);
	EXPECT_EQ(write->inline_data, std::vector<uint8_t>(40, 0x5a));
	EXPECT_FALSE(reader_->next());
}

TEST_F(WrApi, EverySetterAndEveryOperation)
{
	auto sges = make_sges(6);
	uint8_t a[3] = {1, 2, 3};
	uint8_t b[2] = {4, 5};
	ibv_data_buf bufs[] = {{a, sizeof(a)}, {nullptr, 0}, {b, sizeof(b)}};

	ibv_wr_start(ex_);
	ex_->wr_flags = 0;
	ibv_wr_send_imm(ex_, htobe32(9));
	ibv_wr_set_sge_list(ex_, sges.size(), sges.data());
	ibv_wr_rdma_read(ex_, 1, 2);
	ibv_wr_set_sge(ex_, 3, 4, 5);
	ibv_wr_rdma_write(ex_, 1, 2);
	ibv_wr_set_inline_data_list(ex_, 3, bufs);
	ibv_wr_send(ex_); /* without data */
	ASSERT_EQ(ibv_wr_complete(ex_), 0);

	auto imm = reader_->next_request();
	ASSERT_TRUE(imm);
	EXPECT_EQ(imm->imm, 9u);
	EXPECT_EQ(imm->sges.size(), 6u);
	auto read = reader_->next_request();
	ASSERT_TRUE(read);
	EXPECT_EQ(read->op, SIRDMA_OP_READ);
	auto write = reader_->next_request();
	ASSERT_TRUE(write);
	EXPECT_EQ(write->inline_data, (std::vector<uint8_t>{1, 2, 3, 4, 5}));
	auto empty = reader_->next_request();
	ASSERT_TRUE(empty);
	EXPECT_TRUE(empty->sges.empty());
	EXPECT_FALSE(reader_->next());
}

/* What an aborted list left in the ring must not look like WQEs behind a shorter one. */
TEST_F(WrApi, AbortLeavesNoTrace)
{
	auto sges = make_sges(6);

	for (int lap = 0; lap < 400; ++lap) {
		ibv_wr_start(ex_);
		for (int i = 0; i < 5; ++i) {
			ibv_wr_send(ex_);
			ibv_wr_set_sge_list(ex_, 6, sges.data());
		}
		ibv_wr_abort(ex_);
		EXPECT_FALSE(reader_->next()) << lap;

		ibv_wr_start(ex_);
		ex_->wr_id = static_cast<uint64_t>(lap);
		ibv_wr_send(ex_);
		ibv_wr_set_sge(ex_, 1, 2, 3);
		ASSERT_EQ(ibv_wr_complete(ex_), 0);
		auto seen = reader_->next_request();
		ASSERT_TRUE(seen);
		ASSERT_EQ(seen->sges.size(), 1u);
		EXPECT_FALSE(reader_->next()) << lap;
		__u64 wr_id;
		uint32_t length;
		ASSERT_TRUE(sirdma_sq_complete(&Qp::of(qp_).queues().send.queue(), seen->position,
					       &wr_id, &length));
		EXPECT_EQ(wr_id, static_cast<uint64_t>(lap));
	}
}

TEST_F(WrApi, OneErrorMakesTheWholeListFail)
{
	auto sges = make_sges(7);

	ibv_wr_start(ex_);
	ibv_wr_send(ex_);
	ibv_wr_set_sge(ex_, 1, 2, 3);
	ibv_wr_send(ex_);
	ibv_wr_set_sge_list(ex_, 7, sges.data());
	ibv_wr_send(ex_);
	ibv_wr_set_sge(ex_, 1, 2, 3);
	EXPECT_EQ(ibv_wr_complete(ex_), EINVAL);
	EXPECT_FALSE(reader_->next());

	uint8_t bytes[200] = {};
	ibv_wr_start(ex_);
	ibv_wr_send(ex_);
	ibv_wr_set_inline_data(ex_, bytes, sizeof(bytes));
	EXPECT_EQ(ibv_wr_complete(ex_), EINVAL);
	EXPECT_FALSE(reader_->next());
}

/* A request of one fragment has two quanta. */
TEST_F(WrApi, InlineDataIsBoundedByTheRequestsOfTheQueuePair)
{
	constexpr uint32_t room = SIRDMA_INLINE_FIRST + SIRDMA_INLINE_NEXT;
	const uint8_t bytes[room + 1] = {};
	ibv_qp *qp = create(all_ops, 1, 0);

	ASSERT_TRUE(qp);
	Qp::of(qp).queues().set_state(IBV_QPS_RTS);
	ibv_qp_ex *ex = &Qp::of(qp).ex;
	for (const uint32_t length : {room + 1, room}) {
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_set_inline_data(ex, const_cast<uint8_t *>(bytes), length);
		EXPECT_EQ(ibv_wr_complete(ex), length > room ? EINVAL : 0) << length;
	}
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(WrApi, FullRingIsEnomemForTheWholeList)
{
	int posted = 0;
	int err = 0;

	while (!err) {
		ibv_wr_start(ex_);
		for (int i = 0; i < 3; ++i) {
			ibv_wr_send(ex_);
			ibv_wr_set_sge(ex_, 1, 2, 3);
		}
		err = ibv_wr_complete(ex_);
		posted += err ? 0 : 3;
	}
	EXPECT_EQ(err, ENOMEM);
	int seen = 0;
	while (reader_->next_request())
		++seen;
	EXPECT_EQ(seen, posted);
}

TEST_F(WrApi, StateIsChecked)
{
	Qp::of(qp_).queues().set_state(IBV_QPS_INIT);
	ibv_wr_start(ex_);
	ibv_wr_send(ex_);
	ibv_wr_set_sge(ex_, 1, 2, 3);
	EXPECT_EQ(ibv_wr_complete(ex_), EINVAL);
}

} // namespace sirdma::test
