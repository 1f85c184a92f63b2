// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The device model behind a line protocol, so that a program that shares no code with it can be its peer.
//
//   snic_oracle [4|6] [MTU]        IP version and path MTU of its one connected queue pair
//
//   in:  frame HEX                 a frame arrives
//        post OP OFFSET LENGTH [REMOTE RKEY]      OP: send, send_imm, send_inv (of RKEY), write, write_imm, read
//        recv OFFSET LENGTH        post a receive buffer
//        run MICROSECONDS          let virtual time pass
//        peek OFFSET LENGTH        registered memory
//        fill OFFSET LENGTH SEED   byte i of it becomes (i * 7 + SEED) % 256
//        state
//   out: frame HEX                 the model sends
//        wc send|recv OP STATUS LENGTH IMM [INV]  0 is success, else the vendor error; the key that the peer invalidated
//        memory HEX / state N
//        done                      everything this command caused has been said
//
// The parameters of the connection are printed first, as "name value" lines up to "ready".
#include "../model/transport.hpp"

#include <cstdio>
#include <iostream>
#include <sstream>

using namespace sirdma::test;

namespace
{

constexpr u64 kIova = 0x100000;
constexpr u32 kPeerQpn = 0x00abcd;
constexpr u32 kSendPsn = 0xfffffe; // wraps after two packets
constexpr u32 kRecvPsn = 0x000102;
constexpr u64 kSettleNs = 200'000; // less than any timer of the queue pair

std::string to_hex(std::span<const u8> bytes)
{
	static constexpr char digits[] = "0123456789abcdef";
	std::string text;

	for (u8 byte : bytes) {
		text += digits[byte >> 4];
		text += digits[byte & 15];
	}
	return text;
}

std::vector<u8> from_hex(const std::string &text)
{
	std::vector<u8> bytes;

	for (size_t i = 0; i + 1 < text.size(); i += 2)
		bytes.push_back(static_cast<u8>(std::stoul(text.substr(i, 2), nullptr, 16)));
	return bytes;
}

class Oracle {
public:
	Oracle(bool v6, u16 mtu);
	void describe();
	// False at a line that is not understood.
	bool execute(const std::string &line);

private:
	void connect(u16 mtu);
	bool post(std::istringstream &args);
	void report();

