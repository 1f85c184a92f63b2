/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connection manager of a process, with the functions of the kernel's ib_cm, rdma_cm and
 * rdma_ucm.
 *
 *   librdmacm -> write() of a command -> command()  commands.cpp, the table of commands; bind.cpp,
 *                                                   resolve.cpp, option.cpp, query.cpp, multicast.cpp
 *   QP 1 of a device -> receive()                   receive.cpp, the table of messages
 *   a timer -> expire()                             agent.cpp
 *   events -> an event channel's file               agent.cpp
 *
 * Each public function but the counters' takes the one lock; none waits for a peer.
 */
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>

#include "cm/hop_cache.hpp"
#include "cm/id.hpp"

namespace sirdma::twin::cm
{

#define SIRDMA_CM_COUNTERS(COUNTER) \
	COUNTER(cm_received) /* messages received */ \
	COUNTER(cm_sent) \
	COUNTER(cm_retries) /* messages that were sent again */ \
	COUNTER(cm_timeouts) /* messages without an answer after all retries */ \
	COUNTER(cm_malformed) /* no such message, or a field with an impossible value */ \
	COUNTER(cm_duplicates) \
	COUNTER(cm_unexpected) /* messages that do not fit the state or the address */ \
	COUNTER(cm_unknown) /* messages for a connection that is not here */ \
	COUNTER(cm_no_listener) \
	COUNTER(cm_stale) /* requests of a QP that is connected already */ \
	COUNTER(cm_backlog_full) \
	COUNTER(cm_expired) /* requests that the program did not fetch in time */ \
	COUNTER(cm_overruns) /* messages that found the inbox full */

enum class Counter : unsigned {
#define COUNTER(name) name,
	SIRDMA_CM_COUNTERS(COUNTER)
#undef COUNTER
		count
};

struct Event {
	u32 id = 0; /* ID whose events_reported counts the event; for a request: the listener */
	u32 request = 0; /* the new ID of a request */
	u32 membership = 0; /* membership in a multicast group; it counts the event as well */
	rdma_ucm_event_resp body{};
};

/* A membership in a multicast group; it ends when the program leaves or the ID is destroyed. */
struct Membership {
	u32 id = 0;
	u64 uid = 0;
	u32 events_reported = 0;
};

/* An event channel. Its file is a semaphore of events. */
struct Channel {
	int file = -1;
	std::deque<Event> events;
};

class Agent {
public:
	explicit Agent(Host &host) noexcept;
	Agent(const Agent &) = delete;
	Agent &operator=(const Agent &) = delete;

	/*
	 * @file: an eventfd with EFD_SEMAPHORE, which remains the caller's. A thread that fetches
	 * an event reads the file first. Returns 0 or an errno.
	 */
	int open_channel(int file) noexcept;
	/* Destroy the IDs of the channel as well. */
	void close_channel(int file) noexcept;

	/* Execute a command to rdma_ucm. Returns its length, or a negative errno. */
	ssize_t command(int file, const void *bytes, size_t len) noexcept;

	/* Is @mad for a listener or a connection of this process? */
	bool serves(const Port &port, const IpAddress &src, const sirdma_mad &mad) noexcept;
	/* @mad came from @src to @port. */
	void receive(Port &port, const IpAddress &src, const sirdma_mad &mad) noexcept;
	/* @mad was handed over by another process of address @dst. */
	void receive(const IpAddress &dst, const IpAddress &src, const sirdma_mad &mad) noexcept;
	/* No process of the address serves @mad: answer the message. */
	void refuse(Port &port, const IpAddress &src, const sirdma_mad &mad) noexcept;

	/* Act on timers that are due. */
	void expire() noexcept;
	/* The time at which to call expire(); never_due: no timer runs. */
	u64 next_due() noexcept;
	static constexpr u64 never_due = ~0ull;

	/* @port is about to be destroyed. */
	void forget(const Port &port) noexcept;
	/* The process exits: tell peers. */
	void finish() noexcept;

