// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Every allocation of the kernel under a verb fails once: the verb says so, nothing has changed, and it works again.
//
// /proc/thread-self/fail-nth makes the n-th allocation from now on fail, in this thread alone (a kernel with
// CONFIG_FAULT_INJECTION, CONFIG_FAILSLAB and CONFIG_FAIL_PAGE_ALLOC). Those that may sleep are spared unless
// ignore-gfp-wait of failslab and fail_page_alloc in debugfs is N, and pages one at a time unless min-order is 0.
#include "fixture.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verbs
{
namespace
{

constexpr int endless = 100000;

class Faults : public VerbsTest {
protected:
	void SetUp() override
	{
		nth_ = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
		if (nth_ < 0)
			GTEST_SKIP() << "this kernel has no fault injection";
		VerbsTest::SetUp();
		if (!IsSkipped())
			pd_.reset(ibv_alloc_pd(device().context.get()));
	}

	void TearDown() override
	{
		if (nth_ >= 0)
			close(nth_);
	}

	void arm(int n)
	{
		const std::string text = std::to_string(n);
		ASSERT_EQ(pwrite(nth_, text.data(), text.size(), 0),
			  static_cast<ssize_t>(text.size()))
			<< std::strerror(errno);
	}

	// Disarms; true when the armed allocation was never reached.
	bool unreached()
	{
		char text[16] = {};
		const bool left = pread(nth_, text, sizeof(text) - 1, 0) > 0 && std::atoi(text);
		arm(0);
		return left;
	}

	// `verb` returns 0 or an errno; `check` sees that after each, with no injection. Tells how many failed.
	template <typename Verb, typename Check>
	void each_allocation(const char *name, Verb verb, Check check, int each_up_to = endless)
	{
		constexpr int stride = 101;
		int failures = 0;
		for (int n = 1; n < endless; n += n < each_up_to ? 1 : stride) {
			arm(n);
			const int rc = verb();
			const bool last = unreached();
			SCOPED_TRACE(testing::Message() << name << ", allocation " << n);
			if (rc) {
				failures++;
				EXPECT_TRUE(rc == ENOMEM || rc == ENOBUFS || rc == also_)
					<< std::strerror(rc);
				EXPECT_FALSE(last) << "nothing was injected";
			}
			check(rc);
			if (last) {
				std::printf("%s: %d allocations, %d of them fatal\n", name, n - 1,
					    failures);
				EXPECT_GT(can_do_without_ ? n - 1 : failures, 0);
				return;
			}
			if (HasFatalFailure())
				return;
		}
		FAIL() << name << " never came to its end";
	}

	// For verbs that make something: what is made goes at once.
	template <typename Made, typename Make> void each_of_making(const char *name, Make make)
	{
		Made made;
		each_allocation(
			name,
			[&] {
				made = Made(make());
				return made ? 0 : errno;
			},
			[&](int) { made.reset(); });
	}

	Pd pd_;
	int also_ = 0; // an errno that a failed allocation may lead to besides
	bool can_do_without_ = false; // the verb succeeds although its allocations fail

private:
	int nth_ = -1;
};

TEST_F(Faults, Context)
{
	also_ = ENOENT; // of libibverbs' second way to find the device file, when the first failed
	each_of_making<Context>("open_device",
				[] { return ibv_open_device(device().context->device); });
}

TEST_F(Faults, ProtectionDomain)
{
	each_of_making<Pd>("alloc_pd", [] { return ibv_alloc_pd(device().context.get()); });
}

class FaultsOfRegistration : public Faults, public testing::WithParamInterface<size_t> {};

TEST_P(FaultsOfRegistration, Unwinds)
{
	const Mapping memory = Mapping::anonymous(GetParam());
	ASSERT_TRUE(memory);
	fill_pattern(memory.bytes(), seed()); // present, so that pinning it is all there is to do
	each_of_making<Mr>("reg_mr", [&] {
		return ibv_reg_mr(pd_.get(), memory.data(), memory.size(), all_access);
	});
}

// No page list, a list, a list of lists.
INSTANTIATE_TEST_SUITE_P(All, FaultsOfRegistration, testing::Values(4096, 64 * 4096, 5000 * 4096),
			 [](const auto &info) { return std::to_string(info.param); });

// Between two pieces of memory, to and fro. What the region is after each call, a transfer from there shows.
TEST_P(FaultsOfRegistration, LeavesTheRegionThatIsChanged)
{
	Pair pair = make_pair();
	const Mapping memory[] = {Mapping::anonymous(GetParam()), Mapping::anonymous(GetParam())};
	const Region sink = make_region(pair.b.pd, 4096);
	ASSERT_TRUE(memory[0] && memory[1] && sink);
	fill_pattern(memory[0].bytes(), 1);
	fill_pattern(memory[1].bytes(), 2);
	const Mr mr(ibv_reg_mr(pair.a.pd, memory[0].data(), GetParam(), all_access));
	ASSERT_TRUE(mr);
	size_t at = 0;
	each_allocation(
		"rereg_mr",
		[&] {
			return ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
					    memory[!at].data(), GetParam(), 0) ?
				       errno :
				       0;
		},
		[&](int rc) {
			at = rc ? at : !at;
			const size_t last = GetParam() - 100;
			const ibv_sge sge = {memory[at].address(last), 100, mr->lkey};
			ASSERT_EQ(mr->addr, memory[at].data());
			ASSERT_EQ(post(pair.a, {.op = IBV_WR_RDMA_WRITE,
						.sges = {sge},
						.remote_addr = sink.address(),
						.rkey = sink.mr->rkey}),
				  0);
			expect_wc(pair.a.scq);
			ASSERT_TRUE(has_pattern(sink.bytes(0, 100), at + 1, last));
		});
}

TEST_F(Faults, Deregistration)
{
	const Mapping memory = Mapping::anonymous(64 * 4096);
	ASSERT_TRUE(memory);
	for (int n = 1; n < endless; n++) {
		Mr mr(ibv_reg_mr(pd_.get(), memory.data(), memory.size(), all_access));
		ASSERT_TRUE(mr) << std::strerror(errno);
		arm(n);
		const int rc = destroy(mr);
		const bool last = unreached();
		// What failed is there still and goes with the next attempt, or its destructor reports it.
		EXPECT_TRUE(!rc || rc == ENOMEM) << std::strerror(rc);
		if (last)
			return;
	}
	FAIL();
}

TEST_F(Faults, CompletionQueue)
{
	each_of_making<Cq>("create_cq", [] {
		return ibv_create_cq(device().context.get(), 500, nullptr, nullptr, 0);
	});
}

TEST_F(Faults, Moderation)
{
	const auto make = [] {
		return Cq(ibv_create_cq(device().context.get(), 4, nullptr, nullptr, 0));
	};
	Cq cq = make();
	ASSERT_TRUE(cq);
	can_do_without_ = true;
	each_allocation(
		"modify_cq",
		[&] {
			ibv_modify_cq_attr attr = {};
			attr.attr_mask = IBV_CQ_ATTR_MODERATE;
			attr.moderate = {.cq_count = 4, .cq_period = 4};
			return ibv_modify_cq(cq.get(), &attr);
		},
		[&](int) { ASSERT_TRUE(cq = make()); });
}

TEST_F(Faults, QueuePair)
{
	const Cq cq(ibv_create_cq(device().context.get(), 64, nullptr, nullptr, 0));
	ASSERT_TRUE(cq);
	each_of_making<Qp>("create_qp", [&] {
		ibv_qp_init_attr init = {};
		init.qp_type = IBV_QPT_RC;
		init.send_cq = init.recv_cq = cq.get();
		init.cap.max_send_wr = init.cap.max_recv_wr = 200;
		init.cap.max_send_sge = init.cap.max_recv_sge = 2;
		return ibv_create_qp(pd_.get(), &init);
	});
}

// Each step of a connection, and a transfer over it in the end.
TEST_F(Faults, Modify)
{
	End a = End::create(device()), b = End::create(peer());
	ASSERT_TRUE(a.qp && b.qp);
	const Link link = default_link();
	ASSERT_EQ(to_init(b.qp.get(), peer(), link), 0);
	ASSERT_EQ(to_rtr(b.qp.get(), peer(), a.address(), link), 0);
	ASSERT_EQ(to_rts(b.qp.get(), b.psn, link), 0);

	const auto each = [&](const char *name, ibv_qp_state from, ibv_qp_state to, auto step) {
		each_allocation(name, step, [&](int rc) {
			ASSERT_EQ(state_of(a.qp.get()), rc ? from : to);
			if (rc || from == to)
				return;
			// Back, for the next one.
			ASSERT_EQ(to_state(a.qp.get(), IBV_QPS_RESET), 0);
			if (from != IBV_QPS_RESET) {
				ASSERT_EQ(to_init(a.qp.get(), device(), link), 0);
			}
			if (from == IBV_QPS_RTR) {
				ASSERT_EQ(to_rtr(a.qp.get(), device(), b.address(), link), 0);
			}
		});
	};
	each("RESET to INIT", IBV_QPS_RESET, IBV_QPS_INIT,
	     [&] { return to_init(a.qp.get(), device(), link); });
	ASSERT_EQ(to_init(a.qp.get(), device(), link), 0);
	each("INIT to RTR", IBV_QPS_INIT, IBV_QPS_RTR,
	     [&] { return to_rtr(a.qp.get(), device(), b.address(), link); });
	ASSERT_EQ(to_rtr(a.qp.get(), device(), b.address(), link), 0);
	each("RTR to RTS", IBV_QPS_RTR, IBV_QPS_RTS,
	     [&] { return to_rts(a.qp.get(), a.psn, link); });
	ASSERT_EQ(to_rts(a.qp.get(), a.psn, link), 0);

	Pair pair{std::move(a), std::move(b), link};
	const Region local = make_region(pair.a.pd, 8192), remote = make_region(pair.b.pd, 8192);
	run_transfer(pair, local, remote, {IBV_WR_RDMA_WRITE, 100, 200, 5000});
}

// ---- a device as a whole

struct Attribute {
	uint16_t type;
	std::string text;
};

// RDMA_NLDEV_CMD_NEWLINK, executed by the kernel in this thread. 0 or an errno.
int new_link(int socket, const std::string &name, const std::string &netdev)
{
	char buffer[512] = {};
	auto *message = reinterpret_cast<nlmsghdr *>(buffer);
	message->nlmsg_len = NLMSG_HDRLEN;
	message->nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK);
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	for (const Attribute &attribute : {Attribute{RDMA_NLDEV_ATTR_DEV_NAME, name},
					   Attribute{RDMA_NLDEV_ATTR_LINK_TYPE, "sirdma"},
					   Attribute{RDMA_NLDEV_ATTR_NDEV_NAME, netdev}}) {
		auto *out = reinterpret_cast<nlattr *>(buffer + message->nlmsg_len);
		out->nla_type = attribute.type;
		out->nla_len = static_cast<uint16_t>(NLA_HDRLEN + attribute.text.size() + 1);
		std::memcpy(buffer + message->nlmsg_len + NLA_HDRLEN, attribute.text.c_str(),
			    attribute.text.size() + 1);
		message->nlmsg_len += NLA_ALIGN(out->nla_len);
	}
	if (send(socket, message, message->nlmsg_len, 0) < 0)
		return errno;
	char answer[4096];
	const ssize_t length = recv(socket, answer, sizeof(answer), MSG_DONTWAIT);
	if (length < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof(nlmsgerr)))
		return ENOMEM; // the answer found no memory
	return -reinterpret_cast<nlmsgerr *>(answer + NLMSG_HDRLEN)->error;
}

TEST_F(Faults, Link)
{
	if (options().spare_netdev.empty())
		GTEST_SKIP() << "no --spare-netdev was given";
	// The first ones are the driver's and its device's; then come fourteen thousand of the core's, for files in sysfs.
	constexpr int ours = 100;
	const std::string name = "fault0", node = "/sys/class/infiniband/" + name;
	const int socket = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	ASSERT_GE(socket, 0) << std::strerror(errno);
	each_allocation(
		"link add", [&] { return new_link(socket, name, options().spare_netdev); },
		[&](int rc) {
			const bool there = access(node.c_str(), F_OK) == 0;
			EXPECT_TRUE(rc || there);
			if (there) {
				ASSERT_EQ(std::system(("rdma link delete " + name).c_str()), 0);
			}
			EXPECT_NE(access(node.c_str(), F_OK), 0);
		},
		ours);
	close(socket);
}

} // namespace
} // namespace verbs
