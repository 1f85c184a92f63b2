// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "stream.hpp"

#include <fcntl.h>
#include <getopt.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>
#include <utility>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	std::fprintf(stderr, "verbs_stream: %s: %s\n", what, std::strerror(rc > 0 ? rc : errno));
	_exit(1);
}

namespace stream
{

namespace
{

std::function<void()> last_words;

} // namespace

void die(const std::string &why)
{
	std::fflush(stdout);
	std::fprintf(stderr, "verbs_stream: FAILED: %s\n", why.c_str());
	// Whoever dies of its last words has said them.
	if (const auto say = std::exchange(last_words, nullptr))
		say();
	std::exit(1); // not _exit(): the twin prints its counters then
}

void at_death(std::function<void()> say)
{
	last_words = std::move(say);
}

namespace
{

using Clock = std::chrono::steady_clock;

constexpr double look_interval = 0.1; // s

volatile std::sig_atomic_t told_to_end;

void end_soon(int)
{
	told_to_end = 1;
}

double since(Clock::time_point start)
{
	return std::chrono::duration<double>(Clock::now() - start).count();
}

const struct {
	const char *name;
	ibv_wr_opcode op;
} op_names[] = {{"send", IBV_WR_SEND},
		{"send_imm", IBV_WR_SEND_WITH_IMM},
		{"write", IBV_WR_RDMA_WRITE},
		{"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
		{"read", IBV_WR_RDMA_READ}};

std::vector<ibv_wr_opcode> parse_ops(const char *text)
{
	std::vector<ibv_wr_opcode> ops;
	std::string rest = std::string(text) + ",";
	for (size_t comma; (comma = rest.find(',')) != std::string::npos; rest.erase(0, comma + 1))
		for (const auto &entry : op_names)
			if (rest.compare(0, comma, entry.name) == 0 ||
			    rest.compare(0, comma, "all") == 0)
				ops.push_back(entry.op);
	std::sort(ops.begin(), ops.end()); // both sides must draw from the same list
	ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
	return ops;
}

[[noreturn]] void usage()
{
	std::puts("verbs_stream [options] [HOST]     without HOST it listens, with one it connects "
		  "and decides\n"
		  "  -d DEVICE   -g GID_INDEX   -6 (an IPv6 address)   -p TCP_PORT\n"
		  "  -o OPS      send,send_imm,write,write_imm,read or all (default)\n"
		  "  -s BYTES    longest message (65536)      -S   all messages of that size\n"
		  "  -q DEPTH    messages per round (16)      -l LANES   queue pairs (2)\n"
		  "  -b          both directions              -m MTU\n"
		  "  -t SECONDS  duration (5)                 -n ROUNDS  per lane, instead\n"
		  "              SIGUSR1 ends the lanes this side drives before that\n"
		  "  -w SECONDS  without progress: failure (30)\n"
		  "  -T TIMEOUT  -R RETRIES  of the queue pairs (14, 7)\n"
		  "  -r SEED     -v  a line of progress every second");
	std::exit(2);
}

Settings parse(int argc, char **argv)
{
	Settings s;
	int c = 0;
	bool verbose = false;
	while ((c = getopt(argc, argv, "d:g:6p:o:s:Sq:l:bm:t:n:w:T:R:r:v")) != -1)
		switch (c) {
		case 'd':
			s.device = optarg;
			break;
		case 'g':
			s.gid.index = std::atoi(optarg);
			break;
		case '6':
			s.gid.family = 6;
			break;
		case 'p':
			s.port = optarg;
			break;
		case 'o':
			s.ops = parse_ops(optarg);
			break;
		case 's':
			s.size = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0));
			break;
		case 'S':
			s.exact = true;
			break;
		case 'q':
			s.depth = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0));
			break;
		case 'l':
			s.lanes = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0));
			break;
		case 'b':
			s.both = true;
			break;
		case 'm':
			s.mtu = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0));
			break;
		case 't':
			s.seconds = std::atof(optarg);
			break;
		case 'n':
			s.iterations = std::strtoull(optarg, nullptr, 0);
			break;
		case 'w':
			s.stall = std::atof(optarg);
			break;
		case 'T':
			s.timeout = static_cast<uint8_t>(std::atoi(optarg));
			break;
		case 'R':
			s.retry = static_cast<uint8_t>(std::atoi(optarg));
			break;
		case 'r':
			s.seed = std::strtoull(optarg, nullptr, 0);
			break;
		case 'v':
			verbose = true;
			break;
		default:
			usage();
		}
	s.quiet = !verbose;
	if (optind < argc)
		s.connect = argv[optind++];
	if (s.ops.empty())
		s.ops = parse_ops("all");
	if (optind < argc || !s.depth || !s.lanes)
		usage();
	return s;
}

struct Totals {
	uint64_t bytes = 0, rounds = 0, messages = 0;
};

