/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "fabric.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <new>

#include <sirdma/roce.h>

namespace sirdma::twin
{

namespace
{

constexpr u64 never = ~0ull;
constexpr size_t bth_len = sizeof(sirdma_bth);

sirdma_packet describe(u64 now, const std::vector<u8> &bytes, const FabricAdapter &from,
		       const FabricAdapter *to) noexcept
{
	sirdma_packet packet{};
	sirdma_bth bth;

	memcpy(&bth, bytes.data(), sizeof(bth));
	packet.now = now;
	packet.from = from.handle;
	packet.to = to ? to->handle : nullptr;
	packet.dest_qpn = be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK;
	packet.psn = be32_to_cpu(bth.apsn) & SIRDMA_PSN_MASK;
	packet.opcode = bth.opcode;
	packet.aeth_syndrome = bth.opcode == SIRDMA_ACKNOWLEDGE ? bytes[bth_len] : 0;
	packet.length = static_cast<uint16_t>(bytes.size());
	packet.bytes = bytes.data();
	return packet;
}

} // namespace

static_assert(int{SIRDMA_ACKNOWLEDGE} == SIRDMA_BTH_ACK &&
	      int{SIRDMA_FETCH_ADD} == SIRDMA_BTH_FETCH_ADD &&
	      int{SIRDMA_ATOMIC_WRITE} == SIRDMA_BTH_ATOMIC_WRITE &&
	      int{SIRDMA_SEND_ONLY} == SIRDMA_BTH_SEND_ONLY &&
	      int{SIRDMA_READ_REQUEST} == SIRDMA_BTH_READ_REQUEST &&
	      int{SIRDMA_WRITE_ONLY_WITH_IMM} == SIRDMA_BTH_WRITE_ONLY_IMM);

/* Adapters */

std::unique_ptr<FabricAdapter> FabricAdapter::create(VirtualFabric &fabric, const IpAddress &addr,
						     uint32_t mtu)
{
	std::unique_ptr<FabricAdapter> adapter(new FabricAdapter(fabric));

	adapter->burst_ = std::make_unique<snic_burst>();
	adapter->copies_ = std::make_unique_for_overwrite<uint8_t[]>(SNIC_BURST_BYTES);
	adapter->burst_->copies = adapter->copies_.get();
	/* A window of 0 means that the wire holds any number of bytes. */
	if (const int err = adapter->create_device(addr, mtu, qpns_per_slot, 0, fabric.clock())) {
		errno = err;
		return nullptr;
	}
	fabric.attach(*adapter);
	return adapter;
}

FabricAdapter::~FabricAdapter()
{
	fabric_.detach(*this);
	destroy_device();
}

void FabricAdapter::run_qp(u32 qpn) noexcept
{
	kick_model(qpn);
	settle();
}

bool FabricAdapter::poll() noexcept
{
	fabric_.empty_poll();
	return true;
}

u32 FabricAdapter::transmit(snic_burst &burst) noexcept
{
	fabric_.send(*this, burst);
	return burst.npkts;
}

/* The fabric */

std::unique_ptr<VirtualFabric> VirtualFabric::create(const sirdma_fabric_params &params)
{
	std::unique_ptr<VirtualFabric> fabric(new VirtualFabric(params));

	fabric->clock_ = port_clock_create(true);
	if (!fabric->clock_) {
		errno = ENOMEM;
		return nullptr;
	}
	fabric->epoch_ = port_now_ns(fabric->clock_);
	port_random_seed(params.seed);
	return fabric;
}

VirtualFabric::~VirtualFabric()
{
	if (clock_)
		port_clock_destroy(clock_);
}

FabricAdapter *VirtualFabric::find(const IpAddress &addr) const noexcept
{
	for (FabricAdapter *adapter : adapters_)
		if (adapter->addr() == addr)
			return adapter;
	return nullptr;
}

void VirtualFabric::attach(FabricAdapter &adapter)
{
	adapters_.push_back(&adapter);
}

void VirtualFabric::detach(FabricAdapter &adapter) noexcept
{
	std::erase(adapters_, &adapter);
}

IpAddress VirtualFabric::free_address() const noexcept
{
	for (u32 host = 1;; ++host) {
		const IpAddress addr(in_addr{htonl(10u << 24 | host)});

		if (!find(addr))
			return addr;
	}
}

VirtualFabric::Rule *VirtualFabric::rule_for(const sirdma_packet &packet) noexcept
{
	Rule *found = nullptr;

	for (Rule &r : rules_) {
		const sirdma_rule &rule = r.rule;

		if ((rule.from && rule.from != packet.from) || (rule.to && rule.to != packet.to) ||
		    (rule.opcode >= 0 && rule.opcode != packet.opcode) ||
		    (rule.match && !rule.match(&packet, rule.context)))
			continue;
		const u64 index = ++r.seen, first = std::max<u64>(rule.nth, 1);

		if (!found && index >= first && (!rule.count || index - first < rule.count))
			found = &r;
	}
	return found;
}

void VirtualFabric::enqueue(PacketInFlight packet)
{
	const auto behind =
		std::upper_bound(wire_.begin(), wire_.end(), packet.due,
				 [](u64 due, const PacketInFlight &p) { return due < p.due; });

	wire_.insert(behind, std::move(packet));
}

void VirtualFabric::send(FabricAdapter &from, const snic_burst &burst)
{
	const snic_flow &flow = *burst.flow;
	const FabricAdapter *to = find(IpAddress(flow.dst_ip));
	snic_seg_iter payload;

	snic_seg_iter_init(&payload, &burst);
	for (u32 i = 0; i < burst.npkts; ++i) {
		const snic_tx_pkt &pkt = burst.pkts[i];
		PacketInFlight f = {.due = now() + params_.delay_ns,
				    .bytes = std::vector<u8>(pkt.hdr_len + pkt.payload_len),
				    .src = flow.src_ip,
				    .dst = flow.dst_ip,
				    .traffic_class = flow.traffic_class,
				    .ttl = flow.hop_limit,
				    .is_v4 = flow.is_v4,
				    .icrc_ok = true};

		memcpy(f.bytes.data(), pkt.hdr, pkt.hdr_len);
		snic_seg_copy(&payload, f.bytes.data() + pkt.hdr_len, pkt.payload_len);

		Rule *r = rule_for(describe(now(), f.bytes, from, to));
		const sirdma_action action = r ? r->rule.action : SIRDMA_PASS;

		f.bytes.resize(f.bytes.size() + pkt.pad + SIRDMA_ICRC_LEN);
		if (r)
			++r->hits;
		if (action == SIRDMA_DROP)
			continue;
		if (action == SIRDMA_DELAY)
			f.due += r->rule.delay_ns;
		if (action == SIRDMA_CORRUPT)
			f.icrc_ok = false;
		if (action == SIRDMA_DUPLICATE) {
			PacketInFlight second = f;

			second.due += r->rule.delay_ns;
			enqueue(std::move(f));
			enqueue(std::move(second));
			continue;
		}
		enqueue(std::move(f));
	}
}

void VirtualFabric::deliver(const PacketInFlight &from_wire)
{
	FabricAdapter *to = find(IpAddress(from_wire.dst));
	const snic_seg seg = {.ptr = const_cast<u8 *>(from_wire.bytes.data()),
			      .len = static_cast<u32>(from_wire.bytes.size())};
	snic_rx_pkt packet{};

	if (!to)
		return;
	packet.src_ip = from_wire.src;
	packet.dst_ip = from_wire.dst;
	packet.segs = &seg;
	packet.nsegs = 1;
	packet.len = seg.len;
	packet.traffic_class = from_wire.traffic_class;
	packet.ttl = from_wire.ttl;
	packet.is_v4 = from_wire.is_v4;
	packet.icrc_ok = from_wire.icrc_ok;
	to->receive(packet);
}

void VirtualFabric::settle() noexcept
{
	for (FabricAdapter *adapter : adapters_)
		adapter->settle();
}

bool VirtualFabric::step(u64 limit)
{
	const u64 start = now(), timer = port_clock_next(clock_),
		  timer_due = timer == never ? never : start + timer;

	if (!wire_.empty() && wire_.front().due <= std::min(start, limit)) {
		const PacketInFlight packet = std::move(wire_.front());

		wire_.pop_front();
		deliver(packet);
	} else {
		const u64 next = std::min(timer_due, wire_.empty() ? never : wire_.front().due);

		if (next == never || next > limit)
			return false;
		port_clock_advance(clock_, next - start);
	}
	settle();
	return true;
}

u64 VirtualFabric::after(u64 ns) const noexcept
{
	const u64 left = never - 1 - epoch_ - now();

	return now() + std::min(ns, left);
}

void VirtualFabric::advance(u64 ns)
{
	const u64 limit = after(ns);

	if (running_)
		return;
	running_ = true;
	settle();
	while (step(limit)) {}
	if (now() < limit)
		port_clock_advance(clock_, limit - now());
	running_ = false;
}

bool VirtualFabric::run_until_idle(u64 max_ns)
{
	const u64 limit = after(max_ns);

	if (running_)
		return false;
	running_ = true;
	settle();
	while (step(limit)) {}
	running_ = false;
	if (wire_.empty() && port_clock_next(clock_) == never)
		return true;
	port_clock_advance(clock_, limit - now());
	return false;
}

int VirtualFabric::add_rule(const sirdma_rule &rule)
{
	rules_.push_back({.rule = rule});
	return static_cast<int>(rules_.size()) - 1;
}

const u64 *VirtualFabric::hits(int rule) const noexcept
{
	if (rule < 0 || static_cast<size_t>(rule) >= rules_.size())
		return nullptr;
	return &rules_[static_cast<size_t>(rule)].hits;
}

} // namespace sirdma::twin
