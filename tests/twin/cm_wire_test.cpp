/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connection manager of this process, with its thread and its names, against datagrams that a
 * test writes byte by byte.
 */
#include <poll.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "child.hpp"
#include "cm/entry.hpp"
#include "cm/service.hpp"
#include "cm_world.hpp"
#include "device.hpp"
#include "identity.hpp"
#include "in_process.hpp"
#include "rendezvous.hpp"

extern "C" {
#include "model/packet.h"
}

namespace sirdma::twin::cm
{

namespace
{

using namespace test;
using twin::test::in_process;
using twin::test::own_address;
using twin::test::SleepingChild;

constexpr int limit_ms = 20000;
constexpr u32 name_of_service = RDMA_PS_TCP << 16 | service_port;

/* The devices of this process: one, at @addr. */
Nic &start_device(const IpAddress &addr)
{
	setenv(env_addr, addr.text().c_str(), 1);
	setenv(env_link, "udp", 1);

	const std::span<Device *const> devices = process_devices();

	EXPECT_EQ(devices.size(), 1u);
	return static_cast<Nic &>(*devices[0]->nic);
}

/* A program with an event channel. */
class Program : public Commands {
public:
	Program() : Commands(open_channel()) {}
	~Program() override { close_channel(file); }

	/* The ID of the next request. */
	u32 request()
	{
		pollfd ready = {.fd = file, .events = POLLIN, .revents = 0};

		if (poll(&ready, 1, limit_ms) != 1) {
			ADD_FAILURE() << "no event";
			return 0;
		}

		const rdma_ucm_event_resp resp = event();

		EXPECT_EQ(resp.event, RDMA_CM_EVENT_CONNECT_REQUEST);
		return resp.id;
	}

private:
	ssize_t write(const void *bytes, size_t len) override { return command(file, bytes, len); }
};

using Bytes = std::vector<uint8_t>;

/* A peer at the second address that is nothing but a socket. */
class RawPeer {
public:
	RawPeer() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))
	{
		const int never = IP_PMTUDISC_DO;
		sockaddr_storage sa;
		const socklen_t len = addr.to_socket(SIRDMA_ROCE_UDP_PORT, sa);

		/* Identification 0, as the ICRC has it */
		setsockopt(fd_.get(), IPPROTO_IP, IP_MTU_DISCOVER, &never, sizeof(never));
		EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr *>(&sa), len), 0)
			<< strerror(errno);
	}

	static Bytes packet(const sirdma_mad &mad)
	{
		auto head = std::make_unique<snic_tx_pkt>();
		Bytes out;

		snic_pkt_bth(head.get(), SIRDMA_BTH_UD | SIRDMA_BTH_SEND_ONLY, SIRDMA_DEFAULT_PKEY,
			     SIRDMA_GSI_QPN, 0, sizeof(mad));
		snic_pkt_deth(head.get(), SIRDMA_GSI_QKEY, SIRDMA_GSI_QPN);
		out.assign(head->hdr, head->hdr + head->hdr_len);
		out.insert(out.end(), reinterpret_cast<const uint8_t *>(&mad),
			   reinterpret_cast<const uint8_t *>(&mad + 1));
		out.resize(out.size() + SIRDMA_ICRC_LEN);
		return out;
	}

	/* With the ICRC of these bytes */
	void send(Bytes packet, const IpAddress &to)
	{
		const Path path = {.src = addr,
				   .dst = to,
				   .sport = SIRDMA_ROCE_UDP_PORT,
				   .dport = SIRDMA_ROCE_UDP_PORT};
		const uint32_t icrc = icrc_of(path, 0, packet.data(), packet.size());

		memcpy(packet.data() + packet.size() - sizeof(icrc), &icrc, sizeof(icrc));
		send_raw(packet, to);
	}
	void send(const sirdma_mad &mad, const IpAddress &to) { send(packet(mad), to); }
	void send_raw(const Bytes &packet, const IpAddress &to)
	{
		sockaddr_storage sa;
		const socklen_t len = to.to_socket(SIRDMA_ROCE_UDP_PORT, sa);

		ASSERT_EQ(sendto(fd_.get(), packet.data(), packet.size(), 0,
				 reinterpret_cast<sockaddr *>(&sa), len),
			  static_cast<ssize_t>(packet.size()));
	}

	/* The next message for QP 1 here */
	sirdma_mad receive()
	{
		pollfd ready = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
		uint8_t bytes[512];
		sirdma_mad mad{};

		if (poll(&ready, 1, limit_ms) != 1 ||
		    recv(fd_.get(), bytes, sizeof(bytes), 0) < ssize_t(20 + sizeof(mad)))
			ADD_FAILURE() << "no answer";
		else
			memcpy(&mad, bytes + 20, sizeof(mad));
		return mad;
	}

	/* A request that a twin accepts, as an agent of this address would send it to @to. */
	static sirdma_mad request(const IpAddress &to, u64 tid)
	{
		Wire wire;
		u64 now = 1;
		Process requester{addr.text().c_str(), 3, wire, now};
		const u32 id = requester.resolved(to);

		EXPECT_EQ(requester.connect(id, Process::param(client_qpn)), 0);

		sirdma_mad mad = wire.back().mad;

		mad.hdr.tid = htobe64(tid);
		mad.req.local_id = htobe32(4711);
		return mad;
	}

	static inline const IpAddress addr = own_address(1);

