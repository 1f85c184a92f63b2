/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rings of shared memory: order, wrapping, both sides at once, and a writer gone mad. */
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fd.hpp"
#include "shm_ring.hpp"

namespace sirdma::twin::test
{

namespace
{

class ShmRing : public ::testing::Test {
protected:
	ShmRing()
	{
		pair_ = RingPair::create(fd_);
		file_ = Fd(fd_);
		writer_ = pair_.writer(0);
		reader_ = pair_.reader(0);
	}

	/* A record that is a function of its number, shown unless more follow. */
	bool put(uint32_t number, uint32_t len, bool more = false)
	{
		uint8_t *at = writer_.reserve(len);

		if (!at) {
			writer_.publish();
			return false;
		}
		for (uint32_t i = 0; i < len; ++i)
			at[i] = static_cast<uint8_t>(number + i * 31);
		writer_.commit({.len = len, .kind = 1, .flags = static_cast<uint16_t>(number)});
		if (!more)
			writer_.publish();
		return true;
	}

	/* The next record is @number; false when there is none. */
	bool get(uint32_t number, uint32_t len)
	{
		RecordHead head;
		const uint8_t *at = reader_.peek(head);
		uint32_t wrong = 0;

		if (!at)
			return false;
		EXPECT_EQ(head.len, len);
		EXPECT_EQ(head.flags, static_cast<uint16_t>(number));
		for (uint32_t i = 0; i < len; ++i)
			wrong += at[i] != static_cast<uint8_t>(number + i * 31);
		EXPECT_EQ(wrong, 0u) << "record " << number;
		reader_.next();
		return true;
	}

	/* Returns false if there is a record after all. */
	bool fall_asleep()
	{
		reader_.fall_asleep();
		smp_mb();
		return !reader_.waiting();
	}

	/* Bytes of the file that have memory. */
	size_t resident() const
	{
		struct stat st;

		return fstat(fd_, &st) ? 0 : static_cast<size_t>(st.st_blocks) * 512;
	}

	int fd_ = -1;
	RingPair pair_;
	Fd file_;
	RingWriter writer_;
	RingReader reader_;
};

uint32_t length_of(uint32_t number)
{
	/* Small ones mostly, some of many lines, some that cross the end. */
	const uint32_t mixed = number * 2654435761u;

	return mixed % 8 ? 1 + mixed % 200 : 1 + mixed % 9000;
}

} // namespace

TEST_F(ShmRing, IsEmptyAtFirst)
{
	RecordHead head;

	ASSERT_TRUE(pair_);
	EXPECT_EQ(reader_.peek(head), nullptr);
	EXPECT_FALSE(reader_.waiting());
	EXPECT_FALSE(reader_.broken());
}

TEST_F(ShmRing, KeepsOrderOverManyLaps)
{
	uint32_t in = 0, out = 0;

	while (out < 20000) {
		while (in < 20000 && put(in, length_of(in)))
			++in;
		while (out < in && get(out, length_of(out)))
			++out;
		reader_.release();
	}
	EXPECT_FALSE(reader_.waiting());
}

TEST_F(ShmRing, FillsAndTellsWhenThereIsRoom)
{
	uint32_t n = 0;

	while (put(n, 1000))
		++n;
	EXPECT_GT(n * record_size(1000), ring_bytes - 2 * record_size(1000));
	EXPECT_FALSE(writer_.want_room(1000));
	EXPECT_FALSE(reader_.release()) << "nothing was read";
	ASSERT_TRUE(get(0, 1000));
	EXPECT_TRUE(reader_.release()) << "the writer waits";
	EXPECT_TRUE(put(n, 1000));
}

TEST_F(ShmRing, ShowsTogetherWhatIsPublishedTogether)
{
	for (uint32_t lap = 0; lap < 500; ++lap) {
		for (uint32_t n = 0; n < 5; ++n) {
			ASSERT_TRUE(put(lap + n, length_of(lap + n), true));
			ASSERT_FALSE(reader_.waiting()) << "lap " << lap;
		}
		EXPECT_GE(writer_.unpublished(), 5 * ring_align);
		writer_.publish();
		EXPECT_EQ(writer_.unpublished(), 0u);
		for (uint32_t n = 0; n < 5; ++n)
			ASSERT_TRUE(get(lap + n, length_of(lap + n)));
		ASSERT_FALSE(reader_.waiting()) << "lap " << lap;
		reader_.release();
	}
}

TEST_F(ShmRing, WakesASleepingReaderOnce)
{
	ASSERT_TRUE(put(0, 8));
	EXPECT_FALSE(writer_.must_wake()) << "it is awake";
	EXPECT_FALSE(fall_asleep()) << "something waits";
	ASSERT_TRUE(get(0, 8));
	EXPECT_TRUE(fall_asleep());
	ASSERT_TRUE(put(1, 8));
	EXPECT_TRUE(writer_.must_wake());
	ASSERT_TRUE(put(2, 8));
	EXPECT_FALSE(writer_.must_wake());
}

/* After each number of laps and parts of one, the ring gives all but one page back, and goes on. */
TEST_F(ShmRing, GivesMemoryBackWhenIdle)
{
	constexpr size_t page = 4096;
	uint32_t n = 0, m = 0;

	for (const uint32_t records : {1u, 40u, 300u, 2000u, 3u, 1000u, 0u}) {
		for (uint32_t i = 0; i < records; ++i) {
			ASSERT_TRUE(put(n, length_of(n)));
			writer_.fetch_next_line();
			++n;
			EXPECT_FALSE(writer_.trim()) << "the reader has not read it";
			ASSERT_TRUE(get(m, length_of(m)));
			++m;
			EXPECT_FALSE(writer_.trim()) << "the reader has not released it";
			reader_.release();
		}
		EXPECT_TRUE(writer_.trim());
		EXPECT_FALSE(reader_.waiting());
		/* The control words, and a page. */
		EXPECT_LE(resident(), 2 * page) << records << " records";
	}
}

/* What the writer fetches ahead of time lies in the page of the next record: trim() gives back no other. */
TEST_F(ShmRing, TouchesNoPageBeyondTheNextRecord)
{
	constexpr size_t page = 4096;

	for (uint32_t n = 0; n < page / ring_align - 1; ++n) {
		ASSERT_TRUE(put(n, 8));
		writer_.fetch_next_line();
		ASSERT_TRUE(get(n, 8));
		reader_.release();
	}
	/* The control words, and a page. */
	EXPECT_EQ(resident(), 2 * page);
}

TEST_F(ShmRing, CarriesBetweenThreads)
{
	constexpr uint32_t count = 200000;
	std::thread other([this] {
		for (uint32_t n = 0; n < count;) {
			/* By ones, twos and up to sevens. */
			if (put(n, length_of(n), n + 1 < count && n % 7 < n / 7 % 7))
				++n;
			else
				std::this_thread::yield();
		}
	});

	for (uint32_t n = 0; n < count && !HasFailure();) {
		if (get(n, length_of(n)))
			++n;
		else
			std::this_thread::yield();
		if (reader_.unreleased() > ring_bytes / 8)
			reader_.release();
	}
	other.join();
	EXPECT_FALSE(writer_.broken());
}

/* As a thread that receives does when it has given room back, while another writes. */
TEST_F(ShmRing, IsNotWrittenByWhoAsksWhetherToWake)
{
	constexpr uint32_t count = 20000;
	std::atomic<bool> stop{false};
	std::thread other([&] {
		while (!stop)
			(void)writer_.must_wake();
	});

	for (uint32_t n = 0; n < count && !HasFailure(); ++n) {
		const uint32_t len = 1 + n * 37 % 2000;

		EXPECT_TRUE(put(n, len));
		writer_.fetch_next_line();
		EXPECT_TRUE(get(n, len));
		reader_.release();
	}
	stop = true;
	other.join();
}

/* Neither misses the other: each sleep is ended by a record that came after it began. */
TEST_F(ShmRing, LosesNoWakeUp)
{
	constexpr uint32_t count = 30000;
	std::atomic<uint32_t> wakes{0};
	std::thread other([&] {
		for (uint32_t n = 0; n < count;) {
			if (!put(n, 16)) {
				std::this_thread::yield();
				continue;
			}
			++n;
			if (writer_.must_wake())
				++wakes;
		}
	});
	uint32_t n = 0, slept = 0;
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);

