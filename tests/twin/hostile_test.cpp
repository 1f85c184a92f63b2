/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A process that writes garbage and malice into everything it shares with us, as fast
 * as it can, while a good peer is served. SIRDMA_HOSTILE_SECONDS says for how long.
 *
 *   this process:  victim ──── good peer (a child, own_address(1))
 *                  bait   ──── hostile   (a child, own_address(1), too)
 *
 * The bait is a queue pair whose number and keys the hostile one knows. What lies
 * around its memory is compared with what it was.
 */
#include <cstdlib>
#include <fstream>
#include <sys/mman.h>
#include <sys/un.h>

#include "child.hpp"
#include "hello.hpp"
#include "neighbours.hpp"

extern "C" {
#include "model/super.h"
}

namespace sirdma::twin::test
{

namespace
{

constexpr uid_t some_user = 54321;
constexpr uint32_t hostile_slot = 40;
constexpr size_t guard_size = 8 << 20;
constexpr uint8_t guard_byte = 0xa5;

unsigned seconds()
{
	const char *text = getenv("SIRDMA_HOSTILE_SECONDS");

	return text ? static_cast<unsigned>(atoi(text)) : 2;
}

/* What the hostile one knows of us. */
struct Target {
	IpAddress addr;
	Address bait;
	uint32_t victim_qpn; /* not spoken for: who knows number and PSN may speak for its peer */
	uint64_t guard;
};

class Hostile {
public:
	Hostile(const Target &target, uint64_t seed) : t_(target), random_(seed)
	{
		name_ = rendezvous_listen(own_address(1, getppid()), hostile_slot);
		own_.resize(64 << 10, 0x66);
	}

	/* All of it, again and again. */
	void one()
	{
		Ring &ring = rings_[random() % std::size(rings_)];
		const uint32_t what = random() % 4096;

		if (!ring.pair)
			ring = open(random() % 3);
		if (!ring.pair)
			return visit();
		if (what < 1500)
			super(ring);
		else if (what < 2000)
			stream(ring);
		else if (what < 3000)
			packet(ring);
		else if (what < 3300)
			bytes(ring);
		else if (what < 4000)
			word(ring);
		else if (what < 4040)
			(void)!send(ring.sock.get(), "garbage", random() % 8,
				    MSG_DONTWAIT | MSG_NOSIGNAL);
		else if (what < 4045)
			head(ring);
		else if (what < 4060)
			visit();
		else if (what < 4062)
			ring = Ring{};
		else
			udp();
		if (char c; ring.sock && recv(ring.sock.get(), &c, 1, MSG_DONTWAIT) == 0)
			ring = Ring{};
	}

	/* What a process of another user can do. */
	void one_of_another_user()
	{
		if (random() % 4 == 0)
			knock();
		else
			udp();
	}

private:
	struct Ring {
		Fd sock;
		RingPair pair;
		RingWriter out;
		RingControl *words = nullptr;

		Ring() = default;
		Ring(Ring &&other)
			: sock(std::move(other.sock)), pair(std::move(other.pair)), out(other.out),
			  words(std::exchange(other.words, nullptr))
		{
		}
		Ring &operator=(Ring &&other)
		{
			std::swap(words, other.words);
			sock = std::move(other.sock);
			pair = std::move(other.pair);
			out = other.out;
			return *this;
		}
		~Ring()
		{
			if (words)
				munmap(words, 4096);
		}
	};

	uint64_t random()
	{
		random_ ^= random_ << 13;
		random_ ^= random_ >> 7;
		random_ ^= random_ << 17;
		return random_;
	}

