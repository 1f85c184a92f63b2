/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Who is met at a rendezvous: the process that has the name, of an address of this host, and of this user. */
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "hello.hpp"
#include "neighbours.hpp"
#include "own_address.hpp"

extern "C" {
#include "model/packet.h"
}

namespace sirdma::twin::test
{

namespace
{

struct Nothing final : PacketSink {
	void datagram(const Path &, uint8_t *, size_t, u32, bool) noexcept override {}
	void packet(const IpAddress &, uint8_t *, size_t, uint8_t, bool) noexcept override {}
	void packet(const IpAddress &, const SuperPacket &, bool) noexcept override {}
	void malformed() noexcept override {}
	void end_batch() noexcept override {}
};

/* Of TEST-NET-1, RFC 5737. */
IpAddress another_hosts()
{
	return IpAddress(in_addr{htonl(0xc0000201)});
}

/* A process that has a name, or does something else first, until the test is done with it. */
class Other {
public:
	explicit Other(const std::function<void(int ready)> &work)
	{
		int ends[2];
		char c;

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		pid_ = fork();
		if (!pid_) {
			close(ends[0]);
			work(ends[1]);
			_exit(0);
		}
		close(ends[1]);
		fd_ = ends[0];
		EXPECT_EQ(read(fd_, &c, 1), 1);
	}
	~Other()
	{
		close(fd_);
		waitpid(pid_, nullptr, 0);
	}
	/* The next byte it writes. */
	char says() const
	{
		char c = 0;

		EXPECT_EQ(read(fd_, &c, 1), 1);
		return c;
	}

private:
	pid_t pid_;
	int fd_;
};

void say(int fd, char c)
{
	if (write(fd, &c, 1) != 1)
		_exit(1);
}

void wait_for_end(int fd)
{
	char c;

	(void)!read(fd, &c, 1);
}

bool hung_up(const Fd &sock)
{
	char c;

	return recv(sock.get(), &c, 1, MSG_DONTWAIT) == 0 || errno != EAGAIN;
}

class Claims : public ::testing::Test {
protected:
	void SetUp() override
	{
		n = Neighbours::create(own_address(0));
		ASSERT_TRUE(n);
	}
	/* Is a process served that says it is @addr and @slot? */
	bool served(const IpAddress &addr, uint32_t slot)
	{
		int file = -1;
		const Fd sock = rendezvous_connect(own_address(0), n->slot());
		const RingPair rings = RingPair::create(file);
		const Fd owner(file);
		Nothing sink;

		EXPECT_TRUE(sock && rings);
		EXPECT_TRUE(send_hello(sock.get(),
				       {.slot = slot, .scope = addr.scope(), .addr = addr.ip()},
				       file));
		for (int i = 0; i < 3; ++i)
			n->serve(sink);
		return !hung_up(sock);
	}

