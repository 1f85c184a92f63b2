/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Bodies of work queue elements. The header word is composed here but written
 * by the queue, last.
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include <infiniband/verbs.h>
#include <sirdma/wqe.h>

#include "barrier.hpp"

namespace sirdma
{

/* The place of fragment @i: fragment 0 lies in the first quantum, the others behind it. */
inline sirdma_frag &fragment_at(sirdma_wqe *wqe, uint32_t i) noexcept
{
	auto *frags = reinterpret_cast<sirdma_frag *>(wqe);

	return frags[i == 0 ? 0 : i + 1];
}

inline void put_fragment(sirdma_frag &frag, const ibv_sge &sge, uint64_t valid) noexcept
{
	put(frag.addr, sge.addr);
	put(frag.stag, valid | SIRDMA_PREP(SIRDMA_FRAG_LEN, sge.length) |
			       SIRDMA_PREP(SIRDMA_FRAG_STAG, sge.lkey));
}

inline void put_null_fragment(sirdma_frag &frag, uint64_t valid) noexcept
{
	put(frag.addr, 0);
	put(frag.stag, valid);
}

/*
 * Write @sges as fragments @first (1 where immediate data took the place of
 * fragment 0) and up, padded so that the last quantum is whole and every quantum
 * carries this lap's valid bit. Returns the ADDFRAGCNT field.
 */
inline uint64_t put_fragments(sirdma_wqe *wqe, std::span<const ibv_sge> sges, uint32_t first,
			      uint64_t valid) noexcept
{
	uint32_t next = first;

	for (const ibv_sge &sge : sges)
		put_fragment(fragment_at(wqe, next++), sge, valid);
	if (next % 2 == 0)
		put_null_fragment(fragment_at(wqe, next++), valid);
	return SIRDMA_PREP(SIRDMA_WQE_ADDFRAGCNT, next - 1);
}

/* Streams inline data around the header and the polarity bytes. */
class InlineWriter {
public:
	InlineWriter(sirdma_wqe *wqe, uint64_t valid) noexcept
		: at_(reinterpret_cast<uint8_t *>(wqe) + offsetof(sirdma_wqe, frag_stag)),
		  room_(SIRDMA_INLINE_FIRST), polarity_(valid ? 0x80 : 0)
	{
	}

	void append(const void *data, size_t bytes) noexcept
	{
		auto *from = static_cast<const uint8_t *>(data);

		while (bytes) {
			if (!room_)
				next_quantum();
			const size_t n = std::min<size_t>(bytes, room_);
			memcpy(at_, from, n);
			at_ += n;
			from += n;
			room_ -= static_cast<uint32_t>(n);
			bytes -= n;
		}
	}

	/* Close the quantum that is open; the first one is closed by the header. */
	void finish() noexcept
	{
		if (!in_first_)
			at_[room_] = polarity_;
	}

private:
	void next_quantum() noexcept
	{
		if (in_first_)
			at_ += sizeof(sirdma_wqe) - offsetof(sirdma_wqe, remote);
		else
			*at_++ = polarity_;
		in_first_ = false;
		room_ = SIRDMA_INLINE_NEXT;
	}

	uint8_t *at_;
	uint32_t room_;
	const uint8_t polarity_;
	bool in_first_ = true;
};

} // namespace sirdma
