// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// On-demand paging: regions of which parts are missing, atomics, windows and datagrams, and regions of all addresses.
#include "datagram.hpp"
#include "mw.hpp"
#include "odp.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <sys/sysinfo.h>
#include <thread>

namespace verbs::odp
{
namespace
{

TEST_F(OnDemand, RegionMayBeRegisteredBeforeItsMemory)
{
	make(8 * page);
	unmap(remote_);
	remote_.mr.reset(ibv_reg_mr(pair_->b.pd, remote_.memory.data(), 8 * page, on_demand));
	ASSERT_TRUE(remote_) << std::strerror(errno);
	ASSERT_EQ(start(IBV_WR_RDMA_WRITE, 0, 0, 8 * page), 0);
	expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
	map_again(remote_);
	connect_again();
	move(IBV_WR_RDMA_WRITE, 0, 0, 8 * page, 1);
	move(IBV_WR_SEND, 0, 0, 8 * page, 2);
}

// One page of a message is missing: all of it fails.
TEST_F(OnDemand, PageThatIsMissingFailsTheMessage)
{
	for (ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		make(64 * page);
		const auto missing = remote_.memory.data() + 40 * page;
		ASSERT_EQ(munmap(missing, page), 0);
		ASSERT_EQ(start(op, 0, 0, 64 * page), 0);
		expect_wc(pair_->a.scq,
			  op == IBV_WR_SEND ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR);
		if (op == IBV_WR_SEND)
			expect_wc(pair_->b.rcq, IBV_WC_LOC_PROT_ERR);
		ASSERT_EQ(mmap(missing, page, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			  missing);
		connect_again();
		move(op, 0, 0, 64 * page, op);
	}
}

// Long messages between it and ordinary memory, both ways: links may hand over the one by reference, and not the other.
TEST_F(OnDemand, LongMessagesToAndFromPinnedMemory)
{
	constexpr size_t size = 3 << 20;

	make(size);
	const Region pinned[] = {make_region(pair_->a.pd, size), make_region(pair_->b.pd, size)};
	ASSERT_TRUE(pinned[0] && pinned[1]);
	const Region demanded[] = {std::move(local_), std::move(remote_)};
	const auto length = static_cast<uint32_t>(size - 100);
	const auto pass = [&](const Region &from, const Region &to, uint64_t seed) {
		from.fill(seed);
		for (ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE}) {
			std::fill(to.memory.bytes().begin(), to.memory.bytes().end(), std::byte{0});
			if (op == IBV_WR_SEND) {
				ASSERT_EQ(post_recv(pair_->b, {to.sge(30, length)}), 0);
			}
			ASSERT_EQ(post(pair_->a,
				       {.op = op,
					.sges = {from.sge(30, 1000), from.sge(1030, length - 1000)},
					.remote_addr = to.address(30),
					.rkey = to.mr->rkey}),
				  0);
			expect_wc(pair_->a.scq);
			if (op == IBV_WR_SEND)
				expect_wc(pair_->b.rcq);
			EXPECT_TRUE(has_pattern(to.bytes(30, length), seed, 30));
		}
		std::fill(from.memory.bytes().begin(), from.memory.bytes().end(), std::byte{0});
		ASSERT_EQ(post(pair_->a, {.op = IBV_WR_RDMA_READ,
					  .sges = {from.sge(30, length)},
					  .remote_addr = to.address(30),
					  .rkey = to.mr->rkey}),
			  0);
		expect_wc(pair_->a.scq);
		EXPECT_TRUE(has_pattern(from.bytes(30, length), seed, 30));
	};
	for (uint64_t seed = 0; seed < 12 && !HasFailure(); seed += 3) {
		pass(pinned[0], demanded[1], seed);
		pass(demanded[0], pinned[1], seed + 1);
		pass(demanded[0], demanded[1], seed + 2);
	}
	drop(demanded[0]);
	ASSERT_EQ(mprotect(demanded[1].memory.data() + (1 << 20), page, PROT_NONE), 0);
	ASSERT_EQ(post(pair_->a, {.op = IBV_WR_RDMA_WRITE,
				  .sges = {pinned[0].sge(0, size)},
				  .remote_addr = demanded[1].address(),
				  .rkey = demanded[1].mr->rkey}),
		  0);
	expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
}

class OnDemandAtomics : public OnDemand {
protected:
	void SetUp() override
	{
		OnDemand::SetUp();
		if (!IsSkipped() &&
		    !(caps_of(peer()).per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC))
			GTEST_SKIP() << "no atomics on demand";
	}