	std::unique_ptr<Neighbours> n;
};

} // namespace

TEST_F(Claims, AcceptTheHolderOfAName)
{
	const Fd name = rendezvous_listen(own_address(1), 3);

	ASSERT_TRUE(name);
	EXPECT_TRUE(served(own_address(1), 3));
}

/* The lowest address, among those of the family that are served, and not only bound. */
TEST(Rendezvous, FindsWhoServesAtALoopbackAddress)
{
	constexpr uint32_t service = 0x1234567, another = service + 1;
	const IpAddress low = own_address(0), high = own_address(1);
	const auto found = [](uint32_t name) { return rendezvous_find_loopback(true, name); };

	EXPECT_TRUE(found(service).any());

	const Fd claimed = rendezvous_bind(low, service);
	Fd first = rendezvous_listen(high, service);
	const Fd elsewhere = rendezvous_listen(low, another);
	const Fd beyond = rendezvous_listen(another_hosts(), service);

	ASSERT_TRUE(claimed && first && elsewhere && beyond);
	EXPECT_TRUE(found(service) == high) << "only this one is served";
	EXPECT_TRUE(found(another) == low);
	EXPECT_TRUE(rendezvous_find_loopback(false, service).any());
	ASSERT_TRUE(rendezvous_take(claimed.get()));
	EXPECT_TRUE(found(service) == low);
	first.reset();
	EXPECT_TRUE(found(service) == low);
}

TEST_F(Claims, RefuseAnUnboundName)
{
	EXPECT_FALSE(served(own_address(1), 3));
}

TEST_F(Claims, RefuseAnotherProcesssName)
{
	const IpAddress addr = own_address(1);
	const Other other([&](int ready) {
		const Fd name = rendezvous_listen(addr, 3);

		say(ready, name ? 1 : 0);
		wait_for_end(ready);
	});

	EXPECT_FALSE(served(addr, 3));
}

/* Whoever has the name: packets for another host are not for a process of this one. */
TEST_F(Claims, RefuseAnotherHostsAddress)
{
	const Fd name = rendezvous_listen(another_hosts(), 3);
	snic_flow flow{};
	const auto burst = std::make_unique<snic_burst>();
	u32 sent = 0;

	ASSERT_TRUE(name);
	EXPECT_FALSE(served(another_hosts(), 3));
	flow.dst_ip = another_hosts().ip();
	flow.is_v4 = true;
	burst->flow = &flow;
	burst->npkts = 1;
	snic_pkt_bth(&burst->pkts[0], SIRDMA_BTH_SEND_ONLY, 0xffff, first_qpn_of(3) + 5, 0, 0);
	EXPECT_FALSE(n->transmit(*burst, sent));
}

/* A name that no other test has, in place of a slot. */
static uint32_t own_name()
{
	return 1u << 30 | static_cast<uint32_t>(getpid());
}

/* The kernel lists names in no order. */
TEST(FindLoopback, OfSeveralTheOneWithTheLowestAddress)
{
	std::vector<Fd> names;

	EXPECT_TRUE(rendezvous_find_loopback(true, own_name()).any());
	names.push_back(rendezvous_listen(another_hosts(), own_name()));
	EXPECT_TRUE(rendezvous_find_loopback(true, own_name()).any()) << "no loopback address";
	for (uint32_t host : {0x7f800009u, 0x7f090000u, 0x7f0000ffu, 0x7f000101u, 0x7f000080u,
			      0x7f00000au, 0x7f000003u}) {
		const IpAddress addr(in_addr{htonl(host)});
		const IpAddress lowest = rendezvous_find_loopback(true, own_name());

		names.push_back(rendezvous_listen(addr, own_name() + 1));
		EXPECT_EQ(rendezvous_find_loopback(true, own_name()), lowest) << "another name";
		names.push_back(rendezvous_listen(addr, own_name()));
		EXPECT_EQ(rendezvous_find_loopback(true, own_name()),
			  host == 0x7f000101 ? lowest : addr);
	}
	const Fd bound = rendezvous_bind(IpAddress(in_addr{htonl(0x7f000002)}), own_name());
	EXPECT_EQ(rendezvous_find_loopback(true, own_name()), IpAddress(in_addr{htonl(0x7f000003)}))
		<< "nobody listens at the lower one";
	EXPECT_TRUE(rendezvous_find_loopback(false, own_name()).any());
	for (const Fd &name : names)
		EXPECT_TRUE(name);
}

TEST(FindLoopback, OfIpv6ThereIsOne)
{
	IpAddress one;

	ASSERT_TRUE(IpAddress::parse("::1", one));
	const Fd name = rendezvous_listen(one, own_name());
	ASSERT_TRUE(name);
	if (!rendezvous_connect(one, own_name()) && errno == EADDRNOTAVAIL)
		GTEST_SKIP() << "this host has no ::1";
	EXPECT_EQ(rendezvous_find_loopback(false, own_name()), one);
	EXPECT_TRUE(rendezvous_find_loopback(true, own_name()).any());
}

namespace
{

constexpr uid_t overflow = 65534, some_user = 54321;

void put(const char *file, const std::string &text)
{
	const Fd fd(open(file, O_WRONLY | O_CLOEXEC));

	if (write(fd.get(), text.data(), text.size()) != ssize_t(text.size()))
		_exit(77);
}

/* A process of @uid, in a user namespace of its own where @map says so. */
void become(uid_t uid, const char *map)
{
	if (setresuid(uid, uid, uid))
		_exit(77);
	prctl(PR_SET_DUMPABLE, 1);
	if (!map)
		return;
	if (unshare(CLONE_NEWUSER))
		_exit(77);
	if (*map)
		put("/proc/self/uid_map", map);
}

struct User {
	const char *what;
	uid_t uid;
	const char *map; /* null: no user namespace of its own; "": one that maps nobody */
	uid_t seen; /* its own effective user ID as it sees it */
};

/* Become @connector and connect to the name of @user, whoever that is. */
Fd connector_of(const IpAddress &addr, uint32_t slot, uid_t user, const User &connector)
{
	sockaddr_un sa{};
	const uint8_t *ip = addr.ip().b;
	std::string name = "sirdma/" + std::to_string(user) + "/";
	Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));

