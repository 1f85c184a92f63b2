// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The state table of RC queue pairs (IBTA vol. 1, 11.2.5.2, as Linux enforces it), written down a second time as the tests' own source of truth.
#pragma once

#include "fixture.hpp"

#include <string>
#include <vector>

namespace verbs
{

struct Transition {
	ibv_qp_state from;
	ibv_qp_state to;
	int required;
	int optional;
};

inline constexpr ibv_qp_state all_states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
					      IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};
// SQE exists for unconnected services only: an RC queue pair never is in it.
inline constexpr ibv_qp_state reachable_states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						    IBV_QPS_RTS,   IBV_QPS_SQD,	 IBV_QPS_ERR};

// Null when the transition is illegal.
const Transition *find_transition(ibv_qp_state from, ibv_qp_state to);
const std::vector<Transition> &legal_transitions();
const char *state_name(ibv_qp_state state);
std::string mask_names(int mask);

// A pair whose end `a` can be driven to any state; `b` stays in INIT.
class StateTest : public VerbsTest {
protected:
	void SetUp() override;
	// Gives `a` a fresh start and walks it to `state`.
	void drive(ibv_qp_state state);
	// Good values for every attribute there is.
	ibv_qp_attr good_attr(ibv_qp_state to) const;
	int modify(const ibv_qp_attr &attr, int mask) const;

	End a;
	End b;
	Link link;
};

} // namespace verbs
