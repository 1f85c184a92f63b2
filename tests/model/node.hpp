// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A node on a fabric, with its memory.
#pragma once

#include "fabric.hpp"
#include "mini_driver.hpp"

#include <sirdma/encode.h>

namespace sirdma::test
{

struct Sge {
	u64 addr;
	u32 len;
	u32 stag;
};

// A node: host, driver, addresses, one big registered region.
class Node {
public:
	Node(Fabric &fabric, u8 n, bool v6, HostOptions opts = {}, size_t mem_bytes = 4 << 20);

	TestHost &host;
	MiniDriver drv;
	sirdma_ip ip;
	std::unique_ptr<UserMemory> mem;
	MrParams mr;

	u8 *data(size_t off = 0) { return mem->data() + off; }
	u64 va(size_t off = 0) const { return mem->va() + off; }
	Sge sge(size_t off, u32 len) const { return {va(off), len, mr.stag()}; }
	std::array<u8, 6> mac() const;
	// Address table entries towards @peer.
	void learn(Node &peer);
	u64 stat(sirdma_stat id) { return host.stat(id); }
	// Ids are taken in turn; by the time one comes again its owner is gone.
	u32 new_qp() { return 2 + qps_++ % 1000; }
	u32 new_cq() { return 8 + cqs_++ % 1000; }
	u32 new_srq() { return 1 + srqs_++ % 60; }

private:
	u32 qps_ = 0;
	u32 cqs_ = 0;
	u32 srqs_ = 0;
};

inline std::array<u8, 6> Node::mac() const
{
	std::array<u8, 6> m;

	std::copy_n(host.options().cfg.mac, 6, m.begin());
	return m;
}

inline Node::Node(Fabric &fabric, u8 n, bool v6, HostOptions opts, size_t mem_bytes)
	: host(fabric.add_host(opts)), drv(host), ip(v6 ? ip6(n) : ip4(10, 0, 0, n))
{
	drv.bring_up(1);
	fabric.add_ip(&host, ip);
	EXPECT_EQ(drv.set_sgid(0, ip, mac().data()), SIRDMA_CQP_OK);
	mem = std::make_unique<UserMemory>(host.dma(), mem_bytes);
	mem->fill(n);
	mr.va = mem->va();
	mr.len = mem->size();
	drv.describe(mr, *mem, 1);
	EXPECT_EQ(drv.reg_mr(mr), SIRDMA_CQP_OK);
}

inline void Node::learn(Node &peer)
{
	EXPECT_EQ(drv.set_arp(0, peer.mac().data()), SIRDMA_CQP_OK);
}

inline std::vector<sirdma_sge> to_codec(const std::vector<Sge> &sges)
{
	std::vector<sirdma_sge> out;

	for (const Sge &sge : sges)
		out.push_back({.addr = sge.addr, .length = sge.len, .lkey = sge.stag});
	return out;
}

} // namespace sirdma::test