private:
	Fd fd_;
};

/* Whatever became of what came, it was counted: as a message, or as one of these. */
u64 counted(Nic &nic)
{
	u64 sum = 0;

	for (const sirdma_stat stat :
	     {SIRDMA_STAT_RX_BAD_LENGTH, SIRDMA_STAT_RX_BAD_ICRC, SIRDMA_STAT_RX_BAD_HEADER,
	      SIRDMA_STAT_RX_BAD_OPCODE, SIRDMA_STAT_RX_BAD_PKEY, SIRDMA_STAT_RX_NO_QP,
	      SIRDMA_STAT_RX_BAD_QKEY, SIRDMA_STAT_RX_BAD_STATE, SIRDMA_STAT_RX_OVERRUNS})
		sum += nic.stat(stat);
	if (Service *service = Service::existing())
		sum += service->agent().counter(Counter::cm_received) +
		       service->agent().counter(Counter::cm_overruns);
	return sum;
}

void await_count(Nic &nic, u64 want, const char *what, size_t at)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);

	while (counted(nic) < want && std::chrono::steady_clock::now() < end)
		usleep(100);
	ASSERT_EQ(counted(nic), want) << what << " " << at;
}

/* Each byte of a request, from the BTH on, gets other values, with a correct ICRC. */
void send_every_byte_wrong()
{
	const IpAddress to = own_address(0, getppid());
	Nic &nic = start_device(to);
	Program program;
	RawPeer peer;
	const Bytes good = RawPeer::packet(RawPeer::request(to, 1));
	const size_t end = good.size() - SIRDMA_ICRC_LEN;

	program.listener(to);

	u64 sent = counted(nic);

	for (size_t at = 0; at < end; ++at) {
		for (const uint8_t bits : {0x01, 0x10, 0x80, 0xff}) {
			Bytes bad = good;

			bad[at] ^= bits;
			peer.send(bad, to);
			await_count(nic, ++sent, "byte", at);
			if (testing::Test::HasFatalFailure())
				return;
		}
	}
	/* Shorter, longer, and with a wrong ICRC */
	for (const size_t len : {size_t{12}, size_t{20}, end, good.size() - 1, good.size() + 4}) {
		Bytes bad = good;

		bad.resize(len);
		peer.send_raw(bad, to);
		await_count(nic, ++sent, "length", len);
	}
	peer.send_raw(good, to);
	await_count(nic, ++sent, "ICRC", 0);
	EXPECT_GT(nic.stat(SIRDMA_STAT_RX_BAD_HEADER), 0u);
	EXPECT_GT(nic.stat(SIRDMA_STAT_RX_BAD_PKEY), 0u);
	EXPECT_GT(nic.stat(SIRDMA_STAT_RX_BAD_QKEY), 0u);
	EXPECT_GT(nic.stat(SIRDMA_STAT_RX_BAD_OPCODE), 0u);

	/* A good one from there is served. */
	Program second;
	sirdma_mad mad = RawPeer::request(to, 2);

	second.listener(to, service_port + 1);
	mad.req.service_id = htobe64(SIRDMA_CM_IP_SERVICE(RDMA_PS_TCP, service_port + 1));
	mad.req.local_id = htobe32(99);
	mad.req.qpn_resources = htobe32(4712 << SIRDMA_CM_HIGH24_SHIFT);
	peer.send(mad, to);
	EXPECT_NE(second.request(), 0u);
}

