/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address handles and datagram queue pairs: what reaches the driver and the ring, and what is
 * refused before.
 */
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "ah.hpp"
#include "cq.hpp"
#include "fake_device.hpp"
#include "fake_ibverbs.hpp"
#include "qp.hpp"
#include "rings.hpp"
#include "verbs.hpp"

namespace sirdma::test
{

namespace
{

constexpr uint32_t dest_qpn = 0x123456, dest_qkey = 0x11111111;
constexpr uint64_t dest = uint64_t{dest_qpn} << 32 | dest_qkey;

class Datagram : public testing::Test {
protected:
	void SetUp() override
	{
		driver.reset();
		fd_ = open("/tmp", O_TMPFILE | O_RDWR, 0600);
		ASSERT_EQ(ftruncate(fd_, 4096), 0);
		verbs_sysfs_dev found{};
		found.driver_id = SIRDMA_DRIVER_ID;
		device_ = driver.ops->alloc_device(&found);
		context_ = sirdma::open_device(&device_->device, fd_, kernel_commands);
		ASSERT_TRUE(context_);
		pd = alloc_pd(context_);
		other = alloc_pd(context_);
		cq = create_cq(context_, 100, nullptr, 0);
		ah = make_ah(pd);
		qp = create(pd);
		ASSERT_TRUE(ah && qp);
		Qp::of(qp).queues().set_state(IBV_QPS_RTS);
		ex = &Qp::of(qp).ex;
		const sirdma_sq &sq = Qp::of(qp).queues().send.queue();
		reader.emplace(std::span<const sirdma_wqe>(sq.ring, sq.size));
	}

	void TearDown() override
	{
		EXPECT_EQ(destroy_qp(qp), 0);
		EXPECT_EQ(destroy_ah(ah), 0);
		EXPECT_EQ(destroy_cq(cq), 0);
		EXPECT_EQ(dealloc_pd(pd), 0);
		EXPECT_EQ(dealloc_pd(other), 0);
		EXPECT_TRUE(driver.ahs.empty());
		free_context(context_);
		driver.ops->uninit_device(device_);
		close(fd_);
	}

	/* As the library makes one. */
	ibv_ah *make_ah(ibv_pd *domain)
	{
		ibv_ah_attr attr{};
		ibv_ah *made = create_ah(domain, &attr);

		if (made) {
			made->context = domain->context;
			made->pd = domain;
		}
		return made;
	}

