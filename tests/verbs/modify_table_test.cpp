// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The whole state table: each transition, each attribute that must, may or must not come with it.
#include "qp_states.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <tuple>

namespace verbs
{
namespace
{

class StateTable : public StateTest,
		   public testing::WithParamInterface<std::tuple<ibv_qp_state, ibv_qp_state>> {
protected:
	ibv_qp_state from() const { return std::get<0>(GetParam()); }
	ibv_qp_state to() const { return std::get<1>(GetParam()); }

	// The current state must match when it is given.
	ibv_qp_attr attributes() const
	{
		ibv_qp_attr attr = good_attr(to());
		attr.cur_qp_state = from();
		return attr;
	}
};

TEST_P(StateTable, LegalOnesSucceedAndOthersGiveEinval)
{
	const Transition *legal = find_transition(from(), to());

	drive(from());
	if (legal) {
		EXPECT_EQ(modify(attributes(), IBV_QP_STATE | legal->required), 0);
		EXPECT_EQ(state_of(a.qp.get()), to());
		return;
	}
	for (int mask : {0, init_mask, rtr_mask, rts_mask}) {
		EXPECT_EQ(modify(attributes(), IBV_QP_STATE | mask), EINVAL) << mask_names(mask);
		ASSERT_EQ(state_of(a.qp.get()), from()) << "a refused transition must change "
							   "nothing";
	}
}

TEST_P(StateTable, EachRequiredAttributeIsRequired)
{
	const Transition *legal = find_transition(from(), to());
	if (!legal || !legal->required)
		return; // nothing is required here
	drive(from());
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		if (!(legal->required & bit))
			continue;
		SCOPED_TRACE("without " + mask_names(bit));
		EXPECT_EQ(modify(attributes(), (IBV_QP_STATE | legal->required) & ~bit), EINVAL);
		ASSERT_EQ(state_of(a.qp.get()), from());
	}
	EXPECT_EQ(modify(attributes(), IBV_QP_STATE | legal->required), 0) << "nothing was lost by "
									      "the refusals";
}

TEST_P(StateTable, AttributesOfOtherTransitionsAreRefused)
{
	const Transition *legal = find_transition(from(), to());
	if (!legal)
		return; // refused whatever comes with it
	drive(from());
	for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		if ((legal->required | legal->optional) & bit)
			continue;
		SCOPED_TRACE("with " + mask_names(bit));
		const int error = modify(attributes(), IBV_QP_STATE | legal->required | bit);
		// a device that never resizes its queues may say so
		EXPECT_TRUE(error == EINVAL || (bit == IBV_QP_CAP && error == EOPNOTSUPP))
			<< std::strerror(error);
		ASSERT_EQ(state_of(a.qp.get()), from());
	}
}

TEST_P(StateTable, OptionalAttributesAreTaken)
{
	const Transition *legal = find_transition(from(), to());
	if (!legal)
		return; // refused whatever comes with it
	// Alternate paths do not exist on Ethernet adapters of this kind.
	const int optional = legal->optional & ~(IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		if (!(optional & bit))
			continue;
		SCOPED_TRACE("with " + mask_names(bit));
		drive(from());
		EXPECT_EQ(modify(attributes(), IBV_QP_STATE | legal->required | bit), 0);
		EXPECT_EQ(state_of(a.qp.get()), to());
	}
}

INSTANTIATE_TEST_SUITE_P(All, StateTable,
			 testing::Combine(testing::ValuesIn(reachable_states),
					  testing::ValuesIn(all_states)),
			 [](const auto &info) {
				 return std::string(state_name(std::get<0>(info.param))) + "_" +
					state_name(std::get<1>(info.param));
			 });

class States : public StateTest {};

TEST_F(States, UnknownStateIsRefused)
{
	for (ibv_qp_state state : reachable_states) {
		drive(state);
		ibv_qp_attr attr = good_attr(IBV_QPS_ERR);
		attr.qp_state = static_cast<ibv_qp_state>(8);
		EXPECT_EQ(modify(attr, IBV_QP_STATE), EINVAL) << state_name(state);
		EXPECT_EQ(state_of(a.qp.get()), state);
	}
}

TEST_F(States, WrongCurrentStateIsRefused)
{
	drive(IBV_QPS_RTS);
	for (ibv_qp_state current :
	     {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_SQD, IBV_QPS_ERR}) {
		ibv_qp_attr attr = good_attr(IBV_QPS_RTS);
		attr.cur_qp_state = current;
		EXPECT_EQ(modify(attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL)
			<< state_name(current);
		EXPECT_EQ(state_of(a.qp.get()), IBV_QPS_RTS);
	}
}

TEST_F(States, AttributesWithoutAStateKeepTheState)
{
	drive(IBV_QPS_RTS);
	ibv_qp_attr attr = good_attr(IBV_QPS_RTS);
	attr.min_rnr_timer = 17;
	EXPECT_EQ(modify(attr, IBV_QP_MIN_RNR_TIMER), 0);
	EXPECT_EQ(query(a.qp.get()).min_rnr_timer, 17);
	EXPECT_EQ(modify(attr, IBV_QP_DEST_QPN), EINVAL);
	EXPECT_EQ(state_of(a.qp.get()), IBV_QPS_RTS);
}

TEST_F(States, CreatedInReset)
{
	End fresh = End::create(device());
	ASSERT_TRUE(fresh.qp);
	EXPECT_EQ(fresh.qp->state, IBV_QPS_RESET);
	EXPECT_EQ(state_of(fresh.qp.get()), IBV_QPS_RESET);
}

TEST_F(States, ManyLapsThroughTheWholeLife)
{
	for (int lap = 0; lap < 50 && !HasFailure(); lap++) {
		drive(lap % 2 ? IBV_QPS_SQD : IBV_QPS_RTS);
		EXPECT_EQ(to_state(a.qp.get(), lap % 3 ? IBV_QPS_ERR : IBV_QPS_RESET), 0);
	}
}

} // namespace
} // namespace verbs
