/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How an application is tested with libsirdma: two ends of a connection, used
 * through libibverbs alone, on a fabric that loses, doubles and delays what it is
 * told to. All times are exact.
 */
#include <atomic>
#include <cstring>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sirdma/twin.h>

namespace sirdma::test
{

namespace
{

constexpr uint64_t delay = 1000; /* of the fabric's default */
constexpr uint8_t ack_timeout = 10; /* 4.096 µs × 2^10 */
constexpr uint64_t ack_timeout_ns = 4096ull << ack_timeout;
constexpr uint8_t rnr_timer = 12; /* 0.64 ms (IBTA table 45) */
constexpr uint64_t rnr_timer_ns = 640000;

class End {
public:
	explicit End(Fabric &fabric, const char *addr = nullptr)
		: device(make(fabric, addr)), context(ibv_open_device(device.verbs())),
		  pd(ibv_alloc_pd(context)), channel(ibv_create_comp_channel(context)),
		  cq(ibv_create_cq(context, 64, this, channel, 0)), buffer(1 << 16),
		  mr(ibv_reg_mr(pd, buffer.data(), buffer.size(),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_REMOTE_WRITE))
	{
		ibv_qp_init_attr init{};

		init.qp_type = IBV_QPT_RC;
		init.send_cq = init.recv_cq = cq;
		init.cap = {.max_send_wr = 16,
			    .max_recv_wr = 16,
			    .max_send_sge = 1,
			    .max_recv_sge = 1,
			    .max_inline_data = 0};
		init.sq_sig_all = 1;
		qp = ibv_create_qp(pd, &init);
		EXPECT_TRUE(context && pd && channel && cq && mr && qp) << strerror(errno);
	}

	~End()
	{
		EXPECT_EQ(ibv_destroy_qp(qp), 0);
		EXPECT_EQ(ibv_dereg_mr(mr), 0);
		EXPECT_EQ(ibv_destroy_cq(cq), 0);
		EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
		EXPECT_EQ(ibv_dealloc_pd(pd), 0);
		EXPECT_EQ(ibv_close_device(context), 0);
	}

	void connect(const End &peer, uint8_t retries = 7, uint8_t rnr_retries = 7)
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
		ASSERT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS),
			  0);
		attr.qp_state = IBV_QPS_RTR;
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = peer.qp->qp_num;
		attr.max_dest_rd_atomic = 1;
		attr.min_rnr_timer = rnr_timer;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.port_num = 1;
		attr.ah_attr.grh.hop_limit = 64;
		ASSERT_EQ(ibv_query_gid(peer.context, 1, 0, &attr.ah_attr.grh.dgid), 0);
		ASSERT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			  0);
		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = ack_timeout;
		attr.retry_cnt = retries;
		attr.rnr_retry = rnr_retries;
		attr.max_rd_atomic = 1;
		ASSERT_EQ(ibv_modify_qp(qp, &attr,
					IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC),
			  0);
	}

	int send(const std::string &text)
	{
		memcpy(buffer.data(), text.data(), text.size());
		ibv_sge sge = {reinterpret_cast<uintptr_t>(buffer.data()),
			       static_cast<uint32_t>(text.size()), mr->lkey};
		ibv_send_wr wr{}, *bad;

		wr.opcode = IBV_WR_SEND;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		return ibv_post_send(qp, &wr, &bad);
	}

	int receive()
	{
		ibv_sge sge = {reinterpret_cast<uintptr_t>(buffer.data()) + 32768, 32768, mr->lkey};
		ibv_recv_wr wr{}, *bad;

		wr.sg_list = &sge;
		wr.num_sge = 1;
		return ibv_post_recv(qp, &wr, &bad);
	}

	std::string received(const ibv_wc &wc) const
	{
		return {reinterpret_cast<const char *>(buffer.data()) + 32768, wc.byte_len};
	}

	/* What has completed by now. */
	std::vector<ibv_wc> completions()
	{
		std::vector<ibv_wc> all(64);

		all.resize(static_cast<size_t>(ibv_poll_cq(cq, 64, all.data())));
		return all;
	}

	FabricDevice device;
	ibv_context *context;
	ibv_pd *pd;
	ibv_comp_channel *channel;
	ibv_cq *cq;
	std::vector<uint8_t> buffer;
	ibv_mr *mr;
	ibv_qp *qp;

