// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What a process says that connects: bytes and files.
//
// Input: processes that connect, one after the other: what is wrong with the message,
// its bytes and its files. Oracles: who says it right is served, and nobody else; when
// all have left, no file of theirs is open here.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hello.hpp"
#include "neighbours.hpp"

#include "../twin/open_files.hpp"
#include "../twin/own_address.hpp"
#include "../twin/packet_counts.hpp"
#include "input.hpp"

namespace sirdma::twin
{
namespace
{

using sirdma::test::Input;
using test::open_files;
using test::own_address;

constexpr uint16_t record_packet = 1;

enum Wrong : uint8_t {
	bytes = 1 << 0, // some others
	length = 1 << 1,
	files = 1 << 2, // another number
	file = 1 << 3, // of another kind
	leaves = 1 << 4, // right after it said it
	garrulous = 1 << 5, // more messages than one
	silent = 1 << 6, // none at all
};

int some_file(uint8_t kind)
{
	int fd = -1;

	switch (kind % 4) {
	case 0: // could shrink
		fd = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		EXPECT_EQ(ftruncate(fd, 4096 + 2 * ring_bytes), 0);
		break;
	case 1: // too short
		fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		EXPECT_EQ(ftruncate(fd, 4096), 0);
		EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
		break;
	case 2:
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		break;
	case 3:
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		break;
	}
	return fd;
}

bool say(int sock, const std::vector<uint8_t> &what, const std::vector<int> &fds)
{
	std::vector<uint8_t> control(CMSG_SPACE(fds.size() * sizeof(int)));
	iovec piece = {.iov_base = const_cast<uint8_t *>(what.data()), .iov_len = what.size()};
	msghdr m{};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	if (!fds.empty()) {
		m.msg_control = control.data();
		m.msg_controllen = control.size();

		cmsghdr *c = CMSG_FIRSTHDR(&m);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
		memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(what.size());
}

class Neighbourhood {
public:
	Neighbourhood()
		: n(Neighbours::create(own_address(0))),
		  other(rendezvous_listen(own_address(1), slot))
	{
		EXPECT_TRUE(n && other);
	}

	void visit(Input &input)
	{
		const uint8_t wrong = input.byte();
		int memory = -1;
		Fd sock = rendezvous_connect(own_address(0), n->slot());
		RingPair rings = RingPair::create(memory);
		Hello hello = {.slot = slot, .scope = 0, .addr = own_address(1).ip()};
		std::vector<int> fds = {memory};
		bool right = true;

		EXPECT_TRUE(sock && rings);
		serve();
		if (wrong & silent)
			return done(sock, fds);
		if (wrong & file) {
			fds.push_back(some_file(input.byte()));
			std::swap(fds.front(), fds.back());
			right = false;
		}
		if (wrong & files) {
			const size_t count = input.byte() % 5;

			for (; fds.size() > count; fds.pop_back())
				close(fds.back());
			while (fds.size() < count)
				fds.push_back(some_file(input.byte()));
		}
		right = right && fds.size() == 1;

		const auto *h = reinterpret_cast<const uint8_t *>(&hello);
		std::vector<uint8_t> what(h, h + sizeof(hello));

		if (wrong & bytes) {
			const auto got = input.bytes(input.byte());

			for (size_t i = 0; i < got.size(); ++i)
				what[i % what.size()] ^= got[i];
			// Whose address and slot it is is another question than how it is said.
			right = right && !memcmp(what.data(), h, what.size());
		}
		if (wrong & length)
			what.resize(1 + input.byte() % 64);
		right = right && what.size() == sizeof(hello);
		EXPECT_TRUE(say(sock.get(), what, fds));
		if (wrong & garrulous)
			for (int i = input.byte() % 32; i; --i)
				say(sock.get(), {1, 2, 3},
				    {fds.begin(), std::min(fds.begin() + 1, fds.end())});
		if (wrong & leaves)
			return done(sock, fds);
		serve();
		if (right)
			exchange(rings);
		else
			EXPECT_TRUE(hung_up(sock)) << "served";
		done(sock, fds);
	}

	void serve()
	{
		for (int i = 0; i < 3; ++i)
			n->serve(sink);
	}

	std::unique_ptr<Neighbours> n;

private:
	static constexpr uint32_t slot = 3;

	void done(Fd &sock, const std::vector<int> &fds)
	{
		for (const int fd : fds)
			close(fd);
		sock.reset();
		serve();
		while (rendezvous_accept(other.get(), spare, refused)) {
		} // who asked whether the name is ours
	}

	bool hung_up(const Fd &sock)
	{
		char c;
		const ssize_t got = recv(sock.get(), &c, 1, MSG_DONTWAIT);

		return got == 0 || (got < 0 && errno != EAGAIN);
	}

	void exchange(const RingPair &rings)
	{
		RingWriter out = rings.writer(0);
		const u32 before = sink.seen;
		uint8_t *at = out.reserve(32);

		memset(at, 0, 32);
		out.commit({.len = 32, .kind = record_packet, .flags = 0});
		out.publish();
		n->receive(sink);
		EXPECT_EQ(sink.seen, before + 1) << "not served";
	}

	Fd spare = spare_file();
	uint64_t refused = 0;
	Fd other; // whose address and slot the neighbours say
	test::Counts sink;
};

} // namespace
} // namespace sirdma::twin

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	using namespace sirdma::twin;

	sirdma::test::fail_loudly();

	static Neighbourhood all;
	sirdma::test::Input input(data, size);
	const size_t files = open_files();

	for (int i = 0; i < 16 && input.more(); ++i)
		all.visit(input);
	EXPECT_LE(open_files(), files) << "a file stayed open";
	return 0;
}
