// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// On-demand paging: regions whose memory comes when the device needs it, and goes when the program or the kernel says so.
#include "odp.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace verbs::odp
{
namespace
{

TEST_F(OnDemand, IsReportedByTransport)
{
	const ibv_odp_caps caps = caps_of(device());
	const uint32_t reliable = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				  IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;

	EXPECT_EQ(caps.per_transport_caps.rc_odp_caps & reliable, reliable);
	if (device().is_rxe())
		return;
	EXPECT_EQ(caps.per_transport_caps.rc_odp_caps,
		  reliable | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV);
	EXPECT_EQ(caps.per_transport_caps.ud_odp_caps, uint32_t{IBV_ODP_SUPPORT_SEND});
	EXPECT_EQ(caps.per_transport_caps.uc_odp_caps, 0u);
}

TEST_F(OnDemand, MovesFromAndToMemoryThatNobodyTouched)
{
	make(1 << 20);
	uint64_t seed = 1;
	size_t at = 0;
	for (ibv_wr_opcode op : all_ops) {
		for (uint32_t length : {1u, 100u, 4096u, 5000u, 40000u}) {
			move(op, at + 10, at + 10, length, seed++);
			at = (at + length + 2 * page) & ~(page - 1);
			ASSERT_LT(at, size_t{1} << 20);
		}
	}
}

TEST_F(OnDemand, MovesALongMessage)
{
	constexpr uint32_t length = 9 << 20; // more than one request of the device brings

	make(length);
	for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
		drop(local_);
		drop(remote_);
		move(op, 0, 0, length, 7 + op);
	}
}

TEST_F(OnDemand, OneEndMayBePinned)
{
	make(64 * page);
	const Region pinned = make_region(pair_->a.pd, 64 * page);
	ASSERT_TRUE(pinned);
	pinned.fill(5);
	ASSERT_EQ(post(pair_->a, {.op = IBV_WR_RDMA_WRITE,
				  .sges = {pinned.sge(0, 64 * page)},
				  .remote_addr = remote_.address(),
				  .rkey = remote_.mr->rkey}),
		  0);
	expect_wc(pair_->a.scq);
	EXPECT_TRUE(has_pattern(remote_.memory.bytes(), 5));
}

TEST_F(OnDemand, AtomicsFindTheirWord)
{
	if (!(caps_of(peer()).per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC))
		GTEST_SKIP() << not_reported("rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC");
	make(16 * page, on_demand | IBV_ACCESS_REMOTE_ATOMIC);
	for (uint64_t i = 0; i < 3; i++) {
		ASSERT_EQ(post(pair_->a, {.op = IBV_WR_ATOMIC_FETCH_AND_ADD,
					  .sges = {local_.sge(8, 8)},
					  .remote_addr = remote_.address(3 * page),
					  .rkey = remote_.mr->rkey,
					  .compare_add = 5}),
			  0);
		expect_wc(pair_->a.scq);
		uint64_t before = 1, now = 0;
		std::memcpy(&before, local_.memory.data() + 8, 8);
		std::memcpy(&now, remote_.memory.data() + 3 * page, 8);
		EXPECT_EQ(before, 5 * i);
		EXPECT_EQ(now, 5 * (i + 1));
		drop(local_);
	}
}

TEST_F(OnDemand, SharedReceiveQueueTakesIt)
{
	if (!(caps_of(peer()).per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_SRQ_RECV))
		GTEST_SKIP() << not_reported("rc_odp_caps & IBV_ODP_SUPPORT_SRQ_RECV");
	const Pd pd(ibv_alloc_pd(peer().context.get()));
	ibv_srq_init_attr attr = {};
	attr.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
	const Srq srq(ibv_create_srq(pd.get(), &attr));
	ASSERT_TRUE(pd && srq);
	const Pair pair = make_pair({}, {.shared_pd = pd.get(), .srq = srq.get()}, default_link());
	const Region from = make_region(pair.a.pd, 16 * page, on_demand);
	const Region to = make_region(pd.get(), 16 * page, on_demand);
	ASSERT_TRUE(from && to);
	from.fill(3);
	ASSERT_EQ(post_recv(srq.get(), {to.sge(0, 16 * page)}), 0);
	ASSERT_EQ(post(pair.a, {.sges = {from.sge(0, 16 * page)}}), 0);
	expect_wc(pair.a.scq);
	expect_wc(pair.b.rcq);
	EXPECT_TRUE(has_pattern(to.memory.bytes(), 3));
}

TEST_F(OnDemand, SeesTheNewPagesOfMemoryThatWasDropped)
{
	make(32 * page);
	for (uint64_t seed = 1; seed < 20; seed++) {
		move(IBV_WR_RDMA_WRITE, 0, 0, 32 * page, seed);
		drop(remote_);
		ASSERT_EQ(start(IBV_WR_RDMA_READ, 0, 0, 32 * page), 0);
		expect_wc(pair_->a.scq);
		for (std::byte byte : local_.memory.bytes())
			ASSERT_EQ(byte, std::byte{0}) << "a page of before";
		move(IBV_WR_RDMA_READ, 0, 0, 32 * page, seed + 100);
	}
}

TEST_F(OnDemand, MemoryThatIsMappedAnewIsTheNewOne)
{
	make(8 * page);
	move(IBV_WR_RDMA_WRITE, 0, 0, 8 * page, 1);
	map_again(remote_); // in place of the old one
	move(IBV_WR_RDMA_READ, 0, 0, 8 * page, 2);
	unmap(remote_);
	map_again(remote_);
	move(IBV_WR_RDMA_WRITE, 0, 0, 8 * page, 3);
}

TEST_F(OnDemand, MemoryThatWentAwayIsAnAccessErrorOfThePeer)
{
	make(8 * page);
	for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		move(op, 0, 0, 8 * page, 1);
		drain_async(peer());
		unmap(remote_);
		ASSERT_EQ(start(op, 0, 0, 8 * page), 0);
		expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
		EXPECT_EQ(await_qp_event(peer(), pair_->b.qp.get()), IBV_EVENT_QP_ACCESS_ERR);
		EXPECT_EQ(state_of(pair_->b.qp.get()), IBV_QPS_ERR);
		// The region is as good as before once there is memory.
		map_again(remote_);
		connect_again();
		move(op, 0, 0, 8 * page, 2);
	}
}