TEST(CmWire, CountsEachDatagramWhateverItsBytes)
{
	in_process(send_every_byte_wrong);
}

/* The descriptor of a socket of this process whose name ends with that of the service. */
int descriptor_of(u32 name)
{
	const std::string end = "/0/" + std::to_string(name);

	for (int fd = 3; fd < 1024; ++fd) {
		sockaddr_un sa{};
		socklen_t len = sizeof(sa);

		if (getsockname(fd, reinterpret_cast<sockaddr *>(&sa), &len) ||
		    sa.sun_family != AF_UNIX || len <= offsetof(sockaddr_un, sun_path) + 1)
			continue;

		const std::string text(sa.sun_path + 1, len - offsetof(sockaddr_un, sun_path) - 1);

		if (text.ends_with(end))
			return fd;
	}
	return -1;
}

/* Connect to a service, and wait until the thread has closed that connection again. */
void visit(const IpAddress &addr, u32 name)
{
	const Fd visitor = rendezvous_connect(addr, name);
	char byte = 0;

	ASSERT_TRUE(visitor) << strerror(errno);

	pollfd closed = {.fd = visitor.get(), .events = POLLIN, .revents = 0};

	/* What is no message ends it. */
	ASSERT_EQ(send(visitor.get(), &byte, 1, MSG_NOSIGNAL), 1);
	ASSERT_EQ(poll(&closed, 1, limit_ms), 1);
}

/*
 * A child holds the closed listener of a service, which therefore still takes connections, and the
 * program has a listening socket of its own under its number.
 */
void reuse_the_listeners_descriptor()
{
	const IpAddress addr = own_address(0, getppid());
	Program program;

	start_device(addr);

	const u32 id = program.listener(addr);
	const int number = descriptor_of(name_of_service);
	sockaddr_in any = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
	socklen_t len = sizeof(any);

	any.sin_addr = addr.v4();
	ASSERT_GE(number, 0);
	visit(addr, name_of_service);

	const SleepingChild holder;

	EXPECT_GE(program.destroy(id), 0);

	const Fd own(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
	auto *sa = reinterpret_cast<sockaddr *>(&any);

	ASSERT_EQ(own.get(), number) << "not the listener's number";
	ASSERT_EQ(::bind(own.get(), sa, len), 0);
	ASSERT_EQ(::listen(own.get(), 4), 0);
	ASSERT_EQ(getsockname(own.get(), sa, &len), 0);

	const Fd client(socket(AF_INET, SOCK_STREAM, 0));

	ASSERT_EQ(connect(client.get(), sa, len), 0);
	/* Two events for the thread: the old listener's, if it hears it, and then that of another one. */
	const Fd visitor = rendezvous_connect(addr, name_of_service);

	ASSERT_TRUE(visitor);

	program.listener(addr, service_port + 1);
	visit(addr, name_of_service + 1);
	EXPECT_GE(accept(own.get(), nullptr, nullptr), 0)
		<< "somebody else took the program's connection: " << strerror(errno);
}

TEST(CmWire, TakesNoConnectionsOfTheProgram)
{
	in_process(reuse_the_listeners_descriptor);
}

/* More connections of another user than are examined at once, before one of this user */
void knock_many_times()
{
	constexpr uid_t other_user = 54321;
	constexpr int many = 200;
	const IpAddress addr = own_address(0, getppid());
	sockaddr_un name{};
	socklen_t len = sizeof(name);
	int ready[2], status = -1;
	char byte;

	ASSERT_EQ(pipe(ready), 0);

	const pid_t server = fork();

	if (!server) {
		Program program;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		start_device(addr);
		program.listener(addr);
		(void)!write(ready[1], "", 1);
		for (;;)
			pause();
	}
	ASSERT_EQ(read(ready[0], &byte, 1), 1);
	visit(addr, name_of_service);

	Fd visitor = rendezvous_connect(addr, name_of_service);

	ASSERT_EQ(getpeername(visitor.get(), reinterpret_cast<sockaddr *>(&name), &len), 0);
	visitor.reset();
	twin::test::stop(server);

	const pid_t stranger = fork();

	if (!stranger) {
		if (setresuid(other_user, other_user, other_user))
			_exit(1);
		for (int i = 0; i < many; ++i) {
			const Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0));

			if (connect(fd.get(), reinterpret_cast<sockaddr *>(&name), len))
				_exit(2);
		}
		_exit(0);
	}
	ASSERT_EQ(waitpid(stranger, &status, 0), stranger);
	ASSERT_EQ(status, 0);
	visitor = rendezvous_connect(addr, name_of_service);
	ASSERT_TRUE(visitor) << strerror(errno);
	ASSERT_EQ(send(visitor.get(), "", 1, MSG_NOSIGNAL), 1);
	ASSERT_EQ(kill(server, SIGCONT), 0);

	pollfd closed = {.fd = visitor.get(), .events = POLLIN, .revents = 0};

	EXPECT_EQ(poll(&closed, 1, limit_ms), 1) << "it was not accepted";
	kill(server, SIGKILL);
	waitpid(server, nullptr, 0);
}

