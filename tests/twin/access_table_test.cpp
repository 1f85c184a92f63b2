/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The check of one-sided requests in the table of their target, against each rule of the responder. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "access_table.hpp"

namespace sirdma::twin::test
{

namespace
{

constexpr u32 slot = 5;
constexpr u32 qpn = first_qpn_of(slot) + 17;
constexpr u32 pd = 3;
constexpr u32 stag = 0x1234ab;
constexpr u32 both = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE;
constexpr uint64_t base = 0x10000, length = 0x2000, start = 0x7f0000001000;

class AccessTableTest : public ::testing::Test {
protected:
	void SetUp() override
	{
		table = AccessTable::create(first_qpn_of(slot));
		ASSERT_TRUE(table);
		ASSERT_TRUE(view.map(table->fd()));
		table->open_qp(qpn, pd, both);
		table->open_region(region);
	}

	bool accepts(const AccessView::Request &request)
	{
		AccessView::Found found{};
		const bool accepted = view.check(request, found);

		at = found.at;
		number = found.qp_number;
		return accepted;
	}
	bool accepts(uint64_t va, u32 len, u32 right = SIRDMA_ACCESS_REMOTE_WRITE)
	{
		return accepts({.qpn = qpn, .rkey = stag, .va = va, .len = len, .right = right});
	}

