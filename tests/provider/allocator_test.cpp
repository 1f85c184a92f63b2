/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rings in memory that the application's allocator gives: parent domains with
 * ibv_parent_domain_init_attr::alloc.
 */
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "lifecycle.hpp"
#include "pd.hpp"
#include "qp.hpp"

namespace sirdma::test
{

namespace
{

class Allocator : public WithCq {
protected:
	struct Given {
		size_t size;
		uint64_t kind;
	};

	void SetUp() override
	{
		WithCq::SetUp();
		ibv_parent_domain_init_attr attr{};
		attr.pd = pd;
		attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
				 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
		attr.alloc = give;
		attr.free = take;
		attr.pd_context = this;
		parent = alloc_parent_domain(context_, &attr);
		ASSERT_TRUE(parent);
	}

	void TearDown() override
	{
		EXPECT_TRUE(given.empty());
		EXPECT_EQ(dealloc_pd(parent), 0);
		WithCq::TearDown();
	}

	static void *give(ibv_pd *domain, void *context, size_t size, size_t alignment,
			  uint64_t kind)
	{
		auto &test = *static_cast<Allocator *>(context);

		EXPECT_EQ(domain, test.parent);
		EXPECT_EQ(alignment, hw_page_size);
		EXPECT_EQ(size % hw_page_size, 0u);
		if (test.answer != Answer::memory)
			return test.answer == Answer::none ? nullptr : IBV_ALLOCATOR_USE_DEFAULT;
		auto *base = static_cast<uint8_t *>(std::aligned_alloc(alignment, size));
		std::fill_n(base, size, uint8_t{0xee});
		base += test.offset;
		test.given[base] = {size, kind};
		return base;
	}

	static void take(ibv_pd *domain, void *context, void *base, uint64_t kind)
	{
		auto &test = *static_cast<Allocator *>(context);

		EXPECT_EQ(domain, test.parent);
		ASSERT_TRUE(test.given.count(base));
		EXPECT_EQ(test.given[base].kind, kind);
		test.given.erase(base);
		errno = EBADF;
		std::free(static_cast<uint8_t *>(base) - test.offset);
	}

	/* The one buffer that is out, if it is of that kind and the device was told of it. */
	void *only(RingKind kind)
	{
		if (given.size() != 1 ||
		    given.begin()->second.kind != static_cast<uint64_t>(kind) ||
		    !registered_at(reinterpret_cast<uintptr_t>(given.begin()->first)))
			return nullptr;
		return given.begin()->first;
	}

	ibv_cq *create_cq_in_parent()
	{
		ibv_cq_init_attr_ex attr{};

		attr.cqe = 10;
		attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
		attr.parent_domain = parent;
		ibv_cq_ex *ex = create_cq_ex(context_, &attr);
		return ex ? ibv_cq_ex_to_cq(ex) : nullptr;
	}

	enum class Answer { memory, none, use_default };

	ibv_pd *parent = nullptr;
	std::map<void *, Given> given;
	Answer answer = Answer::memory;
	size_t offset = 0;
};

TEST_F(Allocator, GivesTheRingsOfAQueuePair)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(parent, &init);

	ASSERT_TRUE(qp);
	const auto *ring = static_cast<const uint8_t *>(only(RingKind::qp));
	ASSERT_TRUE(ring);
	EXPECT_EQ(driver.qp_request.user_wqe_bufs, reinterpret_cast<uintptr_t>(ring));
	EXPECT_EQ(ring[0], 0) << "rings begin as zeros";
	EXPECT_EQ(dealloc_pd(parent), EBUSY);
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(Allocator, GivesTheRingsOfASharedReceiveQueue)
{
	ibv_srq_init_attr attr{.srq_context = nullptr,
			       .attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0}};
	ibv_srq *srq = create_srq(parent, &attr);

	ASSERT_TRUE(srq);
	EXPECT_TRUE(only(RingKind::srq));
	EXPECT_EQ(destroy_srq(srq), 0);
}

TEST_F(Allocator, GivesTheRingOfACqAndItsNextOne)
{
	ibv_cq *own = create_cq_in_parent();

	ASSERT_TRUE(own);
	const void *first = only(RingKind::cq);
	EXPECT_TRUE(first);
	ASSERT_EQ(resize_cq(own, 1000), 0);
	EXPECT_TRUE(only(RingKind::cq));
	EXPECT_NE(only(RingKind::cq), first);
	answer = Answer::none;
	EXPECT_EQ(resize_cq(own, 10), ENOMEM);
	EXPECT_TRUE(only(RingKind::cq));
	EXPECT_EQ(destroy_cq(own), 0);
}

TEST_F(Allocator, IsNotAskedToFreeWhatItDidNotGive)
{
	answer = Answer::use_default;
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(parent, &init);
	ibv_cq *own = create_cq_in_parent();

	ASSERT_TRUE(qp && own);
	EXPECT_EQ(destroy_qp(qp), 0);
	EXPECT_EQ(destroy_cq(own), 0);
}

TEST_F(Allocator, StaysWhileACqMayAskItAgain)
{
	answer = Answer::use_default;
	ibv_cq *own = create_cq_in_parent();

	ASSERT_TRUE(own);
	EXPECT_EQ(dealloc_pd(parent), EBUSY);
	answer = Answer::memory;
	ASSERT_EQ(resize_cq(own, 1000), 0);
	EXPECT_TRUE(only(RingKind::cq));
	EXPECT_EQ(destroy_cq(own), 0);
}

TEST_F(Allocator, IsNotAskedOnceItsDomainIsGone)
{
	ibv_parent_domain_init_attr without{};
	without.pd = pd;
	ibv_pd *other = alloc_parent_domain(context_, &without);
	ASSERT_TRUE(other);
	ibv_cq_init_attr_ex attr{};
	attr.cqe = 10;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	attr.parent_domain = other;
	ibv_cq_ex *ex = create_cq_ex(context_, &attr);
	ASSERT_TRUE(ex);
	ASSERT_EQ(dealloc_pd(other), 0);
	EXPECT_EQ(resize_cq(ibv_cq_ex_to_cq(ex), 1000), 0);
	EXPECT_EQ(destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

TEST_F(Allocator, WithoutMemoryNothingIsMade)
{
	ibv_qp_init_attr init = qp_attr(cq);

	answer = Answer::none;
	EXPECT_FALSE(create_qp(parent, &init));
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_FALSE(create_cq_in_parent());
	EXPECT_EQ(errno, ENOMEM);
	answer = Answer::memory;
	driver.failing = "create_qp";
	EXPECT_FALSE(create_qp(parent, &init));
	EXPECT_EQ(errno, ENOMEM) << "not what free() left there";
	EXPECT_TRUE(given.empty());
	driver.failing.clear();
}

TEST_F(Allocator, MustGiveWholePages)
{
	ibv_qp_init_attr init = qp_attr(cq);

	offset = 64;
	EXPECT_FALSE(create_qp(parent, &init));
	EXPECT_EQ(errno, EINVAL);
	EXPECT_TRUE(given.empty());
}

TEST_F(Allocator, IsAPairOfFunctions)
{
	ibv_parent_domain_init_attr attr{};

	attr.pd = pd;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	attr.alloc = give;
	EXPECT_FALSE(alloc_parent_domain(context_, &attr));
	EXPECT_EQ(errno, EINVAL);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT << 1;
	EXPECT_FALSE(alloc_parent_domain(context_, &attr));
	EXPECT_EQ(errno, EOPNOTSUPP);
}

} // namespace

} // namespace sirdma::test
