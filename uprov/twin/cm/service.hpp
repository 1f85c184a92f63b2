/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connection manager's thread, and how messages find their process.
 *
 *   UDP port -> the process that owns it -> its inbox -> its thread
 *      a service or connection of this process:   Agent::receive()
 *      a service of another process:              to the name of the service
 *      a connection of another process:           to the name of its slot
 *      of none:                                   Agent::refuse()
 *
 * Names are those of rendezvous.hpp, with service IDs and slot_name for slots. A name belongs to
 * one process, so a service has one listener at an address, and disappears with it.
 */
#pragma once

#include "cm/agent.hpp"

#include <cstring>
#include <thread>

namespace sirdma::twin::cm
{

/*
 * The process to which each connection request was forwarded. A requester that gives up does not
 * know the receiver's ID, and its reject must reach the same process. When the table is full, the
 * oldest entry is dropped: its reject is lost, and the request times out.
 */
class ForwardedRequests {
public:
	/*
	 * The key: the device, the address of the sender, and the requester's GUID and
	 * communication ID.
	 */
	struct Key {
		const Port *port;
		IpAddress src;
		u64 guid;
		u32 id;

		friend bool operator<(const Key &a, const Key &b) noexcept
		{
			const int order = memcmp(a.src.ip().b, b.src.ip().b, sizeof(a.src.ip().b));

			return order ? order < 0 :
				       std::tie(a.port, a.guid, a.id) <
					       std::tie(b.port, b.guid, b.id);
		}
	};
	static constexpr size_t requests_max =
		4096; /* a process queues no more than this: Service::inbox_max */

	void add(const Key &key, u32 service) noexcept;
	/* Returns 0 if the request is not in the table. */
	u32 service_of(const Key &key) const noexcept;
	void forget(const Port &port) noexcept;

private:
	using Services = std::map<Key, u32>;

	Services services_;
	std::deque<Services::iterator> order_; /* oldest entry first */
};

class Service final : private Host {
public:
	/*
	 * The service of this process, which the first call makes. Returns null without memory or
	 * thread.
	 */
	static Service *of_process() noexcept;
	/* Returns null if there is no service yet. */
	static Service *existing() noexcept;

	Agent &agent() noexcept { return agent_; }

	/* Start the devices that this process knows. Devices that cannot start are left out. */
	static void start_devices() noexcept;

	/* @mad came from the wire. Any thread; takes no lock for long. */
	void deliver(Port &port, const IpAddress &src, const sirdma_mad &mad) noexcept;
	/* @port is about to be destroyed. */
	void forget(Port &port) noexcept;

private:
	struct Arrival {
		Port *port;
		IpAddress src;
		sirdma_mad mad;
	};
	/* A message that one process hands to another */
	struct Forwarded {
		u32 magic;
		u32 scope;
		sirdma_ip src, dst;
		sirdma_mad mad;
	};

	static constexpr u32 forwarded_magic = 0x53434d01; /* to be changed with the layout */
	static constexpr u32 slot_name = 1u << 31;
	static constexpr size_t inbox_max = 4096; /* number of messages; a megabyte */
	static constexpr unsigned messages_at_once = 256;
	static constexpr size_t connections_max = 256;

	Service();
	bool start() noexcept;
	void run() noexcept;
	void wake() noexcept;
	bool watch(int fd, bool edge) noexcept;
	void watch_again(int listener) noexcept;
	void empty_inbox() noexcept;
	void route(const Arrival &arrival) noexcept;
	u32 name_for(const Arrival &arrival) noexcept;
	bool forward(const Arrival &arrival) noexcept;
	Fd accept(int listener) noexcept;
	bool listen(int listener);
	void unlisten(Fd listener) noexcept;
	void take_connections(int listener) noexcept;
	void take_forwarded(int connection) noexcept;
	void attach(Port &port);

	std::span<Port *const> ports() override;
	u64 now_ns() noexcept override;
	void timer_changed() noexcept override { wake(); }
	void detach(const Port &port) noexcept override;
	Fd claim(Port &port, u32 service) noexcept override;
	int next_hop(const Port &port, const IpAddress &dst) noexcept override;
	bool serve(const Fd &claim) noexcept override;
	void release(Fd claim) noexcept override;
	IpAddress loopback_of(const IpAddress &dst, u32 service) noexcept override;

	const u32 process_ = port_process();
	Fd events_, wake_, spare_;
	uint64_t refused_ = 0; /* number of connections of other users */
	std::vector<Port *> ports_; /* the agent's lock protects this and the next member */
	std::vector<std::pair<Port *, Fd>> names_; /* names of this process's slots */
	std::mutex routing_lock_; /* held while messages are routed, so that ports stay */
	ForwardedRequests requests_; /* protected by routing_lock_ */
	std::mutex
		listeners_lock_; /* protects listeners_; held while one of them is used or closed */
	std::set<int> listeners_;
	std::unordered_map<int, Fd> connections_; /* of processes that forward; the thread's */
	std::mutex inbox_lock_; /* protects inbox_ */
	std::deque<Arrival> inbox_;
	Agent agent_;
	std::thread thread_; /* thread that runs until the process ends */
};

} // namespace sirdma::twin::cm