private:
	static FabricDevice make(Fabric &fabric, const char *addr)
	{
		const sirdma_device_params params = {.addr = addr, .mtu = 0};

		return FabricDevice(fabric, &params);
	}
};

/* Polls let no time pass. */
constexpr sirdma_fabric_params still = {.seed = 1, .delay_ns = delay, .poll_ns = 0};

class FabricTest : public testing::Test {
protected:
	FabricTest()
	{
		a.connect(b);
		b.connect(a);
	}

	sirdma_rule rule(const End &from, int opcode, sirdma_action action, uint64_t nth = 1,
			 uint64_t count = 1) const
	{
		sirdma_rule r{};

		r.from = from.device.get();
		r.opcode = opcode;
		r.nth = nth;
		r.count = count;
		r.action = action;
		return r;
	}

	static void expect_one(End &end, ibv_wc_opcode opcode)
	{
		const auto got = end.completions();

		ASSERT_EQ(got.size(), 1u);
		EXPECT_EQ(got[0].status, IBV_WC_SUCCESS) << ibv_wc_status_str(got[0].status);
		EXPECT_EQ(got[0].opcode, opcode);
	}

	Fabric fabric{&still};
	End a{fabric}, b{fabric};
};

} // namespace

TEST_F(FabricTest, CarriesAMessageInTheTimeTheWireTakes)
{
	ASSERT_EQ(b.receive(), 0);
	ASSERT_EQ(a.send("ping"), 0);
	fabric.advance(delay - 1);
	EXPECT_TRUE(b.completions().empty());
	fabric.advance(1);
	const auto got = b.completions();
	ASSERT_EQ(got.size(), 1u);
	EXPECT_EQ(b.received(got[0]), "ping");
	EXPECT_TRUE(a.completions().empty()) << "acknowledged before the packet could be back";
	fabric.advance(delay);
	expect_one(a, IBV_WC_SEND);
	EXPECT_EQ(fabric.now(), 2 * delay);
}

/* The application's message is sent twice and received once. */
TEST_F(FabricTest, SurvivesTheLossOfTheFirstAcknowledgement)
{
	const int lost = fabric.add(rule(b, SIRDMA_ACKNOWLEDGE, SIRDMA_DROP));

	ASSERT_EQ(b.receive(), 0);
	ASSERT_EQ(a.send("ping"), 0);
	fabric.advance(ack_timeout_ns - 1);
	EXPECT_EQ(fabric.hits(lost), 1u);
	EXPECT_EQ(a.device.counter("retransmits"), 0u);
	EXPECT_TRUE(a.completions().empty());
	ASSERT_TRUE(fabric.run_until_idle(SIRDMA_MS(1000)));
	expect_one(a, IBV_WC_SEND);
	expect_one(b, IBV_WC_RECV);
	EXPECT_EQ(a.device.counter("ack_timeouts"), 1u);
	EXPECT_EQ(a.device.counter("retransmits"), 1u);
	EXPECT_EQ(b.device.counter("rx_duplicate"), 1u);
	/* The IBTA's timer may take up to four times its value (9.7.6.1.3). */
	EXPECT_GE(fabric.now(), ack_timeout_ns);
	EXPECT_LE(fabric.now(), 4 * ack_timeout_ns + 2 * delay);
}

