/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A process that was stopped, or had no processor, takes in what came before its timers fire. A sender whose socket is full
 * goes on when there is room.
 */
#include <dirent.h>
#include <fstream>
#include <iomanip>
#include <poll.h>
#include <sstream>
#include <sys/mman.h>
#include <thread>

#include "child.hpp"
#include "in_process.hpp"
#include "ud.hpp"

namespace sirdma::twin::test
{

namespace
{

using namespace std::chrono_literals;

/* 537 ms: the stalled process posts and is stopped in less. */
constexpr uint8_t timeout = 17;
constexpr auto timeout_passed = 600ms;

/* Bytes that wait in the socket on RoCEv2's port of @addr. */
size_t waiting(const IpAddress &addr)
{
	std::ifstream sockets("/proc/net/udp");
	std::ostringstream local;
	std::string line;

	local << std::hex << std::uppercase << std::setfill('0') << std::setw(8) << addr.v4().s_addr
	      << ':' << std::setw(4) << SIRDMA_ROCE_UDP_PORT;
	while (std::getline(sockets, line)) {
		std::istringstream fields(line);
		std::string number, name, remote, state, queues;

		fields >> number >> name >> remote >> state >> queues;
		if (name == local.str())
			return std::stoul(queues.substr(queues.find(':') + 1), nullptr, 16);
	}
	return 0;
}

/* @pid goes on, and what it sends arrives at @addr. */
::testing::AssertionResult answers(pid_t pid, const IpAddress &addr)
{
	const size_t before = waiting(addr);
	const auto end = std::chrono::steady_clock::now() + 60s;

	kill(pid, SIGCONT);
	while (waiting(addr) <= before) {
		if (std::chrono::steady_clock::now() > end)
			return ::testing::AssertionFailure() << "no answer of process " << pid;
		usleep(1000);
	}
	return ::testing::AssertionSuccess();
}

} // namespace

TEST(TwinStall, TakesAnswersInBeforeTimersFire)
{
	constexpr int peers = 2;
	struct Shared {
		Address own[peers];
		ibv_wc_status status[peers];
		u64 timeouts;
	};
	const Config config = at(own_address(0), LinkKind::udp);
	Child first(at(own_address(1), LinkKind::udp)), second(at(own_address(1), LinkKind::udp));
	Child *const to[peers] = {&first, &second};
	auto *shared = static_cast<Shared *>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
						  MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	int ready[2], go[2], status;
	char c = 0;

	ASSERT_NE(shared, MAP_FAILED);
	ASSERT_EQ(pipe(ready), 0);
	ASSERT_EQ(pipe(go), 0);

	const pid_t stalled = fork();

	if (!stalled) {
		Node node(config);
		ibv_qp *qps[peers] = {node.qp, node.create_qp()};

		for (int i = 0; i < peers; ++i) {
			node.qp = qps[i];
			node.connect(to[i]->address(), timeout);
			shared->own[i] = node.address();
		}
		if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(1);
		for (int i = 0; i < peers; ++i) {
			node.qp = qps[i];
			node.post(IBV_WR_RDMA_WRITE, 0, 64, &to[i]->address());
		}
		raise(SIGSTOP);
		for (ibv_wc_status &s : shared->status)
			s = node.poll().status;
		shared->timeouts = node.device->nic->stat(SIRDMA_STAT_ACK_TIMEOUTS);
		_exit(0);
	}
	ASSERT_EQ(read(ready[0], &c, 1), 1);
	for (int i = 0; i < peers; ++i)
		to[i]->connect(shared->own[i]);
	for (const Child *peer : to)
		stop(peer->pid());
	ASSERT_EQ(write(go[1], &c, 1), 1);
	ASSERT_EQ(waitpid(stalled, &status, WUNTRACED), stalled);
	ASSERT_TRUE(WIFSTOPPED(status));
	for (const Child *peer : to)
		EXPECT_TRUE(answers(peer->pid(), config.addr));
	std::this_thread::sleep_for(timeout_passed);
	kill(stalled, SIGCONT);
	ASSERT_EQ(waitpid(stalled, &status, 0), stalled);
	EXPECT_EQ(status, 0);
	for (const ibv_wc_status s : shared->status)
		EXPECT_EQ(s, IBV_WC_SUCCESS);
	EXPECT_EQ(shared->timeouts, 0u) << "a timer fired while the answer waited";
	munmap(shared, sizeof(Shared));
	for (const int fd : {ready[0], ready[1], go[0], go[1]})
		close(fd);
}

namespace
{

/* The state of the only helper of this process, as in proc(5); '?': there is none. */
char helper_state()
{
	const std::string tasks = "/proc/self/task/";
	DIR *dir = opendir(tasks.c_str());
	char state = '?';

	while (const dirent *task = readdir(dir)) {
		std::string stat;

		std::getline(std::ifstream(tasks + task->d_name + "/stat"), stat);
		if (const size_t name = stat.find("(sirdma) "); name != stat.npos)
			state = stat[name + strlen("(sirdma) ")];
	}
	closedir(dir);
	return state;
}

void command(const char *text)
{
	ASSERT_EQ(system(text), 0) << text;
}

/* How many sends are complete: each as it should be. */
size_t completions(Node &node)
{
	ibv_wc wc;
	size_t n = 0;

	while (ibv_poll_cq(node.cq, 1, &wc) == 1) {
		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		++n;
	}
	return n;
}

/* The kernel keeps what it cannot send before it knows where the neighbour is: that fills the socket. */
void fill_a_socket_and_sleep()
{
	const std::vector<uint32_t> qpns(Node::depth, 0x100);
	Config config;
	ibv_gid gid{};
	size_t posted = 0, done = 0;

	command("ip link add v0 type veth peer name v1 && ip link set v0 up && "
		"ip link set v1 up && ip link set lo up && ip addr add 10.7.0.1/24 dev v0");
	command("ip ntable change name arp_cache dev v0 mcast_probes 100");
	command("ip neigh replace 10.7.0.2 dev v0 lladdr 02:00:00:00:00:02 nud permanent");
	ASSERT_TRUE(IpAddress::parse("10.7.0.1", config.addr));
	config.link = LinkKind::udp;
	config.buffer = 4608;

	Node node(config, true);
	Ud ud(node);
	IpAddress to;

	ASSERT_TRUE(IpAddress::parse("10.7.0.2", to));
	memcpy(gid.raw, to.ip().b, sizeof(gid.raw));
	ud.aim(gid);
	ASSERT_FALSE(testing::Test::HasFatalFailure());
	command("ip neigh del 10.7.0.2 dev v0");
	while (helper_state() != 'S')
		std::this_thread::yield();

	while (done == posted && posted < 100 * qpns.size()) {
		ud.post(qpns);
		posted += qpns.size();
		done += completions(node);
	}
	ASSERT_LT(done, posted) << "the socket always had room";
	ASSERT_EQ(ibv_req_notify_cq(node.cq, 0), 0);
	command("ip neigh replace 10.7.0.2 dev v0 lladdr 02:00:00:00:00:02 nud permanent");
	while (done < posted) {
		pollfd p = {.fd = node.channel->fd, .events = POLLIN, .revents = 0};
		ibv_cq *cq;
		void *cookie;

		ASSERT_EQ(::poll(&p, 1, 30000), 1) << done << " of " << posted;
		ASSERT_EQ(ibv_get_cq_event(node.channel, &cq, &cookie), 0);
		ibv_ack_cq_events(cq, 1);
		ASSERT_EQ(ibv_req_notify_cq(node.cq, 0), 0);
		done += completions(node);
	}
}

} // namespace

TEST(TwinStall, ASleeperGoesOnWhenItsSocketHasRoom)
{
	if (!in_network_namespace(fill_a_socket_and_sleep))
		GTEST_SKIP() << "no network namespace";
}

TEST(TwinStall, ASenderWithoutEndDoesNotHoldTimersBack)
{
	TimerHold timers;

	for (int again = 0; again < 2; ++again) {
		for (u32 poll = 1; poll < TimerHold::polls_max; ++poll) {
			ASSERT_FALSE(timers.may_fire(true, 1));
			ASSERT_TRUE(timers.waiting()) << "the next poll does not read the "
							 "clock";
		}
		EXPECT_TRUE(timers.may_fire(true, 1));
		EXPECT_FALSE(timers.waiting());
	}
	EXPECT_FALSE(timers.may_fire(true, 1));
	EXPECT_TRUE(timers.may_fire(true, 0)) << "nothing waits";
	EXPECT_FALSE(timers.may_fire(true, 1));
	EXPECT_FALSE(timers.may_fire(false, 1)) << "it was stopped";
	EXPECT_FALSE(timers.waiting());
}

} // namespace sirdma::twin::test
