// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A seeded network that joins test hosts by IP address. Every packet becomes the
// bytes of an Ethernet frame and is parsed and checked back as a host would,
// with an ICRC implementation of its own.
#pragma once

#include "packet.hpp"
#include "test_host.hpp"

namespace sirdma::test
{

struct LinkFaults {
	double loss = 0; // probabilities, 0..1
	double reorder = 0; // delivered reorder_ns late
	double duplicate = 0;
	double corrupt = 0; // one flipped bit anywhere behind the Ethernet header
	u64 delay_ns = 2000;
	u64 jitter_ns = 0; // does not reorder
	u64 reorder_ns = 20000;
	double merge = 0; // consecutive packets of a message arrive as one super-packet
	double by_reference = 0; // a super-packet has its payload by reference (see snic_rx_pkt)
	double pull_fails = 0; // a read of such payload fails
	// Size of each host's receive buffer; a packet that finds it full is dropped. 0: no limit.
	u32 rx_bytes = 0;
	u64 rx_ns_per_kib = 0; // time in which a host empties 1 KiB of it
};

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

	// Decides whether a packet is dropped; called in sending order, before the random faults.
	enum class Verdict { pass, drop };
	using Filter = std::function<Verdict(TestHost &from, Packet &pkt)>;
	void set_filter(Filter filter) { filter_ = std::move(filter); }
	// Keep a copy of everything sent.
	void record(bool on) { recording_ = on; }
	std::vector<Packet> &sent() { return sent_; }
	u64 packets_sent() const { return count_; }
	u64 overruns() const { return overruns_; }
	u64 pulls() const { return pulls_; }
	// Of all packets received, the sum of what snic_rx() returned.
	u64 copies() const { return copies_; }
	// Put raw bytes on the wire, towards the host that has their destination address.
	void inject(std::vector<u8> frame, u64 delay_ns = 0);
	// Append everything sent to a capture file that Wireshark reads.
	bool open_pcap(const std::string &path);

	// Do what is due now: at each host its interrupts and one deferred QP, then one packet. False: nothing was.
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
	// Put @pkt into its receiver's buffer at @due: false when that is full, else @due becomes when it is taken out.
	bool buffer(const Packet &pkt, u64 &due);
	bool deliver();
	void receive(TestHost &host, const Packet &pkt);
	// @first, and the packets of its message that are next on the wire and due, removed from it.
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
		std::deque<std::pair<u64, size_t>>
			held; // of each packet: when it is taken out, its bytes
		size_t bytes = 0;
	};
	std::map<sirdma_ip, Buffer, IpLess> buffers_;
	std::vector<u8> referenced_; // payload of the super-packet that is being received
	u64 pulls_ = 0; // reads of it by on_pull()
	u64 copies_ = 0;
	u64 overruns_ = 0; // packets that found a buffer full
	Filter filter_;
	bool recording_ = false;
	std::vector<Packet> sent_;
	u64 count_ = 0;
	FILE *pcap_ = nullptr;
};

} // namespace sirdma::test