TEST_F(OnDemand, OwnMemoryThatWentAwayFailsTheRequest)
{
	for (ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		make(8 * page);
		unmap(local_);
		ASSERT_EQ(start(op, 0, 0, 8 * page), 0);
		expect_wc(pair_->a.scq, IBV_WC_LOC_PROT_ERR);
		EXPECT_EQ(state_of(pair_->a.qp.get()), IBV_QPS_ERR);
		map_again(local_);
	}
}

TEST_F(OnDemand, ReceiveBufferThatWentAwayFailsTheReceive)
{
	make(8 * page);
	local_.fill(1);
	unmap(remote_);
	ASSERT_EQ(start(IBV_WR_SEND, 0, 0, 8 * page), 0);
	expect_wc(pair_->b.rcq, IBV_WC_LOC_PROT_ERR);
	expect_wc(pair_->a.scq, IBV_WC_REM_OP_ERR);
	map_again(remote_);
}

TEST_F(OnDemand, MemoryThatTheProgramMayNotWriteToIsNotWrittenTo)
{
	make(4 * page);
	remote_.fill(9);
	local_.fill(1);
	ASSERT_EQ(mprotect(remote_.memory.data(), 4 * page, PROT_READ), 0);
	ASSERT_EQ(start(IBV_WR_RDMA_WRITE, 0, 0, 4 * page), 0);
	expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
	EXPECT_TRUE(has_pattern(remote_.memory.bytes(), 9));
	ASSERT_EQ(mprotect(remote_.memory.data(), 4 * page, PROT_READ | PROT_WRITE), 0);
}

// The kernel itself cannot read such memory, nor can a device that is software.
TEST_F(OnDemand, SecretMemoryIsAnAccessError)
{
	const int fd = static_cast<int>(syscall(SYS_memfd_secret, 0));

	if (fd < 0)
		GTEST_SKIP() << "no secret memory: " << strerror(errno);
	make(4 * page);
	local_.fill(1);
	ASSERT_EQ(ftruncate(fd, 4 * page), 0);
	ASSERT_EQ(mmap(remote_.memory.data(), 4 * page, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_FIXED, fd, 0),
		  remote_.memory.data());
	remote_.fill(9);
	ASSERT_EQ(start(IBV_WR_RDMA_WRITE, 0, 0, 4 * page), 0);
	expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
	EXPECT_TRUE(has_pattern(remote_.memory.bytes(), 9));
	map_again(remote_);
	close(fd);
	connect_again();
	move(IBV_WR_RDMA_WRITE, 0, 0, 4 * page, 2);
}