TEST_F(FabricTest, GivesUpAfterTheRetriesAllowed)
{
	End c(fabric), d(fabric);

	c.connect(d, 3);
	d.connect(c);
	const int lost = fabric.add(rule(c, SIRDMA_SEND_ONLY, SIRDMA_DROP, 1, 0));
	ASSERT_EQ(c.send("ping"), 0);
	ASSERT_TRUE(fabric.run_until_idle(SIRDMA_MS(1000)));
	const auto got = c.completions();
	ASSERT_EQ(got.size(), 1u);
	EXPECT_EQ(got[0].status, IBV_WC_RETRY_EXC_ERR);
	EXPECT_EQ(fabric.hits(lost), 4u) << "the first and three retries";
}

TEST_F(FabricTest, WaitsForAReceiverThatIsNotReady)
{
	const int sends = fabric.add(rule(a, SIRDMA_SEND_ONLY, SIRDMA_PASS, 1, 0));

	ASSERT_EQ(a.send("early"), 0);
	fabric.advance(2 * delay);
	EXPECT_EQ(b.device.counter("rnr_nak_sent"), 1u);
	fabric.advance(rnr_timer_ns - 1);
	EXPECT_EQ(fabric.hits(sends), 1u) << "sent again before the time the receiver named";
	ASSERT_EQ(b.receive(), 0);
	fabric.advance(1);
	EXPECT_EQ(fabric.hits(sends), 2u);
	fabric.advance(delay);
	expect_one(b, IBV_WC_RECV);
	EXPECT_EQ(fabric.now(), 2 * delay + rnr_timer_ns + delay);
	fabric.advance(delay);
	expect_one(a, IBV_WC_SEND);
}

TEST_F(FabricTest, DropsWhatIsDamagedAndCountsIt)
{
	fabric.add(rule(a, SIRDMA_SEND_ONLY, SIRDMA_CORRUPT));
	ASSERT_EQ(b.receive(), 0);
	ASSERT_EQ(a.send("ping"), 0);
	ASSERT_TRUE(fabric.run_until_idle(SIRDMA_MS(1000)));
	EXPECT_EQ(b.device.counter("rx_bad_icrc"), 1u);
	EXPECT_EQ(a.device.counter("retransmits"), 1u);
	expect_one(b, IBV_WC_RECV);
}

TEST_F(FabricTest, PutsOvertakenPacketsInOrder)
{
	sirdma_rule late = rule(a, SIRDMA_SEND_FIRST, SIRDMA_DELAY);
	const std::string text(5000, 'x');

	late.delay_ns = 5 * delay;
	fabric.add(late);
	ASSERT_EQ(b.receive(), 0);
	ASSERT_EQ(a.send(text), 0);
	ASSERT_TRUE(fabric.run_until_idle(SIRDMA_MS(1000)));
	EXPECT_GE(b.device.counter("rx_out_of_sequence"), 1u);
	EXPECT_EQ(b.device.counter("seq_nak_sent"), 1u);
	const auto got = b.completions();
	ASSERT_EQ(got.size(), 1u);
	EXPECT_EQ(b.received(got[0]), text);
}

TEST_F(FabricTest, PlacesADoubledPacketOnce)
{
	const int twice = fabric.add(rule(a, SIRDMA_SEND_ONLY, SIRDMA_DUPLICATE, 2));

	for (int i = 0; i < 3; ++i) {
		ASSERT_EQ(b.receive(), 0);
		ASSERT_EQ(a.send("ping"), 0);
		ASSERT_TRUE(fabric.run_until_idle(SIRDMA_MS(1000)));
	}
	EXPECT_EQ(fabric.hits(twice), 1u);
	EXPECT_EQ(b.device.counter("rx_duplicate"), 1u);
	EXPECT_EQ(b.completions().size(), 3u);
}

