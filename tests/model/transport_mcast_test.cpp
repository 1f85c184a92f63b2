// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Multicast: each queue pair of a group gets a copy, and decides by itself whether it takes it.
#include "transport.hpp"

extern "C" {
#include "model/mcast.h"
}

using namespace sirdma::test;

namespace
{

constexpr u32 qkey = 0x12345678;
constexpr u64 to = 1 << 20; // where receives lie
constexpr size_t ctx_block = 1023; // of the memory: the context of commands

class Member {
public:
	explicit Member(Node &node, u32 key = qkey) : qp(node, options(key))
	{
		qp.to_init();
		qp.context()->path_mtu = 1024;
		EXPECT_EQ(qp.modify(SIRDMA_QPS_RTR, SIRDMA_QPC_MOD_MTU, SIRDMA_QPS_INIT),
			  SIRDMA_CQP_OK);
		qp.context()->sq_psn = 1;
		EXPECT_EQ(qp.modify(SIRDMA_QPS_RTS, SIRDMA_QPC_MOD_SQ_PSN, SIRDMA_QPS_RTR),
			  SIRDMA_CQP_OK);
	}

	static QpOptions options(u32 key)
	{
		QpOptions o;

		o.type = SIRDMA_QPT_UD;
		o.timeout = 0;
		o.qkey = key;
		return o;
	}

	Qp qp;
};

class MulticastTransport : public Transport {
protected:
	explicit MulticastTransport(bool v6 = false) : Transport(17, v6)
	{
		group = v6 ? ip6(0x99) : ip4(239, 1, 2, 3);
		if (v6)
			group.b[0] = 0xff;
		// A fabric without switches: the other node's MAC address stands for the group's.
		fabric.add_ip(&b.host, group);
		address(1, group);
		address(2, b.ip);
	}

	void address(u32 idx, const sirdma_ip &dst)
	{
		sirdma_av *av = a.drv.av(idx);

		av->mac = sirdma_mac_to_word(b.mac().data());
		av->dst_ip = dst;
		av->sgid_idx = 0;
		av->udp_sport = 0xc123;
		av->hop_limit = 33;
		__atomic_store_n(&av->ctrl,
				 SIRDMA_PREP(SIRDMA_AV_PD, 1) | SIRDMA_PREP(SIRDMA_AV_SEQ, idx) |
					 SIRDMA_AV_VALID,
				 __ATOMIC_SEQ_CST);
	}
	u32 command(sirdma_cqp_op op, u32 id, const sirdma_ip &ip, const std::vector<u32> &qpns)
	{
		auto *ctx = reinterpret_cast<sirdma_mcast_ctx *>(b.data(ctx_block << 12));
		sirdma_cqp_mcast cmd{};

		ctx->count = static_cast<u32>(qpns.size());
		std::copy_n(qpns.begin(), std::min<size_t>(qpns.size(), SIRDMA_MCAST_MAX_QPS),
			    ctx->qpns);
		memcpy(&cmd.ip_lo, ip.b, 8);
		memcpy(&cmd.ip_hi, ip.b + 8, 8);
		cmd.ctx_addr = b.mem->blocks()[ctx_block] + offset;
		cmd.hdr = SIRDMA_PREP(SIRDMA_CQP_OPCODE, op) | SIRDMA_PREP(SIRDMA_CQP_MCAST_ID, id);
		return b.drv.exec(cmd);
	}
	u32 create(const std::vector<u32> &qpns, u32 id = 3)
	{
		return command(SIRDMA_CQP_CREATE_MCAST_GRP, id, group, qpns);
	}
	static Wr send(Node &from, u32 len, u32 qpn = SIRDMA_MCAST_QPN, u32 av = 1)
	{
		return {.sges = {from.sge(0, len)},
			.remote = sirdma_send_dest(qpn, qkey),
			.rkey = av};
	}
	void sends(Qp &from, const Wr &wr)
	{
		from.post(wr);
		expect_ok(wait_send(from), SIRDMA_OP_SEND);
		settle();
	}
	void gets(Qp &at, Qp &from, size_t where, u32 len)
	{
		const Wc wc = wait_recv(at);

		EXPECT_FALSE(wc.error);
		EXPECT_EQ(wc.len, SIRDMA_GRH_LEN + len);
		EXPECT_EQ(wc.src_qpn, from.id);
		EXPECT_EQ(memcmp(b.data(where + SIRDMA_GRH_LEN), a.data(), len), 0);
		// Source and destination end the header of either IP version.
		const size_t size = sirdma_ip_is_v4(&group) ? 4 : 16;
		EXPECT_EQ(memcmp(b.data(where + SIRDMA_GRH_LEN - size), group.b + 16 - size, size),
			  0);
	}

