// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the tests of memory windows share. The peer binds the windows, the device under test uses them.
#pragma once

#include "fixture.hpp"

#include <cerrno>
#include <cstring>

namespace verbs::windows
{

inline constexpr size_t room = 16384;
inline constexpr size_t start = 4096 + 256, length = 2 * 4096; // of a window in its region
inline constexpr int window_rights = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
inline constexpr int bind_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

struct Bind {
	int rights = window_rights;
	size_t from = start;
	uint64_t length = windows::length;
};

// Binds through `end`. The window's key is the new one, as ibv_bind_mw() leaves it.
inline int post_bind(const End &end, ibv_mw *mw, const ibv_mw_bind_info &info)
{
	if (mw->type == IBV_MW_TYPE_1) {
		ibv_mw_bind bind = {.wr_id = 1, .send_flags = signaled, .bind_info = info};
		return ibv_bind_mw(end.qp.get(), mw, &bind);
	}
	ibv_send_wr wr = {}, *bad = nullptr;
	wr.wr_id = 1;
	wr.opcode = IBV_WR_BIND_MW;
	wr.send_flags = signaled;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = info;
	const int err = ibv_post_send(end.qp.get(), &wr, &bad);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}

inline int post_bind(const End &end, ibv_mw *mw, const Region &region, const Bind &bind)
{
	ibv_mw_bind_info info = {};
	info.mr = region.mr.get();
	info.addr = region.address(bind.from);
	info.length = bind.length;
	info.mw_access_flags = static_cast<decltype(info.mw_access_flags)>(bind.rights);
	return post_bind(end, mw, info);
}

inline void expect_bound(const End &end, ibv_mw *mw, const Region &region, const Bind &bind = {})
{
	ASSERT_EQ(post_bind(end, mw, region, bind), 0);
	EXPECT_EQ(expect_wc(end.scq).opcode, IBV_WC_BIND_MW);
}

// A connection, a region at each end, and windows of both types at the peer. Peers have no rights to the region there.
struct World {
	Pair pair;
	Region local, remote;
	Mw mw[2];

	ibv_mw *window(ibv_mw_type type) const { return mw[type == IBV_MW_TYPE_2].get(); }
	const End &binder() const { return pair.b; }
};

class WindowTest : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		ASSERT_TRUE(peer().attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
		ASSERT_TRUE(peer().attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	}

	World make_world(int access = bind_access, ibv_qp_type type = IBV_QPT_RC)
	{
		Link link = default_link();
		link.access = all_access | IBV_ACCESS_REMOTE_ATOMIC;
		World w = {.pair = make_pair({.type = type}, link),
			   .local = {},
			   .remote = {},
			   .mw = {}};
		w.local = make_region(w.pair.a.pd, room);
		w.remote = make_region(w.pair.b.pd, room, access);
		w.mw[0].reset(ibv_alloc_mw(w.pair.b.pd, IBV_MW_TYPE_1));
		w.mw[1].reset(ibv_alloc_mw(w.pair.b.pd, IBV_MW_TYPE_2));
		EXPECT_TRUE(w.local && w.remote && w.mw[0] && w.mw[1]) << std::strerror(errno);
		w.local.fill(1);
		w.remote.fill(2);
		return w;
	}

	// Another connection of the same protection domains.
	Pair sibling(const World &w)
	{
		return make_pair({.shared_pd = w.pair.a.pd}, {.shared_pd = w.pair.b.pd},
				 default_link());
	}

	static void expect_access(const End &end, const World &w, ibv_wr_opcode op, uint32_t rkey,
				  uint64_t at, size_t bytes, ibv_wc_status status = IBV_WC_SUCCESS)
	{
		ASSERT_EQ(post(end, {.op = op,
				     .sges = {w.local.sge(0, bytes)},
				     .remote_addr = at,
				     .rkey = rkey}),
			  0);
		expect_wc(end.scq, status);
	}

	static void expect_refused(const End &end, const World &w, ibv_wr_opcode op, uint32_t rkey,
				   uint64_t at, size_t bytes)
	{
		expect_access(end, w, op, rkey, at, bytes, IBV_WC_REM_ACCESS_ERR);
		EXPECT_TRUE(has_pattern(w.remote.memory.bytes(), 2));
	}

	// Written and read whole, and nothing beside it.
	static void expect_usable(const World &w, const ibv_mw *mw, uint64_t at)
	{
		expect_access(w.pair.a, w, IBV_WR_RDMA_WRITE, mw->rkey, at, length);
		EXPECT_TRUE(has_pattern(w.remote.bytes(0, start), 2));
		EXPECT_TRUE(has_pattern(w.remote.bytes(start, length), 1));
		EXPECT_TRUE(has_pattern(w.remote.bytes(start + length, room - start - length), 2,
					start + length));
		w.remote.fill(2);
		expect_access(w.pair.a, w, IBV_WR_RDMA_READ, mw->rkey, at, length);
		EXPECT_TRUE(has_pattern(w.local.bytes(0, length), 2, start));
		w.local.fill(1);
	}
};

inline constexpr ibv_mw_type both_types[] = {IBV_MW_TYPE_1, IBV_MW_TYPE_2};

} // namespace verbs::windows