TEST_F(FabricTest, AsksTheTestWhichPacketsToLose)
{
	sirdma_rule long_ones = rule(a, SIRDMA_ANY_OPCODE, SIRDMA_DROP);
	uint16_t limit = 500;

	long_ones.match = [](const sirdma_packet *packet, void *context) -> int {
		return packet->length > *static_cast<uint16_t *>(context);
	};
	long_ones.context = &limit;
	const int lost = fabric.add(long_ones);
	for (const size_t length : {10u, 600u}) {
		ASSERT_EQ(b.receive(), 0);
		ASSERT_EQ(a.send(std::string(length, 'x')), 0);
		ASSERT_TRUE(fabric.run_until_idle(SIRDMA_MS(1000)));
	}
	EXPECT_EQ(fabric.hits(lost), 1u);
	EXPECT_EQ(a.device.counter("retransmits"), 1u);
}

TEST_F(FabricTest, RaisesCompletionEvents)
{
	pollfd p = {.fd = b.channel->fd, .events = POLLIN, .revents = 0};
	ibv_cq *cq;
	void *context;

	ASSERT_EQ(b.receive(), 0);
	ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
	ASSERT_EQ(a.send("ping"), 0);
	EXPECT_EQ(::poll(&p, 1, 0), 0);
	fabric.advance(delay);
	ASSERT_EQ(::poll(&p, 1, 0), 1);
	ASSERT_EQ(ibv_get_cq_event(b.channel, &cq, &context), 0);
	EXPECT_EQ(context, &b);
	ibv_ack_cq_events(cq, 1);
	expect_one(b, IBV_WC_RECV);
}

TEST_F(FabricTest, SaysWhenItIsNotIdle)
{
	ASSERT_EQ(a.send("ping"), 0);
	EXPECT_FALSE(fabric.run_until_idle(delay / 2));
	EXPECT_EQ(fabric.now(), delay / 2);
}

/* Not a time before now: the fabric's time is not 0 here. */
TEST_F(FabricTest, RunsUntilIdleWithoutALimit)
{
	fabric.advance(delay);
	ASSERT_EQ(b.receive(), 0);
	ASSERT_EQ(a.send("ping"), 0);
	EXPECT_TRUE(fabric.run_until_idle(UINT64_MAX));
	EXPECT_GE(fabric.now(), 3 * delay);
	EXPECT_LT(fabric.now(), SIRDMA_MS(1000));
	expect_one(a, IBV_WC_SEND);
	expect_one(b, IBV_WC_RECV);
}

TEST_F(FabricTest, AdvancesToTheEndOfTimeAtMost)
{
	fabric.advance(delay);
	ASSERT_EQ(b.receive(), 0);
	ASSERT_EQ(a.send("ping"), 0);
	fabric.advance(UINT64_MAX);
	expect_one(a, IBV_WC_SEND);
	expect_one(b, IBV_WC_RECV);

	const uint64_t end = fabric.now();

	EXPECT_GT(end, UINT64_MAX / 2);
	fabric.advance(UINT64_MAX);
	EXPECT_EQ(fabric.now(), end);
}

TEST(FabricPolling, LetsTimePassForAnApplicationThatWaits)
{
	Fabric fabric;
	End a(fabric), b(fabric);
	ibv_wc wc;
	int polls = 0;

	a.connect(b);
	b.connect(a);
	ASSERT_EQ(b.receive(), 0);
	ASSERT_EQ(a.send("ping"), 0);
	while (!ibv_poll_cq(a.cq, 1, &wc))
		ASSERT_LT(++polls, 100);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(fabric.now(), 2 * delay);
	EXPECT_EQ(polls, static_cast<int>(2 * delay / 100) - 1) << "100 ns each, the last one "
								   "finds it";
}