	/* A neighbour of ours, and at first a good one. */
	Ring open(uint32_t slot)
	{
		Ring ring;
		int file = -1;

		ring.sock = rendezvous_connect(t_.addr, slot);
		if (!ring.sock)
			return {};
		ring.pair = RingPair::create(file);

		const Fd owner(file);
		const IpAddress own = own_address(1, getppid());

		if (!ring.pair ||
		    !send_hello(ring.sock.get(),
				{.slot = hostile_slot, .scope = 0, .addr = own.ip()}, file))
			return {};
		ring.out = ring.pair.writer(0);
		ring.pair.control(0).lease_at = reinterpret_cast<uintptr_t>(&lease_);
		ring.pair.control(0).lease = lease_.load();
		ring.words = static_cast<RingControl *>(
			mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
		Fd(accept4(name_.get(), nullptr, nullptr, SOCK_NONBLOCK)).reset();
		return ring;
	}

	void put(Ring &ring, uint16_t kind, const void *head, size_t head_len, const void *body,
		 size_t len)
	{
		uint8_t *at = ring.out.reserve(head_len + len);

		if (!at)
			return;
		memcpy(at, head, head_len);
		memcpy(at + head_len, body, len);
		ring.out.commit({.len = static_cast<uint32_t>(head_len + len),
				 .kind = kind,
				 .flags = static_cast<uint16_t>(random() & 1)});
		ring.out.publish();
	}

	uint32_t some_qpn()
	{
		const uint32_t qpn = random() % 4 ? t_.bait.qpn : random() & 0x3ffff;

		return qpn == t_.victim_qpn ? t_.bait.qpn : qpn;
	}

	/* Headers of the bait's connection, or nearly. */
	size_t headers(uint8_t *out, uint8_t opcode, uint8_t pad)
	{
		sirdma_bth bth{};
		sirdma_reth reth{};

		bth.opcode = opcode;
		bth.flags = pad << SIRDMA_BTH_PAD_SHIFT;
		bth.pkey = cpu_to_be16(0xffff);
		bth.qpn = cpu_to_be32(some_qpn());
		bth.apsn = cpu_to_be32((random() % 4 ? psn_++ : random()) & 0xffffff);
		reth.va = cpu_to_be64(random() % 2 ? t_.guard + random() % (2 * guard_size) :
						     t_.bait.buffer + random() % Node::buffer_size);
		reth.rkey = cpu_to_be32(random() % 8 ? t_.bait.rkey : random());
		reth.len = cpu_to_be32(random() % (1 << 20));
		memcpy(out, &bth, sizeof(bth));
		memcpy(out + sizeof(bth), &reth, sizeof(reth));
		return snic_opcode_hdr_len(opcode);
	}

	void super(Ring &ring)
	{
		SuperHead head{};
		Piece pieces[200];
		const uint8_t opcode = random() % 64;
		const uint32_t n = random() % 2 ? 0 :
				   random() % 4 ? 1 + random() % 4 :
						  random() % 200;

		for (uint32_t i = 0; i < n; ++i) {
			pieces[i].len = 1 + random() % 2000;
			pieces[i].addr = random() % 8 ? reinterpret_cast<uintptr_t>(own_.data()) +
								random() % (own_.size() - 2000) :
							random();
			head.payload_len += pieces[i].len;
		}
		if (!n)
			head.payload_len = random() % 8000;
		head.pad = -head.payload_len & 3;
		head.npieces = n;
		head.lease = n ? lease_.load() : 0;
		head.npkts = 1 + random() % 64;
		head.hdr_len = headers(head.hdr, opcode, head.pad);
		if (random() % 4 == 0) {
			auto *field = reinterpret_cast<uint8_t *>(&head);

			field[random() % 32] = random();
		}
		put(ring, 3, &head, sizeof(head), n ? static_cast<void *>(pieces) : own_.data(),
		    n ? n * sizeof(Piece) : std::min<size_t>(head.payload_len, 8000));
	}

	/* Often one that the bait takes, whose writes then change. */
	void stream(Ring &ring)
	{
		snic_small_hdr first{};
		snic_stream_write writes[SNIC_BURST_PKTS];
		StreamHead head{};
		const uint32_t n = 1 + random() % SNIC_BURST_PKTS;

		headers(reinterpret_cast<uint8_t *>(&first), SIRDMA_BTH_RC | SIRDMA_BTH_WRITE_ONLY,
			0);
		if (random() % 4)
			first.reth.len = cpu_to_be32(8);
		memcpy(&head.bth, &first.bth, sizeof(head.bth));
		memcpy(&head.rkey_len, &first.reth.rkey, sizeof(head.rkey_len));
		head.psn = be32_to_cpu(first.bth.apsn);
		head.count = static_cast<uint16_t>(random() % 32 ? n : random());
		head.ackreq = random() % 2;
		for (snic_stream_write &write : writes) {
			write.va = random() % 8 ? first.reth.va : random();
			memset(write.data, 0x66, sizeof(write.data));
		}
		put(ring, 4, &head, sizeof(head), writes, n * sizeof(*writes));
	}

	void packet(Ring &ring)
	{
		uint8_t head[64] = {};
		const uint8_t opcode = random() % 64;
		const size_t len = headers(head, opcode, 0);

		put(ring, 1 + random() % 2, head, std::max<size_t>(len, 12), own_.data(),
		    random() % 4 * 4 + 4 + (random() % 2 ? 1024 : 0));
	}

	void bytes(Ring &ring)
	{
		uint64_t garbage[64];

		for (uint64_t &g : garbage)
			g = random();
		put(ring, random() % 6, garbage, 1 + random() % (sizeof(garbage) - 1), own_.data(),
		    0);
	}

	void word(Ring &ring)
	{
		RingControl &control = ring.words[random() % 2];

		switch (random() % 7) {
		case 0:
			if (random() % 256 == 0) /* after that we are left */
				control.head = random();
			break;
		case 1:
			control.asleep = random();
			break;
		case 2:
			control.full = random();
			break;
		case 3:
			control.takes = random();
			break;
		case 4:
			control.lease_at = random() % 2 ? reinterpret_cast<uintptr_t>(&lease_) :
							  random();
			break;
		case 5:
			control.lease = random() % 2 ? lease_.load() : random();
			break;
		case 6:
			control.reading = random();
			break;
		}
		lease_ = random() % 16 ? lease_.load() : random();
	}

	/* No neighbour writes such a length. */
	void head(Ring &ring)
	{
		const uint64_t garbage = random();

		if (uint8_t *at = ring.out.reserve(8))
			memcpy(at - sizeof(garbage), &garbage, sizeof(garbage));
	}

	/* Hello in a wrong way, or none. */
	void visit()
	{
		const Fd sock =
			rendezvous_connect(t_.addr, random() % 8 ? random() % 3 : port_owner);
		Hello hello = {.slot = static_cast<uint32_t>(random() % 64),
			       .scope = 0,
			       .addr = own_address(random() % 2, getppid()).ip()};

		if (!sock || random() % 4 == 0)
			return;
		if (random() % 2)
			reinterpret_cast<uint8_t *>(&hello)[random() % sizeof(hello)] = random();
		(void)send_hello(sock.get(), hello, sock.get());
	}

	/* To our names, whoever we are. */
	void knock()
	{
		char text[100];
		sockaddr_un sa{};
		const Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
		const uint32_t slot = random() % 8 ? random() % 3 : port_owner;
		const int n = snprintf(text, sizeof(text),
				       "sirdma/0/00000000000000000000ffff%08x/0/%u",
				       ntohl(t_.addr.v4().s_addr), slot);

		sa.sun_family = AF_UNIX;
		memcpy(sa.sun_path + 1, text, n);
		if (!connect(fd.get(), reinterpret_cast<sockaddr *>(&sa),
			     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n)))
			(void)send_hello(fd.get(), {.slot = 1, .scope = 0, .addr = t_.addr.ip()},
					 fd.get());
	}

