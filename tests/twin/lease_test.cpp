/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Super-packets from neighbour to neighbour: copied, by reference, and by reference under a lease that is over. */
#include <atomic>
#include <cstring>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>

#include <gtest/gtest.h>

#include "neighbours.hpp"
#include "own_address.hpp"

extern "C" {
#include "model/packet.h"
}

namespace sirdma::twin::test
{

namespace
{

constexpr size_t payload = 96 << 10;
constexpr u32 mtu = 4096;

/* Of @len bytes in two pieces. */
struct Write {
	Write(uint8_t *bytes, u32 qpn, size_t len = payload)
	{
		flow.src_ip = own_address(0).ip();
		flow.dst_ip = own_address(1).ip();
		flow.is_v4 = true;
		burst->flow = &flow;
		burst->npkts = static_cast<u32>(len / mtu);
		burst->nsegs = 2;
		burst->segs[0] = {.ptr = bytes, .len = 5000};
		burst->segs[1] = {.ptr = bytes + 5000, .len = static_cast<u32>(len - 5000)};
		for (u32 i = 0; i < burst->npkts; ++i) {
			const u8 opcode = !i		       ? SIRDMA_BTH_WRITE_FIRST :
					  i + 1 < burst->npkts ? SIRDMA_BTH_WRITE_MIDDLE :
								 SIRDMA_BTH_WRITE_LAST;

			snic_pkt_bth(&burst->pkts[i], opcode, 0xffff, qpn, i, mtu);
			if (!i)
				snic_pkt_reth(&burst->pkts[i], 0x1000, 7, static_cast<u32>(len));
		}
	}

	snic_flow flow{};
	std::unique_ptr<snic_burst> burst = std::make_unique<snic_burst>();
};

/* Takes payload as a device would. */
class Sink final : public PacketSink {
public:
	explicit Sink(Neighbours &n) : n_(n) {}

	void datagram(const Path &, uint8_t *, size_t, u32, bool) noexcept override {}
	void packet(const IpAddress &, uint8_t *, size_t, uint8_t, bool) noexcept override
	{
		++packets;
	}
	void packet(const IpAddress &, const SuperPacket &super, bool) noexcept override
	{
		snic_seg_iter it{};

		++supers;
		referred = super.by_reference;
		packets += super.npkts;
		data.assign(super.payload_len, 0);
		it.seg = super.segs.data() + 1;
		if (referred)
			pulled = n_.pull(it, data.data(), super.payload_len);
		else
			snic_seg_copy(&it, data.data(), super.payload_len);
	}
	void malformed() noexcept override { ADD_FAILURE(); }
	void end_batch() noexcept override {}

