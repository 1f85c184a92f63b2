/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Extended CQ polling: start, next, end, and one reader per field.
 */
#include <cerrno>
#include <endian.h>

#include "clock.hpp"
#include "cq.hpp"

namespace sirdma
{

namespace
{

/*
 * wr_id and status are members of the verbs object. The application reads the other fields through
 * calls.
 */
void stand_at_current(Cq &cq) noexcept
{
	cq.ex.wr_id = cq.current.wr_id;
	cq.ex.status = static_cast<ibv_wc_status>(cq.current.status);
}

int start_poll(ibv_cq_ex *ex, ibv_poll_cq_attr *attr) noexcept
{
	Cq &cq = Cq::of(ex);

	if (attr->comp_mask)
		return EINVAL;
	if (!cq.queue().begin(cq.current))
		return ENOENT;
	stand_at_current(cq);
	return 0;
}

int next_poll(ibv_cq_ex *ex) noexcept
{
	Cq &cq = Cq::of(ex);

	if (!cq.queue().next(cq.current))
		return ENOENT;
	stand_at_current(cq);
	return 0;
}

void end_poll(ibv_cq_ex *ex) noexcept
{
	Cq::of(ex).queue().end();
}

ibv_wc_opcode read_opcode(ibv_cq_ex *ex) noexcept
{
	return static_cast<ibv_wc_opcode>(Cq::of(ex).current.opcode);
}

uint32_t read_vendor_err(ibv_cq_ex *ex) noexcept
{
	return Cq::of(ex).current.vendor_err;
}

uint32_t read_byte_len(ibv_cq_ex *ex) noexcept
{
	return Cq::of(ex).current.byte_len;
}

/* The immediate data in network order, or the invalidated rkey without conversion. */
__be32 read_imm_data(ibv_cq_ex *ex) noexcept
{
	const Completion &c = Cq::of(ex).current;

	return c.flags & SIRDMA_WC_HAS_INV ? c.imm : htobe32(c.imm);
}

uint32_t read_qp_num(ibv_cq_ex *ex) noexcept
{
	return Cq::of(ex).current.qp_num;
}

uint32_t read_src_qp(ibv_cq_ex *ex) noexcept
{
	return Cq::of(ex).current.src_qp;
}

unsigned int read_wc_flags(ibv_cq_ex *ex) noexcept
{
	return Cq::of(ex).current.flags & SIRDMA_WC_VERBS_FLAGS;
}

uint32_t read_slid(ibv_cq_ex *) noexcept
{
	return 0;
}

uint8_t read_sl(ibv_cq_ex *ex) noexcept
{
	return datagram_sl(Cq::of(ex).current);
}

uint8_t read_dlid_path_bits(ibv_cq_ex *) noexcept
{
	return 0;
}

uint64_t read_completion_ts(ibv_cq_ex *ex) noexcept
{
	return Cq::of(ex).current.timestamp;
}

uint64_t read_completion_wallclock_ns(ibv_cq_ex *ex) noexcept
{
	return Cq::of(ex).wallclock();
}

/*
 * Two readings of the device's clock, and one of the time of day between them, take less than 1 us,
 * and some us where a processor is emulated. If they take longer, the thread has lost its processor
 * in between.
 */
constexpr uint64_t comparison_ns = 10000;
constexpr int comparisons = 10;

} // namespace

/* How far the time of day is ahead of the device's clock, by the quickest of some comparisons. */
int Cq::compare_clocks() noexcept
{
	uint64_t quickest = UINT64_MAX;

	for (int i = 0; i < comparisons && quickest > comparison_ns; ++i) {
		uint64_t before = 0, after = 0;

		if (const int err = commands(cq.context).read_clock(cq.context, before))
			return err;
		const uint64_t of_day = clock_ns(CLOCK_REALTIME);

		if (const int err = commands(cq.context).read_clock(cq.context, after))
			return err;
		if (after - before >= quickest)
			continue;
		quickest = after - before;
		wall_offset_ = of_day - (before + quickest / 2);
	}
	return 0;
}

/*
 * The two clocks are compared once a second: the time of day may be set, but completions that are
 * read together must not change their order by the inaccuracy of comparing. CLOCK_BOOTTIME counts
 * the seconds, because it continues while the machine is suspended, when the device's clock stands
 * still.
 */
uint64_t Cq::wallclock() noexcept
{
	const uint64_t now = clock_ns(CLOCK_BOOTTIME);

	if (!compared_ || now - compared_ > ns_per_second) {
		/* A child does not have the device, and no completion either. */
		if (compare_clocks())
			return 0;
		compared_ = now;
	}
	return current.timestamp + wall_offset_;
}

void Cq::enable_extended_poll(uint64_t wc_flags) noexcept
{
	ex.start_poll = start_poll;
	ex.next_poll = next_poll;
	ex.end_poll = end_poll;
	ex.read_opcode = read_opcode;
	ex.read_vendor_err = read_vendor_err;
	ex.read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex.read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		ex.read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		ex.read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		ex.read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		ex.read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		ex.read_sl = read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex.read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex.read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

} // namespace sirdma
