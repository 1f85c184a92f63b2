// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Records of a neighbour's ring, and the words both sides share.
//
// Input: steps, each a kind and what it needs. Some write records, well-formed but
// for a field or two or any bytes, some any words; then the connection receives or
// sends. Oracles: a record is handed over once or counted once as malformed; what is
// handed over, read as the model reads it, is as long as it says and has the bytes the
// record named; sending ends. Accesses beyond are the sanitizer's to find.
#include <numeric>
#include <sys/mman.h>
#include <sys/socket.h>

#include "connection.hpp"
#include "neighbours.hpp"

#include "input.hpp"

extern "C" {
#include "model/super.h"
}

namespace sirdma::twin
{
namespace
{

using sirdma::test::Input;

constexpr size_t source_size = 64 << 10;

// The neighbour's memory, which references name.
std::array<uint8_t, source_size> source;
std::atomic<uint64_t> lease_word{7};

class Model final : public PacketSink {
public:
	Connection *c = nullptr;
	u32 seen = 0;
	u32 step = 4096; // bytes of payload read in one go
	std::vector<uint8_t> expected; // payload of the next super-packet, when it is known
	bool known = false;

	void datagram(const Path &, uint8_t *data, size_t len, u32, bool) noexcept override
	{
		++seen;
		touched_ += std::accumulate(data, data + len, 0u);
	}
	void packet(const IpAddress &, uint8_t *data, size_t len, uint8_t, bool) noexcept override
	{
		const snic_seg seg = {.ptr = data, .len = static_cast<u32>(len)};

		take({&seg, 1}, seg.len, 0, false);
	}
	void packet(const IpAddress &, const SuperPacket &super, bool) noexcept override
	{
		EXPECT_LE(super.payload_len, super.len);
		EXPECT_TRUE(super.npkts && super.npkts <= SNIC_BURST_PKTS);
		take(super.segs, super.len, super.npkts, super.by_reference);
	}
	void malformed() noexcept override { ++seen; }
	void end_batch() noexcept override {}

private:
	void take(std::span<const snic_seg> segs, u32 len, u32 npkts, bool by_reference)
	{
		snic_rx_pkt rx{};
		snic_pkt pkt{};
		sirdma_stat why;

		++seen;
		rx.segs = segs.data();
		rx.nsegs = static_cast<u32>(segs.size());
		rx.len = len;
		rx.npkts = npkts;
		rx.by_reference = by_reference;
		rx.icrc_ok = true;
		if (!snic_pkt_parse(&rx, &pkt, &why))
			return;

		std::vector<uint8_t> data(pkt.payload_len);
		snic_seg_iter it = snic_pkt_payload(&pkt, &rx);
		bool whole = true;

		for (u32 at = 0, n; at < pkt.payload_len && whole; at += n) {
			n = std::min(step, pkt.payload_len - at);
			// Of its own, so that a byte too many is found.
			std::vector<uint8_t> part(n);

			if (by_reference)
				whole = c->pull(it, part.data(), n);
			else
				snic_seg_copy(&it, part.data(), n);
			std::copy(part.begin(), part.end(), data.begin() + at);
		}
		if (npkts && whole && known)
			EXPECT_TRUE(data == expected) << "other bytes than the record's";
	}

	u32 touched_ = 0;
};

// Mad, but with a good memory of where the next record belongs.
class Neighbourhood {
public:
	Neighbourhood()
	{
		int file = -1, socks[2];

		theirs_ = RingPair::create(file);
		EXPECT_TRUE(theirs_);

		const Fd owner(file);

		RingPair ours = RingPair::map(file);
		EXPECT_TRUE(ours);
		words_ = static_cast<RingControl *>(mmap(nullptr, 2 * sizeof(RingControl),
							 PROT_READ | PROT_WRITE, MAP_SHARED, file,
							 0));
		EXPECT_NE(static_cast<void *>(words_), MAP_FAILED);
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, socks), 0);
		end_ = Fd(socks[0]);
		c = std::make_unique<Connection>(Fd(socks[1]));
		c->node = &node_;
		c->attach(std::move(ours), 1, true);
		out = theirs_.writer(0);
		words_[0].lease_at = reinterpret_cast<uintptr_t>(&lease_word);
		words_[0].lease = lease_word.load();
		in = theirs_.reader(1);
		in.set_takes(3);
		model.c = c.get();
	}
	~Neighbourhood() { munmap(words_, 2 * sizeof(RingControl)); }

