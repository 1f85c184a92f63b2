// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// XRC: domains, their shared receive queues, initiators and targets, and what is refused.
#include "fixture.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

namespace verbs
{
namespace
{

using namespace std::chrono_literals;

constexpr size_t room = 64 << 10;
constexpr size_t inbox = room / 2; // offset of what the queue receives
constexpr uint64_t builder_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
				 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV;

bool has_xrc(const Device &dev)
{
	return dev.attr.device_cap_flags & IBV_DEVICE_XRC;
}

Xrcd open_xrcd(const Device &dev, int fd = -1, int oflags = O_CREAT)
{
	ibv_xrcd_init_attr attr = {};

	attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	attr.fd = fd;
	attr.oflags = oflags;
	return Xrcd(ibv_open_xrcd(dev.context.get(), &attr));
}

Qp make_target(const Device &dev, ibv_xrcd *xrcd)
{
	ibv_qp_init_attr_ex attr = {};

	attr.qp_type = IBV_QPT_XRC_RECV;
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	attr.xrcd = xrcd;
	return Qp(ibv_create_qp_ex(dev.context.get(), &attr));
}

// One initiator, and the target that it is connected to.
struct XrcLink {
	Qp initiator;
	Qp target;

	void connect(const Link &link = default_link())
	{
		const Address from = {initiator->qp_num, 1, device().gid};
		const Address to = {target->qp_num, 1, peer().gid};

		ASSERT_EQ(to_init(initiator.get(), device(), link), 0);
		ASSERT_EQ(to_init(target.get(), peer(), link), 0);
		ASSERT_EQ(to_rtr(initiator.get(), device(), to, link), 0);
		ASSERT_EQ(to_rtr(target.get(), peer(), from, link), 0);
		ASSERT_EQ(to_rts(initiator.get(), 1, link), 0);
		ASSERT_EQ(to_rts(target.get(), 1, link), 0);
	}
};

class Xrc : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		if (!has_xrc(device()) || !has_xrc(peer()))
			GTEST_SKIP() << not_reported("device_cap_flags & IBV_DEVICE_XRC");
		send_pd_.reset(ibv_alloc_pd(device().context.get()));
		recv_pd_.reset(ibv_alloc_pd(peer().context.get()));
		scq_.reset(ibv_create_cq(device().context.get(), 256, nullptr, nullptr, 0));
		rcq_.reset(ibv_create_cq(peer().context.get(), 256, nullptr, nullptr, 0));
		xrcd_ = open_xrcd(peer());
		ASSERT_TRUE(send_pd_ && recv_pd_ && scq_ && rcq_ && xrcd_) << strerror(errno);
		drain_async(peer());
		srq_ = make_srq(xrcd_.get());
		ASSERT_TRUE(srq_) << strerror(errno);
		local_ = make_region(send_pd_.get(), room);
		remote_ = make_region(recv_pd_.get(), room, all_access | IBV_ACCESS_REMOTE_ATOMIC);
		ASSERT_TRUE(local_ && remote_);
		local_.fill(seed());
		remote_.fill(seed() + 1);
		link_ = make_link();
	}

	Srq make_srq(ibv_xrcd *xrcd, ibv_cq *cq = nullptr)
	{
		ibv_srq_init_attr_ex attr = {};

		attr.srq_context = this;
		attr.attr.max_wr = 32;
		attr.attr.max_sge = 2;
		attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
				 IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
		attr.srq_type = IBV_SRQT_XRC;
		attr.xrcd = xrcd;
		attr.cq = cq ? cq : rcq_.get();
		attr.pd = recv_pd_.get();
		return Srq(ibv_create_srq_ex(peer().context.get(), &attr));
	}

	Qp make_initiator(uint64_t send_ops = 0)
	{
		ibv_qp_init_attr_ex attr = {};

		attr.send_cq = scq_.get();
		attr.cap.max_send_wr = 16;
		attr.cap.max_send_sge = 2;
		attr.cap.max_inline_data = 32;
		attr.qp_type = IBV_QPT_XRC_SEND;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD;
		attr.pd = send_pd_.get();
		if (send_ops) {
			attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
			attr.send_ops_flags = send_ops;
		}
		return Qp(ibv_create_qp_ex(device().context.get(), &attr));
	}

