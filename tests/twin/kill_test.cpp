/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Peers killed at random points of connecting and streaming, several at a time on
 * shared addresses, so that port owners die as well. SIRDMA_KILL_PEERS says how
 * many for each link. Nothing may hang, and nothing may stay.
 */
#include <fstream>
#include <random>

#include "child.hpp"

namespace sirdma::twin::test
{

namespace
{

constexpr unsigned workers = 4;

unsigned peers()
{
	const char *text = getenv("SIRDMA_KILL_PEERS");

	return text ? static_cast<unsigned>(atoi(text)) : 40;
}

size_t count_lines(const char *file, const std::string &word)
{
	std::ifstream in(file);
	size_t n = 0;

	for (std::string line; std::getline(in, line);)
		n += line.find(word) != std::string::npos;
	return n;
}

/* As they are in the names of its sockets. */
std::string digits(const IpAddress &addr)
{
	char text[16];

	snprintf(text, sizeof(text), "ffff%08x", ntohl(addr.v4().s_addr));
	return text;
}

size_t resident_kib()
{
	std::ifstream in("/proc/self/status");

	for (std::string line; std::getline(in, line);)
		if (!line.compare(0, 6, "VmRSS:"))
			return std::stoul(line.substr(6));
	return 0;
}

/* Keep some requests of each kind in flight until one fails. */
void stream(Node &node, const Address &peer)
{
	static constexpr ibv_wr_opcode kinds[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	unsigned posted = 0, flying = 0;

	for (;;) {
		for (; flying < 8; ++flying, ++posted) {
			const uint32_t length = posted % 3 ? 64 : 60000;

			if (node.post(kinds[posted % 2], 0, length, &peer, 100000))
				return;
		}
		if (node.poll(std::chrono::seconds(60)).status != IBV_WC_SUCCESS)
			return;
		--flying;
	}
}

/* One worker's share; a process of its own. */
void kill_some(const Config &near, const Config &far, unsigned count, unsigned seed)
{
	std::mt19937 random(seed);
	size_t files = 0;
	[[maybe_unused]] size_t memory = 0;

	for (unsigned i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
		Child peer(far, stream);
		const useconds_t delay = random() % 20000;
		const pid_t killer = fork();

		if (!killer) {
			usleep(delay);
			::kill(peer.pid(), SIGKILL);
			_exit(0);
		}
		{
			Node node(near);

			node.connect(peer.address(), 12, 3);
			if (peer.try_connect(node.address()))
				stream(node, peer.address());
		}
		waitpid(killer, nullptr, 0);
		peer.kill();
		if (i == count / 2) {
			files = open_files();
			memory = resident_kib();
		}
	}
	EXPECT_TRUE(no_more_files_than(files));
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed for a while */
	/* The rings of one peer alone are 512 KiB, its node 1 MiB. */
	EXPECT_LE(resident_kib(), memory + 4096);
#endif
	EXPECT_EQ(count_lines("/proc/self/maps", "sirdma-rings"), 0u);
}

} // namespace

class TwinKill : public ::testing::TestWithParam<LinkKind> {};

INSTANTIATE_TEST_SUITE_P(All, TwinKill, ::testing::Values(LinkKind::udp, LinkKind::shm),
			 [](const auto &info) {
				 return info.param == LinkKind::udp ? "Udp" : "Shm";
			 });

TEST_P(TwinKill, PeersAtRandomPoints)
{
	const Config near = at(own_address(0), GetParam()), far = at(own_address(1), GetParam());
	pid_t pids[workers];

	for (unsigned i = 0; i < workers; ++i) {
		pids[i] = fork();
		if (!pids[i]) {
			kill_some(near, far, peers() / workers, i + 1);
			fflush(nullptr);
			_exit(HasFailure());
		}
	}
	for (const pid_t pid : pids) {
		int status = -1;

		waitpid(pid, &status, 0);
		EXPECT_EQ(status, 0);
	}
	/* Names of the two addresses, as the kernel lists them. */
	EXPECT_EQ(count_lines("/proc/net/unix", digits(near.addr)), 0u);
	EXPECT_EQ(count_lines("/proc/net/unix", digits(far.addr)), 0u);
}

} // namespace sirdma::twin::test