	u32 packets = 0;
	std::atomic<u32> supers{0};
	bool referred = false, pulled = false;
	std::vector<uint8_t> data;

private:
	Neighbours &n_;
};

class References : public ::testing::Test {
protected:
	void SetUp() override
	{
		a = Neighbours::create(own_address(0));
		b = Neighbours::create(own_address(1), b_takes_supers);
		ASSERT_TRUE(a && b);
		sink = std::make_unique<Sink>(*b);
		map();
	}
	void TearDown() override
	{
		if (bytes)
			munmap(bytes, payload);
	}
	void map()
	{
		bytes = static_cast<uint8_t *>(mmap(nullptr, payload, PROT_READ | PROT_WRITE,
						    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		ASSERT_NE(bytes, MAP_FAILED);
		fill(1);
	}
	void fill(unsigned step)
	{
		for (size_t i = 0; i < payload; ++i)
			bytes[i] = static_cast<uint8_t>(i * step + (i >> 8));
	}

	/* The first @len bytes from a to b. */
	void send(size_t len = payload)
	{
		const Write write(bytes, first_qpn_of(b->slot()) + 5, len);
		u32 sent = 0;

		ASSERT_TRUE(a->transmit(*write.burst, sent));
		ASSERT_EQ(sent, write.burst->npkts);
	}
	/* What was sent arrives at b, all @len bytes of it. */
	void receive(size_t len = payload)
	{
		const u32 all = sink->packets + static_cast<u32>(len / mtu);

		for (int i = 0; i < 1000 && sink->packets < all; ++i) {
			b->serve(*sink);
			b->receive(*sink);
		}
		ASSERT_EQ(sink->packets, all);
	}
	void connect()
	{
		/* What comes in the first one by copy makes b look whether it can read a's memory. */
		send();
		receive();
		fill(2);
		send();
		receive();
	}
	bool same() const { return !memcmp(sink->data.data(), bytes, payload); }

	bool b_takes_supers = true;
	std::unique_ptr<Neighbours> a, b;
	std::unique_ptr<Sink> sink;
	uint8_t *bytes = nullptr;
};

class NoReferences : public References {
protected:
	NoReferences() { b_takes_supers = false; }
};

TEST_F(References, LongMessagesComeByReferenceOnceItWorked)
{
	connect();
	fill(3);
	send();
	receive();
	EXPECT_TRUE(sink->referred && sink->pulled);
	EXPECT_TRUE(same());
}

/* In one record, until both ways were tried. */
TEST_F(References, MessagesOf64KiBAreCopiedAtFirst)
{
	constexpr size_t len = 64 << 10;

	connect();
	fill(3);
	const u32 before = sink->supers;
	send(len);
	receive(len);
	EXPECT_FALSE(sink->referred);
	EXPECT_EQ(sink->supers, before + 1);
	ASSERT_EQ(sink->data.size(), len);
	EXPECT_EQ(memcmp(sink->data.data(), bytes, len), 0);
}

/* Of each class of middle lengths some come copied and some by reference, and the bytes are the same. */
TEST_F(References, MessagesOfMiddleLengthTryBothWays)
{
	connect();
	for (const size_t len : {8 << 10, 24 << 10, 64 << 10}) {
		u32 copied = 0, referred = 0;

		/* The first copies are to new pages of the ring, or those that the sender measures. */
		for (u32 i = 0; i < 8 * Trial::transfers; ++i) {
			fill(3 + i % 5);
			send(len);
			receive(len);
			(sink->referred ? referred : copied)++;
			ASSERT_EQ(sink->data.size(), len);
			ASSERT_EQ(memcmp(sink->data.data(), bytes, len), 0);
		}
		EXPECT_GE(copied, Trial::transfers);
		EXPECT_GE(referred, Trial::transfers);
	}
}

/* Of memory that was given back: neither its old bytes nor its new ones. */
TEST_F(References, NothingIsBelievedAfterTheLease)
{
	connect();
	send();
	a->finish_leases();
	fill(7);
	receive();
	ASSERT_TRUE(sink->referred);
	EXPECT_FALSE(sink->pulled);
	EXPECT_EQ(sink->data, std::vector<uint8_t>(payload));
	/* What is sent from then on is. */
	send();
	receive();
	EXPECT_TRUE(sink->referred && sink->pulled);
	EXPECT_TRUE(same());
}

TEST_F(References, WhatCannotBeReadIsCopiedNextTime)
{
	connect();
	send();
	ASSERT_EQ(munmap(bytes, payload), 0);
	bytes = nullptr;
	receive();
	ASSERT_TRUE(sink->referred);
	EXPECT_FALSE(sink->pulled);

	map();
	send();
	receive();
	EXPECT_FALSE(sink->referred);
}

/* However often a lease was over when its bytes were read. */
TEST_F(References, ReferencesAreWantedAfterLeasesThatEnded)
{
	connect();
	for (int i = 0; i < 20; ++i) {
		send();
		a->finish_leases();
		receive();
		ASSERT_FALSE(sink->pulled);
	}
	send();
	receive();
	EXPECT_TRUE(sink->referred && sink->pulled);
	EXPECT_TRUE(same());
}

/* One region goes: references to others are read, as long as the reader runs. */
TEST_F(References, StayValidWhileTheReaderRuns)
{
	constexpr int times = 200;
	std::atomic<bool> stop{false};
	std::atomic<int> stale{0};

	connect();

	const u32 before = sink->supers;
	std::thread reader([&] {
		while (!stop) {
			const u32 seen = sink->supers;

			b->receive(*sink);
			stale += sink->supers != seen && !sink->pulled;
		}
	});

	for (int i = 0; i < times; ++i) {
		send();
		a->finish_leases();
	}
	while (sink->supers < before + times)
		std::this_thread::yield();
	stop = true;
	reader.join();
	/* A reader without a processor may be late now and then. */
	EXPECT_LT(stale, times / 4);
}

TEST_F(NoReferences, PacketsStayPackets)
{
	connect();
	send();
	receive();
	EXPECT_EQ(sink->supers, 0u);
}

/* A lease alone, and a neighbour whose words the test writes. */
class TwinLease : public ::testing::Test {
protected:
	void SetUp() override
	{
		int socks[2];

		ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks), 0);
		other = Fd(socks[0]);
		sock = Fd(socks[1]);
		lease = std::make_unique<Lease>(sock.get());
		lease->attach(ring);
		reader.attach(ring, getpid());
		bytes.assign(payload, 1);
	}
	/* A reference was written, and ends at the next place of the ring. */
	uint64_t refer()
	{
		const uint64_t number = lease->number();

		lease->used(pos += 64);
		return number;
	}
	/* Does a reference under lease @number give the bytes? */
	bool reads(uint64_t number)
	{
		const snic_seg segs[] = {{.ptr = bytes.data(), .len = 5000},
					 {.ptr = &bytes[5000], .len = payload - 5000}};
		snic_seg_iter it{};

		it.seg = segs;
		got.assign(payload, 0);
		return reader.read(number, it, got.data(), payload);
	}
	static u64 now() { return port_now_ns(nullptr); }
	/* The reader does not come. */
	void end()
	{
		lease->used(pos += 64);
		lease->finish(0);
	}