TEST_F(OnDemand, RegionForReadingReadsWhatTheProgramMayNotWrite)
{
	pair_ = std::make_unique<Pair>(make_pair());
	ASSERT_FALSE(HasFailure());
	local_ = make_region(pair_->a.pd, 4 * page, on_demand);
	remote_.memory = Mapping::anonymous(4 * page);
	remote_.fill(4);
	ASSERT_EQ(mprotect(remote_.memory.data(), 4 * page, PROT_READ), 0);
	remote_.mr.reset(ibv_reg_mr(pair_->b.pd, remote_.memory.data(), 4 * page,
				    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND));
	ASSERT_TRUE(local_ && remote_);
	ASSERT_EQ(start(IBV_WR_RDMA_READ, 0, 0, 4 * page), 0);
	expect_wc(pair_->a.scq);
	EXPECT_TRUE(has_pattern(local_.memory.bytes(), 4));
}

// What the device writes after fork() is the parent's alone.
TEST_F(OnDemand, ForkLeavesTheChildWhatItHad)
{
	int go[2];

	make(16 * page);
	move(IBV_WR_RDMA_WRITE, 0, 0, 16 * page, 1); // the device has the pages
	ASSERT_EQ(pipe(go), 0);
	const pid_t child = fork();
	ASSERT_GE(child, 0);
	if (!child) {
		char byte;
		const bool told = read(go[0], &byte, 1) == 1;
		_exit(told && !find_mismatch(remote_.memory.bytes(), 1) ? 0 : 1);
	}
	move(IBV_WR_RDMA_WRITE, 0, 0, 16 * page, 2);
	EXPECT_EQ(write(go[1], "", 1), 1);
	int status = -1;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "the child saw the parent's data";
	close(go[0]);
	close(go[1]);
	move(IBV_WR_RDMA_READ, 0, 0, 16 * page, 3);
}

class OnDemandTraffic : public OnDemand {
protected:
	static constexpr size_t size = 2 << 20;

	// The kernel takes pages away all the time, and no byte is lost. Forks protect all pages; reclaim and the collapse into
	// huge pages move them, where the kernel has those. At least @messages are moved, and so many that there were @forks.
	void move_while_pages_come_and_go(unsigned messages, unsigned forks);
};

void OnDemandTraffic::move_while_pages_come_and_go(unsigned messages, unsigned forks)
{
	constexpr size_t slots = 8, slot = size / slots;
	std::atomic<bool> stop{false};
	std::atomic<unsigned> forked{0};

	std::thread disturber([&] {
		while (!stop) {
			for (const Region *region : {&local_, &remote_}) {
				(void)madvise(region->memory.data(), size, 21 /* MADV_PAGEOUT */);
				(void)madvise(region->memory.data(), size, 25 /* MADV_COLLAPSE */);
			}
			const pid_t child = fork();
			if (!child)
				_exit(0);
			if (child > 0) {
				waitpid(child, nullptr, 0);
				forked++;
			}
		}
	});
	Random random(seed());
	const ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};
	for (unsigned i = 0; !HasFailure() && (i < messages || (forked < forks && i < 100000));
	     i++) {
		const size_t at = i % slots * slot;
		move(ops[i % 3], at + random.below(page), at + random.below(page),
		     1 + static_cast<uint32_t>(random.below(slot - page)), i);
	}
	stop = true;
	disturber.join();
	EXPECT_GE(forked, forks);
}

TEST_F(OnDemandTraffic, DataSurvivesPagesThatComeAndGo)
{
	make(size);
	move_while_pages_come_and_go(300, 20);
}

