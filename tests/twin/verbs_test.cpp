/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Two twins in one process, joined by UDP or shared memory. */
#include <atomic>
#include <semaphore>
#include <sys/mman.h>
#include <thread>

#include "node.hpp"
#include "own_address.hpp"

namespace sirdma::twin::test
{

namespace
{

void join(Node &a, Node &b)
{
	/* Seconds of retries: on a busy machine a peer's helper may wait for a processor. */
	constexpr uint8_t timeout = 15;

	a.connect(b.address(), timeout);
	b.connect(a.address(), timeout);
}

void expect_success(Node &node, ibv_wc_opcode opcode)
{
	const ibv_wc wc = node.poll();

	EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
	EXPECT_EQ(wc.opcode, opcode);
}

void carry_everything(Node &a, Node &b)
{
	const Address to = b.address();

	a.fill(1);
	for (const uint32_t length : {1u, 4095u, 4096u, 65537u, 400000u}) {
		std::fill(b.buffer.begin(), b.buffer.end(), 0);
		ASSERT_EQ(b.post_recv(0, length), 0);
		ASSERT_EQ(a.post(IBV_WR_SEND, 0, length), 0);
		expect_success(a, IBV_WC_SEND);
		const ibv_wc wc = b.poll();
		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.byte_len, length);
		EXPECT_EQ(memcmp(a.buffer.data(), b.buffer.data(), length), 0);

		std::fill(b.buffer.begin(), b.buffer.end(), 0);
		ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 3, length, &to, 5), 0);
		expect_success(a, IBV_WC_RDMA_WRITE);
		EXPECT_EQ(memcmp(a.buffer.data() + 3, b.buffer.data() + 5, length), 0);

		b.fill(static_cast<uint8_t>(length));
		ASSERT_EQ(a.post(IBV_WR_RDMA_READ, 500000, length, &to, 9), 0);
		expect_success(a, IBV_WC_RDMA_READ);
		EXPECT_EQ(memcmp(a.buffer.data() + 500000, b.buffer.data() + 9, length), 0);
		a.fill(1);
	}
}

} // namespace

class TwinLinks : public ::testing::TestWithParam<LinkKind> {
protected:
	TwinLinks() { config_.link = GetParam(); }

	Config config_;
};

INSTANTIATE_TEST_SUITE_P(All, TwinLinks, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

TEST_P(TwinLinks, CarriesSendsWritesAndReads)
{
	Node a(config_), b(config_);

	join(a, b);
	carry_everything(a, b);
	EXPECT_EQ(a.device->nic->stat(SIRDMA_STAT_RX_BAD_ICRC), 0u);
	EXPECT_EQ(b.device->nic->stat(SIRDMA_STAT_RX_BAD_ICRC), 0u);
}

/* Each rings the doorbell for itself: no request is left lying, whoever is first. */
TEST_P(TwinLinks, CarriesWhatTwoThreadsPostToOneQueue)
{
	constexpr int threads = 2, each = 1000;
	constexpr uint32_t length = 64;
	Node a(config_), b(config_);
	const Address to = b.address();
	std::counting_semaphore<> room{Node::depth}; /* in the completion queue as well */
	std::atomic<bool> failed{false};
	std::vector<std::thread> posters;

	join(a, b);
	a.fill(4);
	for (int t = 0; t < threads; ++t)
		posters.emplace_back([&, t] {
			for (int i = 0; i < each && !failed; ++i) {
				const size_t at = static_cast<size_t>(t * each + i) * length;

				room.acquire();
				EXPECT_EQ(a.post(IBV_WR_RDMA_WRITE, at, length, &to, at), 0);
			}
		});
	for (int i = 0; i < threads * each && !failed; ++i) {
		failed = a.poll().status != IBV_WC_SUCCESS;
		room.release();
	}
	room.release(threads);
	for (std::thread &poster : posters)
		poster.join();
	EXPECT_FALSE(failed);
	EXPECT_EQ(memcmp(a.buffer.data(), b.buffer.data(), threads * each * length), 0);
}

TEST_P(TwinLinks, RecoversFromLoss)
{
	Config &lossy = config_;

	lossy.loss = 0.03;
	lossy.seed = 11;

	Node a(lossy), b(lossy);

	join(a, b);
	carry_everything(a, b);
	EXPECT_GT(a.device->nic->stat(SIRDMA_STAT_RETRANSMITS), 0u);
}

TEST_P(TwinLinks, RecoversFromCorruption)
{
	Config &bad = config_;

	bad.corrupt = 0.03;
	bad.seed = 5;

	Node a(bad), b(bad);

	join(a, b);
	carry_everything(a, b);
	EXPECT_GT(b.device->nic->stat(SIRDMA_STAT_RX_BAD_ICRC), 0u);
	EXPECT_GT(a.device->nic->stat(SIRDMA_STAT_RETRANSMITS), 0u);
}

TEST_P(TwinLinks, RecoversFromReordering)
{
	Config &bad = config_;

	bad.reorder = 0.05;
	bad.seed = 3;

	Node a(bad), b(bad);

	join(a, b);
	carry_everything(a, b);
	EXPECT_GT(a.device->nic->stat(SIRDMA_STAT_RETRANSMITS), 0u);
}

TEST_P(TwinLinks, RunsAQueueToItself)
{
	Node a(config_);

	a.connect(a.address());
	ASSERT_EQ(a.post_recv(4096, 100), 0);
	a.fill(9);
	ASSERT_EQ(a.post(IBV_WR_SEND, 0, 100), 0);
	EXPECT_EQ(a.poll().status, IBV_WC_SUCCESS);
	EXPECT_EQ(a.poll().status, IBV_WC_SUCCESS);
	EXPECT_EQ(memcmp(a.buffer.data(), a.buffer.data() + 4096, 100), 0);
}

TEST_P(TwinLinks, ReportsAPeerThatIsGone)
{
	auto b = std::make_unique<Node>(config_);
	Node a(config_);

	a.connect(b->address(), 8, 2);
	b.reset();
	ASSERT_EQ(a.post(IBV_WR_SEND, 0, 64), 0);
	const ibv_wc wc = a.poll();
	EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
	EXPECT_EQ(wc.vendor_err, 0x81u);
}

TEST_P(TwinLinks, RefusesAWrongKey)
{
	Node a(config_), b(config_);
	Address wrong = b.address();

	join(a, b);
	wrong.rkey ^= 1;
	ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 0, 64, &wrong), 0);
	EXPECT_EQ(a.poll().status, IBV_WC_REM_ACCESS_ERR);
}