	RingControl ring;
	Fd other, sock;
	std::unique_ptr<Lease> lease;
	LeaseReader reader;
	std::vector<uint8_t> bytes, got;
	uint64_t pos = 0;
};

TEST_F(TwinLease, GivesBytesWhileItHolds)
{
	const uint64_t number = refer();

	ASSERT_NE(number, 0u);
	EXPECT_TRUE(reads(number));
	EXPECT_EQ(got, bytes);
	end();
	EXPECT_FALSE(reads(number));
	EXPECT_EQ(got, std::vector<uint8_t>(payload));
	EXPECT_TRUE(reads(refer())) << "the next one holds";
}

/* The reader begins, and then the lease ends. */
TEST_F(TwinLease, TheBytesAreGoneThatWereReadTooLate)
{
	const uint64_t number = refer();

	ASSERT_TRUE(reader.try_once());
	end();
	ring.lease = number; /* as the reader saw it */
	got.assign(payload, 7);
	EXPECT_FALSE(reads(number));
	EXPECT_EQ(got, std::vector<uint8_t>(payload));
	EXPECT_TRUE(reader.readable()) << "which is no reason to copy from now on";
}

TEST_F(TwinLease, MemoryThatCannotBeReadIsTriedOnce)
{
	ASSERT_TRUE(reader.try_once());
	EXPECT_FALSE(reader.try_once());
	ring.lease_at = 8;
	EXPECT_FALSE(reads(refer()));
	EXPECT_FALSE(reader.readable());

	LeaseReader blind;

	blind.attach(ring, 0);
	EXPECT_FALSE(blind.try_once());
	EXPECT_FALSE(blind.readable());
}

TEST_F(TwinLease, HoldsOnWhenAllWasRead)
{
	const uint64_t number = refer();

	ring.head = pos;
	lease->finish(0);
	EXPECT_EQ(lease->number(), number);
	/* Nothing is waited for a second time. */
	ring.head = 0;
	lease->finish(0);
	EXPECT_EQ(lease->number(), number);
}

TEST_F(TwinLease, OfAnotherNeighbourHoldsOn)
{
	Lease another(sock.get());
	RingControl its;

	another.attach(its);

	const uint64_t number = another.number();

	end();
	EXPECT_EQ(another.number(), number);
	EXPECT_EQ(its.lease, number);
}

TEST_F(TwinLease, ClosedGivesNothing)
{
	const uint64_t number = refer();

	lease->close();
	EXPECT_EQ(lease->number(), 0u);
	EXPECT_FALSE(reads(number));
	lease->finish(now() + 1000);
	lease->close();
}

/* Whatever its memory is used for afterwards. */
TEST_F(TwinLease, EndsWithItsConnection)
{
	const uint64_t number = refer();

	lease.reset();
	EXPECT_NE(ring.lease, number);
}

TEST_F(TwinLease, WaitsForWhatIsBeingRead)
{
	for (int i = 0; i < 20; ++i) {
		const uint64_t number = refer();
		std::atomic<u64> finished{0};

		ring.reading = 1;
		std::thread finisher([&] {
			lease->finish(0);
			finished = now();
		});
		/* The lease is over before the wait begins. */
		while (lease->number() == number || ring.lease == number)
			sched_yield();
		const u64 end = now();

		ring.reading = 0;
		finisher.join();
		if (!lease->number())
			GTEST_SKIP() << "without a processor for so long that it counts as stuck";
		EXPECT_GE(finished, end);
	}
}

/* Each of them may give its memory away when it returns. */
TEST_F(TwinLease, AllThreadsWaitForWhatIsBeingRead)
{
	const uint64_t number = refer();
	std::atomic<bool> over{false};
	std::atomic<int> early{0};
	std::vector<std::thread> threads;

	ring.reading = 1;
	for (int i = 0; i < 4; ++i)
		threads.emplace_back([&] {
			lease->finish(0);
			early += !over;
		});
	while (lease->number() == number)
		sched_yield();
	for (int i = 0; i < 100; ++i)
		sched_yield();
	over = true;
	ring.reading = 0;
	for (std::thread &thread : threads)
		thread.join();
	if (!lease->number())
		GTEST_SKIP() << "without a processor for so long that it counts as stuck";
	EXPECT_EQ(early, 0);
}

TEST_F(TwinLease, WaitsForNobodyWhoIsGone)
{
	const uint64_t number = refer();

	ring.reading = 1;
	other.reset();
	lease->finish(~0ull);
	EXPECT_NE(lease->number(), number);
	EXPECT_NE(lease->number(), 0u);
}

/* Posting and polling may end a lease, and are no cancellation points. */
TEST_F(TwinLease, GoesOnInAThreadThatIsCancelled)
{
	const uint64_t number = refer();
	std::atomic<bool> finished{false};

	ring.reading = 1;
	std::thread finisher([&] {
		lease->finish(0);
		finished = true;
	});
	while (lease->number() == number)
		sched_yield();
	/* The reader is stuck, so the wait is long. */
	pthread_cancel(finisher.native_handle());
	finisher.join();
	EXPECT_TRUE(finished);
}

TEST_F(TwinLease, NoneForWhoIsStuck)
{
	(void)refer();
	ring.reading = 1;
	lease->finish(0);
	EXPECT_EQ(lease->number(), 0u);
}

/* While one thread refers, another ends the lease: what is referred to under the new number is known to the next end. */
TEST_F(TwinLease, NoReferenceIsForgotten)
{
	constexpr u64 long_enough = 300000000; /* ns */
	std::atomic<uint64_t> number{0}, turns{0};
	std::atomic<bool> over{false};
	int forgotten = 0;
	std::thread sender([&] {
		const u64 start = now();

		for (uint64_t at = 64; now() - start < long_enough; at += 64) {
			const uint64_t n = lease->number();

			lease->used(at);
			number = n;
			/* Two more ends before the next reference. */
			for (const uint64_t turn = turns; turns < turn + 3;)
				sched_yield();
		}
		over = true;
	});

	for (; !over; ++turns) {
		const uint64_t before = number;

		lease->finish(0);
		forgotten += before == lease->number();
	}
	sender.join();
	EXPECT_EQ(forgotten, 0);
}

/* A connection to a reader that the test is. */
class ByReference : public ::testing::Test {
protected:
	void SetUp() override
	{
		int file = -1, socks[2];
		RingPair writing = RingPair::create(file);

		reading = RingPair::map(file);
		ASSERT_TRUE(writing && reading);
		close(file);
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks), 0);
		other = Fd(socks[0]);
		c = std::make_unique<Connection>(Fd(socks[1]));
		c->attach(std::move(writing), 0, true);
		reader = reading.reader(0);
		reader.set_takes(takes_supers | takes_references);
	}
	/* The lease of what is pushed next; 0: by copy. */
	uint64_t push()
	{
		const Write write(bytes.data(), 5);
		RecordHead head;
		uint64_t lease = 0;

		EXPECT_EQ(c->push(*write.burst), write.burst->npkts);
		while (uint8_t *at = reader.peek(head)) {
			SuperRecord super;

			EXPECT_TRUE(take_super(head, at, super));
			lease = super.head.lease;
			reader.next();
		}
		return lease;
	}

