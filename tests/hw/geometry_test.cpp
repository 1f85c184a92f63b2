/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sizes that libraries of the irdma interface and their driver agree on.
 */
#include <gtest/gtest.h>

#include <sirdma/cqe.h>
#include <sirdma/geometry.h>

namespace
{

constexpr uint32_t min_wqes = SIRDMA_MIN_WQ_QUANTA;
constexpr uint32_t max_quanta = SIRDMA_MAX_WQ_QUANTA;

TEST(Geometry, ShiftFollowsFragmentsAndInline)
{
	EXPECT_EQ(sirdma_wqe_shift(0, 0), 0u);
	EXPECT_EQ(sirdma_wqe_shift(1, 0), 0u);
	EXPECT_EQ(sirdma_wqe_shift(1, 8), 0u);
	EXPECT_EQ(sirdma_wqe_shift(1, 9), 1u);
	EXPECT_EQ(sirdma_wqe_shift(2, 0), 1u);
	EXPECT_EQ(sirdma_wqe_shift(3, 39), 1u);
	EXPECT_EQ(sirdma_wqe_shift(3, 40), 2u);
	EXPECT_EQ(sirdma_wqe_shift(4, 0), 2u);
	EXPECT_EQ(sirdma_wqe_shift(7, 101), 2u);
	EXPECT_EQ(sirdma_wqe_shift(8, 0), 3u);
	EXPECT_EQ(sirdma_wqe_shift(14, 101), 3u);
}

TEST(Geometry, LargestRequestOfAShiftFitsIt)
{
	for (uint32_t sge = 0; sge <= SIRDMA_MAX_SGE; ++sge) {
		for (uint32_t bytes = 0; bytes <= SIRDMA_MAX_INLINE; ++bytes) {
			const uint32_t quanta = 1u << sirdma_sq_shift(sge, bytes);

			EXPECT_LE(sirdma_frag_quanta(sge + 1), quanta) << sge << " " << bytes;
			EXPECT_LE(sirdma_inline_quanta(bytes), quanta) << sge << " " << bytes;
			EXPECT_LE(quanta, uint32_t{SIRDMA_MAX_WQE_QUANTA});
		}
	}
}

/* What a WQE holds beyond what was asked for can be granted: the shift stays. */
TEST(Geometry, InlineRoomFillsTheShift)
{
	EXPECT_EQ(sirdma_inline_room(0), 8u);
	EXPECT_EQ(sirdma_inline_room(1), 39u);
	for (uint32_t sge = 0; sge <= SIRDMA_MAX_SGE; ++sge) {
		for (uint32_t bytes = 0; bytes <= SIRDMA_MAX_INLINE; ++bytes) {
			const uint32_t shift = sirdma_sq_shift(sge, bytes);
			const uint32_t room = sirdma_inline_room(shift);

			EXPECT_GE(room, bytes);
			EXPECT_LE(room, uint32_t{SIRDMA_MAX_INLINE});
			EXPECT_EQ(sirdma_sq_shift(sge, room), shift) << sge << " " << bytes;
		}
	}
}

/* The ring is the least power of two that holds the requests and the reserve. */
TEST(Geometry, RingHoldsWhatWasAskedForAndNoMore)
{
	for (uint32_t shift = 0; shift <= 3; ++shift) {
		for (uint32_t wrs = 0; wrs <= max_quanta; wrs = wrs * 9 / 8 + 1) {
			const uint64_t need = (uint64_t{wrs} << shift) + SIRDMA_SQ_RSVD_QUANTA;
			const uint32_t quanta = sirdma_sq_quanta(wrs, shift, min_wqes, max_quanta);

			if (need > max_quanta) {
				EXPECT_EQ(quanta, 0u) << wrs << " " << shift;
				continue;
			}
			EXPECT_GE(quanta, need);
			EXPECT_EQ(quanta & (quanta - 1), 0u);
			EXPECT_TRUE(quanta / 2 < need || quanta == min_wqes << shift);
			EXPECT_GE(sirdma_sq_wrs(quanta, shift), wrs);
		}
	}
}

TEST(Geometry, ReceiveRingKeepsOneRequestFree)
{
	EXPECT_EQ(sirdma_rq_quanta(0, 0, min_wqes, max_quanta), 8u);
	EXPECT_EQ(sirdma_rq_quanta(7, 0, min_wqes, max_quanta), 8u);
	EXPECT_EQ(sirdma_rq_quanta(8, 0, min_wqes, max_quanta), 16u);
	EXPECT_EQ(sirdma_rq_quanta(15, 3, min_wqes, max_quanta), 128u);
	EXPECT_EQ(sirdma_rq_wrs(128, 3), 15u);
	EXPECT_EQ(sirdma_rq_quanta(max_quanta - 1, 0, min_wqes, max_quanta), max_quanta);
	EXPECT_EQ(sirdma_rq_quanta(max_quanta, 0, min_wqes, max_quanta), 0u);
	EXPECT_EQ(sirdma_rq_quanta(UINT32_MAX, 3, min_wqes, max_quanta), 0u);
}

/* Hardware's limits need not be powers of two. */
TEST(Geometry, LimitsOfHardwareAreRespected)
{
	EXPECT_EQ(sirdma_rq_quanta(1, 1, 5, max_quanta), 16u);
	EXPECT_EQ(sirdma_rq_quanta(600, 0, 8, 1000), 0u);
	EXPECT_EQ(sirdma_sq_quanta(SIRDMA_MAX_QP_WR, 3, min_wqes, max_quanta), max_quanta);
}

TEST(Geometry, PagesAreTheDevices)
{
	EXPECT_EQ(sirdma_wq_pages(1), 1u);
	EXPECT_EQ(sirdma_wq_pages(128), 1u);
	EXPECT_EQ(sirdma_wq_pages(129), 2u);
	EXPECT_EQ(sirdma_wq_pages(max_quanta), 256u);
}

TEST(Geometry, SmallestCompletionQueueHoldsOneCompletion)
{
	EXPECT_EQ(sirdma_cq_elements(1), uint64_t{SIRDMA_MIN_CQ_ELEMENTS});
	EXPECT_EQ(sirdma_cq_completions(SIRDMA_MIN_CQ_ELEMENTS), 1u);
}

TEST(Geometry, RingsBeginAtPagesOfTheirOwn)
{
	const sirdma_qp_places small = sirdma_qp_layout(8, 8, false);
	const sirdma_qp_places large = sirdma_qp_layout(max_quanta, 256, false);
	const sirdma_qp_places shared = sirdma_qp_layout(256, 0, false);

	EXPECT_EQ(small.rq, 4096u);
	EXPECT_EQ(small.shadow, 8192u);
	EXPECT_EQ(small.end, 8192u + SIRDMA_SHADOW_SIZE);
	EXPECT_EQ(large.rq, 256u * 4096);
	EXPECT_EQ(large.shadow, 258u * 4096);
	EXPECT_EQ(shared.rq, 8192u);
	EXPECT_EQ(shared.shadow, 8192u) << "there is no receive queue";
}

/* A provider may register more than the rings take; the shadow area is behind all of it. */
TEST(Geometry, RegisteredPagesSayWhereRingsAre)
{
	const sirdma_qp_places places = sirdma_qp_layout_registered(3, 2);

	EXPECT_EQ(places.rq, 3u * 4096);
	EXPECT_EQ(places.shadow, 5u * 4096);
	EXPECT_EQ(places.end, 5u * 4096 + SIRDMA_SHADOW_SIZE);
}

TEST(Geometry, RingsInAPoolFollowEachOther)
{
	const sirdma_qp_places places = sirdma_qp_layout(16, 8, true);

	EXPECT_EQ(places.rq, 16u * SIRDMA_QUANTUM);
	EXPECT_EQ(places.shadow, 24u * SIRDMA_QUANTUM);
	EXPECT_EQ(places.end, 24u * SIRDMA_QUANTUM + SIRDMA_SHADOW_SIZE);
}

} // namespace
