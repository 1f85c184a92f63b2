// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Seeded runs over a bad link: every byte arrives, in order, once. A failure
// names its seed; SIRDMA_LOSSY_SEED runs that one alone, SIRDMA_LOSSY_RUNS changes how many.
#include "transport.hpp"

using namespace sirdma::test;

namespace
{

constexpr size_t kRegion = 256 * 1024;
constexpr u32 kRecvSlot = 16384;

struct Op {
	u8 op;
	u32 len;
	size_t local, remote;
	std::optional<u32> imm;
	bool signaled;
	u64 add; // of an atomic
};

// One direction of a run: what a side posts, and what must come of it.
class Side {
public:
	Side(Qp &qp, Qp &peer, std::mt19937_64 &rng, size_t base, u32 count)
		: qp_(qp), peer_(peer), rng_(rng), base_(base)
	{
		for (u32 i = 0; i < count; i++)
			ops_.push_back(make_op(i));
		for (auto &op : ops_)
			receives_ += consumes(op);
		memcpy(&sum_, peer_.node.data(cell()), sizeof(sum_));
	}

	// Post and poll as far as possible; true when everything has happened.
	bool step()
	{
		while (filled_ < receives_ && filled_ - received_ < 8 && rng_() % 4) {
			peer_.recv({peer_.node.sge(recv_off(filled_), kRecvSlot)});
			filled_++;
		}
		while (posted_ < ops_.size() && posted_ - done_ < 24 && rng_() % 3)
			post(ops_[posted_++]);
		while (auto wc = qp_.poll(true))
			completed(*wc);
		while (auto wc = peer_.poll(false))
			arrived(*wc);
		return done_ == ops_.size() && received_ == receives_;
	}
	void check_writes()
	{
		for (auto &op : ops_) {
			if (op.op != SIRDMA_OP_WRITE)
				continue;
			EXPECT_EQ(memcmp(peer_.node.data(op.remote), qp_.node.data(op.local),
					 op.len),
				  0);
		}
		// Each was executed once.
		EXPECT_EQ(memcmp(&sum_, peer_.node.data(cell()), sizeof(sum_)), 0);
	}
	std::string progress() const
	{
		return "posted " + std::to_string(posted_) + " done " + std::to_string(done_) +
		       " of " + std::to_string(ops_.size()) + ", received " +
		       std::to_string(received_) + " of " + std::to_string(receives_) +
		       ", QP state " + std::to_string(qp_.state());
	}

private:
	// Regions: [base: source][+1: remote source][+2: READ target][+3: WRITE target][+4: receives]
	size_t recv_off(u32 n) const { return base_ + 4 * kRegion + n % 16 * kRecvSlot; }
	// The bytes that this side's atomics change: the first of the WRITE target.
	size_t cell() const { return base_ + 3 * kRegion; }
	static bool consumes(const Op &op)
	{
		return op.op == SIRDMA_OP_SEND || (op.op == SIRDMA_OP_WRITE && op.imm);
	}
	Op make_op(u32 i)
	{
		static constexpr u8 kinds[] = {SIRDMA_OP_SEND, SIRDMA_OP_WRITE, SIRDMA_OP_READ,
					       SIRDMA_OP_FETCH_ADD};
		Op op{.op = kinds[rng_() % 4]};
		u32 max = op.op == SIRDMA_OP_SEND ? kRecvSlot : 24000;

		op.len = rng_() % 3 ? static_cast<u32>(rng_() % 600) :
				      static_cast<u32>(rng_() % max);
		if (op.op == SIRDMA_OP_FETCH_ADD)
			op.len = SIRDMA_ATOMIC_LEN;
		op.local = base_ + rng_() % (kRegion - op.len);
		op.signaled = rng_() % 4 != 0;
		if (op.op != SIRDMA_OP_READ && rng_() % 3 == 0)
			op.imm = i;
		if (op.op == SIRDMA_OP_FETCH_ADD) {
			op.imm.reset();
			op.add = rng_();
			op.local = base_ + 2 * kRegion + next_;
			op.remote = cell();
		} else if (op.op == SIRDMA_OP_READ) {
			op.local = base_ + 2 * kRegion + next_;
			op.remote = base_ + kRegion + rng_() % (kRegion - op.len);
		} else if (op.op == SIRDMA_OP_WRITE) {
			op.remote = base_ + 3 * kRegion + next_;
		}
		if (op.op != SIRDMA_OP_SEND) {
			next_ += op.len;
			if (next_ > kRegion) { // no room for more targets: send nothing
				next_ -= op.len;
				op.op = op.op == SIRDMA_OP_FETCH_ADD ? u8{SIRDMA_OP_READ} : op.op;
				op.len = 0;
				op.local = base_;
				op.remote = base_;
			}
		}
		return op;
	}
	void post(const Op &op)
	{
		qp_.post({.op = op.op,
			  .sges = {qp_.node.sge(op.local, op.len)},
			  .remote = op.op == SIRDMA_OP_SEND ? 0 : peer_.node.va(op.remote),
			  .rkey = peer_.node.mr.stag(),
			  .imm = op.imm,
			  .signaled = op.signaled || posted_ == ops_.size(),
			  .swap_add = op.add});
	}
	void completed(const Wc &wc)
	{
		ASSERT_FALSE(wc.error) << "send " << done_ << " minor " << wc.minor;
		while (done_ + 1 < ops_.size() && !ops_[done_].signaled)
			check_read(ops_[done_++]);
		ASSERT_LT(done_, ops_.size());
		EXPECT_EQ(wc.op, ops_[done_].op);
		check_read(ops_[done_++]);
	}
	void check_read(const Op &op)
	{
		if (op.op == SIRDMA_OP_READ) {
			EXPECT_EQ(memcmp(qp_.node.data(op.local), peer_.node.data(op.remote),
					 op.len),
				  0);
		}
		if (op.op == SIRDMA_OP_FETCH_ADD) {
			EXPECT_EQ(memcmp(qp_.node.data(op.local), &sum_, sizeof(sum_)), 0);
			sum_ += op.add;
		}
	}
	void arrived(const Wc &wc)
	{
		ASSERT_FALSE(wc.error) << "receive " << received_;
		while (!consumes(ops_[next_recv_]))
			next_recv_++;
		const Op &op = ops_[next_recv_++];
		EXPECT_EQ(wc.len, op.len);
		EXPECT_EQ(wc.imm, op.imm);
		if (op.op == SIRDMA_OP_SEND) {
			EXPECT_EQ(memcmp(peer_.node.data(recv_off(received_)),
					 qp_.node.data(op.local), op.len),
				  0);
		}
		received_++;
	}