	std::vector<uint8_t> bytes = std::vector<uint8_t>(payload);
	RingPair reading;
	RingReader reader;
	Fd other;
	std::unique_ptr<Connection> c;
};

TEST_F(ByReference, EndsWhenTheReaderDoesNotRead)
{
	const uint64_t lease = push();

	ASSERT_NE(lease, 0u);
	EXPECT_EQ(reading.control(0).lease, lease);
	c->lease().finish(0);
	EXPECT_NE(reading.control(0).lease, lease);
	EXPECT_NE(push(), lease);
	reader.release();
	c->lease().finish(0);
	EXPECT_EQ(push(), reading.control(0).lease);
}

TEST_F(ByReference, SendsCopiesToWhoIsStuck)
{
	ASSERT_NE(push(), 0u);
	reading.control(0).reading = 1;
	c->lease().finish(0);
	reading.control(0).reading = 0;
	EXPECT_EQ(push(), 0u);
}

/* Counts what a neighbour that breaks the rules wrote. */
class Judge final : public PacketSink {
public:
	void datagram(const Path &, uint8_t *, size_t, u32, bool) noexcept override { ++good; }
	void packet(const IpAddress &, uint8_t *, size_t, uint8_t, bool) noexcept override
	{
		++good;
	}
	void packet(const IpAddress &, const SuperPacket &, bool) noexcept override { ++good; }
	void malformed() noexcept override { ++bad; }
	void end_batch() noexcept override {}

