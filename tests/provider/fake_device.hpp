/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The other end of the rings: reads WQEs and writes CQEs as the device does, by
 * the hardware headers alone and with nothing of the provider's own helpers.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <infiniband/verbs.h>
#include <sirdma/cqe.h>
#include <sirdma/shadow.h>
#include <sirdma/wqe.h>

namespace sirdma::test
{

/* A WQE as the device understands it. */
struct SeenWqe {
	uint32_t position = 0; /* quantum it begins in */
	uint32_t quanta = 0;
	uint8_t op = 0;
	bool signaled = false;
	bool read_fence = false;
	uint64_t remote = 0;
	uint32_t key = 0;
	std::optional<uint32_t> imm;
	std::vector<ibv_sge> sges; /* without padding */
	std::optional<std::vector<uint8_t>> inline_data;
	uint64_t swap_add = 0; /* of an atomic */
	uint64_t compare = 0;
	/* Of a FLUSH, and length */
	uint32_t placement = 0;
	uint32_t level = 0;
	/* Of a BIND_MW; key is the window's stag, remote the address in the region. */
	uint64_t length = 0;
	uint32_t region = 0;
	uint32_t rights = 0;
	bool type1 = false;
	bool zero_based = false;
};

class SendRingReader {
public:
	/* @names_srq: of an XRC initiator, whose data begins with fragment 1. */
	explicit SendRingReader(std::span<const sirdma_wqe> ring, bool names_srq = false)
		: ring_(ring), names_srq_(names_srq)
	{
	}

	/*
	 * The next valid WQE; records a test failure when one is malformed. NOPs are
	 * returned like any other.
	 */
	std::optional<SeenWqe> next();
	/* The same, NOPs skipped. */
	std::optional<SeenWqe> next_request();

	void reset() { at_ = 0; }

private:
	std::span<const sirdma_wqe> ring_;
	bool names_srq_;
	uint32_t at_ = 0; /* free-running */
};

class RecvRingReader {
public:
	RecvRingReader(std::span<const sirdma_wqe> ring, uint32_t shift)
		: ring_(ring), shift_(shift)
	{
	}

	std::optional<SeenWqe> next();

private:
	std::span<const sirdma_wqe> ring_;
	uint32_t shift_;
	uint32_t at_ = 0; /* WQEs, free-running */
};

/* What a CQE shall say. */
struct CqeSpec {
	uint64_t compl_ctx = 0;
	uint32_t position = 0;
	uint8_t op = 0;
	bool send = true;
	bool shared = false; /* of a shared receive queue: compl_ctx is the wr_id */
	uint32_t length = 0;
	uint32_t qp_id = 7;
	bool error = false;
	uint16_t major = SIRDMA_CQE_MAJ_FLUSH;
	uint16_t minor = 0;
	uint32_t vendor_err = 0;
	std::optional<uint32_t> imm;
	std::optional<uint32_t> inv_stag;
};

class CompletionWriter {
public:
	CompletionWriter(std::span<sirdma_cqe> ring, const sirdma_cq_shadow &shadow)
		: ring_(ring), shadow_(shadow)
	{
	}

	void write(const CqeSpec &spec);
	/* Only the first half of an extended CQE, as if the second were still under way. */
	void write_first_half(const CqeSpec &spec);
	void write_second_half(const CqeSpec &spec);

	/* Elements the provider has not yet given back. */
	uint32_t in_use() const;

private:
	uint64_t *claim(uint64_t &valid);

	std::span<sirdma_cqe> ring_;
	const sirdma_cq_shadow &shadow_;
	uint32_t head_ = 0;
	bool polarity_ = true;
};

} // namespace sirdma::test
