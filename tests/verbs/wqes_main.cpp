// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Prints the words that the provider of a device writes into its rings for each kind of work request, one request in a line. So the
// rings of two providers can be compared. Keys, numbers and addresses are made up, and the queue pairs are in the error state, so
// that the device flushes the requests unread.
//   verbs_wqes -d DEVICE [-g GID-INDEX]
//
// The rings are found without the provider's help: a request with two words that occur nowhere else is posted first, and its WQE
// looked for at the beginning of each writable page.
#include "device.hpp"
#include "memory.hpp"
#include "verbs.hpp"

#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <arpa/inet.h>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_wqes: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace
{

constexpr uint64_t first_mark = 0x5f3a91c7d2e80b46, second_mark = 0x00a1b2c3d4e5f607;
constexpr uint32_t receive_mark = 0x7c5e3a19;
constexpr uint32_t quantum_words = 4, chunk_quanta = 8;
constexpr uint32_t max_sge = 13, max_inline = 101;

[[noreturn]] void die(const std::string &what, int error = errno)
{
	std::fprintf(stderr, "verbs_wqes: %s: %s\n", what.c_str(), std::strerror(error));
	std::exit(1);
}

// Calls @visit with the beginning of each page that a ring may begin in, until it returns true.
template <typename Visitor> bool for_each_page(Visitor visit)
{
	std::ifstream maps("/proc/self/maps");

	for (std::string line; std::getline(maps, line);) {
		uintptr_t from = 0, to = 0;
		char rights[5] = "";
		std::string name = line.size() > 73 ? line.substr(73) : "";

		if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to,
				rights) != 3 ||
		    std::strncmp(rights, "rw", 2) != 0)
			continue;
		if (name.rfind("/dev/", 0) == 0 || name.rfind("[v", 0) == 0)
			continue;
		for (; from < to; from += 4096)
			if (visit(reinterpret_cast<volatile uint64_t *>(from)))
				return true;
	}
	return false;
}

// A ring, and how far its provider has written it.
struct Ring {
	volatile uint64_t *words = nullptr;
	uint32_t head = 0; // in quanta
};

// The quanta of the WQE at @words, by its header: the inline length, or the number of further fragments.
uint32_t quanta_of(const volatile uint64_t *words)
{
	const uint64_t hdr = words[3];

	if (hdr >> 57 & 1) {
		const uint32_t bytes = hdr >> 48 & 0xff;

		return bytes <= 8 ? 1 : 1 + (bytes - 8 + 30) / 31;
	}
	return 1 + ((hdr >> 38 & 0xf) + 1) / 2;
}

void print(const std::string &what, const volatile uint64_t *words, uint32_t quanta)
{
	std::printf("%s:", what.c_str());
	for (uint32_t i = 0; i < quanta * quantum_words; ++i)
		std::printf(" %016" PRIx64, static_cast<uint64_t>(words[i]));
	std::printf("\n");
}

// Prints what was written since the last call.
void print_next(Ring &ring, const std::string &what)
{
	const volatile uint64_t *words = ring.words + ring.head * quantum_words;
	// NOPs fill a chunk that is too short.
	while ((words[3] >> 32 & 0x3f) == 0x0c) {
		print("nop before " + what, words, 1);
		words += quantum_words;
		++ring.head;
	}
	const uint32_t quanta = quanta_of(words);
	print(what, words, quanta);
	ring.head += quanta;
}

class Dump {
public:
	Dump(const std::string &name, const GidChoice &choice)
	{
		auto opened = Device::open(name, choice);

		if (!opened)
			std::exit(1);
		device_ = std::move(*opened);
		pd_.reset(ibv_alloc_pd(device_.context.get()));
		cq_.reset(ibv_create_cq(device_.context.get(), 1000, nullptr, nullptr, 0));
		if (!pd_ || !cq_)
			die("objects");
		memory_ = Mapping::anonymous(65536);
		mr_.reset(ibv_reg_mr(pd_.get(), memory_.data(), 65536,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND));
		if (!mr_)
			die("ibv_reg_mr");
		for (uint32_t i = 0; i < max_sge; ++i)
			sges_[i] = {.addr = 0x7f0012345000u + i * 0x10111,
				    .length = 0x1000 + i * 3,
				    .lkey = 0xabcd0000 + i};
		for (uint32_t i = 0; i < bytes_.size(); ++i)
			bytes_[i] = static_cast<uint8_t>(0x11 + i * 7);
	}