// The device waits for the queue pairs that may use the region. In the kernel it may stop to do so behind the first 1,024
// (DOMAIN_VISITS in domain.c); some thousands more are what it does not wait for. Others may use as many of the device.
TEST_F(OnDemandTraffic, DataSurvivesPagesThatComeAndGoAmongManyQueuePairs)
{
	constexpr size_t others = 4200;
	std::vector<Qp> idle;

	if (static_cast<size_t>(peer().attr.max_qp) < 2 * others)
		GTEST_SKIP() << "the device has " << peer().attr.max_qp << " queue pairs";
	make(size);
	for (size_t i = 0; i < others; i++) {
		idle.push_back(make_rc_qp(pair_->b.pd, pair_->b.scq, 1));
		ASSERT_TRUE(idle.back());
	}
	move_while_pages_come_and_go(50, 5);
}

TEST_F(OnDemand, MemoryThatGoesAwayUnderTrafficIsAnAccessError)
{
	constexpr size_t size = 1 << 20;

	for (unsigned round = 0; round < 10; round++) {
		make(size);
		local_.fill(round);
		std::atomic<unsigned> done{0};
		std::thread unmapper([&] {
			while (done < 5 + round)
				std::this_thread::yield();
			munmap(remote_.memory.data(), size);
		});
		ibv_wc_status status = IBV_WC_SUCCESS;
		while (status == IBV_WC_SUCCESS && done < 100000) {
			ASSERT_EQ(start(done % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, 0,
					size),
				  0);
			const auto wc = await(pair_->a.scq);
			if (!wc)
				break;
			status = wc->status;
			done++;
		}
		done = 100000;
		unmapper.join();
		EXPECT_TRUE(ends_as(status, IBV_WC_REM_ACCESS_ERR)) << ibv_wc_status_str(status);
		map_again(remote_);
	}
}

// Other regions of the protection domain come and go during the traffic. No request uses them.
TEST_F(OnDemand, TrafficSurvivesRegistrationOfOtherRegions)
{
	make(16 * page);
	std::atomic<bool> stop{false};
	std::thread churn([&] {
		while (!stop) {
			const Mapping memory = Mapping::anonymous(64 * page);
			const Mr mr(
				ibv_reg_mr(pair_->b.pd, memory.data(), memory.size(), on_demand));
			EXPECT_TRUE(mr);
			madvise(memory.data(), memory.size(), MADV_DONTNEED);
		}
	});
	for (uint64_t seed = 1; !HasFailure() && seed < 50; seed++) {
		drop(remote_);
		move(IBV_WR_RDMA_WRITE, 0, 0, 16 * page, seed);
	}
	stop = true;
	churn.join();
}

// Memory of huge pages is taken in pages of 4 KiB, and goes as one.
TEST_F(OnDemand, HugePagesAreMemoryAsAny)
{
	constexpr size_t huge = 2 << 20;

	make(page);
	for (Region *region : {&local_, &remote_}) {
		ibv_pd *pd = region == &local_ ? pair_->a.pd : pair_->b.pd;

		region->memory = Mapping::anonymous(2 * huge, MAP_HUGETLB);
		if (!region->memory)
			GTEST_SKIP() << "no four huge pages of 2 MiB: " << strerror(errno);
		region->mr.reset(
			ibv_reg_mr(pd, region->memory.data(), 2 * huge - page,
				   on_demand | (region == &local_ ? IBV_ACCESS_HUGETLB : 0)));
		ASSERT_TRUE(region->mr) << strerror(errno);
	}
	for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
		move(op, 5, 3 * page, 2 * huge - 5 * page, op);
		ASSERT_EQ(madvise(remote_.memory.data(), huge, MADV_DONTNEED), 0);
		move(op, 5, 3 * page, 5 * page, op + 10);
	}
	unmap(remote_);
	ASSERT_EQ(start(IBV_WR_RDMA_WRITE, 0, huge, page), 0);
	expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
	map_again(remote_);
}

