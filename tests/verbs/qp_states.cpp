// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "qp_states.hpp"

namespace verbs
{
namespace
{

constexpr int init_optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int rts_optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
			     IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr int sqd_optional = (rts_optional & ~IBV_QP_CUR_STATE) | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;

} // namespace

const std::vector<Transition> &legal_transitions()
{
	static const std::vector<Transition> table = {
		{IBV_QPS_RESET, IBV_QPS_INIT, init_mask & ~IBV_QP_STATE, 0},
		{IBV_QPS_INIT, IBV_QPS_INIT, 0, init_optional},
		{IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask & ~IBV_QP_STATE,
		 IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH},
		{IBV_QPS_RTR, IBV_QPS_RTS, rts_mask & ~IBV_QP_STATE, rts_optional},
		{IBV_QPS_RTS, IBV_QPS_RTS, 0, rts_optional},
		{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
		{IBV_QPS_SQD, IBV_QPS_SQD, 0, sqd_optional},
		{IBV_QPS_SQD, IBV_QPS_RTS, 0, rts_optional},
		// from anywhere to the two ends of a life, but Linux refuses RESET to ERR
		{IBV_QPS_RESET, IBV_QPS_RESET, 0, 0},
		{IBV_QPS_INIT, IBV_QPS_RESET, 0, 0},
		{IBV_QPS_RTR, IBV_QPS_RESET, 0, 0},
		{IBV_QPS_RTS, IBV_QPS_RESET, 0, 0},
		{IBV_QPS_SQD, IBV_QPS_RESET, 0, 0},
		{IBV_QPS_ERR, IBV_QPS_RESET, 0, 0},
		{IBV_QPS_INIT, IBV_QPS_ERR, 0, 0},
		{IBV_QPS_RTR, IBV_QPS_ERR, 0, 0},
		{IBV_QPS_RTS, IBV_QPS_ERR, 0, 0},
		{IBV_QPS_SQD, IBV_QPS_ERR, 0, 0},
		{IBV_QPS_ERR, IBV_QPS_ERR, 0, 0},
	};
	return table;
}

const Transition *find_transition(ibv_qp_state from, ibv_qp_state to)
{
	for (const Transition &transition : legal_transitions())
		if (transition.from == from && transition.to == to)
			return &transition;
	return nullptr;
}

const char *state_name(ibv_qp_state state)
{
	static constexpr const char *names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	return static_cast<size_t>(state) < std::size(names) ? names[state] : "?";
}

std::string mask_names(int mask)
{
	static constexpr const char *names[] = {
		"STATE",
		"CUR_STATE",
		"EN_SQD_ASYNC_NOTIFY",
		"ACCESS_FLAGS",
		"PKEY_INDEX",
		"PORT",
		"QKEY",
		"AV",
		"PATH_MTU",
		"TIMEOUT",
		"RETRY_CNT",
		"RNR_RETRY",
		"RQ_PSN",
		"MAX_RD_ATOMIC",
		"ALT_PATH",
		"MIN_RNR_TIMER",
		"SQ_PSN",
		"MAX_DEST_RD_ATOMIC",
		"PATH_MIG_STATE",
		"CAP",
		"DEST_QPN",
	};
	std::string text;
	for (size_t bit = 0; bit < std::size(names); bit++)
		if (mask >> bit & 1)
			text += (text.empty() ? "" : "|") + std::string(names[bit]);
	return text.empty() ? "nothing" : text;
}

void StateTest::SetUp()
{
	VerbsTest::SetUp();
	a = End::create(device());
	b = End::create(peer());
	ASSERT_TRUE(a.qp && b.qp);
	link = default_link();
	ASSERT_EQ(to_init(b.qp.get(), peer(), link), 0);
}

void StateTest::drive(ibv_qp_state state)
{
	ibv_qp *qp = a.qp.get();
	// rdma_rxe refuses to leave SQD while it drains.
	if (device().is_rxe()) {
		ASSERT_TRUE(await_condition([&] { return query(qp).sq_draining == 0; }));
	}
	ASSERT_EQ(to_state(qp, IBV_QPS_RESET), 0);
	if (state == IBV_QPS_RESET)
		return;
	ASSERT_EQ(to_init(qp, device(), link), 0);
	if (state == IBV_QPS_ERR) {
		ASSERT_EQ(to_state(qp, IBV_QPS_ERR), 0);
		return;
	}
	if (state == IBV_QPS_INIT)
		return;
	ASSERT_EQ(to_rtr(qp, device(), b.address(), link), 0);
	if (state == IBV_QPS_RTR)
		return;
	ASSERT_EQ(to_rts(qp, a.psn, link), 0);
	if (state == IBV_QPS_SQD) {
		ASSERT_EQ(to_state(qp, IBV_QPS_SQD), 0);
		ASSERT_TRUE(await_condition([&] { return query(qp).sq_draining == 0; }));
	}
}

ibv_qp_attr StateTest::good_attr(ibv_qp_state to) const
{
	ibv_qp_attr attr = rtr_attr(device(), b.address(), link);
	const ibv_qp_attr init = init_attr(device(), link);
	const ibv_qp_attr rts = rts_attr(a.psn, link);

	attr.qp_state = to;
	attr.pkey_index = init.pkey_index;
	attr.port_num = init.port_num;
	attr.qp_access_flags = init.qp_access_flags;
	attr.sq_psn = rts.sq_psn;
	attr.timeout = rts.timeout;
	attr.retry_cnt = rts.retry_cnt;
	attr.rnr_retry = rts.rnr_retry;
	attr.max_rd_atomic = rts.max_rd_atomic;
	attr.qkey = 0x11111111;
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_port_num = attr.port_num;
	attr.cap = a.cap;
	return attr;
}

int StateTest::modify(const ibv_qp_attr &attr, int mask) const
{
	ibv_qp_attr copy = attr;
	return ibv_modify_qp(a.qp.get(), &copy, mask);
}

} // namespace verbs
