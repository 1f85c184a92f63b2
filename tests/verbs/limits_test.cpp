// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What a device says of itself is true; many objects come and go; what is too much is refused.
#include "fixture.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace verbs
{
namespace
{

class Limits : public VerbsTest {};

TEST_F(Limits, DeviceAttributesAreSane)
{
	const ibv_device_attr &attr = device().attr;

	EXPECT_NE(attr.vendor_id, 0u);
	EXPECT_NE(attr.node_guid, 0u);
	EXPECT_NE(attr.sys_image_guid, 0u);
	EXPECT_NE(attr.fw_ver[0], '\0');
	EXPECT_NE(memchr(attr.fw_ver, 0, sizeof(attr.fw_ver)), nullptr);
	EXPECT_EQ(attr.phys_port_cnt, 1);
	EXPECT_GE(attr.max_mr_size, 4ull << 30);
	EXPECT_TRUE(attr.page_size_cap & 4096);
	EXPECT_GE(attr.max_qp, 1024);
	EXPECT_GE(attr.max_cq, 1024);
	EXPECT_GE(attr.max_mr, 4096);
	EXPECT_GE(attr.max_pd, 16);
	EXPECT_GE(attr.max_qp_wr, 64);
	EXPECT_GE(attr.max_sge, 2);
	EXPECT_GE(attr.max_sge_rd, 1);
	EXPECT_GE(attr.max_cqe, 1024);
	EXPECT_GE(attr.max_qp_rd_atom, 1);
	EXPECT_GE(attr.max_qp_init_rd_atom, 1);
	EXPECT_LE(attr.max_qp_rd_atom, 255);
	EXPECT_GE(attr.max_pkeys, 1);
}

TEST_F(Limits, ExtendedQueryAgrees)
{
	ibv_device_attr_ex ex = {};

	ASSERT_EQ(ibv_query_device_ex(device().context.get(), nullptr, &ex), 0);
	EXPECT_EQ(ex.orig_attr.max_qp, device().attr.max_qp);
	EXPECT_EQ(ex.orig_attr.node_guid, device().attr.node_guid);
	EXPECT_EQ(ex.orig_attr.max_qp_wr, device().attr.max_qp_wr);
}

TEST_F(Limits, PortIsAnActiveEthernetPort)
{
	const ibv_port_attr &port = device().port_attr;
	uint16_t pkey = 0;
	ibv_port_attr none = {};

	EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
	EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	EXPECT_LE(port.active_mtu, port.max_mtu);
	EXPECT_GE(port.active_mtu, IBV_MTU_256);
	EXPECT_LE(port.max_mtu, IBV_MTU_4096);
	EXPECT_GT(port.gid_tbl_len, 0);
	EXPECT_GT(port.max_msg_sz, 1u << 20);
	ASSERT_GE(port.pkey_tbl_len, 1);
	ASSERT_EQ(ibv_query_pkey(device().context.get(), device().port, 0, &pkey), 0);
	EXPECT_EQ(pkey, 0xffff);
	EXPECT_NE(ibv_query_port(device().context.get(), 2, &none), 0);
	EXPECT_NE(ibv_query_port(device().context.get(), 0, &none), 0);
}

TEST_F(Limits, GidTableAgreesWithSingleQueries)
{
	ibv_gid_entry entries[256];
	const ssize_t count =
		ibv_query_gid_table(device().context.get(), entries, std::size(entries), 0);

	ASSERT_GT(count, 0);
	for (ssize_t i = 0; i < count; i++) {
		ibv_gid gid = {};
		ASSERT_EQ(ibv_query_gid(device().context.get(), device().port,
					static_cast<int>(entries[i].gid_index), &gid),
			  0);
		EXPECT_EQ(std::memcmp(&gid, &entries[i].gid, sizeof(gid)), 0)
			<< "index " << entries[i].gid_index;
		EXPECT_EQ(entries[i].port_num, device().port);
		EXPECT_NE(entries[i].ndev_ifindex, 0u);
	}
}

TEST_F(Limits, OneGidIsThatOfTheTable)
{
	ibv_context *const context = device().context.get();
	const auto len = static_cast<uint32_t>(device().port_attr.gid_tbl_len);
	std::vector<ibv_gid_entry> table(len);
	const ssize_t count = ibv_query_gid_table(context, table.data(), table.size(), 0);
	size_t of_rocev2 = 0, next = 0;
	ibv_gid_entry entry = {};

	ASSERT_GT(count, 0);
	table.resize(static_cast<size_t>(count));
	for (uint32_t i = 0; i < len; i++) {
		entry = {};
		const int err = ibv_query_gid_ex(context, device().port, i, &entry, 0);
		if (next == table.size() || table[next].gid_index != i) {
			EXPECT_EQ(err, ENODATA) << "index " << i << " is not in the table";
			continue;
		}
		const ibv_gid_entry &wanted = table[next++];
		ASSERT_EQ(err, 0) << "index " << i;
		EXPECT_EQ(std::memcmp(&entry.gid, &wanted.gid, sizeof(entry.gid)), 0)
			<< "index " << i;
		EXPECT_EQ(entry.gid_index, i);
		EXPECT_EQ(entry.port_num, wanted.port_num);
		EXPECT_EQ(entry.ndev_ifindex, wanted.ndev_ifindex);
		EXPECT_EQ(entry.gid_type, wanted.gid_type);
		EXPECT_TRUE(entry.gid_type == IBV_GID_TYPE_ROCE_V1 ||
			    entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			<< entry.gid_type;
		of_rocev2 += entry.gid_type == IBV_GID_TYPE_ROCE_V2;
	}
	EXPECT_EQ(next, table.size());
	EXPECT_GT(of_rocev2, 0u);
	EXPECT_EQ(ibv_query_gid_ex(context, device().port, len, &entry, 0), EINVAL);
	EXPECT_EQ(ibv_query_gid_ex(context, device().port + 1u, 0, &entry, 0), EINVAL);
	EXPECT_EQ(ibv_query_gid_ex(context, device().port, 0, &entry, 1), EINVAL);
	// A table without room for all is refused.
	EXPECT_LT(ibv_query_gid_table(context, table.data(), table.size() - 1, 0), 0);
}

TEST_F(Limits, QueuesOfTheReportedDepthWork)
{
	const auto depth = static_cast<uint32_t>(device().attr.max_qp_wr);

	for (const EndOptions &wanted :
	     {EndOptions{.send_wr = depth, .recv_wr = 1, .send_sge = 1, .recv_sge = 1, .cqe = 16},
	      EndOptions{.send_wr = 1, .recv_wr = depth, .send_sge = 1, .recv_sge = 1, .cqe = 16}}) {
		const End end = End::create(device(), wanted);
		ASSERT_TRUE(end.qp) << wanted.send_wr << " sends, " << wanted.recv_wr
				    << " receives: " << std::strerror(errno);
		EXPECT_GE(end.cap.max_send_wr, wanted.send_wr);
		EXPECT_GE(end.cap.max_recv_wr, wanted.recv_wr);
	}
}

// UCX creates such queues for datagrams without asking for max_qp_wr, which holds for requests of any size.
TEST_F(Limits, DeepQueuesOfShortReceivesWork)
{
	static constexpr uint32_t depth = 4096;

	for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
		const End end =
			End::create(device(), {.type = type, .recv_wr = depth, .recv_sge = 1});
		ASSERT_TRUE(end.qp) << type << ": " << std::strerror(errno);
		EXPECT_GE(end.cap.max_recv_wr, depth);
		ibv_qp_attr attr = init_attr(device(), default_link());
		const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
		ASSERT_EQ(ibv_modify_qp(end.qp.get(), &attr, mask), 0);
		for (uint32_t i = 0; i < depth; i++)
			ASSERT_EQ(post_recv(end, {}, i), 0) << i;
		ASSERT_EQ(to_state(end.qp.get(), IBV_QPS_ERR), 0);
		for (uint32_t i = 0; i < depth; i++)
			ASSERT_EQ(expect_wc(end.rcq, IBV_WC_WR_FLUSH_ERR).wr_id, i);
	}
}

TEST_F(Limits, PiecesOfTheReportedNumberWork)
{
	const auto pieces = static_cast<uint32_t>(device().attr.max_sge);
	const End end = End::create(
		device(), {.send_wr = 4, .recv_wr = 4, .send_sge = pieces, .recv_sge = pieces});

	ASSERT_TRUE(end.qp) << std::strerror(errno);
	EXPECT_GE(end.cap.max_send_sge, pieces);
	EXPECT_GE(end.cap.max_recv_sge, pieces);
}

TEST_F(Limits, CompletionQueueOfTheReportedSizeWorks)
{
	const Cq cq(
		ibv_create_cq(device().context.get(), device().attr.max_cqe, nullptr, nullptr, 0));

	ASSERT_TRUE(cq) << std::strerror(errno);
	EXPECT_GE(cq->cqe, device().attr.max_cqe);
}

TEST_F(Limits, SmallestObjectsWork)
{
	const End end =
		End::create(device(), {.send_wr = 1, .recv_wr = 1, .send_sge = 1, .recv_sge = 1});

	EXPECT_TRUE(end.qp) << std::strerror(errno);
	const End no_recv =
		End::create(device(), {.send_wr = 1, .recv_wr = 0, .send_sge = 1, .recv_sge = 0});
	EXPECT_TRUE(no_recv.qp) << std::strerror(errno);
}

TEST_F(Limits, MoreThanReportedIsRefused)
{
	const ibv_device_attr &attr = device().attr;
	const auto wrs = static_cast<uint32_t>(attr.max_qp_wr);
	const auto sges = static_cast<uint32_t>(attr.max_sge);
	struct {
		const char *what;
		EndOptions options;
	} const cases[] = {
		/*
		 * max_qp_wr holds for requests of any size, and rings are rounded up to a power of
		 * two, so a device may accept up to twice as many.
		 */
		{"sends", {.send_wr = wrs * 2 + 2, .send_sge = sges, .cqe = 16}},
		{"receives", {.recv_wr = wrs * 2 + 2, .recv_sge = sges, .cqe = 16}},
		{"pieces per send", {.send_sge = sges + 1}},
		{"pieces per receive", {.recv_sge = sges + 1}},
		{"inline data", {.inline_data = 1 << 20}},
		{"all of it",
		 {.send_wr = ~0u,
		  .recv_wr = ~0u,
		  .send_sge = ~0u,
		  .recv_sge = ~0u,
		  .inline_data = ~0u,
		  .cqe = 16}},
	};
	for (const auto &one : cases) {
		errno = 0;
		const End end = End::create(device(), one.options);
		EXPECT_FALSE(end.qp) << one.what;
		EXPECT_EQ(errno, EINVAL) << one.what << ": " << std::strerror(errno);
	}
}

TEST_F(Limits, BadCompletionQueueSizesAreRefused)
{
	for (int cqe : {0, -1, device().attr.max_cqe + 1}) {
		errno = 0;
		const Cq cq(ibv_create_cq(device().context.get(), cqe, nullptr, nullptr, 0));
		EXPECT_FALSE(cq) << cqe;
		EXPECT_EQ(errno, EINVAL) << cqe;
	}
	errno = 0;
	const Cq cq(ibv_create_cq(device().context.get(), 16, nullptr, nullptr,
				  device().context->num_comp_vectors));
	EXPECT_FALSE(cq) << "completion vector beyond the last";
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(Limits, ObjectsInUseAreNotDestroyed)
{
	End end = End::create(device());

	ASSERT_TRUE(end.qp);
	EXPECT_EQ(destroy(end.own_pd), EBUSY);
	EXPECT_EQ(destroy(end.send_cq), EBUSY);
	EXPECT_EQ(destroy(end.recv_cq), EBUSY);
	EXPECT_EQ(destroy(end.qp), 0);
	EXPECT_EQ(destroy(end.recv_cq), 0);
	EXPECT_EQ(destroy(end.send_cq), 0);
	EXPECT_EQ(destroy(end.own_pd), 0);
}

TEST_F(Limits, HundredsOfQueuePairsAtOnce)
{
	constexpr int count = 512;
	const Pd pd(ibv_alloc_pd(device().context.get()));
	const Cq cq(ibv_create_cq(device().context.get(), 4096, nullptr, nullptr, 0));
	std::vector<End> ends;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < count; i++) {
			ends.push_back(End::create(device(), {.send_wr = 4,
							      .recv_wr = 4,
							      .shared_cq = cq.get(),
							      .shared_pd = pd.get()}));
			ASSERT_TRUE(ends.back().qp) << i << ": " << std::strerror(errno);
			ASSERT_EQ(to_init(ends.back().qp.get(), device(), default_link()), 0);
		}
		std::vector<uint32_t> numbers;
		for (const End &end : ends)
			numbers.push_back(end.qp->qp_num);
		std::sort(numbers.begin(), numbers.end());
		EXPECT_EQ(std::unique(numbers.begin(), numbers.end()), numbers.end())
			<< "two queue pairs share a number";
		ends.clear();
	}
}

TEST_F(Limits, HundredConnectedPairsAllWork)
{
	constexpr int count = 100;
	std::vector<Pair> pairs;

	for (int i = 0; i < count; i++)
		pairs.push_back(make_pair({.send_wr = 2, .recv_wr = 2}));
	for (const Pair &pair : pairs) {
		ASSERT_EQ(post_recv(pair.b, {}, 1), 0);
		ASSERT_EQ(post(pair.a, {}), 0);
	}
	for (const Pair &pair : pairs) {
		expect_wc(pair.a.scq);
		EXPECT_EQ(expect_wc(pair.b.rcq).qp_num, pair.b.qp->qp_num);
	}
}

TEST_F(Limits, ThousandConnectionsOneAfterAnother)
{
	const Pd pd_a(ibv_alloc_pd(device().context.get())),
		pd_b(ibv_alloc_pd(peer().context.get()));
	for (int i = 0; i < 1000 && !HasFailure(); i++) {
		Pair pair = make_pair({.send_wr = 2, .recv_wr = 2, .shared_pd = pd_a.get()},
				      {.send_wr = 2, .recv_wr = 2, .shared_pd = pd_b.get()},
				      default_link());
		ASSERT_EQ(post_recv(pair.b, {}), 0);
		ASSERT_EQ(post(pair.a, {}), 0);
		expect_wc(pair.a.scq);
		expect_wc(pair.b.rcq);
	}
}

TEST_F(Limits, ThousandsOfCompletionQueuesAndRegions)
{
	const Pd pd(ibv_alloc_pd(device().context.get()));
	const Mapping memory = Mapping::anonymous(1 << 16);
	std::vector<Cq> queues;
	std::vector<Mr> regions;

	for (int i = 0; i < 500; i++) {
		queues.emplace_back(ibv_create_cq(device().context.get(), 16, nullptr, nullptr, 0));
		ASSERT_TRUE(queues.back()) << i << ": " << std::strerror(errno);
	}
	for (int i = 0; i < 4000; i++) {
		regions.emplace_back(ibv_reg_mr(pd.get(), memory.data(), 1 << 16, all_access));
		ASSERT_TRUE(regions.back()) << i << ": " << std::strerror(errno);
	}
}

} // namespace
} // namespace verbs
