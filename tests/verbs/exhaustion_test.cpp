// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A device whose objects are all taken says ENOMEM, and goes on as before when one comes back.
#include "datagram.hpp"
#include "fixture.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace verbs
{
namespace
{

constexpr size_t reserved = 16; // what a device may keep of its numbers

class Exhaustion : public VerbsTest {
protected:
	void SetUp() override
	{
		if (!options().exhaust)
			GTEST_SKIP() << "the device was not made small for this (--exhaust 1)";
		VerbsTest::SetUp();
		pd_.reset(ibv_alloc_pd(device().context.get()));
		cq_.reset(ibv_create_cq(device().context.get(), 64, nullptr, nullptr, 0));
		ASSERT_TRUE(pd_ && cq_);
	}

	// Makes objects until there are no more of the `limit` the device reports, twice.
	template <typename Owner, typename Make> static void use_up(size_t limit, Make make)
	{
		for (int round = 0; round < 2; round++) {
			std::vector<Owner> all;
			Owner one;
			errno = 0;
			while (all.size() <= limit && (one = make()))
				all.push_back(std::move(one));
			EXPECT_EQ(errno, ENOMEM) << std::strerror(errno);
			EXPECT_LE(all.size(), limit);
			EXPECT_GE(all.size() + reserved, limit);
			all.pop_back();
			one = make();
			EXPECT_TRUE(one) << "what was given back can be had again";
		}
	}

	Pd pd_;
	Cq cq_;
};

TEST_F(Exhaustion, QueuePairs)
{
	use_up<Qp>(static_cast<size_t>(device().attr.max_qp), [this] {
		ibv_qp_init_attr init = {};
		init.qp_type = IBV_QPT_RC;
		init.send_cq = init.recv_cq = cq_.get();
		init.cap.max_send_wr = init.cap.max_recv_wr = 1;
		init.cap.max_send_sge = init.cap.max_recv_sge = 1;
		return Qp(ibv_create_qp(pd_.get(), &init));
	});
}

TEST_F(Exhaustion, CompletionQueues)
{
	use_up<Cq>(static_cast<size_t>(device().attr.max_cq), [] {
		return Cq(ibv_create_cq(device().context.get(), 16, nullptr, nullptr, 0));
	});
}

TEST_F(Exhaustion, ProtectionDomains)
{
	use_up<Pd>(static_cast<size_t>(device().attr.max_pd),
		   [] { return Pd(ibv_alloc_pd(device().context.get())); });
}

TEST_F(Exhaustion, Regions)
{
	const Mapping memory = Mapping::anonymous(4096);
	use_up<Mr>(static_cast<size_t>(device().attr.max_mr),
		   [&] { return Mr(ibv_reg_mr(pd_.get(), memory.data(), 4096, all_access)); });
}

std::vector<Ah> take_all_ahs(const Device &of, ibv_pd *pd)
{
	ibv_ah_attr attr = address_of(of, of.gid);
	std::vector<Ah> all;
	Ah one;
	errno = 0;
	while (all.size() < 1u << 20 && (one = Ah(ibv_create_ah(pd, &attr))))
		all.push_back(std::move(one));
	EXPECT_EQ(errno, ENOMEM) << std::strerror(errno);
	return all;
}

// How many address handles of the device another user can make: the group and user nobody in a process of its own.
size_t ahs_of_another_user(const Device &device)
{
	constexpr uid_t nobody = 65534;
	size_t count = 0;
	int ends[2] = {}, status = -1;

	EXPECT_EQ(pipe(ends), 0);
	const pid_t child = fork();
	if (!child) {
		if (setgid(nobody) || setuid(nobody))
			_exit(1);
		const auto own = Device::open(device.name, {device.gid_index, 4});
		const Pd pd(own ? ibv_alloc_pd(own->context.get()) : nullptr);
		if (!pd)
			_exit(2);
		count = take_all_ahs(*own, pd.get()).size();
		_exit(errno == ENOMEM && write(ends[1], &count, sizeof(count)) == sizeof(count) ?
			      0 :
			      3);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "the other user's process";
	if (!status) {
		EXPECT_EQ(read(ends[0], &count, sizeof(count)), ssize_t{sizeof(count)});
	}
	close(ends[0]);
	close(ends[1]);
	return count;
}

// One user cannot take the address handles that another one needs, however many contexts it opens.
TEST_F(Exhaustion, AddressHandles)
{
	if (getuid())
		GTEST_SKIP() << "only root can become another user";
	const auto limit = static_cast<size_t>(device().attr.max_ah);
	auto other = Device::open(device().name, {device().gid_index, 4});
	ASSERT_TRUE(other);
	const Pd other_pd(ibv_alloc_pd(other->context.get()));
	ASSERT_TRUE(other_pd);

	for (int round = 0; round < 2; round++) {
		std::vector<Ah> first = take_all_ahs(device(), pd_.get());
		EXPECT_LE(first.size(), limit);
		EXPECT_GE(first.size() + reserved, limit);
		EXPECT_EQ(take_all_ahs(*other, other_pd.get()).size(), 0u) << "of the same user";
		EXPECT_GE(ahs_of_another_user(device()) + reserved, limit / 2);
		first.resize(first.size() / 2);
		std::vector<Ah> second = take_all_ahs(*other, other_pd.get());
		EXPECT_GE(first.size() + second.size() + reserved, limit);
		EXPECT_LE(first.size() + second.size(), limit);
		second.clear();
		ibv_ah_attr attr = address_of(device(), device().gid);
		first.emplace_back(ibv_create_ah(pd_.get(), &attr));
		EXPECT_TRUE(first.back()) << "what was given back can be had again";
	}
}

// Scattered pages of much address space: the lists of their addresses fill what the device has for them.
TEST_F(Exhaustion, PageLists)
{
	constexpr size_t length = size_t{256} << 20, limit = 64;
	const Mapping memory = Mapping::aliased(length, 16 << 20);
	ASSERT_TRUE(memory);
	for (int round = 0; round < 2; round++) {
		std::vector<Mr> all;
		Mr one;
		errno = 0;
		while (all.size() <= limit &&
		       (one = Mr(ibv_reg_mr(pd_.get(), memory.data(), length, all_access))))
			all.push_back(std::move(one));
		EXPECT_EQ(errno, ENOMEM) << std::strerror(errno);
		ASSERT_GE(all.size(), 1u);
		EXPECT_LT(all.size(), limit);
		const Mr small(ibv_reg_mr(pd_.get(), memory.data(), 4096, all_access));
		EXPECT_TRUE(small) << "one page needs no list";
		all.pop_back();
		one.reset(ibv_reg_mr(pd_.get(), memory.data(), length, all_access));
		EXPECT_TRUE(one) << "what was given back can be had again";
	}
}

} // namespace
} // namespace verbs