	ibv_qp *create(ibv_pd *domain,
		       uint64_t send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
	{
		ibv_qp_init_attr_ex attr{};

		attr.send_cq = cq;
		attr.recv_cq = cq;
		attr.qp_type = IBV_QPT_UD;
		attr.cap = {.max_send_wr = 20,
			    .max_recv_wr = 10,
			    .max_send_sge = 6,
			    .max_recv_sge = 1,
			    .max_inline_data = 64};
		attr.pd = domain;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = send_ops;
		return create_qp_ex(context_, &attr);
	}

	static ibv_send_wr datagram(std::vector<ibv_sge> &sges, ibv_ah *to)
	{
		ibv_send_wr wr = make_send(sges);

		wr.wr.ud = {.ah = to, .remote_qpn = dest_qpn, .remote_qkey = dest_qkey};
		return wr;
	}

	int post(const ibv_send_wr &wr) { return test::post(Qp::of(qp).queues(), wr); }

	FakeDriver &driver = fake_driver();
	int fd_ = -1;
	verbs_device *device_ = nullptr;
	ibv_context *context_ = nullptr;
	ibv_pd *pd = nullptr;
	ibv_pd *other = nullptr;
	ibv_cq *cq = nullptr;
	ibv_ah *ah = nullptr;
	ibv_qp *qp = nullptr;
	ibv_qp_ex *ex = nullptr;
	std::optional<SendRingReader> reader;
};

} // namespace

TEST_F(Datagram, NamesItsDestination)
{
	auto sges = make_sges(2);
	ibv_send_wr wr = datagram(sges, ah);

	ASSERT_EQ(post(wr), 0);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htobe32(9);
	ASSERT_EQ(post(wr), 0);

	auto plain = reader->next_request();
	ASSERT_TRUE(plain);
	EXPECT_EQ(plain->op, SIRDMA_OP_SEND);
	EXPECT_EQ(plain->remote, dest);
	EXPECT_EQ(plain->key, Ah::of(ah).index);
	EXPECT_EQ(plain->key, 1000 + ah->handle);
	EXPECT_EQ(plain->sges.size(), 2u);
	auto imm = reader->next_request();
	ASSERT_TRUE(imm);
	EXPECT_EQ(imm->imm, 9u);
	EXPECT_EQ(imm->remote, dest);
	EXPECT_EQ(imm->key, Ah::of(ah).index);
}

/* Each device numbers its domains anew. */
TEST_F(Datagram, NeedsAnAddressHandleOfItsDevice)
{
	verbs_sysfs_dev found{};
	found.driver_id = SIRDMA_DRIVER_ID;
	found.ibdev_idx = 1;
	verbs_device *device = driver.ops->alloc_device(&found);
	ibv_context *context = sirdma::open_device(&device->device, fd_, kernel_commands);
	ASSERT_TRUE(context);
	ibv_pd *there = alloc_pd(context);
	ASSERT_TRUE(there);
	Pd::of(there).pd_id = Pd::of(pd).pd_id;
	ibv_ah *of_there = make_ah(there);
	auto sges = make_sges(1);

	ASSERT_TRUE(of_there);
	EXPECT_EQ(post(datagram(sges, of_there)), EINVAL);
	EXPECT_EQ(post(datagram(sges, ah)), 0);
	EXPECT_EQ(destroy_ah(of_there), 0);
	EXPECT_EQ(dealloc_pd(there), 0);
	free_context(context);
	driver.ops->uninit_device(device);
}

TEST_F(Datagram, NeedsAnAddressHandleOfItsDomain)
{
	ibv_ah *foreign = make_ah(other);
	ibv_parent_domain_init_attr attr{};
	attr.pd = pd;
	ibv_pd *parent = alloc_parent_domain(context_, &attr);
	ibv_ah *of_parent = make_ah(parent);
	attr.pd = parent;
	ibv_pd *nested = alloc_parent_domain(context_, &attr);
	ibv_ah *of_nested = make_ah(nested);
	ibv_qp *under_nested = create(nested);
	auto sges = make_sges(1);

	ASSERT_TRUE(foreign && of_parent && of_nested && under_nested);
	EXPECT_EQ(post(datagram(sges, nullptr)), EINVAL);
	EXPECT_EQ(post(datagram(sges, foreign)), EINVAL);
	EXPECT_FALSE(reader->next_request());
	EXPECT_EQ(post(datagram(sges, of_parent)), 0);
	EXPECT_TRUE(reader->next_request());
	EXPECT_EQ(post(datagram(sges, of_nested)), 0);
	EXPECT_TRUE(reader->next_request());
	ibv_send_wr with_imm = datagram(sges, of_nested);
	with_imm.opcode = IBV_WR_SEND_WITH_IMM;
	EXPECT_EQ(post(with_imm), 0);
	EXPECT_TRUE(reader->next_request());
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 1, 2, 3);
	ibv_wr_set_ud_addr(ex, of_nested, dest_qpn, dest_qkey);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_TRUE(reader->next_request());

	QueuePair &queues = Qp::of(under_nested).queues();
	queues.set_state(IBV_QPS_RTS);
	for (ibv_ah *to : {ah, of_parent, of_nested})
		EXPECT_EQ(test::post(queues, datagram(sges, to)), 0);
	EXPECT_EQ(test::post(queues, datagram(sges, foreign)), EINVAL);
	EXPECT_EQ(destroy_qp(under_nested), 0);
	EXPECT_EQ(destroy_ah(of_nested), 0);
	EXPECT_EQ(destroy_ah(of_parent), 0);
	EXPECT_EQ(destroy_ah(foreign), 0);
	EXPECT_EQ(dealloc_pd(nested), 0);
	EXPECT_EQ(dealloc_pd(parent), 0);
}

TEST_F(Datagram, IsTheOnlyOperation)
{
	auto sges = make_sges(1);

	for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_INV}) {
		ibv_send_wr wr = datagram(sges, ah);

		wr.opcode = op;
		EXPECT_NE(post(wr), 0) << op;
	}
	EXPECT_EQ(create(pd, IBV_QP_EX_WITH_RDMA_WRITE), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

/* The manual page gives no order of the two setters. */
TEST_F(Datagram, DestinationAndDataAreSetInAnyOrder)
{
	std::vector<ibv_sge> sges = make_sges(3);
	const std::vector<ibv_sge> wanted = sges;
	uint8_t bytes[5] = {1, 2, 3, 4, 5};

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, dest_qpn, dest_qkey);
	ibv_wr_set_sge(ex, 5, 0x1000, 64);
	ibv_wr_send_imm(ex, htobe32(7));
	ibv_wr_set_sge_list(ex, sges.size(), sges.data());
	sges.assign(3, {});
	ibv_wr_set_ud_addr(ex, ah, dest_qpn, dest_qkey);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, bytes, sizeof(bytes));
	memset(bytes, 0, sizeof(bytes));
	ibv_wr_set_ud_addr(ex, ah, dest_qpn, dest_qkey);
	ibv_wr_send(ex); /* without data */
	ibv_wr_set_ud_addr(ex, ah, dest_qpn, dest_qkey);
	ASSERT_EQ(ibv_wr_complete(ex), 0);

	for (int i = 0; i < 4; ++i) {
		auto seen = reader->next_request();

		ASSERT_TRUE(seen) << i;
		EXPECT_EQ(seen->remote, dest) << i;
		EXPECT_EQ(seen->key, Ah::of(ah).index) << i;
		if (i == 0) {
			EXPECT_EQ(seen->sges.size(), 1u);
		} else if (i == 1) {
			ASSERT_EQ(seen->sges.size(), wanted.size());
			EXPECT_TRUE(same(seen->sges[2], wanted[2]));
			EXPECT_EQ(seen->imm, 7u);
		} else if (i == 2) {
			EXPECT_EQ(seen->inline_data, (std::vector<uint8_t>{1, 2, 3, 4, 5}));
		} else {
			EXPECT_TRUE(seen->sges.empty());
		}
	}
	EXPECT_FALSE(reader->next());
}

