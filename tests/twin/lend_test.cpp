/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Super-packets from neighbour to neighbour: copied, by reference, and by reference to what is gone. */
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

constexpr size_t payload = 32 << 10;
constexpr u32 mtu = 4096;

/* Of @payload bytes in two pieces. */
struct Write {
	Write(uint8_t *bytes, u32 qpn)
	{
		flow.src_ip = own_address(0).ip();
		flow.dst_ip = own_address(1).ip();
		flow.is_v4 = true;
		burst->flow = &flow;
		burst->npkts = payload / mtu;
		burst->nsegs = 2;
		burst->segs[0] = {.ptr = bytes, .len = 5000};
		burst->segs[1] = {.ptr = bytes + 5000, .len = payload - 5000};
		for (u32 i = 0; i < burst->npkts; ++i) {
			const u8 opcode = !i		       ? SIRDMA_RC_WRITE_FIRST :
					  i + 1 < burst->npkts ? SIRDMA_RC_WRITE_MIDDLE :
								 SIRDMA_RC_WRITE_LAST;

			snic_pkt_bth(&burst->pkts[i], opcode, 0xffff, qpn, i, mtu);
			if (!i)
				snic_pkt_reth(&burst->pkts[i], 0x1000, 7, payload);
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
	void packet(const IpAddress &, uint8_t *, size_t, bool) noexcept override { ++packets; }
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
	void end_turn() noexcept override {}

	u32 packets = 0;
	std::atomic<u32> supers{0};
	bool referred = false, pulled = false;
	std::vector<uint8_t> data;

private:
	Neighbours &n_;
};

class Lend : public ::testing::Test {
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

	/* All bytes from a to b. */
	void send()
	{
		const Write write(bytes, first_qpn_of(b->slot()) + 5);
		u32 sent = 0;

		ASSERT_TRUE(a->transmit(*write.burst, sent));
		ASSERT_EQ(sent, write.burst->npkts);
	}
	/* What was sent arrives at b, all of it. */
	void receive()
	{
		const u32 before = sink->packets;

		for (int i = 0; i < 1000 && sink->packets < before + payload / mtu; ++i) {
			b->serve(*sink);
			b->receive(*sink);
		}
		ASSERT_EQ(sink->packets, before + payload / mtu);
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

class LendToNobody : public Lend {
protected:
	LendToNobody() { b_takes_supers = false; }
};

TEST_F(Lend, LongMessagesComeByReferenceOnceItWorked)
{
	connect();
	fill(3);
	send();
	receive();
	EXPECT_TRUE(sink->referred && sink->pulled);
	EXPECT_TRUE(same());
}

/* Of memory that was given back: neither its old bytes nor its new ones. */
TEST_F(Lend, NothingIsBelievedAfterTheLease)
{
	connect();
	send();
	a->revoke();
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

TEST_F(Lend, WhatCannotBeReadIsCopiedNextTime)
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
TEST_F(Lend, ReferencesAreWantedAfterLeasesThatEnded)
{
	connect();
	for (int i = 0; i < 20; ++i) {
		send();
		a->revoke();
		receive();
		ASSERT_FALSE(sink->pulled);
	}
	send();
	receive();
	EXPECT_TRUE(sink->referred && sink->pulled);
	EXPECT_TRUE(same());
}

/* One region goes: what is lent of others is read, as long as the reader runs. */
TEST_F(Lend, WhatIsBeingDeliveredStaysLent)
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
		a->revoke();
	}
	while (sink->supers < before + times)
		std::this_thread::yield();
	stop = true;
	reader.join();
	/* A reader without a processor may be late now and then. */
	EXPECT_LT(stale, times / 4);
}

TEST_F(LendToNobody, PacketsStayPackets)
{
	connect();
	send();
	receive();
	EXPECT_EQ(sink->supers, 0u);
}

/* While one lends, another revokes: what was lent under the lease that holds is known to the next who revokes. */
TEST(Leases, NoneIsLentUnseen)
{
	constexpr u64 long_enough = 300000000; /* ns */
	Lease own;
	std::atomic<uint64_t> lent{0}, turns{0};
	std::atomic<bool> over{false};
	int unseen = 0;
	std::thread lender([&] {
		const u64 start = port_now_ns(nullptr);

		while (port_now_ns(nullptr) - start < long_enough) {
			lent = own.lend();
			/* Two more revoke before the next is lent. */
			for (const uint64_t turn = turns; turns < turn + 3;)
				;
		}
		over = true;
	});

	for (; !over; ++turns) {
		const uint64_t before = lent;

		unseen += !own.renew() && before == own.current();
	}
	lender.join();
	EXPECT_EQ(unseen, 0);
}

/* A neighbour whose reader the test is. */
class Revoke : public ::testing::Test {
protected:
	void SetUp() override
	{
		int file = -1, socks[2];

		writing = RingPair::create(file);
		reading = RingPair::map(file);
		ASSERT_TRUE(writing && reading);
		close(file);
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks), 0);
		other = Fd(socks[0]);
		c = std::make_unique<Connection>(Fd(socks[1]), std::move(writing), 0);
		c->set_up(own, true);
		reader = reading.reader(0);
		reader.set_takes(3);
		ASSERT_TRUE(lends());
		reader.end_reading();
	}
	/* Does it lend what is pushed next? Then that is being read. */
	bool lends()
	{
		const Write write(bytes.data(), 5);
		RecordHead head;
		uint64_t lease = 0;

		EXPECT_EQ(c->push(*write.burst, own), write.burst->npkts);
		while (const uint8_t *at = reader.peek(head)) {
			memcpy(&lease, at, sizeof(lease)); /* a SuperHead's first */
			reader.next();
		}
		reader.release();
		return lease && reader.begin_reading(lease);
	}
	void revoke()
	{
		ASSERT_TRUE(own.renew());
		c->revoke(own);
	}

	std::vector<uint8_t> bytes = std::vector<uint8_t>(payload);
	RingPair writing, reading;
	RingReader reader;
	Lease own;
	Fd other;
	std::unique_ptr<Connection> c;
};

TEST_F(Revoke, WhatIsReadLaterIsOver)
{
	const uint64_t lease = own.current();

	revoke();
	EXPECT_FALSE(reader.begin_reading(lease));
}

TEST_F(Revoke, WaitsForWhatIsBeingRead)
{
	const uint64_t lease = own.current();

	for (int i = 0; i < 200; ++i) {
		std::atomic<u64> revoked{0};

		ASSERT_TRUE(lends());
		std::thread revoker([&] {
			revoke();
			revoked = port_now_ns(nullptr);
		});
		/* The lease is over before the wait begins. */
		while (own.current() == lease + i || reader.begin_reading(lease + i))
			;
		const u64 end = port_now_ns(nullptr);

		reader.end_reading();
		revoker.join();
		EXPECT_GE(revoked, end);
	}
	EXPECT_TRUE(lends());
}

TEST_F(Revoke, WaitsForNobodyWhoIsGone)
{
	ASSERT_TRUE(lends());
	other = Fd();
	revoke();
}

/* Posting and polling may revoke, and are no cancellation points. */
TEST_F(Revoke, GoesOnInAThreadThatIsCancelled)
{
	const uint64_t lease = own.current();
	std::atomic<bool> revoked{false};

	ASSERT_TRUE(lends());
	std::thread revoker([&] {
		revoke();
		revoked = true;
	});
	while (own.current() == lease)
		sched_yield();
	/* The reader is stuck, so the wait is long. */
	pthread_cancel(revoker.native_handle());
	revoker.join();
	EXPECT_TRUE(revoked);
}

TEST_F(Revoke, LendsNoMoreToWhoIsStuck)
{
	ASSERT_TRUE(lends());
	revoke();
	reader.end_reading();
	EXPECT_FALSE(lends());
}

/* Counts what a neighbour that breaks the rules wrote. */
class Judge final : public PacketSink {
public:
	void datagram(const Path &, uint8_t *, size_t, u32, bool) noexcept override { ++good; }
	void packet(const IpAddress &, uint8_t *, size_t, bool) noexcept override { ++good; }
	void packet(const IpAddress &, const SuperPacket &, bool) noexcept override { ++good; }
	void malformed() noexcept override { ++bad; }
	void end_turn() noexcept override {}

	u32 good = 0, bad = 0;
};

TEST(Connection, CountsRecordsThatBreakTheRules)
{
	constexpr uint16_t packet = 1, datagram = 2, super = 3, unknown = 9;
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
		{super, 0, 0, 0, 1, 16, 0, 72, SIRDMA_RC_ACK}, /* without payload */
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
	Connection c(Fd(socks[1]), std::move(reading), 1);
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