	while (n < count && !HasFailure()) {
		while (n < count && get(n, 16))
			++n;
		reader_.release();
		if (n == count || !fall_asleep()) {
			reader_.wake_up();
			continue;
		}
		const uint32_t seen = slept++;

		/* Asleep: only a wake-up counts, not the record itself. */
		while (wakes.load() <= seen && !reader_.waiting())
			std::this_thread::yield();
		while (wakes.load() <= seen) {
			ASSERT_LT(std::chrono::steady_clock::now(), end) << "never woken";
			std::this_thread::yield();
		}
	}
	other.join();
}

TEST_F(ShmRing, BelievesNoLength)
{
	for (const uint32_t len : {uint32_t(ring_record_max) + 1, 0x80000000u, 0xffffffffu}) {
		RingPair pair = RingPair::map(fd_);
		RingReader reader = pair.reader(1);
		RingWriter writer = pair.writer(1);
		RecordHead head;

		/* The reader starts at the beginning: a hostile first word. */
		const RecordHead bad = {.len = len, .kind = 1, .flags = 0};

		memcpy(writer.reserve(8) - sizeof(bad), &bad, sizeof(bad));
		EXPECT_EQ(reader.peek(head), nullptr);
		EXPECT_TRUE(reader.broken());
	}
}

TEST_F(ShmRing, BelievesNoReader)
{
	RingControl *control = reinterpret_cast<RingControl *>(
		mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));

	ASSERT_NE(static_cast<void *>(control), MAP_FAILED);
	while (put(0, 4000))
		;
	control->head.store(1ull << 40);
	EXPECT_FALSE(put(0, 4000));
	EXPECT_TRUE(writer_.broken());
	munmap(control, 4096);
}

TEST_F(ShmRing, RefusesMemoryThatCouldShrink)
{
	const Fd plain(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	ASSERT_EQ(ftruncate(plain.get(), 16 << 20), 0);
	EXPECT_FALSE(RingPair::map(plain.get()));
	EXPECT_EQ(errno, EINVAL);
	EXPECT_NE(ftruncate(fd_, 4096), 0) << "ours cannot";
}

} // namespace sirdma::twin::test
