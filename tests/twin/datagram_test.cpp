/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams of one queue pair to many processes. */
#include "child.hpp"
#include "ud.hpp"

namespace sirdma::twin::test
{

class TwinDatagram : public ::testing::TestWithParam<LinkKind> {};

INSTANTIATE_TEST_SUITE_P(All, TwinDatagram, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

/* The first one to each of them makes the connection and is not lost. */
TEST_P(TwinDatagram, GoToEveryProcessOfAnAddress)
{
	constexpr uint32_t rounds = 16;
	const Config there = at(own_address(0), GetParam());
	Node first(there), second(there), third(there);
	Node source(at(own_address(1), GetParam()));
	Ud a(first), b(second), c(third), from(source);
	Ud *const to[] = {&a, &b, &b, &c};
	std::vector<uint32_t> qpns;

	EXPECT_NE(slot_of(a.qp->qp_num), slot_of(b.qp->qp_num));
	EXPECT_NE(slot_of(b.qp->qp_num), slot_of(c.qp->qp_num));
	source.fill(3);
	from.aim(first.address().gid);
	for (Ud *ud : {&a, &b, &c})
		ud->post_recvs(2 * rounds);
	for (uint32_t n = 0; n < rounds * std::size(to); ++n)
		qpns.push_back(to[n % std::size(to)]->qp->qp_num);
	from.send(qpns);
	for (uint32_t n = 0; n < qpns.size() && !HasFailure(); ++n)
		to[n % std::size(to)]->expect(n, from);
}

/* The poster does not wait for a process that is not there, nor do the others. */
TEST_P(TwinDatagram, ForNobodyAreLostAlone)
{
	Node there(at(own_address(0), GetParam())), source(at(own_address(1), GetParam()));
	Ud sink(there), from(source);
	const uint32_t nobody = first_qpn_of(slot_of(sink.qp->qp_num) + 1) + 5;

	source.fill(4);
	from.aim(there.address().gid);
	sink.post_recvs(3);
	from.send({nobody, sink.qp->qp_num, nobody, nobody, sink.qp->qp_num, nobody});
	sink.expect(1, from);
	sink.expect(4, from);
	if (GetParam() == LinkKind::shm) {
		EXPECT_EQ(source.device->nic->stat(SIRDMA_STAT_TX_DROPS), 4u);
	}
}

} // namespace sirdma::twin::test