	void step(Input &input)
	{
		switch (input.byte() % 9) {
		case 0:
		case 1:
		case 2:
			super(input);
			break;
		case 3:
			record(input);
			break;
		case 4:
			word(input);
			break;
		case 5:
			head_word(input);
			break;
		case 6:
			send();
			break;
		case 7:
			for (RecordHead head; in.peek(head);) // the other ring is read, too
				in.next();
			in.release();
			break;
		case 8:
			stream(input);
			break;
		}
		receive();
	}

	void receive()
	{
		while (true) {
			const u32 before = model.seen;
			const u32 n = c->receive(IpAddress(), model, 8);

			EXPECT_EQ(model.seen - before, n) << "neither handed over nor counted";
			EXPECT_LT(n, 8 + SNIC_BURST_PKTS);
			if (!n)
				break;
			model.known = false;
		}
	}

	std::unique_ptr<Connection> c;
	RingWriter out;
	RingReader in;
	Model model;

private:
	void put(uint16_t kind, const std::vector<uint8_t> &bytes, bool more)
	{
		uint8_t *at = out.reserve(bytes.size());

		if (!at)
			return;
		std::copy(bytes.begin(), bytes.end(), at);
		out.commit(
			{.len = static_cast<uint32_t>(bytes.size()), .kind = kind, .flags = more});
		out.publish();
	}

	// A super-packet; @wrong says which of its fields are taken from the input instead.
	void super(Input &input)
	{
		const u8 shape = input.byte(), wrong = input.byte();
		SuperHead head{};
		sirdma_bth bth{};
		// None, some, and as many as there may be and about.
		constexpr u8 most = SNIC_BURST_SEGS;
		constexpr u8 counts[] = {0, 0, 1, 2, 3, most - 1, most, most + 1};
		std::vector<Piece> pieces(counts[shape % 8]);

		bth.opcode = input.byte() % 64;
		head.lease = pieces.empty() ? 0 : lease_word.load();
		for (Piece &piece : pieces) {
			const u16 at = input.half();

			piece.len = 1 + input.half() % 512;
			piece.addr = reinterpret_cast<uintptr_t>(&source[at % (source_size - 512)]);
			head.payload_len += piece.len;
		}
		if (pieces.empty())
			head.payload_len = input.half() % 4096;
		head.npieces = pieces.size();
		head.npkts = 1 + input.byte() % SNIC_BURST_PKTS;
		head.hdr_len = static_cast<u8>(snic_opcode_hdr_len(bth.opcode));
		head.pad = -head.payload_len & 3;
		bth.flags = head.pad << SIRDMA_BTH_PAD_SHIFT;
		model.known = !wrong;
		if (wrong & 1)
			head.hdr_len = input.byte() % 64;
		if (wrong & 2)
			head.pad = input.byte();
		if (wrong & 4)
			head.payload_len += static_cast<int8_t>(input.byte()) * 64;
		if (wrong & 8)
			head.npieces = input.half();
		if (wrong & 16)
			head.npkts = input.half();
		if (wrong & 32 && !pieces.empty())
			pieces[input.byte() % pieces.size()] = {.addr = input.word(),
								.len = input.word()};
		if (wrong & 64)
			head.lease = input.byte();
		if (wrong & 128)
			bth.flags = input.byte();
		memcpy(head.hdr, &bth, sizeof(bth));

		const auto *h = reinterpret_cast<const uint8_t *>(&head);
		const auto *p = reinterpret_cast<const uint8_t *>(pieces.data());
		std::vector<uint8_t> bytes(h, h + sizeof(head)),
			payload(pieces.empty() ? head.payload_len % 8192 : 0, shape);

		bytes.insert(bytes.end(), p, p + pieces.size() * sizeof(Piece));
		bytes.insert(bytes.end(), payload.begin(), payload.end());
		model.expected = payload;
		for (const Piece &piece : pieces)
			if (model.known) {
				const auto *from = reinterpret_cast<const uint8_t *>(piece.addr);

				model.expected.insert(model.expected.end(), from, from + piece.len);
			}
		model.step = shape & 16 ? SNIC_BURST_BYTES : 1 + input.half();
		put(record_super, bytes, shape & 8);
	}