	u32 good = 0, bad = 0;
};

TEST(Connection, CountsRecordsThatBreakTheRules)
{
	constexpr uint16_t packet = record_packet, datagram = record_datagram, super = record_super,
			   unknown = 9;
	struct Record {
		uint16_t kind;
		uint64_t lease;
		uint32_t payload_len, npieces;
		uint16_t npkts;
		uint8_t hdr_len, pad;
		size_t body; /* bytes, zero behind the head of a super-packet */
		uint8_t opcode; /* SEND_FIRST is 0 */
	};
	const Record records[] = {
		{unknown, 0, 0, 0, 0, 0, 0, 8},
		{datagram, 0, 0, 0, 0, 0, 0, 24}, /* nothing but its head */
		{super, 0, 0, 0, 0, 0, 0, 8}, /* not even that */
		{super, 0, 0, 0, 0, 12, 0, 72}, /* of no packets */
		{super, 0, 0, 0, 65, 12, 0, 72}, /* of too many */
		{super, 0, 0, 0, 1, 49, 0, 72}, /* headers longer than any */
		{super, 0, 0, 0, 1, 48, 0,
		 72}, /* longer than a SEND's, so that payload lies in them */
		{super, 0, 0, 0, 1, 11, 0, 72}, /* and shorter */
		{super, 0, 0, 0, 1, 12, 4, 72}, /* pad longer than any */
		{super, 0, 3, 0, 1, 12, 1, 72 + 3}, /* than its flags say */
		{super, 0, 0, 0, 1, 12, 0, 72, 31}, /* of no known opcode */
		{super, 0, 0, 0, 1, 16, 0, 72, SIRDMA_BTH_ACK}, /* without payload */
		{super, 0, 1 << 17, 0, 1, 12, 0, 72}, /* payload longer than any */
		{super, 0, 100, 0, 1, 12, 0, 72 + 50}, /* half of it missing */
		{super, 1, 100, 129, 1, 12, 0, 72 + 129 * 16}, /* pieces beyond all bounds */
		{super, 1, 100, 2, 1, 12, 0, 72 + 16}, /* one of two */
		{super, 1, 100, 1, 1, 12, 0, 72 + 16}, /* which is empty */
	};
	int file = -1, socks[2];
	RingPair writing = RingPair::create(file);
	RingPair reading = RingPair::map(file);

	ASSERT_TRUE(writing && reading);
	close(file);
	ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks), 0);

	const Fd other(socks[0]);
	Neighbour node{.addr = own_address(0), .slot = 0, .next = nullptr};
	Connection c{Fd(socks[1])};
	RingWriter out = writing.writer(0);
	Judge judge;
	const auto put = [&](uint16_t kind, const std::vector<uint8_t> &bytes) {
		uint8_t *at = out.reserve(bytes.size());

		ASSERT_TRUE(at);
		memcpy(at, bytes.data(), bytes.size());
		out.commit({.len = static_cast<uint32_t>(bytes.size()), .kind = kind, .flags = 0});
		out.publish();
	};

	c.node = &node;
	c.attach(std::move(reading), 1, true);
	for (const Record &r : records) {
		std::vector<uint8_t> bytes(std::max<size_t>(r.body, 24));

		memcpy(&bytes[0], &r.lease, 8);
		memcpy(&bytes[8], &r.payload_len, 4);
		memcpy(&bytes[12], &r.npieces, 4);
		memcpy(&bytes[16], &r.npkts, 2);
		bytes[18] = r.hdr_len;
		bytes[19] = r.pad;
		bytes[20] = r.opcode;
		bytes.resize(r.body);
		put(r.kind, bytes);
		EXPECT_EQ(c.receive(own_address(1), judge, 8), 1u);
	}
	EXPECT_EQ(judge.bad, std::size(records));
	EXPECT_EQ(judge.good, 0u);
	/* Nothing of it stands in the way of what follows. */
	put(packet, std::vector<uint8_t>(32));
	EXPECT_EQ(c.receive(own_address(1), judge, 8), 1u);
	EXPECT_EQ(judge.good, 1u);
}

} // namespace

} // namespace sirdma::twin::test
