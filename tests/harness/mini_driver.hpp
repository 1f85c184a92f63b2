// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The smallest driver that can test a device model: a command ring, event queues,
// PBLE space and a few objects, each command returning the device's status. Tests
// of the model use it so that they do not depend on the driver core.
#pragma once

#include "test_host.hpp"

#include <sirdma/av.h>

namespace sirdma::test
{

// A CQ as a consumer sees it.
struct TestCq {
	u32 id = 0;
	u32 entries = 0;
	sirdma_dma_mem ring{};
	sirdma_dma_mem shadow{};
	u32 cons = 0;
	bool polarity = true;
	u32 seq = 0;

	sirdma_cq_shadow *area() { return static_cast<sirdma_cq_shadow *>(shadow.va); }
	// Next completion: first half, and second half when it is extended.
	struct Entry {
		sirdma_cqe cqe;
		bool extended = false;
		sirdma_cqe_ext ext;
	};
	std::optional<Entry> poll();
	// Ask for an event on the next completion, or the next solicited one or error.
	void arm(bool solicited_only = false);
};

struct TestAeqe {
	u32 code, source, id, wqe_idx, state;
	u64 event_ctx;
	bool overflow;
};

struct MrParams {
	u32 idx = 1;
	u8 key = 0x5a;
	u32 pd = 1;
	u64 va = 0;
	u64 len = 0;
	u8 access = SIRDMA_ACCESS_LOCAL_READ | SIRDMA_ACCESS_LOCAL_WRITE |
		    SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_WRITE |
		    SIRDMA_ACCESS_REMOTE_ATOMIC;
	u8 level = 0;
	u32 block_shift = 12;
	u64 addr = 0;
	u32 first_pble = 0;
	bool zero_based = false;
	bool is_mr = true;
	bool all_memory = false;
	bool may_fault = false;
	bool replace = false;

	u32 stag() const { return idx << 8 | key; }
};

class MiniDriver {
public:
	static constexpr u32 av_sd = 7; // address vectors are in this segment
	static constexpr u32 pble_base_sd = 1; // PBLE space starts at this one
	static constexpr u32 num_avs = 128; // of which the second half is not backed

	explicit MiniDriver(TestHost &host, u32 cqp_entries = 32);
	~MiniDriver() = default;
	MiniDriver(const MiniDriver &) = delete;
	MiniDriver &operator=(const MiniDriver &) = delete;

	TestHost &host() { return host_; }
	// Command ring, AEQ, one CEQ (id 0) and PBLE space of @sds segments; asserts success.
	void bring_up(u32 sds = 4);

	// Execute one command, whose valid bit is set here. Returns an enum sirdma_cqp_status.
	u32 exec(sirdma_cqp_wqe wqe);
	template <typename T> u32 exec(const T &cmd)
	{
		static_assert(sizeof(T) == sizeof(sirdma_cqp_wqe));
		return exec(std::bit_cast<sirdma_cqp_wqe>(cmd));
	}
	// Place a command without ringing; ring() then executes all that were placed.
	void place(const sirdma_cqp_wqe &wqe);
	void ring();
	u32 status();
	sirdma_cqp_wqe *slot(u32 i) { return static_cast<sirdma_cqp_wqe *>(ring_.va) + i; }
	u32 head() const { return head_; }
	bool start(u32 entries);

	u32 create_aeq(u32 entries);
	u32 create_ceq(u32 id, u32 entries);
	std::optional<TestAeqe> next_aeqe(bool ack = true);
	// CQ context of the next CEQE of CEQ @id.
	std::optional<u64> next_ceqe(u32 id = 0, bool ack = true);

	u32 create_cq(TestCq &cq, u32 id, u32 entries,
		      u64 flags = SIRDMA_CQP_CQ_ENCEQE | SIRDMA_CQP_CQ_CEQIDVALID, u32 ceq = 0);
	u32 destroy_cq(TestCq &cq);

	u32 update_sd(u32 idx, u64 data, bool valid = true);
	u32 commit_pbles(u32 base_sd, u32 count, u32 avs = 0);
	// Entries of PBLE space, written through the driver's own mapping.
	u32 alloc_pbles(u32 count, u32 align = 1);
	void write_pble(u32 idx, u64 val);
	// Level 0, 1 or 2 list of the blocks of @mem from block @first on.
	void describe(MrParams &mr, const UserMemory &mem, u8 level, size_t first = 0);
	u32 reg_mr(const MrParams &mr);
	// A slot whose region work requests may invalidate.
	u32 alloc_stag(u32 stag);
	// The same for fast registration: 2 * @blocks PBLEs from @first_pble on.
	u32 alloc_fast(u32 stag, u32 first_pble, u32 blocks, u32 pd = 1);
	u32 dealloc_stag(u32 stag);
	u32 alloc_mw(u32 idx, bool type1, u32 pd = 1);
	u32 dealloc_mw(u32 idx);

	u32 set_arp(u32 idx, const u8 mac[6], bool valid = true);
	u32 set_sgid(u32 idx, const sirdma_ip &ip, const u8 mac[6], bool valid = true,
		     int vlan = -1);

	// Address vector @idx, in the first page of its segment.
	sirdma_av *av(u32 idx) { return static_cast<sirdma_av *>(avs_.va) + idx; }

private:
	u32 exec_region(u64 hdr, u32 stag);

	TestHost &host_;
	u32 entries_;
	u32 head_ = 0;
	bool polarity_ = true;
	sirdma_dma_mem ring_{};
	sirdma_dma_mem ctx_{};
	struct Eq {
		sirdma_dma_mem mem{};
		u32 entries = 0, cons = 0;
		bool polarity = true;
	};
	Eq aeq_;
	std::map<u32, Eq> ceqs_;
	std::vector<sirdma_dma_mem> sds_;
	sirdma_dma_mem av_pds_{}, avs_{};
	u32 next_pble_ = 0;
};

} // namespace sirdma::test