// A region ends at the moment when its pages go. One that is still marked as written to after it was given back fails the run: the
// kernel's log then has a page in a bad state.
TEST_F(OnDemand, MayEndWhileItsPagesGo)
{
	constexpr size_t size = 512 * page;

	make(page);
	const Mapping memory = Mapping::anonymous(size);
	std::atomic<unsigned> registered{0}, dropped{0};
	constexpr unsigned rounds = 200;
	std::thread drops([&] {
		for (unsigned round = 1; round <= rounds; round++) {
			while (registered < round)
				std::this_thread::yield();
			for (size_t at = 0; at < size; at += page)
				madvise(memory.data() + at, page, MADV_DONTNEED);
			dropped = round;
		}
	});
	for (unsigned round = 1; round <= rounds; round++) {
		fill_pattern(memory.bytes(), round);
		Mr mr(ibv_reg_mr(pair_->b.pd, memory.data(), size, on_demand));
		EXPECT_TRUE(mr);
		registered = round;
		mr.reset();
		while (dropped < round)
			std::this_thread::yield();
	}
	drops.join();
	move(IBV_WR_RDMA_WRITE, 0, 0, page, 1);
}

class Advice : public OnDemand {
protected:
	int advise(const End &end, ibv_advise_mr_advice advice, const Region &region, size_t at,
		   size_t length, uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH)
	{
		ibv_sge sge = region.sge(at, length);

		return ibv_advise_mr(end.pd, advice, flags, &sge, 1);
	}
	static bool resident(const Region &region, size_t at)
	{
		unsigned char is = 0;

		return !mincore(region.memory.data() + at, page, &is) && (is & 1);
	}
};

constexpr ibv_advise_mr_advice for_reading = IBV_ADVISE_MR_ADVICE_PREFETCH;
constexpr ibv_advise_mr_advice for_writing = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
constexpr auto without_fault = static_cast<ibv_advise_mr_advice>(2);

// Advice that does not wait is followed by a work of the region, which may be deregistered at that moment.
TEST_F(Advice, MayMeetTheDeregistrationOfItsRegion)
{
	make(page);
	std::atomic<bool> stop{false};
	std::atomic<uint32_t> lkey{0};
	const Mapping memory = Mapping::anonymous(256 * page);
	std::thread adviser([&] {
		while (!stop) {
			ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(memory.data()),
				       .length = 256 * page,
				       .lkey = lkey};
			const int err = ibv_advise_mr(
				pair_->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1);
			EXPECT_TRUE(!err || err == ENOENT) << strerror(err);
		}
	});
	for (unsigned i = 0; i < 300; i++) {
		const Mr mr(ibv_reg_mr(pair_->b.pd, memory.data(), memory.size(), on_demand));
		EXPECT_TRUE(mr);
		if (!mr)
			break;
		lkey = mr->lkey;
		madvise(memory.data(), memory.size(), MADV_DONTNEED);
	}
	stop = true;
	adviser.join();
	move(IBV_WR_RDMA_WRITE, 0, 0, page, 1);
}

// The driver gives up on pages that are dropped again and again, after a second. That is no error of the advice.
TEST_F(Advice, IsFollowedWhileItsPagesComeAndGo)
{
	constexpr size_t size = 4 << 20;

	make(size);
	std::atomic<bool> stop{false};
	std::thread dropper([&] {
		while (!stop)
			madvise(remote_.memory.data(), size, MADV_DONTNEED);
	});
	for (unsigned i = 0; i < 2; i++)
		EXPECT_EQ(advise(pair_->b, for_writing, remote_, 0, size), 0);
	stop = true;
	dropper.join();
	move(IBV_WR_RDMA_WRITE, 0, 0, size, 1);
}

TEST_F(Advice, BringsPages)
{
	make(64 * page);
	for (ibv_advise_mr_advice advice : {for_reading, for_writing}) {
		drop(remote_);
		EXPECT_FALSE(resident(remote_, 3 * page));
		EXPECT_EQ(advise(pair_->b, advice, remote_, 3 * page + 5, 2 * page), 0);
		for (size_t i = 3; i < 6; i++)
			EXPECT_TRUE(resident(remote_, i * page)) << advice << ", page " << i;
		EXPECT_FALSE(resident(remote_, 6 * page));
		move(IBV_WR_RDMA_WRITE, 0, 3 * page + 5, 2 * page, advice);
	}
	drop(remote_);
	EXPECT_EQ(advise(pair_->b, without_fault, remote_, 0, 4 * page), 0);
	EXPECT_FALSE(resident(remote_, 0));
	// Without the flag it may be later, but it comes.
	EXPECT_EQ(advise(pair_->b, for_writing, remote_, 0, 4 * page, 0), 0);
	EXPECT_TRUE(await_condition([&] { return resident(remote_, 3 * page); }));
}

