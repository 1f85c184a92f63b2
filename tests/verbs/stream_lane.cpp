// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "stream.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

namespace verbs::stream
{
namespace
{

constexpr uint32_t max_offset = 64;
constexpr size_t note_size = 64;
constexpr uint64_t note_id = ~0ull;
constexpr uint8_t reads_outstanding = 4;
constexpr int poll_share = 16;

bool places_data(ibv_wr_opcode op) // in the buffer of a receive
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM;
}

bool takes_recv(ibv_wr_opcode op)
{
	return places_data(op) || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

} // namespace

std::vector<Message> plan_round(const Settings &settings, uint32_t lane, uint64_t round)
{
	Random random(settings.seed * 0x1000193 + lane * 0x10001 + round * 0x100000001ull);
	std::vector<Message> plan(settings.depth);

	for (Message &message : plan) {
		message.op = settings.ops[random.below(settings.ops.size())];
		// small and large ones alike: first the magnitude, then the size
		const uint64_t bound =
			random.below(4) ?
				settings.size :
				std::min<uint64_t>(settings.size, 1ull << random.below(13));
		message.length = static_cast<uint32_t>(settings.exact ? settings.size :
									random.below(bound + 1));
		message.offset =
			static_cast<uint32_t>(settings.exact ? 0 : random.below(max_offset));
		message.pattern = random.next();
		message.imm = static_cast<uint32_t>(random.next());
	}
	return plan;
}

Lane::Lane(const Settings &settings, const Device &device, ibv_pd *pd, uint32_t index, bool drives)
	: settings_(settings), device_(device), index_(index), drives_(drives),
	  slot_size_((settings.size + max_offset + 4095) / 4096 * 4096),
	  psn_(static_cast<uint32_t>(Random(settings.seed + index + (drives ? 1000 : 0)).next() &
				     0xffffff))
{
	constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_WRITE;
	const int room = static_cast<int>(settings.depth) * 2 + 8;

	data_ = Mapping::anonymous(slot(settings.depth));
	notes_ = Mapping::anonymous(4096);
	if (!data_ || !notes_)
		die("no memory");
	data_mr_.reset(ibv_reg_mr(pd, data_.data(), data_.size(), access));
	notes_mr_.reset(ibv_reg_mr(pd, notes_.data(), notes_.size(), access));
	send_cq_.reset(ibv_create_cq(device.context.get(), room, nullptr, nullptr, 0));
	recv_cq_.reset(ibv_create_cq(device.context.get(), room, nullptr, nullptr, 0));
	if (!data_mr_ || !notes_mr_ || !send_cq_ || !recv_cq_)
		die(std::string("creating regions and completion queues: ") + std::strerror(errno));
	ibv_qp_init_attr init = {};
	init.qp_type = IBV_QPT_RC;
	init.send_cq = send_cq_.get();
	init.recv_cq = recv_cq_.get();
	init.sq_sig_all = 1;
	init.cap = {settings.depth + 4, settings.depth + 4, 1, 1, 0};
	qp_.reset(ibv_create_qp(pd, &init));
	if (!qp_)
		die(std::string("ibv_create_qp: ") + std::strerror(errno));
	link_.mtu = device.port_attr.active_mtu;
	for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		if (settings.mtu == mtu_bytes(static_cast<ibv_mtu>(mtu)))
			link_.mtu = static_cast<ibv_mtu>(mtu);
	link_.timeout = settings.timeout;
	link_.retry_cnt = settings.retry;
	link_.min_rnr_timer = 1;
	link_.max_rd_atomic = link_.max_dest_rd_atomic = static_cast<uint8_t>(
		std::min({static_cast<int>(reads_outstanding), device.attr.max_qp_rd_atom,
			  device.attr.max_qp_init_rd_atom}));
	if (int rc = to_init(qp_.get(), device, link_))
		die(std::string("to INIT: ") + std::strerror(rc));
	if (drives_)
		post_note_recv(); // for the first GO
}

Peer Lane::own() const
{
	return {{qp_->qp_num, psn_, device_.gid}, data_.address(), data_mr_->rkey};
}

void Lane::connect(const Peer &peer)
{
	peer_ = peer;
	if (int rc = to_rtr(qp_.get(), device_, peer.address, link_))
		die(std::string("to RTR: ") + std::strerror(rc));
	if (int rc = to_rts(qp_.get(), psn_, link_))
		die(std::string("to RTS: ") + std::strerror(rc));
}

std::string Lane::where() const
{
	return "lane " + std::to_string(index_) + (drives_ ? " (driver)" : " (responder)") +
	       " round " + std::to_string(round_) + " seed " + std::to_string(settings_.seed);
}

std::string Lane::report() const
{
	ibv_qp_attr attr = {};
	ibv_qp_init_attr init = {};
	std::ostringstream text;

	text << where() << ": " << sends_left_ << " sends not completed, " << recvs_taken_ << " of "
	     << recv_of_.size() << " receives of the round taken" << (finished_ ? ", finished" : "")
	     << '\n';
	text << "  QP " << qp_->qp_num << " to " << peer_.address.qpn << ", first PSNs " << psn_
	     << " and " << peer_.address.psn;
	if (const int rc = ibv_query_qp(qp_.get(), &attr, IBV_QP_STATE, &init)) {
		text << ", ibv_query_qp: " << std::strerror(rc) << '\n';
		return text.str();
	}
	text << ": state " << attr.qp_state << ", sq_psn " << attr.sq_psn << " (+"
	     << ((attr.sq_psn - psn_) & 0xffffff) << "), rq_psn " << attr.rq_psn << " (+"
	     << ((attr.rq_psn - peer_.address.psn) & 0xffffff) << "), timeout "
	     << static_cast<int>(attr.timeout) << ", retry_cnt " << static_cast<int>(attr.retry_cnt)
	     << ", rnr_retry " << static_cast<int>(attr.rnr_retry) << ", min_rnr_timer "
	     << static_cast<int>(attr.min_rnr_timer) << '\n';
	return text.str();
}

void Lane::start()
{
	if (!drives_)
		prepare_round();
}

void Lane::post_note_recv()
{
	ibv_sge sge = {notes_.address(), note_size, notes_mr_->lkey};
	ibv_recv_wr wr = {}, *bad = nullptr;
	wr.wr_id = note_id;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	if (int rc = ibv_post_recv(qp_.get(), &wr, &bad))
		die(where() + ": posting a receive: " + std::strerror(rc));
}

void Lane::send_note(Note note)
{
	const auto value = static_cast<uint32_t>(note);
	const size_t at =
		note_size * (1 + round_ % 8); // the one before may still have to be sent again
	std::memcpy(notes_.data() + at, &value, sizeof(value));
	std::memcpy(notes_.data() + at + 4, &round_, sizeof(round_));
	ibv_sge sge = {notes_.address(at), 12, notes_mr_->lkey};
	ibv_send_wr wr = {}, *bad = nullptr;
	wr.wr_id = note_id;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	if (int rc = ibv_post_send(qp_.get(), &wr, &bad))
		die(where() + ": posting a send: " + std::strerror(rc));
	sends_left_++;
}

// The responder's receives of a round come first, the one for DONE last; READ sources and sinks are filled.
void Lane::prepare_round()
{
	plan_ = plan_round(settings_, index_, round_);
	recv_of_.clear();
	recvs_taken_ = 0;
	for (uint32_t i = 0; i < plan_.size(); i++) {
		const Message &message = plan_[i];
		std::byte *start = data_.data() + slot(i) + message.offset;
		const uint64_t before = message.op == IBV_WR_RDMA_READ ? message.pattern :
									 ~message.pattern;
		fill_pattern({start, message.length}, before);
		if (!takes_recv(message.op))
			continue;
		ibv_sge sge = {data_.address(slot(i) + message.offset), message.length,
			       data_mr_->lkey};
		ibv_recv_wr wr = {}, *bad = nullptr;
		wr.wr_id = i;
		wr.sg_list = &sge;
		wr.num_sge = places_data(message.op) ? 1 : 0;
		if (int rc = ibv_post_recv(qp_.get(), &wr, &bad))
			die(where() + ": posting a receive: " + std::strerror(rc));
		recv_of_.push_back(i);
	}
	post_note_recv();
	send_note(Note::go);
}

void Lane::run_round()
{
	plan_ = plan_round(settings_, index_, round_);
	for (uint32_t i = 0; i < plan_.size(); i++) {
		const Message &message = plan_[i];
		std::byte *start = data_.data() + slot(i) + message.offset;
		const bool reads = message.op == IBV_WR_RDMA_READ;
		fill_pattern({start, message.length}, reads ? ~message.pattern : message.pattern);
		ibv_sge sge = {data_.address(slot(i) + message.offset), message.length,
			       data_mr_->lkey};
		ibv_send_wr wr = {}, *bad = nullptr;
		wr.wr_id = i;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = message.op;
		wr.imm_data = htonl(message.imm);
		wr.wr.rdma.remote_addr = peer_.base + slot(i) + message.offset;
		wr.wr.rdma.rkey = peer_.rkey;
		if (int rc = ibv_post_send(qp_.get(), &wr, &bad))
			die(where() + ": posting: " + std::strerror(rc));
		sends_left_++;
	}
}

void Lane::end_round()
{
	for (uint32_t i = 0; i < plan_.size(); i++) {
		const Message &message = plan_[i];
		if (message.op == IBV_WR_RDMA_READ &&
		    find_mismatch({data_.data() + slot(i) + message.offset, message.length},
				  message.pattern))
			die(where() + ": wrong data read in message " + std::to_string(i));
		bytes_ += message.length;
	}
	messages_ += plan_.size();
	round_++;
	plan_.clear();
	post_note_recv();
	const bool last = finishing_ || (settings_.iterations && round_ >= settings_.iterations);
	send_note(last ? Note::last : Note::done);
	finished_ = last;
}

void Lane::check_round(bool last)
{
	if (recvs_taken_ != recv_of_.size())
		die(where() + ": " + std::to_string(recv_of_.size() - recvs_taken_) +
		    " receives are missing");
	for (uint32_t i = 0; i < plan_.size(); i++) {
		const Message &message = plan_[i];
		const auto at = find_mismatch(
			{data_.data() + slot(i) + message.offset, message.length}, message.pattern);
		if (at)
			die(where() + ": wrong data in message " + std::to_string(i) + " (opcode " +
			    std::to_string(message.op) + ") of " + std::to_string(message.length) +
			    " bytes at byte " + std::to_string(*at));
		bytes_ += message.length;
	}
	messages_ += plan_.size();
	round_++;
	finished_ = last;
	if (!last)
		prepare_round();
}

void Lane::take_note()
{
	uint32_t value = 0;
	uint64_t round = 0;
	std::memcpy(&value, notes_.data(), sizeof(value));
	std::memcpy(&round, notes_.data() + 4, sizeof(round));
	switch (static_cast<Note>(value)) {
	case Note::go:
		if (round != round_ || !drives_)
			die(where() + ": GO for round " + std::to_string(round));
		run_round();
		break;
	case Note::done:
	case Note::last:
		if (round != round_ + 1 || drives_)
			die(where() + ": DONE for round " + std::to_string(round));
		check_round(static_cast<Note>(value) == Note::last);
		break;
	default:
		die(where() + ": a note of unknown kind");
	}
}

void Lane::take(const ibv_wc &wc)
{
	if (wc.status != IBV_WC_SUCCESS) {
		const bool message = wc.wr_id < plan_.size();
		die(where() + ": " + ibv_wc_status_str(wc.status) + " (status " +
		    std::to_string(wc.status) + ", vendor error " + std::to_string(wc.vendor_err) +
		    ") of " +
		    (message ? "message " + std::to_string(wc.wr_id) + ", opcode " +
				       std::to_string(plan_[wc.wr_id].op) + ", " +
				       std::to_string(plan_[wc.wr_id].length) + " bytes" :
			       "a note"));
	}
	if (!(wc.opcode & IBV_WC_RECV)) {
		sends_left_--;
		if (drives_ && !plan_.empty() && sends_left_ == 0)
			end_round();
		return;
	}
	if (wc.wr_id == note_id) {
		take_note();
		return;
	}
	const Message &message = plan_.at(wc.wr_id);
	if (recvs_taken_ >= recv_of_.size() || recv_of_[recvs_taken_] != wc.wr_id)
		die(where() + ": receive " + std::to_string(wc.wr_id) + " out of order");
	recvs_taken_++;
	if (wc.byte_len != message.length)
		die(where() + ": length " + std::to_string(wc.byte_len) + " instead of " +
		    std::to_string(message.length));
	if (message.op != IBV_WR_SEND &&
	    (!(wc.wc_flags & IBV_WC_WITH_IMM) || ntohl(wc.imm_data) != message.imm))
		die(where() + ": wrong immediate data");
}

bool Lane::progress()
{
	// A share of each in turn: whoever empties one while more arrives lets the other overflow.
	std::array<ibv_wc, poll_share> done = {};
	bool moved = false;
	for (ibv_cq *cq : {send_cq_.get(), recv_cq_.get()}) {
		const int count = ibv_poll_cq(cq, poll_share, done.data());
		if (count < 0)
			die(where() + ": ibv_poll_cq failed");
		for (int i = 0; i < count; i++)
			take(done[i]);
		moved = moved || count;
	}
	return moved;
}

} // namespace verbs::stream