	void count(Counter which) noexcept { ++counters_[static_cast<unsigned>(which)]; }
	u64 counter(Counter which) const noexcept
	{
		return counters_[static_cast<unsigned>(which)];
	}
	/* Print the counters that are not 0 to stderr. */
	void print_counters() const noexcept;

	/*
	 * How many of each thing the IDs hold. All numbers are 0 after the last ID has ended;
	 * timers is 0 at the next expire().
	 */
	struct Holdings {
		size_t ids, claims, bound, listeners, remotes, timers, memberships, events;

		bool operator==(const Holdings &) const noexcept = default;
	};
	Holdings holdings() noexcept;

	/* A communication ID is the slot of its process and the handle. */
	static constexpr unsigned handle_bits = 21;
	static constexpr u32 handle_mask = (1u << handle_bits) - 1;
	static u32 slot_of_id(u32 comm_id) noexcept { return comm_id >> handle_bits; }
	static bool names_sender(const Id &id, const sirdma_mad &mad) noexcept;
	/*
	 * The requester's GUID and communication ID, of a REQ, or of the REJ of a requester that
	 * gave up before it knew the receiver's ID. Returns false if @mad is another message.
	 */
	static bool names_request(const sirdma_mad &mad, u64 &guid, u32 &id) noexcept;
	/*
	 * The ID that the receiver of @mad is to have; 0: the message names a service or a request.
	 */
	static u32 receiver_of(const sirdma_mad &mad) noexcept;
	/* The service that @mad asks for. 0: it asks for none of an IP port space. */
	static u32 service_of(const sirdma_mad &mad) noexcept;

private:
	struct Call {
		Channel &channel;
		const uint8_t *in;
		size_t in_len, out_len;
	};
	struct Arrival {
		Port &port;
		const IpAddress &src;
		const sirdma_mad &mad;
	};
	struct CommandRow;
	struct MessageRow;
	static const CommandRow commands[];
	static const MessageRow messages[];
	/*
	 * An address, the GUID that the peer says it has, and a communication ID or QP number
	 * there. Any host may name any GUID, and two may have the same one (see device_guid()).
	 */
	using Remote = std::tuple<std::array<uint8_t, 16>, u64, u32>;

	/* agent.cpp */
	void end_channel(int file) noexcept;
	Id *find(u32 handle) noexcept;
	Id *find(const Channel &channel, u32 handle) noexcept;
	Id &create(Channel &channel);
	void destroy(Id &id) noexcept;
	void leave(Id &id) noexcept;
	void close(Id &id) noexcept;
	template <typename Which> void purge_events(Id &id, Which which) noexcept;
	void add_event(Channel &channel, const Event &event) noexcept;
	void take_token(const Channel &channel) noexcept;
	void post(Id &id, rdma_ucm_event_resp &body) noexcept;
	void post(Id &id, u32 event, int status = 0) noexcept;
	u32 comm_id(const Id &id) const noexcept;
	static Remote remote(const IpAddress &peer, u64 guid, u32 number) noexcept;
	Id *find(const std::map<Remote, u32> &map, const Remote &of) noexcept;
	void learn_remote(Id &id, u64 guid);
	/* Report a request. The request is dropped when memory is short. */
	void learn_request(Id &id, u64 guid);
	void forget_remote(Id &id) noexcept;
	template <typename Which> void release_claims(Id &id, Which which) noexcept;
	void release_claims(Id &id) noexcept;
	void start_timer(Id &id, u64 ns) noexcept;
	void stop_timer(Id &id) noexcept;
	void expire(Id &id) noexcept;
	void drop_request(Id &id) noexcept;
	void give_up(Id &id) noexcept;
	void enter_timewait(Id &id) noexcept;
	void send(Port &port, const IpAddress &dst, const sirdma_mad &mad) noexcept;
	void send_and_wait(Id &id, u64 period_ns, unsigned tries) noexcept;