	const AccessTable::Region region = {.stag = stag,
					    .pd = pd,
					    .rights = both,
					    .base = base,
					    .length = length,
					    .start = start};
	std::unique_ptr<AccessTable> table;
	AccessView view;
	uint64_t at = 0, number = 0;
	bool mappable = false;
};

} // namespace

TEST_F(AccessTableTest, TranslatesWhatItAccepts)
{
	EXPECT_TRUE(accepts(base, 1));
	EXPECT_EQ(at, start);
	EXPECT_TRUE(accepts(base + 100, 64, SIRDMA_ACCESS_REMOTE_READ));
	EXPECT_EQ(at, start + 100);
	EXPECT_TRUE(accepts(base, length));
	EXPECT_TRUE(accepts(base + length - 1, 1));
	EXPECT_EQ(at, start + length - 1);
}

TEST_F(AccessTableTest, RefusesAddressesOutsideOfTheRegion)
{
	EXPECT_FALSE(accepts(base - 1, 1));
	EXPECT_FALSE(accepts(base - 1, 2));
	EXPECT_FALSE(accepts(base + length, 1));
	EXPECT_FALSE(accepts(base + length - 1, 2));
	EXPECT_FALSE(accepts(base, length + 1));
	EXPECT_FALSE(accepts(0, 1));
	EXPECT_FALSE(accepts(~0ull, 1));
	EXPECT_FALSE(accepts(~0ull, 2));
	EXPECT_FALSE(accepts(~0ull - 7, 4096));
}

TEST_F(AccessTableTest, RefusesAWrapAtTheEndOfTheAddresses)
{
	constexpr u32 last = stag + 0x100;

	/* The device registers no region that ends beyond the last address. A neighbour's table may. */
	table->open_region({.stag = last,
			    .pd = pd,
			    .rights = both,
			    .base = ~0ull - 99,
			    .length = 200,
			    .start = start});
	EXPECT_TRUE(accepts({.qpn = qpn,
			     .rkey = last,
			     .va = ~0ull - 99,
			     .len = 100,
			     .right = SIRDMA_ACCESS_REMOTE_WRITE}));
	EXPECT_FALSE(accepts({.qpn = qpn,
			      .rkey = last,
			      .va = ~0ull - 99,
			      .len = 101,
			      .right = SIRDMA_ACCESS_REMOTE_WRITE}));
}

TEST_F(AccessTableTest, RefusesAKeyThatIsNotTheRegions)
{
	for (const u32 key :
	     {stag ^ 1, stag ^ 0x80, stag + 0x100, stag + (access_regions << 8), 0u, ~0u})
		EXPECT_FALSE(accepts({.qpn = qpn,
				      .rkey = key,
				      .va = base,
				      .len = 8,
				      .right = SIRDMA_ACCESS_REMOTE_WRITE}))
			<< key;
}

TEST_F(AccessTableTest, AsksTheRightsOfTheRegion)
{
	for (const u32 rights :
	     {0u, u32(SIRDMA_ACCESS_REMOTE_READ), u32(SIRDMA_ACCESS_REMOTE_WRITE),
	      u32(SIRDMA_ACCESS_REMOTE_ATOMIC), both}) {
		AccessTable::Region other = region;

		table->close_region(stag, mappable);
		other.rights = rights | SIRDMA_ACCESS_LOCAL_WRITE | SIRDMA_ACCESS_LOCAL_READ;
		table->open_region(other);
		EXPECT_EQ(accepts(base, 8, SIRDMA_ACCESS_REMOTE_WRITE),
			  !!(rights & SIRDMA_ACCESS_REMOTE_WRITE))
			<< rights;
		EXPECT_EQ(accepts(base, 8, SIRDMA_ACCESS_REMOTE_READ),
			  !!(rights & SIRDMA_ACCESS_REMOTE_READ))
			<< rights;
	}
}

TEST_F(AccessTableTest, AsksTheRightsOfTheQueuePair)
{
	for (const u32 rights :
	     {0u, u32(SIRDMA_ACCESS_REMOTE_READ), u32(SIRDMA_ACCESS_REMOTE_WRITE),
	      u32(SIRDMA_ACCESS_REMOTE_ATOMIC), both}) {
		table->close_qp(qpn);
		table->open_qp(qpn, pd, rights);
		EXPECT_EQ(accepts(base, 8, SIRDMA_ACCESS_REMOTE_WRITE),
			  !!(rights & SIRDMA_ACCESS_REMOTE_WRITE))
			<< rights;
		EXPECT_EQ(accepts(base, 8, SIRDMA_ACCESS_REMOTE_READ),
			  !!(rights & SIRDMA_ACCESS_REMOTE_READ))
			<< rights;
	}
}

TEST_F(AccessTableTest, RefusesARegionOfAnotherProtectionDomain)
{
	table->close_qp(qpn);
	table->open_qp(qpn, pd + 1, both);
	EXPECT_FALSE(accepts(base, 8));
}

TEST_F(AccessTableTest, RefusesWhatIsClosed)
{
	EXPECT_TRUE(table->close_region(stag, mappable));
	EXPECT_FALSE(accepts(base, 8));
	EXPECT_FALSE(table->close_region(stag, mappable));
	table->open_region(region);
	EXPECT_TRUE(accepts(base, 8));
	EXPECT_TRUE(table->close_qp(qpn));
	EXPECT_FALSE(accepts(base, 8));
	EXPECT_FALSE(table->close_qp(qpn));
	for (const u32 other :
	     {qpn - 1, qpn + 1, first_qpn_of(slot), first_qpn_of(slot + 1) - 1, ~0u})
		EXPECT_FALSE(accepts({.qpn = other,
				      .rkey = stag,
				      .va = base,
				      .len = 8,
				      .right = SIRDMA_ACCESS_REMOTE_WRITE}));
}

TEST_F(AccessTableTest, KeepsAQueuePairClosedThatFailed)
{
	table->fail_qp(qpn);
	EXPECT_FALSE(accepts(base, 8));
	/* The failure came before the queue pair was opened. */
	table->open_qp(qpn, pd, both);
	EXPECT_FALSE(accepts(base, 8));
	EXPECT_TRUE(table->close_qp(qpn)) << "an access may have begun before it failed";
	EXPECT_FALSE(table->close_qp(qpn));
	table->open_qp(qpn, pd, both);
	EXPECT_TRUE(accepts(base, 8));
}

TEST_F(AccessTableTest, GivesAQueuePairANewNumberEachTime)
{
	ASSERT_TRUE(accepts(base, 8));

	const uint64_t before = number;

	EXPECT_TRUE(accepts(base, 8));
	EXPECT_EQ(number, before);
	table->close_qp(qpn);
	table->open_qp(qpn, pd, both);
	EXPECT_TRUE(accepts(base, 8));
	EXPECT_GT(number, before);
}

TEST_F(AccessTableTest, TellsThatAThreadWaits)
{
	const uint64_t before = view.header().closes;

	EXPECT_EQ(view.header().waiting, 0u);
	{
		const AccessTable::Closing one(*table), other(*table);

		EXPECT_EQ(view.header().waiting, 2u);
		EXPECT_EQ(view.header().closes, before + 2);
	}
	EXPECT_EQ(view.header().waiting, 0u);
	table->shut();
	EXPECT_EQ(view.header().waiting, 1u);
}

/* Its requests are sent. */
TEST_F(AccessTableTest, HasNoEntryForARegionWhosePlaceIsTaken)
{
	AccessTable::Region other = region;

	other.stag = stag + (access_regions << 8);
	table->open_region(other);
	EXPECT_FALSE(accepts({.qpn = qpn,
			      .rkey = other.stag,
			      .va = base,
			      .len = 8,
			      .right = SIRDMA_ACCESS_REMOTE_WRITE}));
	EXPECT_TRUE(accepts(base, 8));
	EXPECT_FALSE(table->close_region(other.stag, mappable));
	EXPECT_TRUE(accepts(base, 8));
}

TEST_F(AccessTableTest, GivesNoAddressThatIsNone)
{
	for (const uint64_t wrong : {~0ull, ~0ull - 4096, 1ull << 63, (1ull << 63) - 8}) {
		AccessTable::Region other = region;

		table->close_region(stag, mappable);
		other.start = wrong;
		table->open_region(other);
		EXPECT_FALSE(accepts(base + 8, 8)) << wrong;
	}
}

TEST_F(AccessTableTest, CannotBeWrittenByNeighbours)
{
	char path[64];

	EXPECT_EQ(mmap(nullptr, sizeof(AccessMap), PROT_READ | PROT_WRITE, MAP_SHARED, table->fd(),
		       0),
		  MAP_FAILED);
	EXPECT_LT(pwrite(table->fd(), "x", 1, 0), 0);
	EXPECT_NE(ftruncate(table->fd(), 4096), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", table->fd());

	const int file = open(path, O_RDWR | O_CLOEXEC);

	if (file >= 0) {
		EXPECT_LT(pwrite(file, "x", 1, 0), 0);
		close(file);
	}
}

TEST_F(AccessTableTest, IsNotMappedFromAFileThatIsNone)
{
	const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	AccessView other;

	ASSERT_GE(file, 0);
	EXPECT_FALSE(other.map(file)) << "no seals, no length";
	ASSERT_EQ(ftruncate(file, sizeof(AccessMap)), 0);
	EXPECT_FALSE(other.map(file)) << "no seals";
	ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	EXPECT_TRUE(other.map(file));
	close(file);
	EXPECT_FALSE(other.map(STDIN_FILENO));
}

} // namespace sirdma::twin::test
