/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Processes with a connection manager each, for tests: their messages wait on a wire, commands are
 * those that librdmacm gives, and the clock is the test's.
 */
#pragma once

#include <functional>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <vector>

#include "cm_commands.hpp"

namespace sirdma::twin::cm::test
{

struct Packet {
	IpAddress src, dst;
	sirdma_mad mad;
};

using Wire = std::deque<Packet>;

class TestPort : public Port {
public:
	TestPort(const char *text, u32 slot, Wire &wire) : slot_(slot), wire_(wire)
	{
		IpAddress::parse(text, addr_);
	}
	const IpAddress &address() const noexcept override { return addr_; }
	u32 slot() const noexcept override { return slot_; }
	u32 ip_mtu() const noexcept override { return 1500; }
	void send(const IpAddress &dst, const sirdma_mad &mad) noexcept override
	{
		wire_.push_back({addr_, dst, mad});
	}
	void note_end() noexcept override { on_end(); }

	std::function<void()> on_end = [] {};

private:
	IpAddress addr_;
	const u32 slot_;
	Wire &wire_;
};

/* A process: its agent, one device and one event channel. */
class Process : public Host, public Commands {
public:
	Process(const char *addr, u32 slot, Wire &wire, u64 &now)
		: Commands(eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK)), port(addr, slot, wire),
		  now_(now), agent(*this)
	{
		EXPECT_EQ(agent.open_channel(file), 0);
	}

	using Commands::bind, Commands::listener, Commands::resolved;

	ssize_t bind(u32 id, uint16_t to) { return bind(id, port.address(), to); }
	u32 listener(uint16_t port_space = RDMA_PS_TCP, u32 backlog = 0)
	{
		return listener(port.address(), service_port, port_space, backlog);
	}

	/* An ID for datagrams that has a device */
	u32 bound()
	{
		const u32 id = create(RDMA_PS_UDP);

		EXPECT_EQ(bind(id, service_port), 0);
		return id;
	}

	u32 resolved(const Process &to, uint16_t port_space = RDMA_PS_TCP)
	{
		return resolved(to.port.address(), port_space);
	}

	u32 connecting(const Process &to, const char *data = "")
	{
		const u32 id = resolved(to);

		EXPECT_EQ(connect(id, param(client_qpn, data)), 0);
		return id;
	}

	u64 counted(Counter which) const { return agent.counter(which); }

	/* One more device, whose address comes first */
	void add_first(Port &first) { ports_.insert(ports_.begin(), &first); }

	std::span<Port *const> ports() override { return ports_; }
	void detach(const Port &gone) noexcept override { std::erase(ports_, &gone); }
	u64 now_ns() noexcept override { return now_; }
	void timer_changed() noexcept override {}
	Fd claim(Port &at, u32 service) noexcept override
	{
		/* What a name is: it is free again when its file is closed. */
		for (const TestClaim &claim : claims_)
			if (claim.port == &at && claim.service == service &&
			    inode_of(claim.holder) == claim.inode) {
				errno = EADDRINUSE;
				return Fd();
			}

		Fd file(memfd_create("claim", MFD_CLOEXEC));

		claims_.push_back({&at, service, file.get(), inode_of(file.get())});
		return file;
	}
	int next_hop(const Port &, const IpAddress &dst) noexcept override
	{
		++next_hops_asked;
		++asked_for[be32toh(dst.v4().s_addr) & 0xffff];
		now_ += next_hop_ns;
		return next_hop_error;
	}
	/* As epoll has it: a file that was added once cannot be added again. */
	bool serve(const Fd &claim) noexcept override
	{
		errno = served_.insert(claim.get()).second ? serve_error : EEXIST;
		return !errno;
	}
	void release(Fd claim) noexcept override { served_.erase(claim.get()); }
	IpAddress loopback_of(const IpAddress &, u32 service) noexcept override
	{
		return service == (RDMA_PS_TCP << 16 | service_port) ? elsewhere : IpAddress();
	}

	int next_hop_error = 0, serve_error = 0;
	unsigned next_hops_asked = 0;
	u64 next_hop_ns = 0; /* how long each takes */
	std::map<u32, unsigned> asked_for; /* how often, by the last bytes of IPv4 addresses */
	IpAddress elsewhere; /* of another process that serves there */

	TestPort port;

private:
	ssize_t write(const void *bytes, size_t len) override
	{
		return agent.command(file, bytes, len);
	}

	std::vector<Port *> ports_{&port};
	std::set<int> served_;
	struct TestClaim {
		const Port *port;
		u32 service;
		int holder;
		ino_t inode;
	};
	static ino_t inode_of(int file)
	{
		struct stat status;

		return fstat(file, &status) ? 0 : status.st_ino;
	}

	std::vector<TestClaim> claims_;
	u64 &now_;

public:
	Agent agent;
};

/* A client and a server, and what waits between them. */
class Pair {
protected:
	static constexpr u64 second = 1000000000;

	/* Deliver at most @most messages that wait, or that are sent because of one. */
	void deliver(unsigned most = ~0u)
	{
		for (; most && !wire.empty(); --most) {
			const Packet packet = wire.front();

			wire.pop_front();
			deliver(packet);
		}
	}
	void deliver(const Packet &packet)
	{
		deliver(packet, packet.dst == server.port.address() ? server : client);
	}
	static void deliver(const Packet &packet, Process &to)
	{
		const u64 before = to.counted(Counter::cm_received);

		to.agent.receive(to.port, packet.src, packet.mad);
		EXPECT_EQ(to.counted(Counter::cm_received), before + 1) << "not counted";
	}
	void pass(u64 ns)
	{
		now += ns;
		client.agent.expire();
		server.agent.expire();
	}

	/* Close both channels: nothing is left, and others connect afterwards. */
	void end()
	{
		for (Process *process : {&client, &server}) {
			process->agent.close_channel(process->file);
			EXPECT_EQ(process->agent.next_due(), Agent::never_due) << "a timer of no "
										  "ID";
			EXPECT_FALSE(process->has_event()) << "an event of no ID";
		}

		Process again{"127.0.0.12", 6, wire, now}, other{"127.0.0.13", 7, wire, now};

		again.listener();
		wire.clear();
		other.connecting(again);
		deliver(wire.front(), again);
		EXPECT_TRUE(again.has_event()) << "not served";
	}

	Wire wire;
	u64 now = second;
	Process client{"127.0.0.11", 3, wire, now}, server{"127.0.0.12", 5, wire, now};
};

class Cm : public testing::Test, protected Pair {
protected:
	/* Nobody listens, so the client's request is refused until it gives up. */
	void be_refused()
	{
		for (int i = 0; i < 100 && !client.has_event(); ++i) {
			deliver();
			pass(second / 10);
		}
	}
	static uint16_t attr(const Packet &packet) { return be16toh(packet.mad.hdr.attr_id); }

	/* A connection; returns the IDs of the client and of the server. */
	std::pair<u32, u32> establish()
	{
		server.listener();

		const u32 id = client.connecting(server);

		deliver();

		const u32 request = server.event().id;

		EXPECT_EQ(server.accept(request, Process::param(server_qpn)), 0);
		deliver();
		EXPECT_EQ(client.event().event, RDMA_CM_EVENT_CONNECT_RESPONSE);
		EXPECT_EQ(client.accept(id, {}), 0);
		deliver();
		EXPECT_EQ(server.event().event, RDMA_CM_EVENT_ESTABLISHED);
		return {id, request};
	}
};

} // namespace sirdma::twin::cm::test