	// A stream, some of whose fields may be wrong.
	void stream(Input &input)
	{
		const u8 wrong = input.byte();
		const u32 len = wrong & 1 ? input.byte() : 1 + input.byte() % SNIC_STREAM_PAYLOAD;
		const __be32 key_len[] = {cpu_to_be32(7), cpu_to_be32(len)};
		std::vector<snic_stream_write> writes(input.byte() % (SNIC_BURST_PKTS + 2));
		StreamHead head{};
		sirdma_bth bth{};

		bth.opcode = wrong & 2 ? input.byte() : u8{SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_ONLY};
		bth.flags = static_cast<u8>((-len & 3) << SIRDMA_BTH_PAD_SHIFT);
		memcpy(&head.bth, &bth, sizeof(head.bth));
		memcpy(&head.rkey_len, key_len, sizeof(head.rkey_len));
		head.psn = static_cast<u32>(input.word());
		head.count = static_cast<uint16_t>(wrong & 4 ? input.half() : writes.size());
		head.ackreq = wrong >> 3;

		const auto *h = reinterpret_cast<const uint8_t *>(&head);
		const auto *w = reinterpret_cast<const uint8_t *>(writes.data());
		std::vector<uint8_t> bytes(h, h + sizeof(head));

		bytes.insert(bytes.end(), w, w + writes.size() * sizeof(*writes.data()));
		model.known = false;
		put(record_stream, bytes, wrong & 128);
	}

	// Any bytes of any kind.
	void record(Input &input)
	{
		const u8 kind = input.byte();
		const auto got = input.bytes(1 + input.byte());

		model.known = false;
		if (!got.empty())
			put(kind % 8, {got.begin(), got.end()}, kind & 8);
	}

	void word(Input &input)
	{
		const u8 which = input.byte();
		RingControl &control = words_[which & 1];
		const u64 value = input.word();

		switch (which / 2 % 8) {
		case 0:
			control.head = value;
			break;
		case 1:
			control.asleep = static_cast<u32>(value);
			break;
		case 2:
			control.full = static_cast<u32>(value);
			break;
		case 3:
			control.takes = static_cast<u32>(value);
			break;
		case 4:
			control.lease_at = value;
			break;
		case 5:
			control.lease = value;
			break;
		case 6:
			control.reading = static_cast<u32>(value);
			break;
		case 7:
			lease_word = value;
			break;
		}
	}

	// Where the next record would begin.
	void head_word(Input &input)
	{
		const u64 value = input.word();

		if (uint8_t *at = out.reserve(8))
			memcpy(at - sizeof(value), &value, sizeof(value));
	}

	void send()
	{
		static snic_flow flow{};
		static snic_burst burst;

		flow.is_v4 = true;
		burst.flow = &flow;
		burst.npkts = 8;
		burst.nsegs = 1;
		burst.segs[0] = {.ptr = source.data(), .len = 8 * 4096};
		for (u32 i = 0; i < burst.npkts; ++i)
			snic_pkt_bth(&burst.pkts[i], SIRDMA_BTH_SEND_MIDDLE, 0xffff, 5, i, 4096);
		EXPECT_LE(c->push(burst), burst.npkts);
		c->fall_asleep();
		(void)c->waiting();
		c->wake_up();
	}

	RingPair theirs_;
	RingControl *words_ = nullptr;
	Fd end_;
	Neighbour node_{.addr = IpAddress(), .slot = 0, .next = nullptr};
};

} // namespace
} // namespace sirdma::twin

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	using namespace sirdma::twin;

	sirdma::test::fail_loudly();

	sirdma::test::Input input(data, size);
	Neighbourhood n;

	lease_word = 7;
	for (size_t i = 0; i < source_size; ++i)
		source[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
	for (int i = 0; i < 64 && input.more(); ++i)
		n.step(input);
	return 0;
}
