// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the tests share: two devices, pairs of connected RC queue pairs, posting, waiting and checking.
#pragma once

#include "device.hpp"
#include "memory.hpp"
#include "options.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace verbs
{

// Opened once for the whole program; `device` initiates, `peer` responds.
bool open_devices();
const Device &device();
const Device &peer();
bool same_device();
// The address of --unreachable, if one of the family in use was given.
std::optional<ibv_gid> nobody();

// A registered range of memory.
struct Region {
	Mapping memory;
	Mr mr;

	explicit operator bool() const { return mr != nullptr; }
	uint64_t address(size_t offset = 0) const { return memory.address(offset); }
	std::span<std::byte> bytes(size_t offset, size_t length) const
	{
		return memory.bytes().subspan(offset, length);
	}
	ibv_sge sge(size_t offset, size_t length) const
	{
		return {address(offset), static_cast<uint32_t>(length), mr->lkey};
	}
	void fill(uint64_t seed) const { fill_pattern(memory.bytes(), seed); }
};

inline constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				  IBV_ACCESS_REMOTE_WRITE;

Region make_region(ibv_pd *pd, size_t length, int access = all_access);

struct EndOptions {
	ibv_qp_type type = IBV_QPT_RC;
	uint32_t send_wr = 32;
	uint32_t recv_wr = 32;
	uint32_t send_sge = 2;
	uint32_t recv_sge = 2;
	uint32_t inline_data = 0;
	bool signal_all = false;
	int cqe = 0; // 0: room for everything the queues can hold
	ibv_cq *shared_cq = nullptr;
	ibv_pd *shared_pd = nullptr;
	ibv_srq *srq = nullptr;
};

// One queue pair with what it needs. Members are destroyed last to first.
struct End {
	const Device *dev = nullptr;
	Pd own_pd;
	ibv_pd *pd = nullptr;
	Cq send_cq;
	Cq recv_cq;
	ibv_cq *scq = nullptr;
	ibv_cq *rcq = nullptr;
	ibv_qp_cap cap = {};
	uint32_t psn = 0;
	Qp qp;

	// Null `qp` and errno on failure.
	static End create(const Device &dev, const EndOptions &options = {});
	Address address() const { return {qp->qp_num, psn, dev->gid}; }
};

struct Pair {
	End a; // on device(), the initiator of one-sided tests
	End b; // on peer()
	Link link;

	// RESET to RTS at both ends; fails the test otherwise.
	void connect();
	void reset();
};

Link default_link();

// Is `error` that of a call which the driver of `dev` lacks? Those of other drivers may; a test of ours then fails.
bool lacks(const Device &dev, int error);

// Why a test is skipped whose operation a device does not offer: the call or the attribute, and what the device answered.
// scripts/demo-features knows these tests by the first two words.
std::string not_offered(const std::string &what, int error);
std::string not_reported(const std::string &attribute, uint64_t value = 0);

inline constexpr unsigned signaled = IBV_SEND_SIGNALED;

struct SendSpec {
	ibv_wr_opcode op = IBV_WR_SEND;
	std::vector<ibv_sge> sges = {};
	uint64_t wr_id = 0;
	unsigned flags = signaled;
	uint64_t remote_addr = 0;
	uint32_t rkey = 0;
	uint32_t imm = 0;
	uint64_t compare_add = 0; // of an atomic
	uint64_t swap = 0;
};

// The verb's result.
int post(const End &end, SendSpec spec);
int post_recv(const End &end, std::vector<ibv_sge> sges, uint64_t wr_id = 0);
int post_recv(ibv_srq *srq, std::vector<ibv_sge> sges, uint64_t wr_id = 0);

// Polls, yielding the processor between polls, until a completion or the deadline.
std::optional<ibv_wc> await(ibv_cq *cq, std::chrono::milliseconds limit = patience());
// Whether a request that the responder refuses may end like this. Where packets are lost, its NAK may be, and a responder that
// stopped does not repeat it (IBTA 9.9.3): the requester then runs out of retries.
bool ends_as(ibv_wc_status status, ibv_wc_status wanted);
// Why a test of several requests of which one is refused is skipped there.
inline constexpr char lost_answers[] = "a responder that stopped repeats no answer that was lost, "
				       "of no request";
// As await; a missing completion or another status fails the test.
ibv_wc expect_wc(ibv_cq *cq, ibv_wc_status status = IBV_WC_SUCCESS,
		 std::chrono::milliseconds limit = patience());
// Fails the test when a completion appears within that time.
void expect_quiet(ibv_cq *cq, std::chrono::milliseconds time);
bool await_condition(const std::function<bool()> &condition,
		     std::chrono::milliseconds limit = patience());

ibv_qp_state state_of(ibv_qp *qp);
ibv_qp_attr query(ibv_qp *qp);

// The next asynchronous event of a device that concerns `qp` (others are acknowledged and dropped).
std::optional<ibv_event_type> await_qp_event(const Device &dev, ibv_qp *qp,
					     std::chrono::milliseconds limit = patience());
std::optional<ibv_event_type> await_srq_event(const Device &dev, ibv_srq *srq,
					      std::chrono::milliseconds limit = patience());
std::optional<ibv_event_type> await_cq_event(const Device &dev, ibv_cq *cq,
					     std::chrono::milliseconds limit = patience());
// Throws away what is pending, so that one test does not see another's events.
void drain_async(const Device &dev);

testing::AssertionResult has_pattern(std::span<const std::byte> bytes, uint64_t seed,
				     uint64_t first = 0);

const char *op_name(ibv_wr_opcode op);
inline constexpr ibv_wr_opcode all_ops[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};
bool takes_recv(ibv_wr_opcode op);
bool is_rdma(ibv_wr_opcode op);
bool is_atomic(ibv_wr_opcode op);

// One operation from (a, local) to (b, remote), checked at both ends: completions, every byte that had to move, and
// every byte around it that had not to.
struct Transfer {
	ibv_wr_opcode op;
	size_t local_offset;
	size_t remote_offset;
	uint32_t length;
};
void run_transfer(const Pair &pair, const Region &local, const Region &remote,
		  const Transfer &transfer);

class VerbsTest : public testing::Test {
protected:
	void SetUp() override;
	Pair make_pair(const EndOptions &options = {}, const Link &link = default_link());
	Pair make_pair(const EndOptions &a, const EndOptions &b, const Link &link);
	// Give end a of @pair another queue pair, for ibv_wr_* with @send_ops, and connect it. Null with errno.
	ibv_qp_ex *use_builder(Pair &pair, uint64_t send_ops);
	uint64_t seed() const { return seed_; }

private:
	uint64_t seed_ = 0;
};

} // namespace verbs
