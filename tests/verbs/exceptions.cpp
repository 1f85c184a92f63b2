// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "exceptions.hpp"

#include <cstdio>

namespace verbs
{
namespace
{

struct Exception {
	const char *tests; // --gtest_filter patterns
	bool initiator; // concerns the end that initiates, the one that responds
	bool responder;
	const char *reason;
};

// Seen with rdma_rxe of Linux 6.12 or 7.3.
const Exception rxe[] = {
	{"All/LocalProtection.*/Send_*:All/LocalProtection.*/"
	 "Write_*:Protection.FaultInALaterPiece*:"
	 "RegChurn.LocalDeregistrationUnderTraffic",
	 true, false,
	 "a bad local key of a SEND or WRITE completes as flushed, not as a local protection "
	 "error"},
	{"All/ReceiveProtection.*:Protection.ReceiveIntoMemoryWithoutLocalWrite", false, true,
	 "an unusable receive buffer completes as a local QP operation error, not as a local "
	 "protection error"},
	{"Errors.TooLongSend*", false, true,
	 "a too long SEND is answered as an operational error, not as an invalid request"},
	{"All/"
	 "RemoteProtection.RespondersQueuePair*:AsyncEvents.RefusedAccess*",
	 false, true,
	 "a refused RDMA operation neither moves the responder's queue pair to ERR nor raises an "
	 "event"},
	{"All/BadAttribute.*/Pkey*:All/BadAttribute.*/PathMtuZero:All/BadAttribute.*/"
	 "DestinationQp*:"
	 "All/BadAttribute.*/MinRnrTimer*:All/BadAttribute.*/RetryCount*:All/BadAttribute.*/"
	 "RnrRetry*:"
	 "All/BadAttribute.*/TooManyReadsAsResponder:Attributes.PathMtuAboveThePorts*:"
	 "All/BadAttribute.*/DestinationUnspecifiedInIpv4",
	 true, false, "the attribute's range is not checked"},
	{"States.WrongCurrentState*", true, false, "a given current state is believed"},
	{"States.AttributesWithoutAState*", true, false,
	 "attributes without a state are not checked"},
	{"Registration.MoreThanFourGibibytes", false, true,
	 "a page list of more than 4 MiB is not allocated, and the kernel logs a trace"},
	{"Registration.IovaThatWrapsIsRefused", false, true,
	 "an iova range that wraps is accepted"},
	{"CompletionEvents.SolicitedArmingCatchesErrors", false, true,
	 "flushed receives do not count as solicited"},
	{"Drain.WorkPostedWhileDrainedWaits:Drain.DrainedQueueSaysSo*", true, false,
	 "leaving SQD does not start the send queue again"},
	{"Errors.PostsInErrorStateAreFlushed", true, false,
	 "receives posted in the ERR state are not flushed"},
	{"MemoryWindowBinds.RegionOfAnotherDomain:MemoryWindowBinds.QueuePairOfAnotherDomain",
	 false, true, "a window is bound to a region of another domain"},
	{"Reuse.OfMemoryWhoseResponderWasStopped", false, true,
	 "an answer to a READ that has begun goes on in a queue pair that was stopped"},
	{"Flushes.*:FlushProtection.*", true, true,
	 "the ICRC of a FLUSH covers its headers twice, so only soft-RoCE accepts it"},
};

} // namespace

std::string announce_rxe_exceptions(bool initiator, bool responder)
{
	std::string filter;
	for (const Exception &exception : rxe) {
		if (!(initiator && exception.initiator) && !(responder && exception.responder))
			continue;
		std::printf("rdma_rxe: leaving out %s: %s\n", exception.tests, exception.reason);
		filter += (filter.empty() ? "" : ":") + std::string(exception.tests);
	}
	return filter;
}

} // namespace verbs