TEST(CmWire, ManyConnectionsOfOtherUsersDoNotHideOneOfThisUser)
{
	if (getuid() != 0)
		GTEST_SKIP() << "takes root";
	in_process(knock_many_times);
}

/*
 * The owner of the UDP port has no listener; another process of the address has. A requester sends
 * its request, gives up, and begins again with the same ID: that is a new request.
 */
void serve_beside_the_owner(int tell, const IpAddress &addr)
{
	Program program;

	start_device(addr);
	program.listener(addr);
	(void)!write(tell, "", 1);
	for (;;)
		pause();
}

void give_up_beside_the_owner()
{
	const IpAddress to = own_address(0, getppid());
	int ends[2];
	char byte;

	ASSERT_EQ(pipe(ends), 0);

	int go[2];

	ASSERT_EQ(pipe(go), 0);

	/* Before this process has threads; it waits until this one owns the port. */
	const pid_t other = fork();

	if (!other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)!read(go[0], &byte, 1);
		serve_beside_the_owner(ends[1], to);
	}
	start_device(to);
	ASSERT_EQ(write(go[1], "", 1), 1);
	ASSERT_EQ(read(ends[0], &byte, 1), 1);

	RawPeer peer;
	sirdma_mad first = RawPeer::request(to, 1), again = first, reject{};

	peer.send(first, to);
	peer.send(first, to);
	EXPECT_EQ(be16toh(peer.receive().hdr.attr_id), SIRDMA_CM_MRA) << "not a duplicate";
	reject.hdr = first.hdr;
	reject.hdr.attr_id = htobe16(SIRDMA_CM_REJ);
	reject.rej.ids.local_id = first.req.local_id;
	reject.rej.reason = htobe16(SIRDMA_CM_REJECT_TIMEOUT);
	reject.rej.info_len = sizeof(first.req.ca_guid) << 1;
	memcpy(reject.rej.info, &first.req.ca_guid, sizeof(first.req.ca_guid));
	peer.send(reject, to);
	again.hdr.tid = htobe64(2);
	peer.send(again, to);
	peer.send(again, to);

	const sirdma_mad answer = peer.receive();

	EXPECT_EQ(be16toh(answer.hdr.attr_id), SIRDMA_CM_MRA);
	EXPECT_EQ(be64toh(answer.hdr.tid), 2u) << "the request was not taken back";
	kill(other, SIGKILL);
	waitpid(other, nullptr, 0);
}

TEST(CmWire, ARejectReachesTheProcessThatHasTheRequest)
{
	in_process(give_up_beside_the_owner);
}

} // namespace

} // namespace sirdma::twin::cm