/* The whole of a lossy run, packet by packet. */
static std::vector<std::string> trace_of_a_lossy_run()
{
	Fabric fabric;
	End a(fabric), b(fabric);
	std::vector<std::string> packets;
	sirdma_rule all{}, some{};

	all.opcode = some.opcode = SIRDMA_ANY_OPCODE;
	all.context = &packets;
	all.match = [](const sirdma_packet *p, void *context) -> int {
		static_cast<std::vector<std::string> *>(context)->push_back(
			std::to_string(p->now) + " " + std::to_string(p->opcode) + " " +
			std::to_string(p->psn) + " " + std::to_string(p->dest_qpn) + " " +
			std::to_string(p->aeth_syndrome));
		return 1;
	};
	some.match = [](const sirdma_packet *p, void *) -> int {
		return (p->now / 7 + p->psn) % 3 == 0;
	};
	some.action = SIRDMA_DROP;
	fabric.add(all);
	fabric.add(some);
	a.connect(b);
	b.connect(a);
	for (int i = 0; i < 10; ++i) {
		EXPECT_EQ(b.receive(), 0);
		EXPECT_EQ(a.send(std::string(3000 + 100 * static_cast<size_t>(i), 'x')), 0);
	}
	EXPECT_TRUE(fabric.run_until_idle(SIRDMA_MS(60000)));
	EXPECT_EQ(b.completions().size(), 10u);
	return packets;
}

TEST(FabricRuns, AreTheSameEachTime)
{
	const auto first = trace_of_a_lossy_run();

	EXPECT_GT(first.size(), 40u);
	EXPECT_EQ(first, trace_of_a_lossy_run());
}

/* Fabrics do not know each other: each thread may have its own. */
TEST(FabricRuns, AreTheSameInThreads)
{
	const auto first = trace_of_a_lossy_run();
	std::vector<std::vector<std::string>> traces(4);
	std::vector<std::thread> threads;

	for (auto &trace : traces)
		threads.emplace_back([&trace] {
			for (int i = 0; i < 5; ++i)
				trace = trace_of_a_lossy_run();
		});
	for (std::thread &thread : threads)
		thread.join();
	for (const auto &trace : traces)
		EXPECT_EQ(trace, first);
}

TEST(FabricDevices, AreListedAndHaveTheirAddresses)
{
	Fabric fabric;
	End four(fabric, "192.0.2.1"), six(fabric, "2001:db8::1"), other(fabric);
	ibv_gid gid{};
	int count = 0;
	ibv_device **list = ibv_get_device_list(&count);

	ASSERT_NE(list, nullptr);
	EXPECT_EQ(count, 3);
	EXPECT_EQ(list[0], four.device.verbs());
	ibv_free_device_list(list);
	ASSERT_EQ(ibv_query_gid(six.context, 1, 0, &gid), 0);
	EXPECT_EQ(gid.raw[0], 0x20);
	const ibv_gid same = six.device.gid();
	EXPECT_EQ(memcmp(&gid, &same, sizeof(gid)), 0);
	ASSERT_EQ(ibv_query_gid(other.context, 1, 0, &gid), 0);
	EXPECT_EQ(gid.raw[12], 10);
	EXPECT_EQ(gid.raw[15], 1);
}

/* Whatever a thread of the parent was doing when it forked. */
TEST(FabricDevices, AreListedInAForkedChild)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	GTEST_SKIP() << "a child of threads may wait for what the sanitizer locked in them";
#endif
	Fabric fabric;
	FabricDevice device(fabric);
	std::atomic<bool> stop{false};
	const auto listed = [] {
		ibv_device **list = ibv_get_device_list(nullptr);
		const bool any = list && *list;

		ibv_free_device_list(list);
		return any;
	};
	std::thread busy([&] {
		while (!stop)
			EXPECT_TRUE(listed());
	});

	for (int i = 0; i < 1000 && !HasFailure(); ++i) {
		const pid_t child = fork();
		int status = -1;

		if (!child) {
			alarm(60);
			_exit(!listed());
		}
		EXPECT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0) << "child " << i;
	}
	stop = true;
	busy.join();
}

