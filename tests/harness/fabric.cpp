// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fabric.hpp"

namespace sirdma::test
{

Fabric::Fabric(u64 seed) : seed_(seed), rng_(seed), clock_(std::make_shared<Clock>())
{
	port_random_seed(seed);
	if (const char *path = getenv("SIRDMA_TEST_PCAP"))
		open_pcap(path);
}

Fabric::~Fabric()
{
	hosts_.clear();
	if (pcap_)
		fclose(pcap_);
}

bool Fabric::chance(double p)
{
	return p > 0 && std::uniform_real_distribution<>(0, 1)(rng_) < p;
}

TestHost &Fabric::add_host(HostOptions opts)
{
	auto n = hosts_.size() + 1;

	opts.seed = seed_ * 1000 + n;
	opts.cfg.mac[5] = static_cast<u8>(n);
	hosts_.push_back(std::make_unique<TestHost>(opts, clock_, this));
	return *hosts_.back();
}

void Fabric::add_ip(TestHost *host, const sirdma_ip &ip)
{
	std::lock_guard hold(lock_);

	ips_[ip] = host;
}

void Fabric::del_ip(const sirdma_ip &ip)
{
	std::lock_guard hold(lock_);

	ips_.erase(ip);
}

void Fabric::remove(TestHost *host)
{
	std::lock_guard hold(lock_);

	std::erase_if(ips_, [host](const auto &e) { return e.second == host; });
}

void Fabric::transmit(TestHost &from, const snic_burst &burst, u32 npkts)
{
	std::lock_guard hold(lock_);
	snic_seg_iter it;

	snic_seg_iter_init(&it, &burst);
	for (u32 i = 0; i < npkts; i++) {
		const snic_tx_pkt &tx = burst.pkts[i];
		u32 len = snic_ip_len(burst.flow, &tx);
		Packet pkt;

		pkt.bytes.resize(SNIC_ETH_HLEN + SNIC_VLAN_HLEN + len);
		u32 eth = snic_frame_eth(burst.flow, true, pkt.bytes.data());
		EXPECT_EQ(snic_frame_ip(burst.flow, &tx, &it, pkt.bytes.data() + eth), len);
		pkt.bytes.resize(eth + len);
		if (!parse_frame(pkt)) {
			ADD_FAILURE() << "the model sent a frame that does not parse";
			continue;
		}
		send(from, std::move(pkt));
	}
}

void Fabric::send(TestHost &from, Packet pkt)
{
	count_++;
	if (recording_)
		sent_.push_back(pkt);
	dump(pkt.bytes);
	if (filter_ && filter_(from, pkt) == Verdict::drop)
		return;
	if (chance(faults_.loss))
		return;
	int copies = chance(faults_.duplicate) ? 2 : 1;
	for (int i = 0; i < copies; i++) {
		std::vector<u8> bytes = pkt.bytes;
		u64 due = clock_->now() + faults_.delay_ns;

		if (chance(faults_.corrupt)) {
			size_t bit = rng_() % ((bytes.size() - pkt.ip) * 8);
			bytes[pkt.ip + bit / 8] ^= static_cast<u8>(1 << bit % 8);
		}
		if (faults_.jitter_ns)
			due += rng_() % faults_.jitter_ns;
		if (chance(faults_.reorder)) {
			due += faults_.reorder_ns;
		} else {
			last_due_ = std::max(last_due_, due);
			due = last_due_;
		}
		if (buffer(pkt, due))
			enqueue(due, std::move(bytes));
	}
}

bool Fabric::buffer(const Packet &pkt, u64 &due)
{
	if (!faults_.rx_bytes)
		return true;
	Buffer &buf = buffers_[pkt.dst_ip()];
	size_t len = pkt.bytes.size();

	while (!buf.held.empty() && buf.held.front().first <= due) {
		buf.bytes -= buf.held.front().second;
		buf.held.pop_front();
	}
	if (buf.bytes + len > faults_.rx_bytes) {
		overruns_++;
		return false;
	}
	if (!buf.held.empty())
		due = buf.held.back().first;
	due += len * faults_.rx_ns_per_kib / 1024;
	buf.held.emplace_back(due, len);
	buf.bytes += len;
	return true;
}

void Fabric::enqueue(u64 due, std::vector<u8> frame)
{
	wire_.emplace(due, std::move(frame));
}

void Fabric::inject(std::vector<u8> frame, u64 delay_ns)
{
	std::lock_guard hold(lock_);

	dump(frame);
	enqueue(clock_->now() + delay_ns, std::move(frame));
}

bool Fabric::deliver()
{
	Packet pkt;
	TestHost *to;

	{
		std::lock_guard hold(lock_);
		if (wire_.empty() || wire_.begin()->first > clock_->now())
			return false;
		pkt.bytes = std::move(wire_.begin()->second);
		wire_.erase(wire_.begin());
		if (!parse_frame(pkt))
			return true;
		auto it = ips_.find(pkt.dst_ip());
		if (it == ips_.end())
			return true;
		to = it->second;
	}
	u8 mac[6];
	u32 low = to->read32(SIRDMA_REG_MACLOW), high = to->read32(SIRDMA_REG_MACHIGH);
	for (int i = 0; i < 6; i++)
		mac[i] = static_cast<u8>(i < 4 ? low >> (8 * i) : high >> (8 * (i - 4)));
	if (memcmp(mac, pkt.bytes.data(), 6)) // a switch would not deliver the frame to this host
		return true;
	if (faults_.merge > 0 && chance(faults_.merge) && icrc_is_right(pkt)) {
		const std::vector<Packet> run = take_run(pkt);

		if (run.size() > 1) {
			receive_run(*to, run);
			return true;
		}
	}
	receive(*to, pkt);
	return true;
}

// The packet as its sender passed it to tx().
static snic_tx_pkt as_sent(const Packet &pkt)
{
	snic_tx_pkt tx{};
	const auto bytes = pkt.transport();

	tx.hdr_len = static_cast<u8>(snic_opcode_hdr_len(pkt.opcode()));
	tx.pad = bytes[1] >> 4 & 3;
	memcpy(tx.hdr, bytes.data(), tx.hdr_len);
	tx.payload_len = static_cast<u16>(bytes.size() - tx.hdr_len - tx.pad);
	return tx;
}

std::vector<Packet> Fabric::take_run(const Packet &first)
{
	std::lock_guard hold(lock_);
	std::vector<Packet> run{first};
	snic_burst burst{};

	if (!snic_opcode_known(first.opcode()))
		return run;
	burst.pkts[burst.npkts++] = as_sent(first);
	while (burst.npkts < SNIC_BURST_PKTS && rng_() % 8 && !wire_.empty() &&
	       wire_.begin()->first <= clock_->now()) {
		Packet next;

		next.bytes = wire_.begin()->second;
		if (!parse_frame(next) || !icrc_is_right(next) ||
		    !snic_opcode_known(next.opcode()) || next.qpn() != first.qpn() ||
		    next.psn() != ((run.back().psn() + 1) & 0xffffff) || next.bth != first.bth ||
		    memcmp(next.bytes.data(), first.bytes.data(), 12))
			break;
		// A retransmission may continue the PSNs by a FIRST packet, which begins a run of its own.
		if (snic_op(next.opcode())->flags & SNIC_PKT_FIRST)
			break;
		burst.pkts[burst.npkts++] = as_sent(next);
		if (snic_super_count(&burst, 0, SNIC_BURST_BYTES) < burst.npkts)
			break;
		run.push_back(std::move(next));
		wire_.erase(wire_.begin());
	}
	return run;
}

void Fabric::receive_run(TestHost &host, const std::vector<Packet> &run)
{
	static u8 zero[8];
	snic_burst burst{};
	snic_super super;
	std::vector<u8> payload;

	for (const Packet &pkt : run) {
		const snic_tx_pkt tx = as_sent(pkt);
		const auto bytes = pkt.transport().subspan(tx.hdr_len, tx.payload_len);

		burst.pkts[burst.npkts++] = tx;
		payload.insert(payload.end(), bytes.begin(), bytes.end());
	}
	snic_super_build(&burst, 0, burst.npkts, &super);
	EXPECT_EQ(super.payload_len, payload.size());

	snic_rx_pkt rx{};
	rx.by_reference = chance(faults_.by_reference);
	// Like an address of another process, 16 is not valid in this one.
	u8 *at = rx.by_reference ? reinterpret_cast<u8 *>(16) : payload.data();
	const u32 half = super.payload_len / 2;
	snic_seg segs[] = {{super.hdr, super.hdr_len},
			   {at, half},
			   {at + half, super.payload_len - half},
			   {zero, sizeof(zero)}};
	const Packet &pkt = run.front();
	rx.src_ip = pkt.src_ip();
	rx.dst_ip = pkt.dst_ip();
	rx.vlan_id = pkt.vlan_id();
	rx.segs = segs;
	rx.nsegs = 4;
	rx.len = super.hdr_len + super.payload_len + super.pad + SIRDMA_ICRC_LEN;
	rx.npkts = super.npkts;
	rx.ttl = 64;
	rx.is_v4 = pkt.is_v4;
	rx.icrc_ok = true;
	referenced_ = std::move(payload);
	snic_rx(host.dev(), &rx);
	referenced_.clear();
}

bool Fabric::pull(snic_seg_iter &it, void *to, u32 len)
{
	auto *out = static_cast<u8 *>(to);

	pulls_++;
	if (chance(faults_.pull_fails))
		return false;
	for (u32 run; len; len -= run, out += run) {
		const size_t at = reinterpret_cast<size_t>(snic_seg_next(&it, len, &run)) - 16;

		if (at + run > referenced_.size()) {
			ADD_FAILURE() << "read outside the payload of the super-packet";
			return false;
		}
		memcpy(out, &referenced_[at], run);
	}
	return true;
}

void Fabric::receive(TestHost &host, const Packet &pkt)
{
	if (!icrc_is_right(pkt)) {
		snic_rx_reject(host.dev(), SIRDMA_STAT_RX_BAD_ICRC);
		return;
	}

	// Allocations of exact size, so that ASan sees a read beyond a segment.
	std::vector<std::vector<u8>> parts;
	std::vector<snic_seg> segs;
	size_t off = pkt.bth, left = pkt.bytes.size() - pkt.bth;
	size_t first = std::min<size_t>(left, SNIC_RX_MIN_LINEAR + rng_() % 2048);
	for (size_t take = first; left; take = 1 + rng_() % left) {
		auto begin = pkt.bytes.begin() + static_cast<long>(off);
		parts.emplace_back(begin, begin + static_cast<long>(take));
		off += take;
		left -= take;
		if (!left)
			break;
	}
	for (auto &part : parts)
		segs.push_back({part.data(), static_cast<u32>(part.size())});

	const u8 *ip = pkt.bytes.data() + pkt.ip;
	snic_rx_pkt rx{};
	rx.src_ip = pkt.src_ip();
	rx.dst_ip = pkt.dst_ip();
	rx.vlan_id = pkt.vlan_id();
	rx.segs = segs.data();
	rx.nsegs = static_cast<u32>(segs.size());
	rx.len = static_cast<u32>(pkt.bytes.size() - pkt.bth);
	rx.traffic_class = pkt.is_v4 ? ip[1] : static_cast<u8>(ip[0] << 4 | ip[1] >> 4);
	rx.ttl = pkt.is_v4 ? ip[8] : ip[7];
	rx.is_v4 = pkt.is_v4;
	rx.flow_label = pkt.is_v4 ? 0 : u32{ip[1] & 0xfu} << 16 | u32{ip[2]} << 8 | ip[3];
	std::copy_n(&pkt.bytes[6], sizeof(rx.src_mac), rx.src_mac);
	rx.icrc_ok = true;
	{
		std::lock_guard hold(lock_);
		if (!wire_.empty() && wire_.begin()->first <= clock_->now()) {
			Packet next;
			next.bytes = wire_.begin()->second;
			rx.more = parse_frame(next) && next.bytes.size() >= next.bth + 16 &&
				  pkt.bytes.size() >= pkt.bth + 16 && next.is_v4 == pkt.is_v4 &&
				  next.qpn() == pkt.qpn() &&
				  memcmp(next.bytes.data(), pkt.bytes.data(), 12) == 0;
		}
	}
	copies_ += snic_rx(host.dev(), &rx);
}

bool Fabric::step()
{
	bool any = false;

	for (auto &host : hosts_) {
		any |= host->deliver_interrupts();
		any |= host->run_deferred();
	}
	any |= deliver();
	return any;
}

bool Fabric::run_until(const std::function<bool()> &done, u64 max_ns)
{
	u64 end = clock_->now() + max_ns;

	for (;;) {
		if (done())
			return true;
		if (step())
			continue;
		u64 now = clock_->now(), wait = clock_->next();
		{
			std::lock_guard hold(lock_);
			if (!wire_.empty()) {
				u64 due = wire_.begin()->first;
				wait = std::min(wait, due > now ? due - now : 0);
			}
		}
		if (wait == ~0ull || now + wait > end || now + wait < now)
			return done();
		clock_->advance(wait);
	}
}

void Fabric::run_for(u64 ns)
{
	u64 end = clock_->now() + ns;

	run_until([] { return false; }, ns);
	if (clock_->now() < end)
		clock_->advance(end - clock_->now());
}

namespace
{
struct PcapHeader {
	u32 magic = 0xa1b23c4d; // nanosecond resolution
	u16 major = 2, minor = 4;
	u32 zone = 0, sigfigs = 0, snaplen = 65535, network = 1;
};
} // namespace

bool Fabric::open_pcap(const std::string &path)
{
	PcapHeader hdr;

	if (pcap_)
		fclose(pcap_);
	pcap_ = fopen(path.c_str(), "wb");
	return pcap_ && fwrite(&hdr, sizeof(hdr), 1, pcap_) == 1;
}

void Fabric::dump(const std::vector<u8> &frame)
{
	if (!pcap_)
		return;
	u64 now = clock_->now();
	u32 len = static_cast<u32>(frame.size());
	u32 rec[4] = {static_cast<u32>(now / 1000000000), static_cast<u32>(now % 1000000000), len,
		      len};
	fwrite(rec, sizeof(rec), 1, pcap_);
	fwrite(frame.data(), 1, frame.size(), pcap_);
}

} // namespace sirdma::test