	int start_atomic(ibv_wr_opcode op, uint64_t compare_add, uint64_t swap = 0)
	{
		return post(pair_->a, {.op = op,
				       .sges = {local_.sge(0, 8)},
				       .remote_addr = remote_.address(64),
				       .rkey = remote_.mr->rkey,
				       .compare_add = compare_add,
				       .swap = swap});
	}
	uint64_t *word() const { return reinterpret_cast<uint64_t *>(remote_.memory.data() + 64); }
	uint64_t before() const
	{
		uint64_t value;

		std::memcpy(&value, local_.memory.data(), 8);
		return value;
	}
};

TEST_F(OnDemandAtomics, SwapOnlyWhatIsEqual)
{
	make(page, on_demand | IBV_ACCESS_REMOTE_ATOMIC);
	*word() = 7;
	for (uint64_t compare : {8u, 7u}) {
		ASSERT_EQ(start_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, compare, 1ull << 63 | 5), 0);
		expect_wc(pair_->a.scq);
		EXPECT_EQ(before(), 7u);
		EXPECT_EQ(*word(), compare == 7 ? 1ull << 63 | 5 : 7);
	}
}

TEST_F(OnDemandAtomics, MemoryThatIsMissingOrReadOnlyIsAnAccessError)
{
	make(page, on_demand | IBV_ACCESS_REMOTE_ATOMIC);
	for (ibv_wr_opcode op : {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
		unmap(remote_);
		ASSERT_EQ(start_atomic(op, 0, 1), 0);
		expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
		map_again(remote_);
		connect_again();
		*word() = 3;
		ASSERT_EQ(mprotect(remote_.memory.data(), page, PROT_READ), 0);
		ASSERT_EQ(start_atomic(op, 3, 4), 0);
		expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
		EXPECT_EQ(*word(), 3u);
		ASSERT_EQ(mprotect(remote_.memory.data(), page, PROT_READ | PROT_WRITE), 0);
		connect_again();
		ASSERT_EQ(start_atomic(op, 3, 4), 0);
		expect_wc(pair_->a.scq);
		EXPECT_EQ(before(), 3u);
		EXPECT_EQ(*word(), op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 6u : 4u);
	}
}

TEST_F(OnDemandAtomics, AreAtomicForTheProgramToo)
{
	if (peer().attr.atomic_cap != IBV_ATOMIC_GLOB)
		GTEST_SKIP() << "atomic among devices only";
	constexpr uint64_t count = 200, step = 1ull << 32;
	make(page, on_demand | IBV_ACCESS_REMOTE_ATOMIC);
	std::atomic_ref<uint64_t> shared(*word());
	std::atomic<bool> stop{false};
	uint64_t own = 0;
	std::thread adder([&] {
		while (!stop) {
			shared++;
			own++;
		}
	});
	for (uint64_t i = 0; !HasFailure() && i < count; i++) {
		EXPECT_EQ(start_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, step), 0);
		expect_wc(pair_->a.scq);
		EXPECT_EQ(before() / step, i);
	}
	stop = true;
	adder.join();
	EXPECT_EQ(shared.load(), count * step + own);
}

TEST_F(OnDemand, MappedPartsAreUsedWhileOthersComeAndGo)
{
	make(16 * 32 * page);
	use_mapped_parts(32 * page, 400);
}

TEST_F(OnDemand, AddressesMayBeginElsewhere)
{
	constexpr uint64_t far = uint64_t{1} << 40, in = 100;

	make(8 * page);
	std::byte *const from = remote_.memory.data() + in;
	const Mr zero(ibv_reg_mr(pair_->b.pd, from, 6 * page, on_demand | IBV_ACCESS_ZERO_BASED));
	const Mr moved(ibv_reg_mr_iova(pair_->b.pd, from, 6 * page, far + in, on_demand));
	ASSERT_TRUE(zero && moved) << std::strerror(errno);
	for (const auto &[mr, base] :
	     {std::pair{&zero, uint64_t{0}}, std::pair{&moved, far + in}}) {
		local_.fill(base);
		ASSERT_EQ(post(pair_->a, {.op = IBV_WR_RDMA_WRITE,
					  .sges = {local_.sge(0, 5 * page)},
					  .remote_addr = base + page,
					  .rkey = (*mr)->rkey}),
			  0);
		expect_wc(pair_->a.scq);
		EXPECT_TRUE(has_pattern(remote_.bytes(in + page, 5 * page), base));
		EXPECT_EQ(*from, std::byte{0});
		ibv_sge sge = {base + page, 5 * page, (*mr)->lkey};
		EXPECT_EQ(ibv_advise_mr(pair_->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			  0);
		sge.addr++;
		EXPECT_EQ(ibv_advise_mr(pair_->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			  EFAULT);
	}
}

TEST_F(OnDemand, WindowsMayBeBoundToIt)
{
	for (ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
		make(8 * page, on_demand | IBV_ACCESS_MW_BIND);
		const Mw mw(ibv_alloc_mw(pair_->b.pd, type));
		ASSERT_TRUE(mw);
		local_.fill(type);
		windows::expect_bound(pair_->b, mw.get(), remote_,
				      {.from = page + 7, .length = 3 * page});
		const auto write = [&](ibv_wc_status status) {
			ASSERT_EQ(post(pair_->a, {.op = IBV_WR_RDMA_WRITE,
						  .sges = {local_.sge(0, 3 * page)},
						  .remote_addr = remote_.address(page + 7),
						  .rkey = mw->rkey}),
				  0);
			expect_wc(pair_->a.scq, status);
		};
		write(IBV_WC_SUCCESS);
		EXPECT_TRUE(has_pattern(remote_.bytes(page + 7, 3 * page), type));
		EXPECT_EQ(remote_.memory.data()[page + 6], std::byte{0});
		unmap(remote_);
		write(IBV_WC_REM_ACCESS_ERR);
		map_again(remote_);
	}
}

TEST_F(OnDemand, DatagramsAreSentFromIt)
{
	if (options().lossy)
		GTEST_SKIP() << "nobody sends a datagram again";
	constexpr uint32_t length = 1000, key = 0x11111111;
	const auto make_end = [](const Device &dev) {
		End end = End::create(dev, {.type = IBV_QPT_UD});

		EXPECT_TRUE(end.qp);
		EXPECT_EQ(end.qp ? verbs::start(end, key) : -1, 0);
		return end;
	};
	const End from = make_end(device()), to = make_end(peer());
	ASSERT_FALSE(HasFailure());
	ibv_ah_attr attr = address_of(device(), peer().gid);
	const Ah ah(ibv_create_ah(from.pd, &attr));
	const Region source = make_apart(from.pd, 2 * page, IBV_ACCESS_ON_DEMAND);
	const Region target = make_region(to.pd, 2 * page);
	ASSERT_TRUE(ah && source && target);
	const Datagram datagram = {.sges = {source.sge(page - 500, length)}, .key = key};

	source.fill(4);
	ASSERT_EQ(post_recv(to, {target.sge(0, 2 * page)}), 0);
	ASSERT_EQ(post_to(from, ah.get(), to.qp->qp_num, datagram), 0);
	expect_wc(from.scq);
	expect_wc(to.rcq);
	EXPECT_TRUE(has_pattern(target.bytes(grh_bytes, length), 4, page - 500));
	unmap(source);
	ASSERT_EQ(post_to(from, ah.get(), to.qp->qp_num, datagram), 0);
	expect_wc(from.scq, IBV_WC_LOC_PROT_ERR);
	map_again(source);
}

// A region of all addresses of the process.
class Implicit : public OnDemandAtomics {
protected:
	void SetUp() override
	{
		OnDemandAtomics::SetUp();
		if (IsSkipped())
			return;
		if (!(caps_of(device()).general_caps & caps_of(peer()).general_caps &
		      IBV_ODP_SUPPORT_IMPLICIT))
			GTEST_SKIP() << "no implicit regions";
		make(16 * page, access_);
		for (Region *region : {&local_, &remote_}) {
			ibv_pd *pd = region == &local_ ? pair_->a.pd : pair_->b.pd;

			region->mr.reset(ibv_reg_mr(pd, nullptr, SIZE_MAX, access_));
			ASSERT_TRUE(region->mr) << std::strerror(errno);
		}
	}

	static constexpr int access_ = on_demand | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
};

TEST_F(Implicit, TakesAllOperations)
{
	for (ibv_wr_opcode op : all_ops)
		move(op, 5, page + 3, 5 * page, op);
	ASSERT_EQ(start_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 5), 0);
	expect_wc(pair_->a.scq);
}

TEST_F(Implicit, HasMemoryThatIsMappedLater)
{
	remote_.memory = Mapping::anonymous(1 << 20);
	ASSERT_TRUE(remote_.memory);
	std::vector<std::byte> heap(100000);
	std::array<std::byte, 5000> stack;

	move(IBV_WR_RDMA_WRITE, 0, 999999, 2000, 1);
	for (const std::span<std::byte> part :
	     {std::span<std::byte>(heap), std::span<std::byte>(stack)}) {
		fill_pattern(part, 6);
		ASSERT_EQ(post(pair_->a,
			       {.op = IBV_WR_RDMA_WRITE,
				.sges = {{reinterpret_cast<uintptr_t>(part.data()),
					  static_cast<uint32_t>(part.size()), local_.mr->lkey}},
				.remote_addr = remote_.address(),
				.rkey = remote_.mr->rkey}),
			  0);
		expect_wc(pair_->a.scq);
		EXPECT_TRUE(has_pattern(remote_.bytes(0, part.size()), 6));
	}
}

TEST_F(Implicit, AddressesWithoutMemoryAreAccessErrors)
{
	unmap(remote_);
	for (uint64_t address : {remote_.address(), uint64_t{0}, uint64_t{1} << 47,
				 uint64_t{1} << 63, ~uint64_t{0} - page}) {
		ASSERT_EQ(post(pair_->a, {.op = IBV_WR_RDMA_WRITE,
					  .sges = {local_.sge(0, 64)},
					  .remote_addr = address,
					  .rkey = remote_.mr->rkey}),
			  0);
		expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
		connect_again();
		ASSERT_EQ(post(pair_->a, {.sges = {{address, 64, local_.mr->lkey}}}), 0);
		expect_wc(pair_->a.scq, IBV_WC_LOC_PROT_ERR);
		connect_again();
	}
	map_again(remote_);
	move(IBV_WR_RDMA_WRITE, 0, 0, 8 * page, 2);
}

TEST_F(Implicit, MayHaveWindows)
{
	for (ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
		const Mw mw(ibv_alloc_mw(pair_->b.pd, type));
		ASSERT_TRUE(mw);
		local_.fill(10 + type);
		windows::expect_bound(pair_->b, mw.get(), remote_,
				      {.from = page + 9, .length = 2 * page});
		for (size_t beyond : {0, 1}) {
			ASSERT_EQ(post(pair_->a, {.op = IBV_WR_RDMA_WRITE,
						  .sges = {local_.sge(0, 2 * page)},
						  .remote_addr = remote_.address(page + 9 + beyond),
						  .rkey = mw->rkey}),
				  0);
			expect_wc(pair_->a.scq, beyond ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
		}
		EXPECT_TRUE(has_pattern(remote_.bytes(page + 9, 2 * page), 10 + type));
		connect_again();
	}
}

TEST_F(Implicit, TakesAdvice)
{
	const auto advise = [&](uint64_t address) {
		ibv_sge sge = {address, page, remote_.mr->lkey};

		return ibv_advise_mr(pair_->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
	};
	unsigned char is = 0;

	drop(remote_);
	EXPECT_EQ(advise(remote_.address(3 * page)), 0);
	EXPECT_EQ(mincore(remote_.memory.data() + 3 * page, page, &is), 0);
	EXPECT_TRUE(is & 1);
	EXPECT_EQ(advise(0), EFAULT);
	EXPECT_EQ(advise(~uint64_t{0} - 5), EFAULT);
}

// Parts of 2 MiB and more, whose page lists come and go with them
TEST_F(Implicit, MappedPartsAreUsedWhileOthersComeAndGo)
{
	for (Region *region : {&local_, &remote_})
		region->memory = Mapping::anonymous(size_t{16} * 3 << 20, apart);
	ASSERT_TRUE(local_.memory && remote_.memory);
	use_mapped_parts(3 << 20, 150);
}

// One page of each of so many parts that their page lists, 4 KiB for each 2 MiB, are more than the user of a kernel device may have
// at once: pages for as much memory as the machine has. Those of other parts make room, and no byte is lost.
TEST_F(Implicit, PagesFarApartAreMoreThanTheirPageListsMayBe)
{
	constexpr size_t part = 2 << 20;
	struct sysinfo info = {};
	ASSERT_EQ(sysinfo(&info), 0);
	const size_t parts = info.totalram * info.mem_unit / part * 9 / 8;

	if (parts > 20000)
		GTEST_SKIP() << "the machine has much memory: " << parts << " parts";
	local_.memory = Mapping::anonymous(page);
	remote_.memory = Mapping::anonymous(parts * part, MAP_NORESERVE);
	ASSERT_TRUE(local_.memory && remote_.memory);
	// EINVAL: the kernel has no such pages
	ASSERT_TRUE(!madvise(remote_.memory.data(), parts * part, MADV_NOHUGEPAGE) ||
		    errno == EINVAL);
	const auto place = [&](size_t i) { return i * part + i * page % part + i % 1000; };
	for (size_t i = 0; i < parts && !HasFailure(); i++)
		move(IBV_WR_RDMA_WRITE, i % 100, place(i), 64, i);
	for (size_t i = 0; i < parts; i++)
		ASSERT_TRUE(has_pattern(remote_.bytes(place(i), 64), i)) << i;
	for (size_t i = 0; i < parts && !HasFailure(); i += 1 + i % 32) {
		ASSERT_EQ(start(IBV_WR_RDMA_READ, 0, place(i), 64), 0);
		expect_wc(pair_->a.scq);
		ASSERT_TRUE(has_pattern(local_.bytes(0, 64), i)) << i;
	}
}

// A region ends while advice brings its pages and the program takes them away.
TEST_F(Implicit, MayEndWhileItsPagesComeAndGo)
{
	constexpr size_t part = 2 << 20, size = 4 * part;
	const Mapping memory = Mapping::anonymous(size);
	std::atomic<bool> stop{false};
	std::atomic<uint32_t> lkey{remote_.mr->lkey};

	ASSERT_TRUE(memory);
	std::thread adviser([&] {
		for (unsigned i = 0; !stop; i++) {
			ibv_sge sge = {memory.address(i % 4 * part), part, lkey};
			const int err =
				ibv_advise_mr(pair_->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					      i % 2 ? IBV_ADVISE_MR_FLAG_FLUSH : 0, &sge, 1);
			EXPECT_TRUE(!err || err == ENOENT) << std::strerror(err);
		}
	});
	std::thread dropper([&] {
		for (unsigned i = 0; !stop; i++)
			madvise(memory.data() + i % 4 * part, part, MADV_DONTNEED);
	});
	for (unsigned i = 0; i < 200; i++) {
		const Mr mr(ibv_reg_mr(pair_->b.pd, nullptr, SIZE_MAX, access_));
		EXPECT_TRUE(mr);
		if (!mr)
			break;
		lkey = mr->lkey;
		ibv_sge sge = {memory.address(i % 4 * part), page, mr->lkey};
		EXPECT_EQ(ibv_advise_mr(pair_->b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			  0);
	}
	stop = true;
	adviser.join();
	dropper.join();
	move(IBV_WR_RDMA_WRITE, 0, 0, 8 * page, 1);
}

// A message over parts of the address space that have no page list yet, one of which has no memory
TEST_F(Implicit, LongMessagesCrossParts)
{
	constexpr size_t size = 9 << 20;

	for (Region *region : {&local_, &remote_})
		region->memory = Mapping::anonymous(size, apart);
	ASSERT_TRUE(local_.memory && remote_.memory);
	for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
		move(op, 100, 4000, size - page, op);
		drop(remote_);
	}
	take(remote_.memory.data() + (5 << 20), page);
	ASSERT_EQ(start(IBV_WR_RDMA_WRITE, 0, 0, size), 0);
	expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
	connect_again();
	move(IBV_WR_RDMA_WRITE, 0, 0, 4 << 20, 9);
}

TEST_F(Implicit, DoesNotChange)
{
	for (int access : {all_access, on_demand}) {
		EXPECT_NE(ibv_rereg_mr(remote_.mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr,
				       nullptr, 0, access),
			  0);
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	move(IBV_WR_RDMA_WRITE, 0, 0, 8 * page, 3);
}

TEST_F(Implicit, BeginsAtAddressZero)
{
	errno = 0;
	const Mr moved(ibv_reg_mr_iova(pair_->b.pd, nullptr, SIZE_MAX, page, on_demand));
	EXPECT_FALSE(moved);
	EXPECT_EQ(errno, EINVAL);
}

} // namespace
} // namespace verbs::odp