	sirdma_ip group;
	u32 offset = 0; // of the context, in its block
};

class MulticastTransportV6 : public MulticastTransport {
protected:
	MulticastTransportV6() : MulticastTransport(true) {}
};

TEST_F(MulticastTransport, EachMemberGetsACopy)
{
	Member x(a), y(b), z(b), other(b);

	ASSERT_EQ(create({y.qp.id, z.qp.id}), SIRDMA_CQP_OK);
	for (u32 len : {0u, 1u, 500u, 1024u}) {
		a.mem->fill(static_cast<u8>(len));
		y.qp.recv({b.sge(to, 2048)});
		z.qp.recv({b.sge(to + 4096, 2048)});
		sends(x.qp, send(a, len));
		gets(y.qp, x.qp, to, len);
		gets(z.qp, x.qp, to + 4096, len);
		EXPECT_TRUE(silent(y.qp));
		EXPECT_TRUE(silent(z.qp));
		EXPECT_TRUE(silent(other.qp));
	}
}

// The host charges them to whoever sends and receives.
TEST_F(MulticastTransport, CopiesAreReported)
{
	Member x(a), y(b), z(b), other(b, qkey + 1);

	sends(x.qp, send(a, 100));
	EXPECT_EQ(fabric.copies(), 0u) << "there is no group";
	ASSERT_EQ(create({y.qp.id, z.qp.id, other.qp.id}), SIRDMA_CQP_OK);
	sends(x.qp, send(a, 100));
	EXPECT_EQ(fabric.copies(), 2u) << "a member that refuses the packet costs as much";
	sends(x.qp, send(a, 100, y.qp.id, 2));
	EXPECT_EQ(fabric.copies(), 2u);
}

TEST_F(MulticastTransportV6, EachMemberGetsACopy)
{
	Member x(a), y(b), z(b);

	ASSERT_EQ(create({y.qp.id, z.qp.id}), SIRDMA_CQP_OK);
	y.qp.recv({b.sge(to, 2048)});
	z.qp.recv({b.sge(to + 4096, 2048)});
	sends(x.qp, send(a, 100));
	gets(y.qp, x.qp, to, 100);
	gets(z.qp, x.qp, to + 4096, 100);
}

// What one member does not take, the others get.
TEST_F(MulticastTransport, EachMemberChecksForItself)
{
	Member x(a), y(b), wrong(b, qkey + 1), late(b), small(b);
	const u64 keys = b.stat(SIRDMA_STAT_RX_BAD_QKEY), none = b.stat(SIRDMA_STAT_RX_NO_RECV),
		  refused = b.stat(SIRDMA_STAT_RX_REFUSED), gone = b.stat(SIRDMA_STAT_RX_NO_QP);

	ASSERT_EQ(create({wrong.qp.id, late.qp.id, small.qp.id, 999, y.qp.id}), SIRDMA_CQP_OK);
	wrong.qp.recv({b.sge(to, 2048)});
	small.qp.recv({b.sge(to, SIRDMA_GRH_LEN + 99)});
	y.qp.recv({b.sge(to + 4096, 2048)});
	sends(x.qp, send(a, 100));
	gets(y.qp, x.qp, to + 4096, 100);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_QKEY), keys + 1);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_NO_RECV), none + 1);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_REFUSED), refused + 1);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_NO_QP), gone + 1);
	for (Qp *qp : {&wrong.qp, &late.qp, &small.qp})
		EXPECT_TRUE(silent(*qp));
}

// The port has received it once, however many members take it, also when the first does not.
TEST_F(MulticastTransport, AFrameIsCountedOnce)
{
	Member x(a), y(b), z(b), wrong(b, qkey + 1);
	u64 frames = 0, bytes = 0;

	ASSERT_EQ(b.stat(SIRDMA_STAT_RX_PKTS), 0u);
	ASSERT_EQ(create({wrong.qp.id, y.qp.id, z.qp.id}), SIRDMA_CQP_OK);
	fabric.record(true);
	y.qp.recv({b.sge(to, 2048)});
	z.qp.recv({b.sge(to + 4096, 2048)});
	sends(x.qp, send(a, 100));
	gets(y.qp, x.qp, to, 100);
	gets(z.qp, x.qp, to + 4096, 100);
	for (const Packet &pkt : fabric.sent())
		bytes += pkt.bytes.size(), frames++;
	EXPECT_EQ(frames, 1u);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_PKTS), frames);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BYTES), bytes);
	// What no member takes is counted as what it is.
	ASSERT_EQ(command(SIRDMA_CQP_MODIFY_MCAST_GRP, 3, group, {wrong.qp.id}), SIRDMA_CQP_OK);
	sends(x.qp, send(a, 100));
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_PKTS), frames);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BYTES), bytes);
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_QKEY), 2u);
}

