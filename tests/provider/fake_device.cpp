/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "fake_device.hpp"

#include <cstring>
#include <endian.h>
#include <gtest/gtest.h>
#include <sirdma/qpctx.h>

namespace sirdma::test
{

namespace
{

/* Word @i of quantum @q and on; quanta of one WQE lie one behind the other. */
uint64_t word(const sirdma_wqe *q, size_t i)
{
	const auto *words = reinterpret_cast<const uint64_t *>(q);

	return le64toh(__atomic_load_n(words + i, __ATOMIC_RELAXED));
}

uint64_t header(const sirdma_wqe *q)
{
	return le64toh(
		__atomic_load_n(reinterpret_cast<const uint64_t *>(&q->hdr), __ATOMIC_ACQUIRE));
}

/* Fragments @first.. of a WQE, each valid in this lap; null ones at the end are padding. */
void read_fragments(const sirdma_wqe *q, uint64_t hdr, uint32_t first, uint64_t valid,
		    SeenWqe &seen)
{
	const auto beyond = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr));

	EXPECT_EQ(beyond % 2, 0u) << "the last quantum is not whole";
	seen.quanta = 1 + beyond / 2;
	for (uint32_t i = first; i <= beyond; ++i) {
		const size_t at = i == 0 ? 0 : 4 + 2 * (i - 1);
		const uint64_t stag = word(q, at + 1);

		EXPECT_EQ(stag & SIRDMA_FRAG_VALID, valid) << "fragment " << i;
		seen.sges.push_back(
			{.addr = word(q, at),
			 .length = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_FRAG_LEN, stag)),
			 .lkey = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_FRAG_STAG, stag))});
	}
	if (!seen.sges.empty() && !seen.sges.back().addr && !seen.sges.back().length &&
	    !seen.sges.back().lkey)
		seen.sges.pop_back();
}

void read_inline(const sirdma_wqe *q, uint64_t hdr, uint64_t valid, SeenWqe &seen)
{
	const auto *bytes = reinterpret_cast<const uint8_t *>(q);
	const auto length = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_WQE_INLINELEN, hdr));
	std::vector<uint8_t> data;

	seen.quanta = 1;
	for (uint32_t i = 0; i < length && i < SIRDMA_INLINE_FIRST; ++i)
		data.push_back(bytes[8 + i]);
	while (data.size() < length) {
		const uint8_t *quantum = bytes + SIRDMA_QUANTUM * seen.quanta++;

		EXPECT_EQ(quantum[SIRDMA_INLINE_NEXT] & 0x80, valid ? 0x80 : 0);
		for (uint32_t i = 0; i < SIRDMA_INLINE_NEXT && data.size() < length; ++i)
			data.push_back(quantum[i]);
	}
	seen.inline_data = std::move(data);
}

void read_atomic(const sirdma_wqe *q, uint64_t hdr, uint64_t valid, SeenWqe &seen)
{
	EXPECT_EQ(SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr), 1u);
	EXPECT_EQ(word(q, 7), valid);
	seen.quanta = 2;
	seen.sges = {{.addr = word(q, 0), .length = 8, .lkey = static_cast<uint32_t>(word(q, 1))}};
	seen.swap_add = word(q, 4);
	seen.compare = word(q, 5);
}

/* The stag to invalidate becomes the key; there is nothing else. */
SeenWqe read_local_inv(const sirdma_wqe *q, uint64_t hdr, SeenWqe seen)
{
	EXPECT_EQ(SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr), 0u);
	EXPECT_EQ(seen.remote | seen.key | word(q, 0), 0u);
	seen.quanta = 1;
	seen.key = static_cast<uint32_t>(word(q, 1));
	return seen;
}

SeenWqe read_flush(const sirdma_wqe *q, uint64_t hdr, SeenWqe seen)
{
	const uint64_t what = word(q, 0);

	EXPECT_EQ(SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr) | word(q, 1) | what >> 48, 0u);
	seen.quanta = 1;
	seen.length = what & 0xffffffff;
	seen.placement = what >> 32 & 0xff;
	seen.level = what >> 40 & 0xff;
	return seen;
}

