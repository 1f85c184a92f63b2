// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A seeded network that joins test hosts by IP address. Every packet becomes the
// bytes of an Ethernet frame and is parsed and checked back as a host would,
// with an ICRC implementation of its own.
#pragma once

#include "test_host.hpp"

namespace sirdma::test
{

sirdma_ip ip4(u8 a, u8 b, u8 c, u8 d);
// fd00::<low>
sirdma_ip ip6(u16 low);

struct LinkFaults {
	double loss = 0; // probabilities, 0..1
	double reorder = 0; // delivered reorder_ns late
	double duplicate = 0;
	double corrupt = 0; // one flipped bit anywhere behind the Ethernet header
	u64 delay_ns = 2000;
	u64 jitter_ns = 0; // does not reorder
	u64 reorder_ns = 20000;
	double merge = 0; // neighbouring packets of a message arrive as one super-packet,
	double refer = 0; // and that by reference,
	double gone = 0; // to memory that is read in vain
	// Each host's receive buffer and how fast it is emptied; what finds it full is dropped. 0: no limit.
	u32 rx_bytes = 0;
	u64 rx_ns_per_kib = 0;
};

// A frame as it crossed the fabric, taken apart.
struct Packet {
	std::vector<u8> bytes; // from the Ethernet header to the ICRC
	size_t ip = 0; // offsets
	size_t bth = 0;
	bool is_v4 = false;

	u8 opcode() const { return bytes[bth]; }
	u32 qpn() const { return be24(bth + 5); }
	u32 psn() const { return be24(bth + 9); }
	bool ack_req() const { return bytes[bth + 8] & 0x80; }
	u32 be24(size_t off) const
	{
		return u32{bytes[off]} << 16 | u32{bytes[off + 1]} << 8 | bytes[off + 2];
	}
	u32 be32(size_t off) const { return u32{bytes[off]} << 24 | be24(off + 1); }
	// BTH up to, but without, the ICRC.
	std::span<const u8> transport() const
	{
		return {bytes.data() + bth, bytes.size() - bth - SIRDMA_ICRC_LEN};
	}
};

// Fills in the offsets; false when these bytes are no RoCEv2 packet with intact IP and UDP headers.
bool parse_frame(Packet &pkt);
// ICRC of a parsed packet, computed bit by bit from the rules of annex A17.3.3.
u32 reference_icrc(const Packet &pkt);
// Write the right ICRC into the last four bytes.
void seal(Packet &pkt);

class Fabric {
public:
	explicit Fabric(u64 seed);
	~Fabric();
	Fabric(const Fabric &) = delete;
	Fabric &operator=(const Fabric &) = delete;

	u64 seed() const { return seed_; }
	std::mt19937_64 &rng() { return rng_; }
	const std::shared_ptr<Clock> &clock() { return clock_; }
	LinkFaults &faults() { return faults_; }

	// A host on this fabric; its MAC and seed are derived from its number.
	TestHost &add_host(HostOptions opts = {});
	TestHost &host(size_t i) { return *hosts_[i]; }
	void add_ip(TestHost *host, const sirdma_ip &ip);
	void del_ip(const sirdma_ip &ip);
	void remove(TestHost *host);

	// What becomes of a packet; called in sending order, before the random faults.
	enum class Verdict { pass, drop };
	using Filter = std::function<Verdict(TestHost &from, Packet &pkt)>;
	void set_filter(Filter filter) { filter_ = std::move(filter); }
	// Keep a copy of everything sent.
	void record(bool on) { recording_ = on; }
	std::vector<Packet> &sent() { return sent_; }
	u64 packets_sent() const { return count_; }
	u64 overruns() const { return overruns_; }
	u64 pulls() const { return pulls_; }
	// Put raw bytes on the wire towards whoever owns their destination address.
	void inject(std::vector<u8> frame, u64 delay_ns = 0);
	// Append everything sent to a capture file that Wireshark reads.
	bool open_pcap(const std::string &path);

	// One unit of work that is due now: interrupt, deferred work or a packet.
	bool step();
	// Run until @done or until @max_ns of virtual time passed or nothing is left to happen.
	bool run_until(const std::function<bool()> &done, u64 max_ns);
	void run_for(u64 ns);

private:
	friend class TestHost;
	struct IpLess {
		bool operator()(const sirdma_ip &a, const sirdma_ip &b) const
		{
			return memcmp(a.b, b.b, sizeof(a.b)) < 0;
		}
	};

	void transmit(TestHost &from, const snic_burst &burst, u32 npkts);
	void send(TestHost &from, Packet pkt);
	void enqueue(u64 due, std::vector<u8> frame);
	// A packet meets its receiver's buffer at @due: false when it is full, else when it is taken out.
	bool buffer(const Packet &pkt, u64 &due);
	bool deliver();
	void receive(TestHost &host, const Packet &pkt);
	bool intact(const Packet &pkt);
	// What follows @first as packets of its message, @first included.
	std::vector<Packet> take_run(const Packet &first);
	void receive_run(TestHost &host, const std::vector<Packet> &run);
	bool pull(snic_seg_iter &it, void *to, u32 len);
	void dump(const std::vector<u8> &frame);
	bool chance(double p);

	u64 seed_;
	std::mt19937_64 rng_;
	std::shared_ptr<Clock> clock_;
	LinkFaults faults_;
	std::vector<std::unique_ptr<TestHost>> hosts_;
	std::recursive_mutex lock_; // everything below
	std::map<sirdma_ip, TestHost *, IpLess> ips_;
	std::multimap<u64, std::vector<u8>> wire_; // by time of arrival
	u64 last_due_ = 0;
	struct Buffer {
		std::deque<std::pair<u64, size_t>> held; // taken out when, bytes
		size_t bytes = 0;
	};
	std::map<sirdma_ip, Buffer, IpLess> buffers_;
	std::vector<u8> lent_; // payload of the super-packet being received by reference
	u64 pulls_ = 0;
	u64 overruns_ = 0; // packets that found a buffer full
	Filter filter_;
	bool recording_ = false;
	std::vector<Packet> sent_;
	u64 count_ = 0;
	FILE *pcap_ = nullptr;
};

} // namespace sirdma::test