	XrcLink make_link(uint64_t send_ops = 0, const Link &how = atomic_link())
	{
		XrcLink link{make_initiator(send_ops), make_target(peer(), xrcd_.get())};

		EXPECT_TRUE(link.initiator && link.target) << strerror(errno);
		if (link.initiator && link.target)
			link.connect(how);
		return link;
	}

	static Link atomic_link()
	{
		Link link = default_link();

		link.access |= IBV_ACCESS_REMOTE_ATOMIC;
		return link;
	}

	static uint32_t number(const Srq &srq)
	{
		uint32_t out = 0;

		EXPECT_EQ(ibv_get_srq_num(srq.get(), &out), 0);
		return out;
	}

	int post(ibv_qp *qp, ibv_wr_opcode op, uint32_t srqn, size_t length,
		 unsigned flags = signaled)
	{
		ibv_sge sge = local_.sge(0, length);
		ibv_send_wr wr = {}, *bad;

		wr.sg_list = &sge;
		wr.num_sge = length ? 1 : 0;
		wr.opcode = op;
		wr.send_flags = flags;
		wr.imm_data = htobe32(0x1234);
		wr.qp_type.xrc.remote_srqn = srqn;
		if (is_atomic(op)) {
			wr.wr.atomic.remote_addr = remote_.address();
			wr.wr.atomic.rkey = remote_.mr->rkey;
			wr.wr.atomic.compare_add = 7;
		} else {
			wr.wr.rdma.remote_addr = remote_.address();
			wr.wr.rdma.rkey = remote_.mr->rkey;
		}
		return ibv_post_send(qp, &wr, &bad);
	}
	int post(ibv_wr_opcode op, size_t length, unsigned flags = signaled)
	{
		return post(link_.initiator.get(), op, number(srq_), length, flags);
	}
	int recv(const Srq &srq, uint64_t wr_id, size_t length = room / 2)
	{
		return post_recv(srq.get(), {remote_.sge(inbox, length)}, wr_id);
	}
	// The peer refuses a request to the queue @srqn, and both ends fail.
	void expect_refused(uint32_t srqn, ibv_wr_opcode op = IBV_WR_SEND)
	{
		ASSERT_EQ(post(link_.initiator.get(), op, srqn, 8), 0);
		expect_wc(scq_.get(), IBV_WC_REM_INV_REQ_ERR);
		EXPECT_EQ(state_of(link_.initiator.get()), IBV_QPS_ERR);
		EXPECT_EQ(state_of(link_.target.get()), IBV_QPS_ERR);
	}

	Pd send_pd_, recv_pd_;
	Cq scq_, rcq_;
	Xrcd xrcd_;
	Srq srq_;
	Region local_, remote_;
	XrcLink link_;
};

TEST_F(Xrc, SendsArriveInTheQueueThatTheyName)
{
	const Srq other = make_srq(xrcd_.get());

	ASSERT_TRUE(other);
	EXPECT_NE(number(other), number(srq_));
	ASSERT_EQ(recv(srq_, 1), 0);
	ASSERT_EQ(recv(other, 2), 0);
	ASSERT_EQ(post(link_.initiator.get(), IBV_WR_SEND_WITH_IMM, number(other), 5000), 0);
	expect_wc(scq_.get());
	ibv_wc wc = expect_wc(rcq_.get());
	EXPECT_EQ(wc.wr_id, 2u);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, 5000u);
	EXPECT_EQ(wc.qp_num, link_.target->qp_num);
	EXPECT_EQ(be32toh(wc.imm_data), 0x1234u);
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
	EXPECT_TRUE(has_pattern(remote_.bytes(inbox, 5000), seed()));

	ASSERT_EQ(post(IBV_WR_SEND, 20, signaled | IBV_SEND_INLINE), 0);
	expect_wc(scq_.get());
	wc = expect_wc(rcq_.get());
	EXPECT_EQ(wc.wr_id, 1u);
	EXPECT_EQ(wc.byte_len, 20u);
	EXPECT_TRUE(has_pattern(remote_.bytes(inbox, 20), seed()));
}