	void udp()
	{
		uint8_t data[2048];
		sockaddr_storage sa;
		const socklen_t sa_len = t_.addr.to_socket(SIRDMA_ROCE_UDP_PORT, sa);

		if (!udp_)
			udp_ = Fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
		for (size_t i = 0; i < sizeof(data); i += 8) {
			const uint64_t garbage = random();

			memcpy(data + i, &garbage, sizeof(garbage));
		}
		headers(data, random() % 64, 0);
		(void)!sendto(udp_.get(), data, random() % sizeof(data), 0,
			      reinterpret_cast<sockaddr *>(&sa), sa_len);
	}

	const Target t_;
	uint64_t random_;
	uint32_t psn_ = 0;
	Fd name_, udp_;
	std::vector<uint8_t> own_;
	std::atomic<uint64_t> lease_{7};
	Ring rings_[6];
};

/* Processor time of the helpers of this process, seconds. */
double helpers_time()
{
	double sum = 0;
	DIR *dir = opendir("/proc/self/task");

	while (const dirent *entry = readdir(dir)) {
		std::ifstream in("/proc/self/task/" + std::string(entry->d_name) + "/stat");
		std::string pid, comm, skip;
		double user = 0, system = 0;

		in >> pid >> comm;
		for (int i = 0; i < 11; ++i)
			in >> skip;
		in >> user >> system;
		if (comm == "(sirdma)")
			sum += (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
	}
	closedir(dir);
	return sum;
}

class Attacker {
public:
	Attacker(uid_t uid)
	{
		int ends[2];

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		pid_ = fork();
		if (!pid_) {
			Target target;

			close(ends[0]);
			if (read(ends[1], &target, sizeof(target)) != ssize_t(sizeof(target)) ||
			    (uid && setresuid(uid, uid, uid)))
				_exit(1);

			Hostile hostile(target, 88172645463325252ull);

			for (;;)
				uid ? hostile.one_of_another_user() : hostile.one();
		}
		close(ends[1]);
		fd_ = ends[0];
	}
	~Attacker() { stop(); }
	void start(const Target &target)
	{
		EXPECT_EQ(write(fd_, &target, sizeof(target)), ssize_t(sizeof(target)));
	}
	/* It was at it until now. */
	void stop()
	{
		int status;

		if (pid_ < 0)
			return;
		EXPECT_EQ(waitpid(pid_, &status, WNOHANG), 0) << "the hostile process ended by "
								 "itself";
		kill(pid_, SIGKILL);
		waitpid(pid_, &status, 0);
		close(fd_);
		pid_ = -1;
	}

private:
	pid_t pid_;
	int fd_;
};

/* The bait's connection is good again, whatever was done to it. */
void restore(Node &bait, const Address &to)
{
	ibv_qp_attr attr{};
	ibv_qp_init_attr init;

	ASSERT_EQ(ibv_query_qp(bait.qp, &attr, IBV_QP_STATE, &init), 0);
	if (attr.qp_state == IBV_QPS_RTS)
		return;
	attr = {};
	attr.qp_state = IBV_QPS_RESET;
	ASSERT_EQ(ibv_modify_qp(bait.qp, &attr, IBV_QP_STATE), 0);
	bait.connect(to);
	for (int i = 0; i < 16; ++i)
		ASSERT_EQ(bait.post_recv(0, Node::buffer_size), 0);
}

void survive(uid_t uid)
{
	Attacker attacker(uid);
	Child peer(at(own_address(1), LinkKind::automatic));
	Node victim(at(own_address(0), LinkKind::automatic)),
		bait(at(own_address(0), LinkKind::automatic));
	const Address to = peer.address();
	/* Whom the bait believes to be connected to: the hostile one's place at the good one's address. */
	Address hostile = to;
	/* The bait's memory is within. */
	auto *guard = static_cast<uint8_t *>(mmap(nullptr, 2 * guard_size, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	const size_t hole = guard_size;
	size_t wrong = 0, rounds = 0;

	ASSERT_NE(static_cast<void *>(guard), MAP_FAILED);
	memset(guard, guard_byte, 2 * guard_size);

	ibv_mr *within = ibv_reg_mr(bait.pd, guard + hole, 4096,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					    IBV_ACCESS_REMOTE_READ);

	ASSERT_TRUE(within);
	hostile.qpn = first_qpn_of(hostile_slot) + 3;
	victim.connect(to, 16);
	peer.connect(victim.address());
	restore(bait, hostile);
	attacker.start({.addr = own_address(0),
			.bait = {.gid = {},
				 .qpn = bait.qp->qp_num,
				 .buffer = bait.address().buffer,
				 .rkey = within->rkey},
			.victim_qpn = victim.qp->qp_num,
			.guard = reinterpret_cast<uintptr_t>(guard)});

	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds());

	while (std::chrono::steady_clock::now() < end && !::testing::Test::HasFailure()) {
		ibv_wc wc;

		victim.fill(static_cast<uint8_t>(++rounds));
		ASSERT_EQ(victim.post(IBV_WR_RDMA_WRITE, 0, 100000, &to), 0);
		ASSERT_EQ(victim.poll().status, IBV_WC_SUCCESS);
		ASSERT_EQ(victim.post(IBV_WR_RDMA_READ, 200000, 100000, &to), 0);
		ASSERT_EQ(victim.poll().status, IBV_WC_SUCCESS);
		ASSERT_EQ(memcmp(victim.buffer.data(), victim.buffer.data() + 200000, 100000), 0);
		while (ibv_poll_cq(bait.cq, 1, &wc) > 0) {}
		restore(bait, hostile);
	}
	attacker.stop();
	for (size_t i = 0; i < 2 * guard_size; ++i)
		wrong += (i < hole || i >= hole + 4096) && guard[i] != guard_byte;
	EXPECT_EQ(wrong, 0u) << "bytes outside of what is registered";

	/* What it left is dealt with soon, and then there is nothing to do. */
	double busy = 1;

	for (int i = 0; i < 20 && busy > 0.1; ++i) {
		const double before = helpers_time();

		usleep(500000);
		busy = (helpers_time() - before) / 0.5;
	}
	EXPECT_LE(busy, 0.1) << "the helper spins";

	u64 refused = 0, dropped = 0;

	for (const Node *node : {&victim, &bait}) {
		refused += node->device->nic->stat(SIRDMA_STAT_REFUSED_NEIGHBOURS);
		for (const sirdma_stat id : {SIRDMA_STAT_RX_BAD_LENGTH, SIRDMA_STAT_RX_BAD_OPCODE,
					     SIRDMA_STAT_RX_BAD_ICRC, SIRDMA_STAT_RX_NO_QP})
			dropped += node->device->nic->stat(id);
		node->device->print_stats();
	}
	EXPECT_GT(refused, 0u);
	EXPECT_GT(dropped, 0u);
	printf("%zu times 200000 bytes right; %llu neighbours refused, %llu packets dropped\n",
	       rounds, static_cast<unsigned long long>(refused),
	       static_cast<unsigned long long>(dropped));
	EXPECT_EQ(ibv_dereg_mr(within), 0);
	munmap(guard, 2 * guard_size);
}

} // namespace

TEST(TwinHostile, ANeighbourOfThisUser)
{
	survive(0);
}

TEST(TwinHostile, ANeighbourOfAnotherUser)
{
	if (geteuid())
		GTEST_SKIP() << "takes root";
	survive(some_user);
}

} // namespace sirdma::twin::test