	/* send.cpp */
	sirdma_mad header(const Id &id, sirdma_cm_attr attr) const noexcept;
	sirdma_mad with_ids(const Id &id, sirdma_cm_attr attr) const noexcept;
	void format_ip(const Id &id, sirdma_cm_ip &ip) const noexcept;
	void send_req(Id &id, const rdma_ucm_conn_param &param) noexcept;
	void send_sidr_req(Id &id, const rdma_ucm_conn_param &param) noexcept;
	void send_mra(Id &id, sirdma_cm_answered answered) noexcept;
	void send_rej(Id &id, uint16_t reason, const uint8_t *data, size_t len) noexcept;
	void send_rep(Id &id, const rdma_ucm_conn_param &param) noexcept;
	void send_rtu(Id &id) noexcept;
	void send_dreq(Id &id) noexcept;
	void send_drep(Id &id) noexcept;
	void send_sidr_rep(Id &id, sirdma_cm_sidr_status status, const uint8_t *data,
			   size_t len) noexcept;
	void reject(Port &port, const IpAddress &dst, const sirdma_mad &mad, uint16_t reason,
		    sirdma_cm_answered answered) noexcept;

	/* receive.cpp */
	void take(const Arrival &arrival);
	void answer(const Arrival &arrival) noexcept;
	Id *addressee(const Arrival &arrival) noexcept;
	Id *listener(const Port &port, u32 service) noexcept;
	void on_req(const Arrival &arrival);
	void on_sidr_req(const Arrival &arrival);
	bool check_req(const Arrival &arrival, const Id &listener) noexcept;
	bool is_duplicate(const Arrival &arrival) noexcept;
	bool is_stale(const Arrival &arrival);
	Id *new_request(const Arrival &arrival, Id &listener, const uint8_t *private_data);
	void post_request(Id &listener, Id &id, rdma_ucm_event_resp &body) noexcept;
	void on_mra(Id &id, const Arrival &arrival);
	void on_rep(Id &id, const Arrival &arrival);
	void on_rtu(Id &id, const Arrival &arrival);
	bool ask_again(Id &id) noexcept;
	void on_rej(Id &id, const Arrival &arrival);
	void on_dreq(Id &id, const Arrival &arrival);
	void on_drep(Id &id, const Arrival &arrival);
	void on_sidr_rep(Id &id, const Arrival &arrival);

	/*
	 * Commands of the program, by their names in the table of commands.cpp. Each is in the file
	 * of its subject.
	 */
	int create_id(Call &call);
	int destroy_id(Call &call);
	int bind_ip(Call &call);
	int bind(Call &call);
	int resolve_ip(Call &call);
	int resolve_addr(Call &call);
	int resolve_route(Call &call);
	int query_route(Call &call);
	int query(Call &call);
	int query_addr(const Id &id, Call &call, u64 response);
	int query_gid(const Id &id, Call &call, u64 response);
	int query_path(const Id &id, Call &call, u64 response);
	int connect(Call &call);
	int listen(Call &call);
	int accept(Call &call);
	int reject(Call &call);
	int disconnect(Call &call);
	int init_qp_attr(Call &call);
	int get_event(Call &call);
	int set_option(Call &call);
	int notify(Call &call);
	int migrate_id(Call &call);
	int join_ip_multicast(Call &call);
	int join_multicast(Call &call);
	int leave_multicast(Call &call);
	int join(Call &call, u64 response, u64 uid, u32 handle, const Endpoint &group);
	int accept_datagram(Id &id, const rdma_ucm_conn_param &param);

	/* bind.cpp */
	Port *port_of(const IpAddress &addr);
	static bool covers(const Id &id, const Port &port) noexcept;
	int check_port(const Id &id, bool shared) noexcept;
	int claim(Id &id) noexcept;
	void claim_rest(Id &id) noexcept;
	int own_port(Id &id);
	int choose_port(Id &id);
	int find_device(Id &id, const Endpoint &to);
	int bind_to(Id &id, const Endpoint &to);

