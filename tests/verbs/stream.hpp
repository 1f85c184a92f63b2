// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// verbs_stream: two processes move seeded data through every operation and check every byte.
//
// Each queue pair is a lane of its own. On a lane one side, the driver, works in rounds: both sides compute the same
// plan of a round from the seed; the responder prepares for it (receives posted, buffers for READ filled) and says so
// with a GO message; the driver runs the plan and ends it with a DONE message, which, being ordered behind the data,
// tells the responder to check. With --both, every second lane is driven from the other side.
#pragma once

#include "device.hpp"
#include "memory.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace verbs::stream
{

struct Settings {
	std::string device;
	GidChoice gid;
	std::string connect; // empty: listen
	std::string port = "18600";
	std::vector<ibv_wr_opcode> ops; // drawn from for each message
	uint32_t size = 65536; // longest message
	bool exact = false; // all messages have that size
	uint32_t depth = 16; // messages of a round
	uint32_t lanes = 2;
	uint32_t mtu = 0; // bytes; 0: what the ports have
	bool both = false;
	uint64_t iterations = 0; // rounds per lane; 0: until the time is over
	double seconds = 5;
	double stall = 30; // without progress for so long is a failure
	uint64_t seed = 1;
	uint8_t timeout = 14;
	uint8_t retry = 7;
	bool quiet = false;
};

struct Message {
	ibv_wr_opcode op;
	uint32_t length;
	uint32_t offset; // into its slot, for unaligned starts
	uint64_t pattern;
	uint32_t imm;
};

// The connecting side's wishes hold for both.
void agree(Settings &settings, const Device &device, class Wire &wire, bool listens);

// What both sides know about one round of one lane.
std::vector<Message> plan_round(const Settings &settings, uint32_t lane, uint64_t round);

// The settings that both sides must share travel over the TCP connection with the addresses.
struct Peer {
	Address address;
	uint64_t base = 0;
	uint32_t rkey = 0;
};

// The control connection; every failure is fatal and says why.
class Wire {
public:
	explicit Wire(const Settings &settings);
	~Wire();
	Wire(const Wire &) = delete;
	Wire &operator=(const Wire &) = delete;

	void send(const void *data, size_t length);
	void receive(void *data, size_t length);
	// Everyone is here before anyone goes on.
	void meet();
	// Notices, without waiting, that the other side gave up or is gone. That ends this side, too.
	void look();
	// The states of both sides go to stderr, this one's by its text.
	void give_up(const std::string &report);

private:
	void receive_report();

	int fd_ = -1;
	bool heard_ = false; // the other side's report
};

// Says why, then what at_death() asked for, and ends the program.
[[noreturn]] void die(const std::string &why);
void at_death(std::function<void()> last_words);

class Lane {
public:
	Lane(const Settings &settings, const Device &device, ibv_pd *pd, uint32_t index,
	     bool drives);

	Peer own() const;
	void connect(const Peer &peer);
	void start();
	// Takes what the completion queues hold and goes on; true when anything moved.
	bool progress();
	// A driver that was told stops after the round it is in; the responder learns of it by the last DONE message.
	void finish() { finishing_ = true; }
	// Nothing of this lane is under way any more. The queue pair must stay until the other side says so too.
	bool finished() const { return finished_ && sends_left_ == 0; }
	bool drives() const { return drives_; }
	uint64_t bytes() const { return bytes_; }
	uint64_t rounds() const { return round_; }
	uint64_t messages() const { return messages_; }
	// What it waits for, and its queue pair's state, PSNs and timers.
	std::string report() const;

private:
	enum class Note : uint32_t { go = 0x600d, done = 0xd0e, last = 0x1a57 };

	void prepare_round(); // responder
	void run_round(); // driver
	void check_round(bool last); // responder
	void end_round(); // driver
	void send_note(Note note);
	void post_note_recv();
	void take(const ibv_wc &wc);
	void take_note();
	size_t slot(size_t index) const { return index * slot_size_; }
	std::string where() const;

	const Settings &settings_;
	const Device &device_;
	Link link_;
	uint32_t index_;
	bool drives_;
	size_t slot_size_;
	Mapping data_;
	Mapping notes_; // the incoming note, then eight outgoing ones
	Mr data_mr_;
	Mr notes_mr_;
	Cq send_cq_;
	Cq recv_cq_;
	Qp qp_;
	uint32_t psn_;
	Peer peer_;
	std::vector<Message> plan_;
	uint64_t round_ = 0;
	uint32_t sends_left_ = 0; // completions of this round still to come
	std::vector<uint32_t> recv_of_; // messages of the plan that take a receive, in order
	size_t recvs_taken_ = 0;
	uint64_t bytes_ = 0;
	uint64_t messages_ = 0;
	bool finishing_ = false;
	bool finished_ = false;
};

} // namespace verbs::stream