TEST_F(MulticastTransport, DropsWhatNobodyJoined)
{
	Member x(a), y(b);
	const u64 before = b.stat(SIRDMA_STAT_RX_NO_GROUP), gids = b.stat(SIRDMA_STAT_RX_BAD_GID);

	y.qp.recv({b.sge(to, 2048)});
	sends(x.qp, send(a, 10));
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_NO_GROUP), before + 1);
	ASSERT_EQ(create({y.qp.id}), SIRDMA_CQP_OK);
	// The number of all members, at an address of one; and the number of one, at that of all.
	sends(x.qp, send(a, 10, SIRDMA_MCAST_QPN, 2));
	sends(x.qp, send(a, 10, y.qp.id, 1));
	EXPECT_EQ(b.stat(SIRDMA_STAT_RX_BAD_GID) - gids +
			  (b.stat(SIRDMA_STAT_RX_NO_GROUP) - before - 1),
		  2u);
	EXPECT_TRUE(silent(y.qp));
	EXPECT_EQ(command(SIRDMA_CQP_DESTROY_MCAST_GRP, 3, group, {}), SIRDMA_CQP_OK);
	sends(x.qp, send(a, 10));
	EXPECT_TRUE(silent(y.qp));
}

TEST_F(MulticastTransport, MembersComeAndGo)
{
	Member x(a), y(b), z(b);

	ASSERT_EQ(create({y.qp.id}), SIRDMA_CQP_OK);
	ASSERT_EQ(command(SIRDMA_CQP_MODIFY_MCAST_GRP, 3, group, {z.qp.id}), SIRDMA_CQP_OK);
	y.qp.recv({b.sge(to, 2048)});
	z.qp.recv({b.sge(to + 4096, 2048)});
	sends(x.qp, send(a, 100));
	gets(z.qp, x.qp, to + 4096, 100);
	EXPECT_TRUE(silent(y.qp));
}

TEST_F(MulticastTransport, CommandsAreChecked)
{
	const std::vector<u32> too_many(SIRDMA_MCAST_MAX_QPS + 1, 5);
	const auto make = SIRDMA_CQP_CREATE_MCAST_GRP, change = SIRDMA_CQP_MODIFY_MCAST_GRP,
		   end = SIRDMA_CQP_DESTROY_MCAST_GRP;
	const sirdma_ip next = ip4(239, 1, 2, 4);

	EXPECT_EQ(command(change, 3, group, {5}), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(command(end, 3, group, {5}), SIRDMA_CQP_NO_OBJECT);
	EXPECT_EQ(command(make, SNIC_MAX_MCAST_GRPS, group, {5}), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(command(end, SNIC_MAX_MCAST_GRPS, group, {5}), SIRDMA_CQP_BAD_INDEX);
	EXPECT_EQ(command(make, 3, group, {}), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(command(make, 3, group, too_many), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(command(make, 3, group, {1u << 24}), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(command(make, 3, b.ip, {5}), SIRDMA_CQP_BAD_PARAM);
	offset = 8;
	EXPECT_EQ(create({5}), SIRDMA_CQP_BAD_ADDRESS);
	offset = 0;
	ASSERT_EQ(create({5}), SIRDMA_CQP_OK);
	EXPECT_EQ(command(make, 3, next, {5}), SIRDMA_CQP_IN_USE);
	EXPECT_EQ(create({5}, 4), SIRDMA_CQP_BAD_PARAM) << "the address has a group";
	EXPECT_EQ(command(change, 3, group, too_many), SIRDMA_CQP_BAD_PARAM);
	EXPECT_EQ(command(end, 3, group, {}), SIRDMA_CQP_OK);
	EXPECT_EQ(create({5}), SIRDMA_CQP_OK) << "and a reset frees it";
	b.host.write32(SIRDMA_REG_CTRL, SIRDMA_CTRL_RESET);
	while (b.drv.next_aeqe())
		;
}

} // namespace