SeenWqe read_bind(const sirdma_wqe *q, uint64_t hdr, SeenWqe seen)
{
	const uint64_t stags = word(q, 1);

	EXPECT_EQ(SIRDMA_GET(SIRDMA_WQE_ADDFRAGCNT, hdr) | seen.key, 0u);
	seen.quanta = 1;
	seen.remote = word(q, 0);
	seen.length = word(q, 2);
	seen.key = static_cast<uint32_t>(stags);
	seen.region = static_cast<uint32_t>(stags >> 32);
	seen.rights = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_WQE_STAGRIGHTS, hdr)) |
		      (hdr & SIRDMA_WQE_REMOTE_ATOMICS ? uint32_t{SIRDMA_ACCESS_REMOTE_ATOMIC} : 0);
	seen.type1 = hdr & SIRDMA_WQE_MWTYPE;
	seen.zero_based = !(hdr & SIRDMA_WQE_VABASED);
	return seen;
}

SeenWqe read_body(const sirdma_wqe *q, uint64_t hdr, uint64_t valid, bool names_srq)
{
	SeenWqe seen;

	seen.op = static_cast<uint8_t>(SIRDMA_GET(SIRDMA_WQE_OPCODE, hdr));
	seen.signaled = hdr & SIRDMA_WQE_SIGCOMPL;
	seen.read_fence = hdr & SIRDMA_WQE_READFENCE;
	seen.remote = word(q, 2);
	seen.key = static_cast<uint32_t>(SIRDMA_GET(SIRDMA_WQE_REMSTAG, hdr));
	if (hdr & SIRDMA_WQE_IMMDATA_FLAG)
		seen.imm = static_cast<uint32_t>(word(q, 0));
	if (seen.op == SIRDMA_OP_NOP)
		seen.quanta = 1;
	else if (seen.op == SIRDMA_OP_FETCH_ADD || seen.op == SIRDMA_OP_CMP_SWAP)
		read_atomic(q, hdr, valid, seen);
	else if (seen.op == SIRDMA_OP_LOCAL_INV)
		seen = read_local_inv(q, hdr, seen);
	else if (seen.op == SIRDMA_OP_FLUSH)
		seen = read_flush(q, hdr, seen);
	else if (seen.op == SIRDMA_OP_BIND_MW)
		seen = read_bind(q, hdr, seen);
	else if (hdr & SIRDMA_WQE_INLINE)
		read_inline(q, hdr, valid, seen);
	else
		read_fragments(q, hdr, seen.imm || names_srq ? 1 : 0, valid, seen);
	return seen;
}

} // namespace

std::optional<SeenWqe> SendRingReader::next()
{
	const auto size = static_cast<uint32_t>(ring_.size());
	const uint64_t valid = (at_ / size) % 2 == 0 ? SIRDMA_WQE_VALID : 0;
	const uint32_t position = at_ % size;
	const sirdma_wqe *q = &ring_[position];
	const uint64_t hdr = header(q);

	if ((hdr & SIRDMA_WQE_VALID) != valid)
		return std::nullopt;

	SeenWqe seen = read_body(q, hdr, valid, names_srq_);

	seen.position = position;
	EXPECT_LE(seen.quanta, uint32_t{SIRDMA_MAX_WQE_QUANTA});
	EXPECT_EQ(position / SIRDMA_SQ_CHUNK_QUANTA,
		  (position + seen.quanta - 1) / SIRDMA_SQ_CHUNK_QUANTA)
		<< "WQE of " << seen.quanta << " quanta at " << position << " crosses a chunk";
	at_ += seen.quanta;
	return seen;
}

std::optional<SeenWqe> SendRingReader::next_request()
{
	for (;;) {
		auto seen = next();

		if (!seen || seen->op != SIRDMA_OP_NOP)
			return seen;
		EXPECT_FALSE(seen->signaled);
	}
}