	static constexpr u8 peer_mac_[6] = {0x02, 0x53, 0x49, 0, 0, 0x99};
	Fabric fabric_{1};
	Node node_;
	sirdma_ip peer_ip_;
	MrParams mr_; // the node's memory once more, at an address the peer knows
	MrParams fast_; // the same, with a key that work requests may invalidate
	Qp qp_;
};

Oracle::Oracle(bool v6, u16 mtu)
	: node_(fabric_, 1, v6), peer_ip_(v6 ? ip6(0x99) : ip4(10, 0, 0, 0x99)),
	  qp_(node_, {.mtu = mtu, .timeout = 14})
{
	fabric_.record(true);
	mr_ = node_.mr;
	mr_.idx = 2;
	mr_.key = 0xc3;
	mr_.va = kIova;
	EXPECT_EQ(node_.drv.reg_mr(mr_), SIRDMA_CQP_OK);
	fast_ = mr_;
	fast_.idx = 3;
	fast_.key = 0xd4;
	EXPECT_EQ(node_.drv.alloc_stag(fast_.stag()), SIRDMA_CQP_OK);
	EXPECT_EQ(node_.drv.reg_mr(fast_), SIRDMA_CQP_OK);
	EXPECT_EQ(node_.drv.set_arp(0, peer_mac_), SIRDMA_CQP_OK);
	connect(mtu);
}

void Oracle::connect(u16 mtu)
{
	sirdma_qp_ctx *c = qp_.context();

	qp_.to_init();
	c->dst_ip = peer_ip_;
	c->dest_qpn = kPeerQpn;
	c->sgid_idx = 0;
	c->arp_idx = 0;
	c->udp_sport = 0xd00d;
	c->hop_limit = 61;
	c->traffic_class = 0x68;
	c->path_mtu = mtu;
	c->rq_psn = kRecvPsn;
	c->ird = 8;
	c->min_rnr_timer = 14;
	EXPECT_EQ(qp_.modify(SIRDMA_QPS_RTR,
			     SIRDMA_QPC_MOD_PATH | SIRDMA_QPC_MOD_DEST_QPN | SIRDMA_QPC_MOD_MTU |
				     SIRDMA_QPC_MOD_RQ_PSN | SIRDMA_QPC_MOD_IRD |
				     SIRDMA_QPC_MOD_MIN_RNR,
			     SIRDMA_QPS_INIT),
		  SIRDMA_CQP_OK);
	qp_.to_rts(kSendPsn);
}

void Oracle::describe()
{
	std::printf("own_ip %s\npeer_ip %s\nown_mac %s\npeer_mac %s\n", to_hex(node_.ip.b).c_str(),
		    to_hex(peer_ip_.b).c_str(), to_hex(node_.mac()).c_str(),
		    to_hex(peer_mac_).c_str());
	std::printf("own_qpn %u\npeer_qpn %u\nsend_psn %u\nrecv_psn %u\nsport %u\nttl %u\ntos %u\n",
		    qp_.id, kPeerQpn, kSendPsn, kRecvPsn, 0xd00du, 61u, 0x68u);
	std::printf("iova %llu\nrkey %u\nfast_rkey %u\nmemory %zu\nready\n",
		    static_cast<unsigned long long>(kIova), mr_.stag(), fast_.stag(),
		    node_.mem->size());
}

bool Oracle::post(std::istringstream &args)
{
	static const std::map<std::string, std::pair<u8, bool>> ops = {
		{"send", {SIRDMA_OP_SEND, false}},   {"send_imm", {SIRDMA_OP_SEND, true}},
		{"write", {SIRDMA_OP_WRITE, false}}, {"write_imm", {SIRDMA_OP_WRITE, true}},
		{"read", {SIRDMA_OP_READ, false}},   {"send_inv", {SIRDMA_OP_SEND_INV, false}},
	};
	std::string op;
	size_t offset = 0;
	Wr wr;
	u32 length = 0;

	args >> op >> offset >> length >> wr.remote >> wr.rkey;
	auto it = ops.find(op);
	if (it == ops.end())
		return false;
	wr.op = it->second.first;
	if (it->second.second)
		wr.imm = 0x1badcafe;
	wr.sges = {node_.sge(offset, length)};
	qp_.post(wr);
	return true;
}

bool Oracle::execute(const std::string &line)
{
	std::istringstream args(line);
	std::string verb, text;
	size_t offset = 0, length = 0;

	args >> verb;
	if (verb == "frame") {
		args >> text;
		fabric_.inject(from_hex(text));
	} else if (verb == "post") {
		if (!post(args))
			return false;
	} else if (verb == "recv") {
		args >> offset >> length;
		qp_.recv({node_.sge(offset, static_cast<u32>(length))});
	} else if (verb == "run") {
		args >> length;
		fabric_.run_for(length * 1000);
	} else if (verb == "peek") {
		args >> offset >> length;
		std::printf("memory %s\n",
			    to_hex(node_.mem->bytes().subspan(offset, length)).c_str());
	} else if (verb == "fill") {
		size_t seed = 0;
		args >> offset >> length >> seed;
		for (size_t i = 0; i < length; i++)
			node_.data(offset)[i] = static_cast<u8>(i * 7 + seed);
	} else if (verb == "state") {
		std::printf("state %u\n", qp_.state());
	} else {
		return false;
	}
	fabric_.run_for(kSettleNs);
	report();
	return true;
}

void Oracle::report()
{
	for (const Packet &packet : fabric_.sent())
		std::printf("frame %s\n", to_hex(packet.bytes).c_str());
	fabric_.sent().clear();
	for (bool send : {true, false})
		while (auto wc = qp_.poll(send)) {
			std::printf("wc %s %u %u %u %u", send ? "send" : "recv", wc->op,
				    wc->error ? wc->vendor : 0, wc->len, wc->imm.value_or(0));
			if (wc->inv)
				std::printf(" %u", *wc->inv);
			std::printf("\n");
		}
	std::printf("done\n");
	std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv)
{
	testing::InitGoogleTest(&argc, argv);
	const bool v6 = argc > 1 && std::string(argv[1]) == "6";
	const u16 mtu = argc > 2 ? static_cast<u16>(std::stoul(argv[2])) : 1024;
	Oracle oracle(v6, mtu);
	std::string line;

	oracle.describe();
	std::fflush(stdout);
	while (std::getline(std::cin, line))
		if (!oracle.execute(line)) {
			std::fprintf(stderr, "not understood: %s\n", line.c_str());
			return 2;
		}
	return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed();
}