	for (int i = 0; i < 16; ++i) {
		char hex[3];

		snprintf(hex, sizeof(hex), "%02x", ip[i]);
		name += hex;
	}
	name += "/0/" + std::to_string(slot);
	sa.sun_family = AF_UNIX;
	name.copy(sa.sun_path + 1, name.size());
	become(connector.uid, connector.map);
	if (connect(fd.get(), reinterpret_cast<sockaddr *>(&sa),
		    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())))
		_exit(1);
	return fd;
}

/* As @listener sees it, is @connector a process of its user? */
bool accepts(const User &listener, const User &connector)
{
	const IpAddress addr = own_address(0);
	const Other a([&](int ready) {
		become(listener.uid, listener.map);

		const Fd name = rendezvous_listen(addr, 7);
		Fd spare = spare_file();
		uint64_t refused = 0;
		pollfd p = {.fd = name.get(), .events = POLLIN, .revents = 0};

		say(ready, 1);
		if (!name || geteuid() != listener.seen || poll(&p, 1, 20000) != 1)
			_exit(1);
		say(ready, rendezvous_accept(name.get(), spare, refused) ? 'y' : 'n');
		wait_for_end(ready);
	});
	const Other b([&](int ready) {
		const Fd fd = connector_of(addr, 7, listener.seen, connector);

		say(ready, 1);
		wait_for_end(ready);
	});

	return a.says() == 'y';
}

constexpr User root = {"root", 0, nullptr, 0};
constexpr User nobody = {"nobody", overflow, nullptr, overflow};
constexpr User contained_nobody = {"nobody in a user namespace", overflow, "65534 65534 1",
				   overflow};
constexpr User user = {"a user", some_user, nullptr, some_user};
constexpr User contained_user = {"a user in a user namespace", some_user, "54321 54321 1",
				 some_user};
constexpr User unmapped_user = {"a user in a user namespace that maps nobody", some_user, "",
				overflow};

} // namespace

/* Each pair of them, for user namespaces show others than they are. */
TEST(Rendezvous, RefusesOtherUsersInUserNamespaces)
{
	if (getuid() != 0)
		GTEST_SKIP() << "takes root";

	int status = -1;
	const pid_t can = fork();

	if (!can) {
		become(some_user, "54321 54321 1");
		_exit(0);
	}
	waitpid(can, &status, 0);
	if (status)
		GTEST_SKIP() << "takes user namespaces";

	const User all[] = {root, nobody, contained_nobody, user, contained_user, unmapped_user};

	for (const User &listener : all)
		for (const User &connector : all)
			EXPECT_EQ(accepts(listener, connector), listener.uid == connector.uid)
				<< listener.what << " listens, " << connector.what << " connects";
}

namespace
{

/* Does a process whose effective user was @opener when it opened its device, and is @now, accept @connector? */
bool accepts_after_change(uid_t opener, uid_t now, const User &connector)
{
	const IpAddress addr = own_address(0);
	const Other a([&](int ready) {
		if (seteuid(opener))
			_exit(77);

		const Fd name = rendezvous_listen(addr, 7);
		Fd spare = spare_file();
		uint64_t refused = 0;
		pollfd p = {.fd = name.get(), .events = POLLIN, .revents = 0};

		if (!name || seteuid(0) || seteuid(now))
			_exit(77);
		say(ready, 1);
		if (poll(&p, 1, 20000) != 1)
			_exit(1);
		say(ready, rendezvous_accept(name.get(), spare, refused, opener) ? 'y' : 'n');
		wait_for_end(ready);
	});
	const Other b([&](int ready) {
		const Fd fd = connector_of(addr, 7, opener, connector);

		say(ready, 1);
		wait_for_end(ready);
	});

	return a.says() == 'y';
}

constexpr User another_user = {"another user", some_user + 1, nullptr, some_user + 1};

} // namespace