	Qp &qp_, &peer_;
	std::mt19937_64 &rng_;
	size_t base_;
	std::vector<Op> ops_;
	size_t next_ = SIRDMA_ATOMIC_LEN;
	u64 sum_ = 0; // of the cell
	u32 receives_ = 0, filled_ = 0, received_ = 0, next_recv_ = 0;
	size_t posted_ = 0, done_ = 0;
};

constexpr size_t kSideBytes = 6 * kRegion;

class Lossy : public ::testing::Test {
protected:
	Lossy()
		: fabric(99), a(fabric, 1, false, {}, 2 * kSideBytes),
		  b(fabric, 2, false, options(), 2 * kSideBytes)
	{
		a.learn(b);
		b.learn(a);
	}
	static HostOptions options()
	{
		HostOptions o;
		o.tx_room = 5; // one side has a short transmit queue
		return o;
	}
	void run(u64 seed, u32 ops);

	Fabric fabric;
	Node a, b;
};

void Lossy::run(u64 seed, u32 ops)
{
	SCOPED_TRACE("seed " + std::to_string(seed));
	static constexpr u16 mtus[] = {256, 512, 1024, 2048, 4096};
	std::mt19937_64 rng(seed);
	QpOptions opts;

	fabric.rng().seed(seed);
	opts.mtu = mtus[rng() % 5];
	opts.a_psn = rng() % 2 ? 0xffffff - rng() % 64 : rng() & 0xffffff;
	opts.b_psn = rng() & 0xffffff;
	opts.ord = opts.ird = static_cast<u8>(1 + rng() % 16);
	opts.sq_quanta = 512;
	opts.timeout = 9;
	opts.min_rnr_timer = static_cast<u8>(1 + rng() % 12);
	auto &f = fabric.faults();
	f = {};
	f.loss = static_cast<double>(rng() % 30) / 1000;
	f.reorder = rng() % 3 ? 0 : static_cast<double>(rng() % 50) / 1000;
	f.duplicate = rng() % 3 ? 0 : static_cast<double>(rng() % 50) / 1000;
	f.corrupt = rng() % 3 ? 0 : static_cast<double>(rng() % 20) / 1000;
	f.jitter_ns = rng() % 2 ? 0 : 3000;
	if (seed % 3 == 0) {
		f.merge = 0.7;
		f.by_reference = rng() % 2 ? 0 : 0.6;
		f.pull_fails = rng() % 2 ? 0 : 0.02;
	}
	for (Node *n : {&a, &b})
		n->host.set_limits(seed % 3 ? snic_limits{} :
					      snic_limits{.burst = 4096u << rng() % 7,
							  .window = 4096u << rng() % 9});
	Link link(a, b, opts, opts);
	Side ab(link.a, link.b, rng, 0, ops), ba(link.b, link.a, rng, kSideBytes, ops);
	bool ok = false;
	// The sides post by chance: when the network is idle they get another.
	for (int i = 0; i < 2000 && !ok; i++)
		ok = fabric.run_until(
			[&] {
				bool x = ab.step(), y = ba.step();
				return (x && y) || HasFailure();
			},
			1'000'000'000ull);
	EXPECT_TRUE(ok) << "a: " << ab.progress() << "; b: " << ba.progress();
	ab.check_writes();
	ba.check_writes();
	f = {};
	fabric.run_for(1'000'000); // nothing of this run may reach the next
}

u64 env(const char *name, u64 otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, nullptr, 0) : otherwise;
}

TEST_F(Lossy, TenThousandRuns)
{
	u64 runs = env("SIRDMA_LOSSY_RUNS", 10000);

	a.mem->fill(1);
	b.mem->fill(2);
	if (u64 seed = env("SIRDMA_LOSSY_SEED", 0)) {
		fabric.set_filter([this](TestHost &from, Packet &pkt) {
			printf("%10llu %c op %02x psn %06x%s len %zu\n",
			       static_cast<unsigned long long>(fabric.clock()->now()),
			       &from == &a.host ? 'a' : 'b', pkt.opcode(), pkt.psn(),
			       pkt.ack_req() ? " ackreq" : "", pkt.transport().size());
			return Fabric::Verdict::pass;
		});
		run(seed, 8);
		return;
	}
	for (u64 seed = 1; seed <= runs && !HasFailure(); seed++)
		run(seed, 8);
	std::cout << "packets " << fabric.packets_sent() << ", retransmits "
		  << a.stat(SIRDMA_STAT_RETRANSMITS) + b.stat(SIRDMA_STAT_RETRANSMITS)
		  << ", timeouts "
		  << a.stat(SIRDMA_STAT_ACK_TIMEOUTS) + b.stat(SIRDMA_STAT_ACK_TIMEOUTS)
		  << ", by reference " << fabric.pulls() << "\n";
	EXPECT_TRUE(fabric.pulls() || runs < 100);
}

TEST_F(Lossy, LongSoak)
{
	a.mem->fill(3);
	b.mem->fill(4);
	for (u64 seed = 1; seed <= 10 && !HasFailure(); seed++)
		run(1000000 + seed, 400);
}

} // namespace
