// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Asynchronous events that arrive when their object is gone and another has its number.
#include "driver.hpp"

#include <array>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

namespace sirdma::twin::test
{

namespace
{

constexpr u32 max_qps = 64;

// A device whose interrupts come when the test wants them.
class LateDevice : public Adapter {
public:
	LateDevice() { EXPECT_EQ(create_device({}, 4096, max_qps, 0, clock_), 0); }
	~LateDevice() override
	{
		destroy_device();
		port_clock_destroy(clock_);
	}

	void hold_events(bool hold)
	{
		bus()->ops->write32(bus(), SIRDMA_REG_INT_MASK, hold ? 1u << SIRDMA_VECTOR_AEQ : 0);
		settle();
	}

	u32 limit_qpn() const noexcept override { return max_qps; }
	void run_qp(u32) noexcept override {}
	bool poll() noexcept override { return false; }
	void expect_event() noexcept override {}

private:
	u32 transmit(snic_burst &burst) noexcept override { return burst.npkts; }
	snic_burst *burst() noexcept override { return nullptr; }

	port_clock *clock_ = port_clock_create(true);
};

class LateEvents : public ::testing::Test {
protected:
	void SetUp() override
	{
		driver = Driver::create(device);
		ASSERT_TRUE(driver);
		ASSERT_EQ(driver->open(&context), 0);
		async_fd = driver->async(&context)->reader();
		ASSERT_EQ(driver->alloc_pd(&context, pd), 0);
		cq.context = &context;
		const CqRings rings = {.elements = cq_ring.data(),
				       .shadow = cq_shadow.data(),
				       .count = 64,
				       .timestamps = false};
		ASSERT_EQ(driver->create_cq(&context, &cq, nullptr, rings), 0);
	}
	void TearDown() override
	{
		driver->close(&context);
		driver.reset();
		close(async_fd);
	}

	bool told() const
	{
		pollfd p = {.fd = async_fd, .events = POLLIN, .revents = 0};

		return ::poll(&p, 1, 0) == 1;
	}
	void make_srq()
	{
		srq.context = &context;
		ASSERT_EQ(driver->create_srq(&srq, pd,
					     {.wqes = rq_ring.data(),
					      .shadow = rq_shadow.data(),
					      .count = 64,
					      .shift = 0,
					      .max_wr = 63,
					      .max_sge = 1}),
			  0);
	}
	void make_qp()
	{
		qp.context = &context;
		qp.qp_type = IBV_QPT_RC;
		qp.send_cq = qp.recv_cq = &cq;
		qp.srq = &srq;
		ASSERT_EQ(driver->create_qp(&qp, pd,
					    {.sq = sq_ring.data(),
					     .rq = nullptr,
					     .shadow = qp_shadow.data(),
					     .sq_quanta = 64,
					     .rq_quanta = 0,
					     .rq_shift = 0,
					     .compl_ctx = 7},
					    {}, false),
			  0);
	}
	/* A queue pair with a shared receive queue has reached its last WQE. */
	void fail_qp()
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		ASSERT_EQ(driver->modify_qp(qp.qp_num, attr,
					    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						    IBV_QP_ACCESS_FLAGS),
			  0);
		attr.qp_state = IBV_QPS_ERR;
		ASSERT_EQ(driver->modify_qp(qp.qp_num, attr, IBV_QP_STATE), 0);
	}

	struct alignas(4096) Page : std::array<std::byte, 4096> {};

	LateDevice device;
	std::unique_ptr<Driver> driver;
	ibv_context context{};
	int async_fd = -1;
	uint32_t pd = 0;
	ibv_cq cq{};
	ibv_srq srq{};
	ibv_qp qp{};
	Page cq_ring{}, cq_shadow{}, rq_ring{}, rq_shadow{}, sq_ring{}, qp_shadow{};
};

TEST_F(LateEvents, OfAQueuePairDoNotReachTheNextOfItsNumber)
{
	uint32_t number, async;

	make_srq();
	make_qp();
	number = qp.qp_num;
	device.hold_events(true);
	fail_qp();
	do {
		ASSERT_EQ(driver->destroy_qp(qp.qp_num, async), 0);
		make_qp();
	} while (qp.qp_num != number);
	device.hold_events(false);
	EXPECT_FALSE(told());

	fail_qp();
	EXPECT_TRUE(told()) << "its own event";
}

TEST_F(LateEvents, OfASharedReceiveQueueDoNotReachTheNextOfItsNumber)
{
	const ibv_srq_attr limit = {.max_wr = 0, .max_sge = 0, .srq_limit = 1};
	uint32_t number, async;

	make_srq();
	number = srq.handle;
	device.hold_events(true);
	ASSERT_EQ(driver->modify_srq(srq.handle, limit, IBV_SRQ_LIMIT), 0);
	do {
		ASSERT_EQ(driver->destroy_srq(srq.handle, async), 0);
		make_srq();
	} while (srq.handle != number);
	device.hold_events(false);
	EXPECT_FALSE(told());

	ASSERT_EQ(driver->modify_srq(srq.handle, limit, IBV_SRQ_LIMIT), 0);
	EXPECT_TRUE(told()) << "its own event";
}

} // namespace

} // namespace sirdma::twin::test