TEST_F(Xrc, WritesReadsAndAtomics)
{
	uint64_t before, now;

	ASSERT_EQ(post(IBV_WR_RDMA_WRITE, 5000), 0);
	expect_wc(scq_.get());
	EXPECT_TRUE(has_pattern(remote_.bytes(0, 5000), seed()));

	remote_.fill(seed() + 2);
	ASSERT_EQ(post(IBV_WR_RDMA_READ, 5000), 0);
	EXPECT_EQ(expect_wc(scq_.get()).opcode, IBV_WC_RDMA_READ);
	EXPECT_TRUE(has_pattern(local_.bytes(0, 5000), seed() + 2));

	memcpy(&before, remote_.bytes(0, 8).data(), 8);
	ASSERT_EQ(post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8), 0);
	EXPECT_EQ(expect_wc(scq_.get()).opcode, IBV_WC_FETCH_ADD);
	memcpy(&now, remote_.bytes(0, 8).data(), 8);
	EXPECT_EQ(now, before + 7);
	memcpy(&now, local_.bytes(0, 8).data(), 8);
	EXPECT_EQ(now, before);

	ASSERT_EQ(recv(srq_, 9), 0);
	ASSERT_EQ(post(IBV_WR_RDMA_WRITE_WITH_IMM, 100), 0);
	expect_wc(scq_.get());
	const ibv_wc wc = expect_wc(rcq_.get());
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(wc.wr_id, 9u);
	EXPECT_EQ(wc.byte_len, 100u);
}

TEST_F(Xrc, BuilderNamesTheQueueBeforeOrBehindTheData)
{
	const XrcLink link = make_link(builder_ops);

	ASSERT_TRUE(link.initiator) << strerror(errno);
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(link.initiator.get());
	ASSERT_TRUE(ex);
	ASSERT_EQ(recv(srq_, 1), 0);
	ASSERT_EQ(recv(srq_, 2), 0);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, htobe32(77));
	ibv_wr_set_xrc_srqn(ex, number(srq_));
	ibv_wr_set_sge(ex, local_.mr->lkey, local_.address(), 3000);
	ibv_wr_rdma_write_imm(ex, remote_.mr->rkey, remote_.address(), htobe32(78));
	ibv_wr_set_inline_data(ex, local_.memory.data(), 16);
	ibv_wr_set_xrc_srqn(ex, number(srq_));
	ibv_wr_rdma_read(ex, remote_.mr->rkey, remote_.address());
	ibv_wr_set_sge(ex, local_.mr->lkey, local_.address(8192), 16);
	ibv_wr_set_xrc_srqn(ex, number(srq_));
	ibv_wr_atomic_fetch_add(ex, remote_.mr->rkey, remote_.address(), 3);
	ibv_wr_set_xrc_srqn(ex, number(srq_));
	ibv_wr_set_sge(ex, local_.mr->lkey, local_.address(16384), 8);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	for (int i = 0; i < 4; i++)
		expect_wc(scq_.get());
	EXPECT_EQ(be32toh(expect_wc(rcq_.get()).imm_data), 77u);
	EXPECT_EQ(be32toh(expect_wc(rcq_.get()).imm_data), 78u);
	EXPECT_TRUE(has_pattern(remote_.bytes(inbox, 3000), seed()));
	EXPECT_TRUE(has_pattern(local_.bytes(8192, 16), seed()));
	EXPECT_TRUE(has_pattern(local_.bytes(16384, 8), seed()));

	// A request without the number of a queue goes nowhere.
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, local_.mr->lkey, local_.address(), 8);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
}

TEST_F(Xrc, SeveralTargetsReceiveFromOneQueue)
{
	const XrcLink more = make_link();
	std::set<uint32_t> from;

	for (uint64_t i = 0; i < 4; i++)
		ASSERT_EQ(recv(srq_, i, 100), 0);
	for (const XrcLink *link :
	     std::initializer_list<const XrcLink *>{&link_, &more, &link_, &more})
		ASSERT_EQ(post(link->initiator.get(), IBV_WR_SEND, number(srq_), 100), 0);
	for (int i = 0; i < 4; i++) {
		expect_wc(scq_.get());
		from.insert(expect_wc(rcq_.get()).qp_num);
	}
	EXPECT_EQ(from, (std::set<uint32_t>{link_.target->qp_num, more.target->qp_num}));
}