TEST_F(Advice, OfWhatCannotBeIsRefused)
{
	make(8 * page);
	const Region pinned = make_region(pair_->b.pd, page);
	const Region readable =
		make_region(pair_->b.pd, 4 * page, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	const Pd other(ibv_alloc_pd(peer().context.get()));
	ASSERT_TRUE(pinned && readable && other);

	EXPECT_EQ(advise(pair_->b, for_reading, remote_, 7 * page, 2 * page), EFAULT);
	EXPECT_EQ(advise(pair_->b, for_reading, pinned, 0, page), ENOENT);
	EXPECT_EQ(advise(pair_->b, for_writing, readable, 0, page), EPERM);
	EXPECT_EQ(advise(pair_->b, for_reading, readable, 0, page), 0);
	EXPECT_EQ(advise(pair_->b, static_cast<ibv_advise_mr_advice>(77), remote_, 0, page),
		  EOPNOTSUPP);
	EXPECT_EQ(advise(pair_->b, for_reading, remote_, 0, page, 1 << 7), EINVAL);
	ibv_sge sge = remote_.sge(0, page);
	EXPECT_EQ(ibv_advise_mr(other.get(), for_reading, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
		  EPERM);
	unmap(remote_);
	EXPECT_EQ(advise(pair_->b, for_reading, remote_, 0, page), EFAULT);
	EXPECT_EQ(advise(pair_->b, for_reading, remote_, 0, page, 0), 0);
	map_again(remote_);
}

// What is not supported is refused as such, and nothing of it is reported.
TEST_F(VerbsTest, OnDemandPagingIsSupportedOrRefused)
{
	if (device().is_rxe())
		GTEST_SKIP() << "the errors are those of sirdma";
	const Pd pd(ibv_alloc_pd(device().context.get()));
	const Mapping memory = Mapping::anonymous(16 * page);
	ASSERT_TRUE(pd && memory);
	const auto reg = [&](void *at, size_t length, int access) {
		errno = 0;
		const Mr mr(ibv_reg_mr(pd.get(), at, length, access));
		return mr ? 0 : errno;
	};
	const ibv_odp_caps caps = caps_of(device());

	if (!supported(device())) {
		EXPECT_EQ(caps.per_transport_caps.rc_odp_caps, 0u);
		EXPECT_EQ(reg(memory.data(), page, on_demand), EOPNOTSUPP);
		ibv_sge sge = {memory.address(), page, 0};
		EXPECT_EQ(ibv_advise_mr(pd.get(), for_reading, 0, &sge, 1), EOPNOTSUPP);
		return;
	}
	EXPECT_EQ(caps.per_transport_caps.uc_odp_caps, 0u);
	EXPECT_EQ(reg(nullptr, SIZE_MAX, on_demand),
		  caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT ? 0 : EOPNOTSUPP);
	EXPECT_EQ(reg(nullptr, SIZE_MAX, on_demand | IBV_ACCESS_HUGETLB), EOPNOTSUPP);
	EXPECT_EQ(reg(memory.data(), SIZE_MAX, on_demand), EINVAL);
	// A hint, of explicit regions only
	EXPECT_EQ(reg(memory.data(), page, on_demand | IBV_ACCESS_HUGETLB), 0);
	EXPECT_EQ(reg(memory.data(), 0, on_demand), EINVAL);
	EXPECT_EQ(reg(memory.data(), page, on_demand & ~IBV_ACCESS_LOCAL_WRITE), EINVAL);
	const Mr mr(ibv_reg_mr(pd.get(), memory.data(), page, on_demand));
	const Mr pinned(ibv_reg_mr(pd.get(), memory.data(), page, all_access));
	ASSERT_TRUE(mr && pinned);
	const auto change = [&](const Mr &of, int access) {
		errno = 0;
		return ibv_rereg_mr(of.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
				    access) ?
			       errno :
			       0;
	};
	EXPECT_EQ(change(mr, all_access), EOPNOTSUPP);
	EXPECT_EQ(change(mr, on_demand), EOPNOTSUPP);
	EXPECT_EQ(change(pinned, on_demand), EOPNOTSUPP);
}

} // namespace
} // namespace verbs::odp