	void connected()
	{
		const Qp qp = make_qp(IBV_QPT_RC);
		Ring ring = find_ring(qp.get(), nullptr);

		for (uint32_t sges : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 12u, 13u})
			sends_and_writes(qp.get(), ring, sges);
		for (uint32_t sges : {1u, 2u, 3u, 13u})
			reads(qp.get(), ring, sges);
		for (uint32_t bytes : {0u, 1u, 8u, 9u, 39u, 40u, 70u, 71u, 101u})
			inline_data(qp.get(), ring, bytes, nullptr);
		windows(qp.get(), ring);
		receives(qp.get());
	}

	void datagrams()
	{
		ibv_ah_attr attr{};

		attr.is_global = 1;
		attr.port_num = 1;
		attr.grh.dgid = device_.gid;
		attr.grh.sgid_index = static_cast<uint8_t>(device_.gid_index);
		attr.grh.hop_limit = 64;
		const Ah ah(ibv_create_ah(pd_.get(), &attr));
		if (!ah)
			die("ibv_create_ah");
		const Qp qp = make_qp(IBV_QPT_UD);
		Ring ring = find_ring(qp.get(), ah.get());

		for (uint32_t sges : {0u, 1u, 2u, 5u, 13u})
			for (const bool imm : {false, true}) {
				ibv_send_wr wr = datagram(ah.get());
				wr.opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
				wr.imm_data = htonl(0x01020304);
				wr.num_sge = static_cast<int>(sges);
				post(qp.get(), ring, wr,
				     "UD send" + std::string(imm ? " imm" : "") + " sge " +
					     std::to_string(sges));
			}
		for (uint32_t bytes : {1u, 8u, 50u, 101u})
			inline_data(qp.get(), ring, bytes, ah.get());
	}