TEST_F(Xrc, AnEmptyQueueIsWaitedFor)
{
	ASSERT_EQ(post(IBV_WR_SEND, 8), 0);
	expect_quiet(scq_.get(), 20ms);
	ASSERT_EQ(recv(srq_, 5), 0);
	expect_wc(scq_.get());
	EXPECT_EQ(expect_wc(rcq_.get()).wr_id, 5u);
}

TEST_F(Xrc, ANumberThatNoQueueHasIsRefused)
{
	expect_refused(number(srq_) ^ 0x8000);
	EXPECT_EQ(await_qp_event(peer(), link_.target.get()), IBV_EVENT_QP_REQ_ERR);
	EXPECT_EQ(await_qp_event(peer(), link_.target.get()), IBV_EVENT_QP_LAST_WQE_REACHED);
}

TEST_F(Xrc, AQueueOfAnotherDomainIsRefused)
{
	const Xrcd other = open_xrcd(peer());

	ASSERT_TRUE(other);
	const Srq srq = make_srq(other.get());
	ASSERT_TRUE(srq);
	ASSERT_EQ(recv(srq, 1), 0);
	expect_refused(number(srq));
	expect_quiet(rcq_.get(), 10ms);
}

TEST_F(Xrc, ADestroyedQueueIsRefused)
{
	const uint32_t gone = number(srq_);

	ASSERT_EQ(recv(srq_, 1), 0);
	ASSERT_EQ(post(IBV_WR_SEND, 8), 0);
	expect_wc(scq_.get());
	EXPECT_EQ(destroy(srq_), 0);
	expect_refused(gone, IBV_WR_RDMA_WRITE);
}