std::optional<SeenWqe> RecvRingReader::next()
{
	const auto wqes = static_cast<uint32_t>(ring_.size() >> shift_);
	const uint64_t valid = (at_ / wqes) % 2 == 0 ? SIRDMA_WQE_VALID : 0;
	const uint32_t position = (at_ % wqes) << shift_;
	const sirdma_wqe *q = &ring_[position];
	const uint64_t hdr = header(q);

	if ((hdr & SIRDMA_WQE_VALID) != valid)
		return std::nullopt;
	EXPECT_EQ(hdr & ~(SIRDMA_WQE_VALID | SIRDMA_WQE_ADDFRAGCNT), 0u);

	SeenWqe seen;

	read_fragments(q, hdr, 0, valid, seen);
	EXPECT_EQ(word(q, 2), 0u);
	EXPECT_LE(seen.quanta, 1u << shift_);
	seen.position = position;
	++at_;
	return seen;
}

/* The words of the element at the head, which moves on. */
uint64_t *CompletionWriter::claim(uint64_t &valid)
{
	auto *words = reinterpret_cast<uint64_t *>(&ring_[head_]);

	valid = polarity_ ? SIRDMA_CQE_VALID : 0;
	if (++head_ == ring_.size()) {
		head_ = 0;
		polarity_ = !polarity_;
	}
	return words;
}

static void store(uint64_t *words, size_t i, uint64_t value)
{
	__atomic_store_n(words + i, htole64(value), i == 3 ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
}

void CompletionWriter::write_first_half(const CqeSpec &spec)
{
	uint64_t valid;
	uint64_t *words = claim(valid);
	uint64_t hdr = valid | SIRDMA_PREP(SIRDMA_CQE_WQEIDX, spec.position) |
		       SIRDMA_PREP(SIRDMA_CQE_OP, spec.op);

	if (spec.send)
		hdr |= SIRDMA_CQE_SQ;
	if (spec.shared)
		hdr |= SIRDMA_CQE_SRQ;
	if (spec.imm)
		hdr |= SIRDMA_CQE_EXT;
	if (spec.inv_stag)
		hdr |= SIRDMA_CQE_STAG;
	if (spec.error)
		hdr |= SIRDMA_CQE_ERROR | SIRDMA_PREP(SIRDMA_CQE_MAJERR, spec.major) |
		       SIRDMA_PREP(SIRDMA_CQE_MINERR, spec.minor);
	store(words, 0,
	      SIRDMA_PREP(SIRDMA_CQE_PAYLDLEN, spec.length) |
		      SIRDMA_PREP(SIRDMA_CQE_VENDOR_ERR, spec.vendor_err));
	store(words, 1, spec.compl_ctx);
	store(words, 2,
	      SIRDMA_PREP(SIRDMA_CQE_QPID, spec.qp_id) |
		      SIRDMA_PREP(SIRDMA_CQE_INVSTAG, spec.inv_stag.value_or(0)));
	store(words, 3, hdr);
}

void CompletionWriter::write_second_half(const CqeSpec &spec)
{
	uint64_t valid;
	uint64_t *words = claim(valid);

	store(words, 0, spec.imm.value());
	store(words, 1, 0);
	store(words, 2, 0);
	store(words, 3, valid | SIRDMA_CQE_EXT_IMMVALID);
}

void CompletionWriter::write(const CqeSpec &spec)
{
	write_first_half(spec);
	if (spec.imm)
		write_second_half(spec);
}

uint32_t CompletionWriter::in_use() const
{
	const auto size = static_cast<uint32_t>(ring_.size());
	const auto *cons_idx = reinterpret_cast<const uint64_t *>(&shadow_.cons_idx);
	const auto tail = static_cast<uint32_t>(SIRDMA_GET(
		SIRDMA_CQ_SHADOW_CQEIDX, le64toh(__atomic_load_n(cons_idx, __ATOMIC_ACQUIRE))));

	return (head_ + size - tail) % size;
}

} // namespace sirdma::test