Totals total(const std::vector<std::unique_ptr<Lane>> &lanes)
{
	Totals sum;
	for (const auto &lane : lanes) {
		sum.bytes += lane->bytes();
		sum.rounds += lane->rounds();
		sum.messages += lane->messages();
	}
	return sum;
}

void exchange_addresses(std::vector<std::unique_ptr<Lane>> &lanes, Wire &wire)
{
	for (const auto &lane : lanes) {
		const Peer own = lane->own();
		wire.send(&own, sizeof(own));
	}
	for (const auto &lane : lanes) {
		Peer peer;
		wire.receive(&peer, sizeof(peer));
		lane->connect(peer);
	}
}

// What the device counts; a userspace one has no such folder.
std::string counters(const std::string &device)
{
	const std::filesystem::path folder =
		"/sys/class/infiniband/" + device + "/ports/1/hw_counters";
	std::string text;
	std::error_code none;

	for (const auto &entry : std::filesystem::directory_iterator(folder, none)) {
		std::string value;
		if (std::getline(std::ifstream(entry.path()), value) && value != "0")
			text += "  " + entry.path().filename().string() + " " + value + "\n";
	}
	return text;
}

// The device's own word for what went wrong, without waiting for one; empty when it said nothing.
std::string trouble(const Device &device)
{
	const int fd = device.context->async_fd;
	std::string text;
	ibv_async_event event = {};

	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	while (!ibv_get_async_event(device.context.get(), &event)) {
		switch (event.event_type) {
		case IBV_EVENT_CQ_ERR:
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_DEVICE_FATAL:
			text += std::string("  event: ") + ibv_event_type_str(event.event_type) +
				"\n";
			break;
		default: // of the port and of connections that come
			break;
		}
		ibv_ack_async_event(&event);
	}
	return text;
}

std::string report(const Device &device, const std::vector<std::unique_ptr<Lane>> &lanes)
{
	std::string text;

	for (const auto &lane : lanes)
		text += lane->report();
	return text + trouble(device) + counters(device.name);
}

void run(const Settings &settings, std::vector<std::unique_ptr<Lane>> &lanes, Wire &wire)
{
	const Clock::time_point start = Clock::now();
	Clock::time_point moved = start, told = start, looked = start;
	double pause = 0;

	for (const auto &lane : lanes)
		lane->start();
	while (!std::all_of(lanes.begin(), lanes.end(),
			    [](const auto &lane) { return lane->finished(); })) {
		bool any = false;
		for (const auto &lane : lanes) {
			if (lane->drives() && (told_to_end || (!settings.iterations &&
							       since(start) >= settings.seconds)))
				lane->finish();
			any |= lane->progress();
		}
		if (any) {
			pause = std::max(pause, since(moved));
			moved = Clock::now();
		} else if (since(moved) > settings.stall)
			die("no progress for " + std::to_string(settings.stall) + " s, after " +
			    std::to_string(total(lanes).rounds) + " rounds");
		else
			sched_yield();
		if (since(looked) > look_interval) {
			looked = Clock::now();
			wire.look();
		}
		if (!settings.quiet && since(told) >= 1) {
			told = Clock::now();
			std::printf("progress %llu rounds\n",
				    static_cast<unsigned long long>(total(lanes).rounds));
			std::fflush(stdout);
		}
	}
	const double elapsed = since(start);
	const Totals sum = total(lanes);
	std::printf("verbs_stream: OK %.1f MB in %.2f s, %.1f MB/s, %llu messages in %llu rounds, "
		    "every byte checked, longest pause %.1f ms, seed %llu\n",
		    sum.bytes / 1e6, elapsed, sum.bytes / 1e6 / elapsed,
		    static_cast<unsigned long long>(sum.messages),
		    static_cast<unsigned long long>(sum.rounds), pause * 1e3,
		    static_cast<unsigned long long>(settings.seed));
}

} // namespace
} // namespace stream
} // namespace verbs

int main(int argc, char **argv)
{
	using namespace verbs;
	using namespace verbs::stream;

	Settings settings = parse(argc, argv);
	const bool listens = settings.connect.empty();
	const std::optional<Device> device = Device::open(settings.device, settings.gid);
	if (!device)
		return 1;
	std::signal(SIGUSR1, end_soon);
	Wire wire(settings);
	agree(settings, *device, wire, listens);
	const Pd pd(ibv_alloc_pd(device->context.get()));
	if (!pd)
		die("ibv_alloc_pd: " + std::string(std::strerror(errno)));
	std::vector<std::unique_ptr<Lane>> lanes;
	for (uint32_t i = 0; i < settings.lanes; i++) {
		const bool client_drives = !settings.both || i % 2 == 0;
		lanes.push_back(std::make_unique<Lane>(settings, *device, pd.get(), i,
						       client_drives != listens));
	}
	exchange_addresses(lanes, wire);
	wire.meet();
	at_death([&] { wire.give_up(report(*device, lanes)); });
	run(settings, lanes, wire);
	wire.meet();
	return 0;
}