TEST_F(Xrc, KeysAreOfThePdOfTheQueue)
{
	const Pd other(ibv_alloc_pd(peer().context.get()));

	ASSERT_TRUE(other);
	const Region region = make_region(other.get(), 4096);
	ASSERT_TRUE(region);
	ibv_sge sge = local_.sge(0, 8);
	ibv_send_wr wr = {}, *bad;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = signaled;
	wr.wr.rdma.remote_addr = region.address();
	wr.wr.rdma.rkey = region.mr->rkey;
	wr.qp_type.xrc.remote_srqn = number(srq_);
	ASSERT_EQ(ibv_post_send(link_.initiator.get(), &wr, &bad), 0);
	expect_wc(scq_.get(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Xrc, EventsOfTheQueueAndOfTheTarget)
{
	ibv_srq_attr limit = {};

	limit.srq_limit = 2;
	ASSERT_EQ(recv(srq_, 1), 0);
	ASSERT_EQ(recv(srq_, 2), 0);
	ASSERT_EQ(ibv_modify_srq(srq_.get(), &limit, IBV_SRQ_LIMIT), 0);
	ASSERT_EQ(post(IBV_WR_SEND, 8), 0);
	expect_wc(scq_.get());
	EXPECT_EQ(await_srq_event(peer(), srq_.get()), IBV_EVENT_SRQ_LIMIT_REACHED);
	ASSERT_EQ(to_state(link_.target.get(), IBV_QPS_ERR), 0);
	EXPECT_EQ(await_qp_event(peer(), link_.target.get()), IBV_EVENT_QP_LAST_WQE_REACHED);
}

// Programs connect initiators and targets as they connect RC.
TEST_F(Xrc, AttributesOfTheOtherEndAreIgnored)
{
	XrcLink link{make_initiator(), make_target(peer(), xrcd_.get())};
	const Link how = default_link();

	ASSERT_TRUE(link.initiator && link.target);
	for (Qp *qp : {&link.initiator, &link.target}) {
		const bool sends = qp == &link.initiator;
		const Device &dev = sends ? device() : peer();
		const Address to = {(sends ? link.target : link.initiator)->qp_num, 1,
				    (sends ? peer() : device()).gid};
		ibv_qp_attr attr = rtr_attr(dev, to, how);

		ASSERT_EQ(to_init(qp->get(), dev, how), 0);
		ASSERT_EQ(ibv_modify_qp(qp->get(), &attr, rtr_mask), 0);
		attr = rts_attr(1, how);
		ASSERT_EQ(ibv_modify_qp(qp->get(), &attr, rts_mask), 0);
	}
	ASSERT_EQ(recv(srq_, 1), 0);
	ASSERT_EQ(post(link.initiator.get(), IBV_WR_SEND, number(srq_), 8), 0);
	expect_wc(scq_.get());
	expect_wc(rcq_.get());
}

TEST_F(Xrc, WhatIsInUseStays)
{
	EXPECT_EQ(close_xrcd(xrcd_.get()), EBUSY);
	EXPECT_EQ(destroy(srq_), 0);
	EXPECT_EQ(close_xrcd(xrcd_.get()), EBUSY); // the target
	EXPECT_EQ(destroy(link_.target), 0);
	EXPECT_EQ(destroy(xrcd_), 0);

	xrcd_ = open_xrcd(peer());
	ASSERT_TRUE(xrcd_);
	srq_ = make_srq(xrcd_.get());
	ASSERT_TRUE(srq_);
	EXPECT_EQ(ibv_destroy_cq(rcq_.get()), EBUSY);
	EXPECT_EQ(ibv_dealloc_pd(recv_pd_.get()), EBUSY);
}

TEST_F(Xrc, WhatAnEndDoesNotHaveIsRefused)
{
	const uint32_t needed = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
				IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
	ibv_srq_init_attr_ex srq = {};
	ibv_qp_init_attr_ex qp = {};
	ibv_xrcd_init_attr xrcd = {};
	uint32_t num;

	EXPECT_EQ(post(link_.target.get(), IBV_WR_SEND, number(srq_), 8), EINVAL);
	ibv_sge sge = remote_.sge(0, 8);
	ibv_recv_wr wr = {}, *bad;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	EXPECT_EQ(ibv_post_recv(link_.target.get(), &wr, &bad), EINVAL);
	EXPECT_EQ(ibv_post_recv(link_.initiator.get(), &wr, &bad), EINVAL);

	for (uint32_t missing :
	     {IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD}) {
		srq.attr = {16, 1, 0};
		srq.srq_type = IBV_SRQT_XRC;
		srq.comp_mask = needed & ~missing;
		srq.xrcd = xrcd_.get();
		srq.cq = rcq_.get();
		srq.pd = recv_pd_.get();
		EXPECT_FALSE(Srq(ibv_create_srq_ex(peer().context.get(), &srq)));
		EXPECT_EQ(errno, EINVAL) << missing;
	}
	srq.comp_mask = needed;
	srq.attr.max_wr = static_cast<uint32_t>(peer().attr.max_srq_wr) + 1;
	EXPECT_FALSE(Srq(ibv_create_srq_ex(peer().context.get(), &srq)));
	EXPECT_EQ(errno, EINVAL);

	ibv_srq_init_attr basic = {};
	basic.attr = {16, 1, 0};
	const Srq plain(ibv_create_srq(recv_pd_.get(), &basic));
	ASSERT_TRUE(plain);
	EXPECT_EQ(ibv_get_srq_num(plain.get(), &num), EINVAL);

	qp.qp_type = IBV_QPT_XRC_RECV;
	qp.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	qp.pd = recv_pd_.get();
	EXPECT_FALSE(Qp(ibv_create_qp_ex(peer().context.get(), &qp)));
	EXPECT_EQ(errno, EINVAL);

	xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD;
	xrcd.fd = -1;
	EXPECT_FALSE(Xrcd(ibv_open_xrcd(peer().context.get(), &xrcd)));
	EXPECT_EQ(errno, EINVAL);
}

// A domain of a file, which two contexts of the peer open, as two processes would.
class XrcOfAFile : public Xrc {
protected:
	void SetUp() override
	{
		Xrc::SetUp();
		if (IsSkipped() || HasFatalFailure())
			return;
		fd_ = anonymous_file(1);
		ASSERT_GE(fd_, 0);
		first_ = open_xrcd(peer(), fd_, O_CREAT);
		ASSERT_TRUE(first_) << strerror(errno);
		again_ = Device::open(peer().name, {peer().gid_index, 4});
		ASSERT_TRUE(again_);
		second_ = open_xrcd(*again_, fd_, 0);
		ASSERT_TRUE(second_) << strerror(errno);
		link_.target = make_target(peer(), first_.get());
		link_.initiator = make_initiator();
		ASSERT_TRUE(link_.target && link_.initiator) << strerror(errno);
		link_.connect(atomic_link());
	}
	void TearDown() override
	{
		link_ = {};
		srq_.reset();
		second_.reset();
		first_.reset();
		if (fd_ >= 0)
			close(fd_);
	}

	int fd_ = -1;
	std::optional<Device> again_;
	Xrcd first_, second_;
};

TEST_F(XrcOfAFile, IsOneDomain)
{
	EXPECT_FALSE(open_xrcd(peer(), fd_, O_CREAT | O_EXCL));
	EXPECT_EQ(errno, EINVAL);

	// The queue is of one context, the target of the other.
	const Pd pd(ibv_alloc_pd(again_->context.get()));
	const Cq cq(ibv_create_cq(again_->context.get(), 16, nullptr, nullptr, 0));
	ASSERT_TRUE(pd && cq);
	const Region region = make_region(pd.get(), 4096);
	ibv_srq_init_attr_ex attr = {};
	attr.attr = {4, 1, 0};
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
			 IBV_SRQ_INIT_ATTR_PD;
	attr.srq_type = IBV_SRQT_XRC;
	attr.xrcd = second_.get();
	attr.cq = cq.get();
	attr.pd = pd.get();
	Srq srq(ibv_create_srq_ex(again_->context.get(), &attr));
	ASSERT_TRUE(region && srq) << strerror(errno);
	ASSERT_EQ(post_recv(srq.get(), {region.sge(0, 100)}, 3), 0);
	ASSERT_EQ(post(link_.initiator.get(), IBV_WR_SEND, number(srq), 100), 0);
	expect_wc(scq_.get());
	EXPECT_EQ(expect_wc(cq.get()).wr_id, 3u);
	EXPECT_TRUE(has_pattern(region.bytes(0, 100), seed()));
	EXPECT_EQ(close_xrcd(second_.get()), EBUSY);
	EXPECT_EQ(destroy(srq), 0);
	EXPECT_EQ(destroy(second_), 0);
	EXPECT_EQ(close_xrcd(first_.get()), EBUSY);
	EXPECT_EQ(destroy(link_.target), 0);
	EXPECT_EQ(destroy(first_), 0);
	// Nobody has it any more.
	EXPECT_FALSE(open_xrcd(peer(), fd_, 0));
	EXPECT_EQ(errno, EAGAIN);
}

TEST_F(XrcOfAFile, HasTargetsThatSeveralOpen)
{
	ibv_qp_open_attr attr = {};

	attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	attr.qp_num = link_.target->qp_num;
	attr.qp_type = IBV_QPT_XRC_RECV;
	attr.xrcd = second_.get();
	Qp opened(ibv_open_qp(again_->context.get(), &attr));
	if (!opened && errno == EOPNOTSUPP)
		GTEST_SKIP() << not_offered("ibv_open_qp", errno);
	ASSERT_TRUE(opened) << strerror(errno);
	EXPECT_EQ(opened->qp_num, link_.target->qp_num);
	EXPECT_EQ(state_of(opened.get()), IBV_QPS_RTS);
	// No queue pair has the highest number, and the initiator's may be a target's of the other device.
	attr.qp_num = 0xfffffe;
	EXPECT_FALSE(Qp(ibv_open_qp(again_->context.get(), &attr)));
	EXPECT_EQ(errno, EINVAL);

	// The target stays while one of them has it.
	EXPECT_EQ(destroy(link_.target), 0);
	srq_ = make_srq(first_.get());
	ASSERT_TRUE(srq_);
	ASSERT_EQ(recv(srq_, 3), 0);
	ASSERT_EQ(post(IBV_WR_SEND, 8), 0);
	expect_wc(scq_.get());
	EXPECT_EQ(expect_wc(rcq_.get()).wr_id, 3u);
	EXPECT_EQ(close_xrcd(second_.get()), EBUSY);
}

} // namespace
} // namespace verbs