	/* resolve.cpp */
	IpAddress meaning_of(const Id &id, const Endpoint &dst, const Port &device);
	int prepare(Id &id, const Endpoint &src, const Endpoint &dst);
	int choose_device(Id &id, const IpAddress &dst);
	int resolve(Id &id, const Endpoint &src, const Endpoint &dst, u32 timeout_ms);
	int resolve_ip(Id &id, const Endpoint &dst, u32 timeout_ms);
	int resolve_gid(Id &id, const Endpoint &dst);
	void wait_for_neighbour(Id &id) noexcept;
	void queue_query(Id &id) noexcept;
	void poll_addresses() noexcept;
	bool poll_address(Id &id) noexcept;
	void address_resolved(Id &id) noexcept;
	void unresolve(Id &id) noexcept;
	void route_resolved(Id &id, uint8_t mtu, uint8_t traffic_class, unsigned lifetime) noexcept;

	/* option.cpp */
	int set_id_option(Id &id, u32 name, const uint8_t *value, size_t len);
	int set_only_its_family(Id &id, bool only);
	int set_path(Id &id, const uint8_t *paths, size_t len);

	Host &host_;
	std::mutex lock_; /* protects the members below, except the counters */
	std::unordered_map<int, std::unique_ptr<Channel>> channels_;
	std::unordered_map<u32, std::unique_ptr<Id>> ids_;
	std::unordered_map<u32, Membership> memberships_;
	u32 next_membership_ = 0;
	std::map<Remote, u32> by_remote_; /* handles by the peer's name of the connection */
	std::map<Remote, u32> by_qp_; /* handles of IDs by the QP of the peer */
	std::set<std::pair<u32, u32>>
		bound_; /* service, and the handle of an ID that is bound to it */
	std::set<std::pair<u32, u32>> listeners_; /* the same for listeners */
	std::set<std::pair<u64, u32>> timers_; /* due time, and the handle */
	HopCache hops_;
	std::deque<u32> queries_; /* handles of IDs that wait for a query of their neighbours */
	u32 next_handle_;
	std::atomic<u64> counters_[static_cast<unsigned>(Counter::count)]{};
};

/* Remove those events of the ID for which @which returns true. */
template <typename Which> void Agent::purge_events(Id &id, Which which) noexcept
{
	std::erase_if(id.channel->events, [&](const Event &event) {
		if (!which(event))
			return false;
		take_token(*id.channel);
		return true;
	});
}

/* Give up those reservations of the ID for which @which returns true. */
template <typename Which> void Agent::release_claims(Id &id, Which which) noexcept
{
	for (auto claim = id.claims.begin(); claim != id.claims.end();) {
		if (!which(*claim)) {
			++claim;
			continue;
		}
		host_.release(std::move(claim->file));
		claim = id.claims.erase(claim);
	}
}

inline constexpr u64 ns_per_ms = 1000000;
/* Timeouts and retries of the kernel's rdma_cm, so that peers wait as long. */
inline constexpr unsigned response_timeout = 20; /* 4.096 us << 20: 4.3 s */
inline constexpr unsigned max_cm_retries = 15;
inline constexpr unsigned packet_lifetime = 16; /* value for RoCE: 4.096 us << 16 */
/* An MRA asks the peer to wait for 4.096 us << 24, 69 s. */
inline constexpr unsigned service_timeout = 24;
inline constexpr u32 backlog_max = 1024;
inline constexpr u32 udp_qkey = 0x01234567;
inline constexpr u32 vendor_mask = 0xffffff; /* the bits of a vendor's ID */

/* The time 4.096 us << @exponent in ms, as ib_cm computes it. */
constexpr u64 exponent_ms(unsigned exponent) noexcept
{
	return 1ull << (exponent > 8 ? exponent - 8 : 0);
}

/* The range of ports that are chosen for programs, as the kernel's default */
inline constexpr u32 first_free_port = 32768, num_free_ports = 60999 - 32768 + 1;

/* The length of an address of the family; 0: rdma_cm has no such family. */
size_t length_of(int family) noexcept;
/*
 * An address in the form of rdma_cm's commands, in @room bytes. It is unspecified for families
 * other than IPv4, IPv6 and AF_IB, and for an address that is longer than @room.
 */
Endpoint endpoint_of(const void *sockaddr, size_t room) noexcept;

} // namespace sirdma::twin::cm