TEST(TwinVerbs, RegistersOnlyMemoryThatIsThere)
{
	Node a;
	const long page = 4096;
	auto *memory = static_cast<uint8_t *>(
		mmap(nullptr, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	ASSERT_NE(memory, MAP_FAILED);
	/* Not unmapped: another thread might map something there at once. */
	ASSERT_EQ(mprotect(memory + 2 * page, page, PROT_NONE), 0);

	ibv_mr *readable = ibv_reg_mr(a.pd, memory + 1, page, 0);
	EXPECT_NE(readable, nullptr) << strerror(errno);
	if (readable) {
		EXPECT_EQ(ibv_dereg_mr(readable), 0);
	}
	EXPECT_EQ(ibv_reg_mr(a.pd, memory, page, IBV_ACCESS_LOCAL_WRITE), nullptr);
	EXPECT_EQ(errno, EFAULT);
	EXPECT_EQ(ibv_reg_mr(a.pd, memory + page, 2 * page, 0), nullptr);
	EXPECT_EQ(errno, EFAULT);
	EXPECT_EQ(ibv_reg_mr(a.pd, memory, page, IBV_ACCESS_REMOTE_WRITE), nullptr);
	EXPECT_EQ(errno, EINVAL);
	munmap(memory, 3 * page);
}

TEST(TwinVerbs, RefusesWrongModificationsAndChangesNothing)
{
	Node a;
	ibv_qp_attr attr{}, now{};
	ibv_qp_init_attr init{};

	attr.qp_state = IBV_QPS_RTS;
	EXPECT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 2;
	EXPECT_EQ(ibv_modify_qp(a.qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					IBV_QP_ACCESS_FLAGS),
		  EINVAL);
	ASSERT_EQ(ibv_query_qp(a.qp, &now, IBV_QP_STATE, &init), 0);
	EXPECT_EQ(now.qp_state, IBV_QPS_RESET);
}

TEST(TwinVerbs, CutsThePathMtuToTheLink)
{
	Config small;

	small.mtu = 1500;

	Node a(small);
	ibv_port_attr port{};

	ASSERT_EQ(ibv_query_port(a.context, 1, &port), 0);
	EXPECT_EQ(port.active_mtu, IBV_MTU_1024);
	EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	EXPECT_EQ(ibv_query_port(a.context, 2, &port), EINVAL);
}

TEST(TwinVerbs, ServesManyDevicesWithAddressesOfTheirOwn)
{
	Node a, b, c;

	EXPECT_NE(a.device->nic->addr().text(), b.device->nic->addr().text());
	EXPECT_NE(b.device->nic->addr().text(), c.device->nic->addr().text());

	Config shared;

	shared.addr = a.device->nic->addr();

	Node d(shared);

	EXPECT_EQ(a.device->nic->addr().text(), d.device->nic->addr().text());
	EXPECT_NE(slot_of(a.qp->qp_num), slot_of(d.qp->qp_num));
}

TEST(TwinVerbs, RefusesAPortThatAnotherProgramHas)
{
	Config taken;

	taken.addr = own_address(0);
	const auto other = UdpReceiver::create(taken.addr);

	ASSERT_TRUE(other) << strerror(errno);
	EXPECT_EQ(Device::create(taken), nullptr);
	EXPECT_EQ(errno, EADDRINUSE);
}

TEST_P(TwinLinks, CarriesOverIpv6)
{
	ASSERT_TRUE(IpAddress::parse("::1", config_.addr));
	if (!UdpReceiver::create(config_.addr))
		GTEST_SKIP() << "no IPv6: " << strerror(errno);

	Node a(config_), b(config_);

	join(a, b);
	carry_everything(a, b);
	EXPECT_EQ(a.device->nic->stat(SIRDMA_STAT_RX_BAD_ICRC), 0u);
	EXPECT_EQ(b.device->nic->stat(SIRDMA_STAT_RX_BAD_ICRC), 0u);
}

} // namespace sirdma::twin::test