private:
	Qp make_qp(ibv_qp_type type)
	{
		ibv_qp_init_attr attr{};

		attr.qp_type = type;
		attr.send_cq = attr.recv_cq = cq_.get();
		attr.cap = {.max_send_wr = 500,
			    .max_recv_wr = 100,
			    .max_send_sge = max_sge,
			    .max_recv_sge = max_sge,
			    .max_inline_data = max_inline};
		Qp qp(ibv_create_qp(pd_.get(), &attr));
		if (!qp)
			die("ibv_create_qp");
		ibv_qp_attr init = init_attr(device_, {});
		int mask = init_mask;
		if (type == IBV_QPT_UD) {
			init.qkey = 0x11223344;
			mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
		}
		if (const int err = ibv_modify_qp(qp.get(), &init, mask))
			die("INIT", err);
		if (const int err = to_state(qp.get(), IBV_QPS_ERR))
			die("ERR", err);
		return qp;
	}

	ibv_send_wr datagram(ibv_ah *ah) const
	{
		ibv_send_wr wr{};

		wr.wr_id = 1;
		wr.sg_list = const_cast<ibv_sge *>(sges_.data());
		wr.wr.ud = {.ah = ah, .remote_qpn = 0x54321, .remote_qkey = 0x11223344};
		return wr;
	}

	ibv_send_wr tagged(ibv_wr_opcode opcode) const
	{
		ibv_send_wr wr{};

		wr.wr_id = 1;
		wr.opcode = opcode;
		wr.sg_list = const_cast<ibv_sge *>(sges_.data());
		wr.wr.rdma = {.remote_addr = 0x7e0011223344, .rkey = 0x5566aa77};
		return wr;
	}

	// @what has no more than what two providers have in common.
	void post(ibv_qp *qp, Ring &ring, ibv_send_wr &wr, const std::string &what)
	{
		ibv_send_wr *bad = nullptr;

		if (const int err = ibv_post_send(qp, &wr, &bad)) {
			std::printf("%s: refused: %s\n", what.c_str(), std::strerror(err));
			return;
		}
		if (wr.opcode != IBV_WR_BIND_MW && qp->qp_type == IBV_QPT_UD)
			hide_address(ring);
		print_next(ring, what);
	}

	// The index of an address handle is the device's choice.
	void hide_address(const Ring &ring)
	{
		volatile uint64_t *words = ring.words + ring.head * quantum_words;

		while ((words[3] >> 32 & 0x3f) == 0x0c)
			words += quantum_words;
		words[3] = words[3] - ah_index_;
	}

	Ring find_ring(ibv_qp *qp, ibv_ah *ah)
	{
		ibv_sge sge = {.addr = first_mark, .length = 0x123, .lkey = 0x4567};
		ibv_send_wr wr = ah ? datagram(ah) : tagged(IBV_WR_RDMA_WRITE), *bad = nullptr;
		uint64_t second = second_mark;
		Ring ring;

		wr.sg_list = &sge;
		wr.num_sge = 1;
		if (ah) {
			wr.opcode = IBV_WR_SEND;
			second = static_cast<uint64_t>(wr.wr.ud.remote_qpn) << 32 |
				 wr.wr.ud.remote_qkey;
		} else {
			wr.wr.rdma.remote_addr = second_mark;
		}
		if (const int err = ibv_post_send(qp, &wr, &bad))
			die("ibv_post_send", err);
		if (!for_each_page([&](volatile uint64_t *page) {
			    if (page[0] != first_mark || page[2] != second || !(page[3] >> 63))
				    return false;
			    ring.words = page;
			    return true;
		    }))
			die("the send ring is not found", ENOENT);
		ah_index_ = ah ? ring.words[3] & 0x1ffff : 0;
		if (ah)
			hide_address(ring);
		print_next(ring, ah ? "UD first" : "RC first");
		return ring;
	}

	void sends_and_writes(ibv_qp *qp, Ring &ring, uint32_t sges)
	{
		static constexpr struct {
			ibv_wr_opcode opcode;
			const char *name;
		} kinds[] = {
			{IBV_WR_SEND, "send"},
			{IBV_WR_SEND_WITH_IMM, "send imm"},
			{IBV_WR_SEND_WITH_INV, "send inv"},
			{IBV_WR_RDMA_WRITE, "write"},
			{IBV_WR_RDMA_WRITE_WITH_IMM, "write imm"},
		};

		for (const auto &kind : kinds)
			for (const unsigned flags : {0u, unsigned{IBV_SEND_SIGNALED},
						     unsigned{IBV_SEND_SIGNALED | IBV_SEND_FENCE},
						     unsigned{IBV_SEND_SOLICITED}}) {
				ibv_send_wr wr = tagged(kind.opcode);

				// libirdma reads the first fragment even if there is none.
				if (!sges)
					wr.sg_list = nullptr;
				wr.num_sge = static_cast<int>(sges);
				wr.send_flags = flags;
				if (kind.opcode == IBV_WR_SEND_WITH_INV)
					wr.invalidate_rkey = 0x77665544;
				else
					wr.imm_data = htonl(0xa1b2c3d4);
				post(qp, ring, wr,
				     std::string(kind.name) + " sge " + std::to_string(sges) +
					     " flags " + std::to_string(flags));
			}
	}

	void reads(ibv_qp *qp, Ring &ring, uint32_t sges)
	{
		for (const unsigned flags : {0u, unsigned{IBV_SEND_SIGNALED | IBV_SEND_FENCE}}) {
			ibv_send_wr wr = tagged(IBV_WR_RDMA_READ);

			wr.num_sge = static_cast<int>(sges);
			wr.send_flags = flags;
			post(qp, ring, wr,
			     "read sge " + std::to_string(sges) + " flags " +
				     std::to_string(flags));
		}
	}

	// In one piece, and in pieces that straddle the quanta.
	void inline_data(ibv_qp *qp, Ring &ring, uint32_t bytes, ibv_ah *ah)
	{
		for (const uint32_t pieces : {1u, 3u})
			for (const ibv_wr_opcode opcode :
			     {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
			      IBV_WR_RDMA_WRITE_WITH_IMM}) {
				std::array<ibv_sge, 3> sges{};
				uint32_t at = 0;

				if (ah && opcode != IBV_WR_SEND && opcode != IBV_WR_SEND_WITH_IMM)
					continue;
				for (uint32_t i = 0; i < pieces; ++i) {
					const uint32_t n = i + 1 == pieces ? bytes - at :
									     bytes / 5 * (i + 1);

					sges[i] = {.addr = reinterpret_cast<uintptr_t>(&bytes_[at]),
						   .length = n,
						   .lkey = 0};
					at += n;
				}
				ibv_send_wr wr = ah ? datagram(ah) : tagged(opcode);
				wr.opcode = opcode;
				wr.sg_list = sges.data();
				wr.num_sge = static_cast<int>(pieces);
				wr.imm_data = htonl(0x0badcafe);
				wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
				post(qp, ring, wr,
				     std::string(ah ? "UD" : "RC") + " inline " +
					     std::to_string(bytes) + " pieces " +
					     std::to_string(pieces) + " opcode " +
					     std::to_string(opcode));
			}
	}

	void windows(ibv_qp *qp, Ring &ring)
	{
		ibv_send_wr wr = tagged(IBV_WR_LOCAL_INV);

		wr.invalidate_rkey = 0x12ab34cd;
		post(qp, ring, wr, "local inv");
		for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
			ibv_mw *mw = ibv_alloc_mw(pd_.get(), type);

			if (!mw && type == IBV_MW_TYPE_2 && errno == ENOTSUP) {
				std::printf("no windows of type 2\n");
				break;
			}
			if (!mw)
				die("ibv_alloc_mw");
			for (const unsigned access :
			     {unsigned{IBV_ACCESS_REMOTE_READ}, unsigned{IBV_ACCESS_REMOTE_WRITE},
			      unsigned{IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE}})
				bind(qp, ring, mw, access);
			if (const int err = ibv_dealloc_mw(mw))
				die("ibv_dealloc_mw", err);
		}
	}

	// The library's structures have made-up keys for as long as the request is posted.
	void bind(ibv_qp *qp, Ring &ring, ibv_mw *mw, unsigned access)
	{
		const uint32_t mw_key = mw->rkey, lkey = mr_->lkey, rkey = mr_->rkey;
		ibv_send_wr wr = tagged(IBV_WR_BIND_MW);

		mw->rkey = 0x00123400;
		mr_->lkey = mr_->rkey = 0x00abcd99;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = 0x00123457;
		wr.bind_mw.bind_info = {.mr = mr_.get(),
					.addr = 0x7a0000001000,
					.length = 0x2345,
					.mw_access_flags = access};
		post(qp, ring, wr,
		     "bind type " + std::to_string(mw->type) + " access " + std::to_string(access));
		mw->rkey = mw_key;
		mr_->lkey = lkey;
		mr_->rkey = rkey;
	}

	void receives(ibv_qp *qp)
	{
		constexpr uint32_t stride = 8; // quanta of a receive WQE of 13 fragments
		Ring ring;

		for (uint32_t sges : {1u, 0u, 2u, 3u, 4u, 7u, 12u, 13u}) {
			ibv_sge first = {
				.addr = first_mark + 1, .length = 0x321, .lkey = receive_mark};
			ibv_recv_wr wr{}, *bad = nullptr;

			wr.wr_id = 2;
			if (sges)
				wr.sg_list = ring.words ? sges_.data() : &first;
			wr.num_sge = static_cast<int>(sges);
			if (const int err = ibv_post_recv(qp, &wr, &bad))
				die("ibv_post_recv", err);
			if (!ring.words && !for_each_page([&](volatile uint64_t *page) {
				    if (page[0] != first_mark + 1 ||
					(page[1] & 0xffffffff) != receive_mark || !(page[3] >> 63))
					    return false;
				    ring.words = page;
				    return true;
			    }))
				die("the receive ring is not found", ENOENT);
			const volatile uint64_t *words = ring.words + ring.head * quantum_words;
			print("receive sge " + std::to_string(sges), words,
			      1 + ((words[3] >> 38 & 0xf) + 1) / 2);
			ring.head += stride;
		}
	}

	Device device_;
	Pd pd_;
	Cq cq_;
	Mapping memory_;
	Mr mr_;
	std::array<ibv_sge, max_sge> sges_{};
	std::array<uint8_t, max_inline> bytes_{};
	uint64_t ah_index_ = 0;
};

} // namespace

} // namespace verbs

int main(int argc, char **argv)
{
	std::string name;
	verbs::GidChoice choice;

	for (int option; (option = getopt(argc, argv, "d:g:")) != -1;) {
		switch (option) {
		case 'd':
			name = optarg;
			break;
		case 'g':
			choice.index = std::atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	verbs::Dump dump(name, choice);
	dump.connected();
	dump.datagrams();
	return 0;
}