TEST_F(Datagram, AListWithoutADestinationIsRefused)
{
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 1, 2, 3);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 1, 2, 3);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, dest_qpn, dest_qkey);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, nullptr, dest_qpn, dest_qkey);
	ibv_wr_set_sge(ex, 1, 2, 3);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);

	// Data twice: the first was inline, and the second would not fit where it is kept.
	std::vector<uint8_t> large(8192);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, large.data(), 16);
	ibv_wr_set_sge(ex, 1, reinterpret_cast<uintptr_t>(large.data()), 8192);
	ibv_wr_set_ud_addr(ex, ah, dest_qpn, dest_qkey);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);

	auto sges = make_sges(SIRDMA_MAX_SGE + 1);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, sges.size(), sges.data());
	ibv_wr_set_ud_addr(ex, ah, dest_qpn, dest_qkey);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	EXPECT_FALSE(reader->next());
}

/* The flags that only the kernel's consumers know do not reach the application. */
TEST_F(Datagram, ReceivesSayWhoSent)
{
	auto *ring = reinterpret_cast<sirdma_cqe *>(driver.cq_request.user_cq_buf);
	auto *shadow = reinterpret_cast<sirdma_cq_shadow *>(driver.cq_request.user_shadow_area);
	CompletionWriter writer({ring, static_cast<size_t>(driver.cq_size)}, *shadow);
	ibv_recv_wr recv{}, *bad;
	CqeSpec spec;

	recv.wr_id = 31;
	ASSERT_EQ(sirdma::post_recv(qp, &recv, &bad), 0);
	spec.compl_ctx = driver.qp_request.user_compl_ctx;
	spec.send = false;
	spec.op = SIRDMA_CQE_OP_DATAGRAM | 0x05;
	spec.imm = 0x11223344;
	spec.inv_stag = 0x4321; /* of a datagram: its source, and IPv4 */
	spec.length = 40 + 8;
	writer.write(spec);
	ibv_wc wc{};
	ASSERT_EQ(poll_cq(cq, 1, &wc), 1);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV);
	EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM});
	EXPECT_EQ(wc.src_qp, 0x4321u);
	EXPECT_EQ(wc.qp_num, 7u);
	EXPECT_EQ(wc.byte_len, 48u);
	EXPECT_EQ(wc.imm_data, htobe32(0x11223344));
}

TEST_F(Datagram, MayReceiveFromASharedQueue)
{
	ibv_srq_init_attr attr{};

	attr.attr.max_wr = 10;
	attr.attr.max_sge = 1;
	ibv_srq *srq = create_srq(pd, &attr);
	ibv_qp_init_attr init{};
	init.send_cq = init.recv_cq = cq;
	init.srq = srq;
	init.qp_type = IBV_QPT_UD;
	init.cap.max_send_wr = 1;
	ibv_qp *made = create_qp(pd, &init);
	ASSERT_TRUE(made);
	EXPECT_EQ(destroy_qp(made), 0);
	EXPECT_EQ(destroy_srq(srq), 0);
}

TEST_F(Datagram, AttachesToGroups)
{
	ibv_gid group{};

	group.raw[0] = 0xff;
	group.raw[15] = 7;
	driver.failing = "attach_mcast";
	EXPECT_EQ(attach_mcast(qp, &group, 0), ENOMEM);
	driver.failing.clear();
	EXPECT_EQ(attach_mcast(qp, &group, 0), 0);
	EXPECT_TRUE(driver.mcasts.contains({qp->handle, 7}));
	EXPECT_EQ(detach_mcast(qp, &group, 0), 0);
	EXPECT_EQ(detach_mcast(qp, &group, 0), EINVAL);
}

TEST_F(Datagram, AddressHandlesAreAllOrNothing)
{
	driver.failing = "create_ah";
	EXPECT_EQ(make_ah(pd), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	driver.failing = "destroy_ah";
	EXPECT_EQ(destroy_ah(ah), EBUSY);
	driver.failing.clear();
	auto sges = make_sges(1);
	EXPECT_EQ(post(datagram(sges, ah)), 0);
}

} // namespace sirdma::test
