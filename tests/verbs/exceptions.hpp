// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Where another implementation is known to differ from the specification. These tests are left out when that
// implementation is at either end, each with its reason on the screen; a device of ours has no such list.
#pragma once

#include <string>

namespace verbs
{

// The patterns to leave out of a run, in --gtest_filter's language, and a line for each on stdout.
// `initiator` and `responder` say which ends are rdma_rxe.
std::string announce_rxe_exceptions(bool initiator, bool responder);

} // namespace verbs