/* Root may do anything to it, so root is no stranger to a process that gave up root. */
TEST(Rendezvous, OfAProcessThatChangedItsUserIsForItsUserAndForRootThatItWas)
{
	if (getuid() != 0)
		GTEST_SKIP() << "takes root";

	EXPECT_TRUE(accepts_after_change(0, some_user, root));
	EXPECT_TRUE(accepts_after_change(0, some_user, user));
	EXPECT_FALSE(accepts_after_change(0, some_user, another_user));
	EXPECT_TRUE(accepts_after_change(some_user, 0, root));
	EXPECT_FALSE(accepts_after_change(some_user, 0, user)) << "it is root now";
	EXPECT_FALSE(accepts_after_change(some_user, some_user + 1, root)) << "it never was root";
	EXPECT_FALSE(accepts_after_change(some_user, some_user + 1, user));
	EXPECT_TRUE(accepts_after_change(some_user, some_user + 1, another_user));
}

/* A process that gave up root would be refused, and what it sent until then would be lost. */
TEST(Rendezvous, IsNotSoughtByAProcessThatGaveUpRoot)
{
	if (getuid() != 0)
		GTEST_SKIP() << "takes root";

	const IpAddress addr = own_address(0);
	const Fd name = rendezvous_listen(addr, 7);
	const Other other([&](int ready) {
		become(some_user, nullptr);
		say(ready, 1);
		say(ready, !rendezvous_connect(addr, 7, 0) && errno == EACCES ? 'y' : 'n');
		say(ready, rendezvous_connect(addr, 7, 0, Trust::opener_if_root) ? 'y' : 'n');
		say(ready,
		    rendezvous_connect(addr, 7, some_user, Trust::opener_if_root) ? 'y' : 'n');
		wait_for_end(ready);
	});

	ASSERT_TRUE(name);
	EXPECT_EQ(other.says(), 'y');
	EXPECT_EQ(other.says(), 'y') << "the listener is trusted as root's";
	EXPECT_EQ(other.says(), 'n') << "that name does not exist";
}

/* Outside of the PID namespace all processes have number 0, root's as well as others'. */
TEST(Rendezvous, IsNotTheSameProcessIfOnlyTheNumbersThatCannotBeSeenAre)
{
	if (getuid() != 0)
		GTEST_SKIP() << "takes root";

	const IpAddress addr = own_address(0), claimed = own_address(1);
	const Fd name = rendezvous_listen(claimed, 3);
	const Other inside([&](int ready) {
		if (unshare(CLONE_NEWPID))
			_exit(77);
		if (const pid_t pid = fork()) {
			waitpid(pid, nullptr, 0);
			_exit(0);
		}

		const Fd listener = rendezvous_listen(addr, 7);
		Fd spare = spare_file();
		uint64_t refused = 0;
		pollfd p = {.fd = listener.get(), .events = POLLIN, .revents = 0};

		become(some_user, nullptr);
		say(ready, 1);
		for (int i = 0; i < 2; ++i) {
			if (poll(&p, 1, 20000) != 1)
				_exit(1);

			const Fd sock = rendezvous_accept(listener.get(), spare, refused, 0);

			if (!sock)
				_exit(1);
			say(ready, rendezvous_is(sock.get(), claimed, 3, 0) ? 'y' : 'n');
		}
		_exit(0);
	});
	const auto claims = [&](const User &who) {
		const Other outside([&](int ready) {
			const Fd fd = connector_of(addr, 7, 0, who);

			say(ready, 1);
			wait_for_end(ready);
		});

		return inside.says() == 'y';
	};

	ASSERT_TRUE(name);
	EXPECT_TRUE(claims(root));
	EXPECT_FALSE(claims(user));
}

} // namespace sirdma::twin::test