/* A region on demand has the memory that is there when a packet comes. */
TEST_F(FabricTest, SendsFromAndReceivesIntoMemoryOnDemand)
{
	constexpr size_t bytes = 1 << 16;
	constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;

	for (End *end : {&a, &b}) {
		void *memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		ASSERT_NE(memory, MAP_FAILED);
		EXPECT_EQ(ibv_dereg_mr(end->mr), 0);
		end->mr = ibv_reg_mr(end->pd, memory, bytes, access);
		ASSERT_NE(end->mr, nullptr) << strerror(errno);
	}
	const auto at = [](const End &end) { return static_cast<char *>(end.mr->addr); };
	const auto move = [&] {
		ibv_sge from = {reinterpret_cast<uintptr_t>(at(a)), 5000, a.mr->lkey};
		ibv_sge to = {reinterpret_cast<uintptr_t>(at(b)), bytes, b.mr->lkey};
		ibv_send_wr send{}, *bad_send;
		ibv_recv_wr recv{}, *bad_recv;

		send.opcode = IBV_WR_SEND;
		send.sg_list = &from;
		recv.sg_list = &to;
		send.num_sge = recv.num_sge = 1;
		EXPECT_EQ(ibv_post_recv(b.qp, &recv, &bad_recv), 0);
		EXPECT_EQ(ibv_post_send(a.qp, &send, &bad_send), 0);
		EXPECT_TRUE(fabric.run_until_idle(SIRDMA_MS(1000)));
	};

	for (End *end : {&a, &b})
		ASSERT_EQ(mprotect(end->mr->addr, bytes, PROT_READ | PROT_WRITE), 0);
	memset(at(a), 'x', 5000);
	move();
	expect_one(a, IBV_WC_SEND);
	expect_one(b, IBV_WC_RECV);
	EXPECT_EQ(memcmp(at(a), at(b), 5000), 0);
	ASSERT_EQ(mprotect(at(b), bytes, PROT_NONE), 0);
	move();
	const auto refused = a.completions(), failed = b.completions();

	ASSERT_EQ(refused.size(), 1u);
	ASSERT_EQ(failed.size(), 1u);
	EXPECT_EQ(refused[0].status, IBV_WC_REM_OP_ERR);
	EXPECT_EQ(failed[0].status, IBV_WC_LOC_PROT_ERR);
	for (End *end : {&a, &b})
		EXPECT_EQ(munmap(end->mr->addr, bytes), 0);
}

TEST(FabricErrors, AreTold)
{
	sirdma_fabric_params bad{};
	sirdma_device_params params{};
	sirdma_rule rule{};
	uint64_t value;

	EXPECT_EQ(sirdma_fabric_create(&bad), nullptr);
	EXPECT_EQ(errno, EINVAL);

	sirdma_fabric *fabric = sirdma_fabric_create(nullptr);
	sirdma_device *device = sirdma_device_create(fabric, nullptr);

	ASSERT_NE(device, nullptr);
	params.addr = "10.0.0.1";
	EXPECT_EQ(sirdma_device_create(fabric, &params), nullptr);
	EXPECT_EQ(errno, EADDRINUSE);
	params.addr = "nowhere";
	EXPECT_EQ(sirdma_device_create(fabric, &params), nullptr);
	EXPECT_EQ(errno, EINVAL);
	rule.opcode = 256;
	EXPECT_EQ(sirdma_fabric_add_rule(fabric, &rule), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(sirdma_fabric_rule_hits(fabric, 0, &value), EINVAL);
	EXPECT_EQ(sirdma_device_counter(device, "no such thing", &value), ENOENT);

	ibv_context *context = ibv_open_device(sirdma_device_verbs(device));

	ASSERT_NE(context, nullptr);
	EXPECT_EQ(sirdma_device_destroy(device), EBUSY);
	EXPECT_EQ(sirdma_fabric_destroy(fabric), EBUSY);
	EXPECT_EQ(ibv_close_device(context), 0);
	EXPECT_EQ(sirdma_device_destroy(device), 0);
	EXPECT_EQ(sirdma_fabric_destroy(fabric), 0);
}

} // namespace sirdma::test
