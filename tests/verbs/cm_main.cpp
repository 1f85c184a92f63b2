// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the kernel's connection manager offers over a device: options, enhanced connection establishment (ECE), identifiers that
// change their event channel, the address family of InfiniBand, listeners that close. Both ends are in this process.
//   verbs_cm ADDRESS [--gtest_...]         an IPv4 address of the device
//   verbs_cm ADDRESS --hold PORT BACKLOG   listens and never looks at what comes, until it is killed
#include "verbs.hpp"

#include <gtest/gtest.h>
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>

#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace verbs
{

void report_destroy_failure(const char *what, int rc) noexcept
{
	ADD_FAILURE() << what << ": " << std::strerror(rc > 0 ? rc : errno);
}

namespace
{

using std::chrono::milliseconds;

constexpr milliseconds patience{20000};
constexpr int resolve_ms = 5000;
constexpr uint32_t own_qpn = 0x1234;
constexpr int consumer_reject = 28; // IBTA table 108
constexpr int rejected_ece = 35; // vendor option not supported (IBTA table 108)

std::string own_address;

struct Event {
	rdma_cm_event_type type;
	int status;
	rdma_cm_id *id; // a connection request's: the new one
	rdma_cm_id *listener;
	std::string data; // private, with the zeros that fill its field
};

class Channel {
public:
	Channel() : channel_(rdma_create_event_channel())
	{
		EXPECT_TRUE(channel_) << std::strerror(errno);
	}
	~Channel() { rdma_destroy_event_channel(channel_); }
	Channel(const Channel &) = delete;
	Channel &operator=(const Channel &) = delete;

	rdma_event_channel *get() { return channel_; }
	bool readable(milliseconds limit)
	{
		pollfd entry = {channel_->fd, POLLIN, 0};
		return poll(&entry, 1, static_cast<int>(limit.count())) == 1;
	}
	std::optional<Event> next(milliseconds limit = patience)
	{
		rdma_cm_event *event;
		if (!readable(limit) || rdma_get_cm_event(channel_, &event))
			return std::nullopt;
		const rdma_conn_param &param = event->param.conn;
		const Event seen = {event->event, event->status, event->id, event->listen_id,
				    std::string(static_cast<const char *>(param.private_data),
						param.private_data_len)};
		rdma_ack_cm_event(event);
		return seen;
	}
	// The next event, which must be a @type; its identifier.
	rdma_cm_id *expect(rdma_cm_event_type type, int status = 0)
	{
		const auto event = next();
		if (!event) {
			ADD_FAILURE() << "no " << rdma_event_str(type);
			return nullptr;
		}
		EXPECT_EQ(event->type, type) << rdma_event_str(event->type);
		EXPECT_EQ(event->status, status);
		return event->id;
	}

private:
	rdma_event_channel *channel_;
};

struct IdDestroyer {
	void operator()(rdma_cm_id *id) const noexcept
	{
		if (id->qp)
			rdma_destroy_qp(id);
		if (rdma_destroy_id(id))
			report_destroy_failure("rdma_destroy_id", 0);
	}
};
using Id = std::unique_ptr<rdma_cm_id, IdDestroyer>;

Id make_id(Channel *channel, rdma_port_space space = RDMA_PS_TCP)
{
	rdma_cm_id *id = nullptr;
	EXPECT_EQ(rdma_create_id(channel ? channel->get() : nullptr, &id, nullptr, space), 0);
	return Id(id);
}

sockaddr_in address(uint16_t port)
{
	sockaddr_in in = {};
	in.sin_family = AF_INET;
	in.sin_port = htons(port);
	EXPECT_EQ(inet_pton(AF_INET, own_address.c_str(), &in.sin_addr), 1);
	return in;
}

template <typename T> sockaddr *generic(T &of)
{
	return reinterpret_cast<sockaddr *>(&of);
}

template <typename T> int set_option(const Id &id, int name, T value, int level = RDMA_OPTION_ID)
{
	return rdma_set_option(id.get(), level, name, &value, sizeof(value)) ? errno : 0;
}

void make_qp(rdma_cm_id *id)
{
	ibv_qp_init_attr init = {};
	init.cap.max_send_wr = init.cap.max_recv_wr = 4;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	init.qp_type = IBV_QPT_RC;
	ASSERT_EQ(rdma_create_qp(id, nullptr, &init), 0) << std::strerror(errno);
}

ibv_qp_attr attributes(rdma_cm_id *id)
{
	ibv_qp_attr attr = {};
	ibv_qp_init_attr init = {};
	EXPECT_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_AV | IBV_QP_TIMEOUT, &init), 0);
	return attr;
}

// A listener and a client of it.
class Connections : public testing::Test {
protected:
	void SetUp() override
	{
		sockaddr_in at = address(0);
		listener_ = make_id(&passive_);
		client_ = make_id(&active_);
		ASSERT_TRUE(listener_ && client_);
		ASSERT_EQ(rdma_bind_addr(listener_.get(), generic(at)), 0);
		ASSERT_EQ(rdma_listen(listener_.get(), 64), 0);
		port_ = ntohs(rdma_get_src_port(listener_.get()));
	}
	void resolve_address()
	{
		sockaddr_in to = address(port_);
		ASSERT_EQ(rdma_resolve_addr(client_.get(), nullptr, generic(to), resolve_ms), 0);
	}
	void resolve(bool with_qp = true)
	{
		resolve_address();
		active_.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
		ASSERT_EQ(rdma_resolve_route(client_.get(), resolve_ms), 0);
		active_.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
		if (with_qp)
			make_qp(client_.get());
	}
	// From the client's request on until both know of the connection.
	void request()
	{
		rdma_conn_param param = {};
		param.retry_count = param.rnr_retry_count = 7;
		param.qp_num = own_qpn; // without a queue pair of the identifier's
		ASSERT_EQ(rdma_connect(client_.get(), &param), 0) << std::strerror(errno);
		server_.reset(passive_.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
		ASSERT_TRUE(server_);
	}
	void accept()
	{
		rdma_conn_param param = {};
		make_qp(server_.get());
		ASSERT_EQ(rdma_accept(server_.get(), &param), 0) << std::strerror(errno);
		active_.expect(RDMA_CM_EVENT_ESTABLISHED);
		passive_.expect(RDMA_CM_EVENT_ESTABLISHED);
	}
	void disconnect(Channel &of_client)
	{
		ASSERT_EQ(rdma_disconnect(server_.get()), 0);
		of_client.expect(RDMA_CM_EVENT_DISCONNECTED);
		rdma_disconnect(client_.get());
		passive_.expect(RDMA_CM_EVENT_DISCONNECTED);
	}

	Channel passive_, active_;
	uint16_t port_ = 0;
	Id listener_, client_, server_; // the identifiers go before their channels
};

std::string padded(std::string data, size_t room)
{
	data.resize(room);
	return data;
}

rdma_conn_param with_data(const std::string &data)
{
	rdma_conn_param param = {};
	param.private_data = data.data();
	param.private_data_len = static_cast<uint8_t>(data.size());
	param.qp_num = own_qpn;
	return param;
}

// The private data that a message has room for; rdma_cm takes 36 bytes of a request's (IBTA A11).
constexpr size_t request_data = 56, reply_data = 196, reject_data = 148;

TEST_F(Connections, RequestAndReplyCarryPrivateData)
{
	const std::string ask(request_data, 'q'), answer = "welcome";
	resolve(false);
	rdma_conn_param param = with_data(ask);
	ASSERT_EQ(rdma_connect(client_.get(), &param), 0) << std::strerror(errno);
	const auto request = passive_.next();
	ASSERT_TRUE(request);
	ASSERT_EQ(request->type, RDMA_CM_EVENT_CONNECT_REQUEST);
	server_.reset(request->id);
	EXPECT_EQ(request->data, ask);
	param = with_data(answer);
	param.qp_num = own_qpn + 1; // two connections of one device do not share a queue pair
	ASSERT_EQ(rdma_accept(server_.get(), &param), 0) << std::strerror(errno);
	const auto reply = active_.next();
	ASSERT_TRUE(reply);
	ASSERT_EQ(reply->type, RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(reply->data, padded(answer, reply_data));
}

TEST_F(Connections, MorePrivateDataThanARequestHasRoomForIsRefused)
{
	const std::string ask(request_data + 1, 'q');
	resolve(false);
	rdma_conn_param param = with_data(ask);
	EXPECT_EQ(rdma_connect(client_.get(), &param), -1);
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(Connections, ARejectionCarriesPrivateDataAndItsReason)
{
	const std::string why(reject_data, 'n');
	resolve(false);
	request();
	ASSERT_EQ(rdma_reject(server_.get(), why.data(), static_cast<uint8_t>(why.size())), 0);
	const auto event = active_.next();
	ASSERT_TRUE(event);
	EXPECT_EQ(event->type, RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(event->status, consumer_reject);
	EXPECT_EQ(event->data, why);
}

TEST_F(Connections, EachOfManyListenersGetsItsOwnRequests)
{
	constexpr size_t count = 200;
	std::vector<Id> listeners, clients, servers;
	std::vector<uint16_t> ports;
	for (size_t i = 0; i < count; i++) {
		sockaddr_in at = address(0);
		listeners.push_back(make_id(&passive_));
		ASSERT_EQ(rdma_bind_addr(listeners.back().get(), generic(at)), 0);
		ASSERT_EQ(rdma_listen(listeners.back().get(), 4), 0);
		ports.push_back(ntohs(rdma_get_src_port(listeners.back().get())));
	}
	for (size_t i = count; i-- > 0;) {
		client_ = make_id(&active_);
		port_ = ports[i];
		resolve(false);
		rdma_conn_param param = with_data("");
		ASSERT_EQ(rdma_connect(client_.get(), &param), 0) << std::strerror(errno);
		const auto event = passive_.next();
		ASSERT_TRUE(event);
		ASSERT_EQ(event->type, RDMA_CM_EVENT_CONNECT_REQUEST);
		servers.emplace_back(event->id);
		EXPECT_EQ(event->listener, listeners[i].get()) << i;
		ASSERT_EQ(rdma_reject(event->id, nullptr, 0), 0);
		active_.expect(RDMA_CM_EVENT_REJECTED, consumer_reject);
	}
}

TEST_F(Connections, TypeOfServiceIsTheTrafficClassOfBothEnds)
{
	ASSERT_EQ(set_option<uint8_t>(client_, RDMA_OPTION_ID_TOS, 0x68), 0);
	resolve();
	request();
	accept();
	EXPECT_EQ(attributes(client_.get()).ah_attr.grh.traffic_class, 0x68);
	EXPECT_EQ(attributes(server_.get()).ah_attr.grh.traffic_class, 0x68);
	disconnect(active_);
}

TEST_F(Connections, AckTimeoutIsThatOfTheQueuePair)
{
	ASSERT_EQ(set_option<uint8_t>(client_, RDMA_OPTION_ID_ACK_TIMEOUT, 9), 0);
	resolve();
	request();
	accept();
	EXPECT_EQ(attributes(client_.get()).timeout, 9);
	disconnect(active_);
}

TEST_F(Connections, OptionsOfAWrongSizeOrNameAreRefused)
{
	EXPECT_EQ(set_option<uint16_t>(client_, RDMA_OPTION_ID_TOS, 0), EINVAL);
	EXPECT_EQ(set_option<uint8_t>(client_, RDMA_OPTION_ID_REUSEADDR, 0), EINVAL);
	EXPECT_EQ(set_option<uint8_t>(client_, RDMA_OPTION_ID_AFONLY, 0), EINVAL);
	EXPECT_EQ(set_option<int>(client_, RDMA_OPTION_ID_ACK_TIMEOUT, 0), EINVAL);
	EXPECT_EQ(set_option<int>(client_, 77, 0), ENOSYS);
	EXPECT_EQ(set_option<int>(client_, 0, 0, 77), ENOSYS);
	EXPECT_EQ(set_option<int>(client_, RDMA_OPTION_IB_PATH, 0, RDMA_OPTION_IB), EINVAL);
	const Id datagrams = make_id(&active_, RDMA_PS_UDP);
	EXPECT_EQ(set_option<uint8_t>(datagrams, RDMA_OPTION_ID_ACK_TIMEOUT, 9), EINVAL)
		<< "datagrams are not acknowledged";
}

TEST_F(Connections, AnAddressIsSharedWhereBothWantIt)
{
	sockaddr_in at = address(0);
	const Id one = make_id(&passive_), two = make_id(&passive_), three = make_id(&passive_);
	ASSERT_EQ(set_option<int>(one, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	ASSERT_EQ(set_option<int>(two, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	ASSERT_EQ(rdma_bind_addr(one.get(), generic(at)), 0);
	at.sin_port = rdma_get_src_port(one.get());
	EXPECT_EQ(rdma_bind_addr(three.get(), generic(at)), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(rdma_bind_addr(two.get(), generic(at)), 0) << std::strerror(errno);
	// One of them at most listens.
	EXPECT_EQ(rdma_listen(one.get(), 1), -1);
	EXPECT_EQ(errno, EADDRINUSE);
}

TEST_F(Connections, AListenerOfIpv6OnlyLeavesThePortToIpv4)
{
	for (const int only : {0, 1}) {
		const Id six = make_id(&passive_), four = make_id(&passive_);
		sockaddr_in6 any6 = {};
		any6.sin6_family = AF_INET6;
		ASSERT_EQ(set_option<int>(six, RDMA_OPTION_ID_AFONLY, only), 0);
		ASSERT_EQ(rdma_bind_addr(six.get(), generic(any6)), 0) << std::strerror(errno);
		sockaddr_in any = {};
		any.sin_family = AF_INET;
		any.sin_port = rdma_get_src_port(six.get());
		EXPECT_EQ(rdma_bind_addr(four.get(), generic(any)), only ? 0 : -1)
			<< std::strerror(errno);
	}
}

// A bound identifier may change its mind, also when another has the port of the other family, and keeps its own.
TEST_F(Connections, ABoundIdentifierKeepsItsPortWhicheverFamiliesItListensTo)
{
	const Id six = make_id(&passive_), four = make_id(&passive_), other = make_id(&passive_);
	sockaddr_in6 any6 = {};
	any6.sin6_family = AF_INET6;
	ASSERT_EQ(set_option<int>(six, RDMA_OPTION_ID_AFONLY, 1), 0);
	ASSERT_EQ(rdma_bind_addr(six.get(), generic(any6)), 0) << std::strerror(errno);
	any6.sin6_port = rdma_get_src_port(six.get());
	EXPECT_EQ(set_option<int>(six, RDMA_OPTION_ID_AFONLY, 0), 0);
	EXPECT_EQ(set_option<int>(six, RDMA_OPTION_ID_AFONLY, 1), 0);
	sockaddr_in any = {};
	any.sin_family = AF_INET;
	any.sin_port = any6.sin6_port;
	ASSERT_EQ(rdma_bind_addr(four.get(), generic(any)), 0) << std::strerror(errno);
	EXPECT_EQ(set_option<int>(six, RDMA_OPTION_ID_AFONLY, 0), 0);
	EXPECT_EQ(rdma_get_src_port(six.get()), any6.sin6_port);
	EXPECT_EQ(rdma_bind_addr(other.get(), generic(any6)), -1);
	EXPECT_EQ(errno, EADDRNOTAVAIL);
	EXPECT_EQ(set_option<int>(six, RDMA_OPTION_ID_AFONLY, 1), 0);
	ASSERT_EQ(rdma_listen(six.get(), 1), 0) << std::strerror(errno);
	EXPECT_EQ(set_option<int>(six, RDMA_OPTION_ID_AFONLY, 0), EINVAL);
}

TEST_F(Connections, QueuePairsHaveNoEce)
{
	ibv_ece ece = {};
	resolve();
	EXPECT_EQ(ibv_query_ece(client_->qp, &ece), EOPNOTSUPP);
	EXPECT_EQ(ibv_set_ece(client_->qp, &ece), EOPNOTSUPP);
}

// librdmacm has ECE for programs that make their queue pairs themselves.
TEST_F(Connections, APeerThatInsistsOnEceIsRejectedWithTheReason)
{
	ibv_ece asked = {};
	asked.vendor_id = 0x123456;
	asked.options = 0x5;
	resolve(false);
	ASSERT_EQ(rdma_set_local_ece(client_.get(), &asked), 0) << std::strerror(errno);
	request();
	ibv_ece seen = {};
	ASSERT_EQ(rdma_get_remote_ece(server_.get(), &seen), 0);
	EXPECT_EQ(seen.vendor_id, asked.vendor_id);
	EXPECT_EQ(seen.options, asked.options);
	ASSERT_EQ(rdma_reject_ece(server_.get(), nullptr, 0), 0);
	active_.expect(RDMA_CM_EVENT_REJECTED, rejected_ece);
}

TEST_F(Connections, WithoutEceNeitherEndHasAny)
{
	ibv_ece ece = {1, 1, 1};
	rdma_conn_param param = {};
	param.qp_num = own_qpn + 1;
	resolve(false);
	request();
	ASSERT_EQ(rdma_get_remote_ece(server_.get(), &ece), 0);
	EXPECT_EQ(ece.vendor_id, 0u);
	EXPECT_EQ(ece.options, 0u);
	ASSERT_EQ(rdma_accept(server_.get(), &param), 0);
	active_.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
	ece = {1, 1, 1};
	ASSERT_EQ(rdma_get_remote_ece(client_.get(), &ece), 0);
	EXPECT_EQ(ece.vendor_id, 0u);
	EXPECT_EQ(ece.options, 0u);
	ASSERT_EQ(rdma_establish(client_.get()), 0);
	passive_.expect(RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(Connections, EventsFollowAnIdentifierToItsNewChannel)
{
	Channel other;

	resolve_address();
	ASSERT_TRUE(active_.readable(patience));
	// The event that waits moves with it.
	ASSERT_EQ(rdma_migrate_id(client_.get(), other.get()), 0) << std::strerror(errno);
	EXPECT_FALSE(active_.readable(milliseconds(0)));
	EXPECT_EQ(other.expect(RDMA_CM_EVENT_ADDR_RESOLVED), client_.get());
	ASSERT_EQ(rdma_resolve_route(client_.get(), resolve_ms), 0);
	other.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	ASSERT_EQ(rdma_migrate_id(client_.get(), active_.get()), 0);
	make_qp(client_.get());
	request();
	accept();
	// A connected one, too
	ASSERT_EQ(rdma_migrate_id(client_.get(), other.get()), 0);
	disconnect(other);
	EXPECT_FALSE(active_.readable(milliseconds(0)));
	client_.reset();
}

TEST_F(Connections, AnIdentifierWithoutAChannelBlocks)
{
	resolve_address();
	active_.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	ASSERT_EQ(rdma_migrate_id(client_.get(), nullptr), 0) << std::strerror(errno);
	ASSERT_EQ(rdma_resolve_route(client_.get(), resolve_ms), 0);
	EXPECT_TRUE(client_->event);
	EXPECT_FALSE(active_.readable(milliseconds(0)));
	ASSERT_EQ(rdma_migrate_id(client_.get(), active_.get()), 0);
}

// On the link nobody has the first address; no route leads to the second. The core tries both again until its time is up.
TEST_F(Connections, UnreachableAddressesAreSaidToBeSo)
{
	const auto expected = [](int error) {
		EXPECT_TRUE(error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH)
			<< std::strerror(error);
	};

	resolve_address();
	active_.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	const Pd pd(ibv_alloc_pd(client_->verbs));
	ASSERT_TRUE(pd);
	const ibv_gid own = client_->route.addr.addr.ibaddr.sgid;
	int index = -1;
	ibv_gid gid = {};
	for (int i = 0; index < 0 && !ibv_query_gid(client_->verbs, 1, i, &gid); i++)
		if (!memcmp(&gid, &own, sizeof(gid)))
			index = i;
	ASSERT_GE(index, 0);

	for (const uint32_t other : {0x00000063u, 0xc0000063u}) {
		sockaddr_in to = address(7000);
		to.sin_addr.s_addr ^= htonl(other);
		ibv_ah_attr attr = {};
		attr.is_global = 1;
		attr.port_num = 1;
		attr.grh.sgid_index = static_cast<uint8_t>(index);
		attr.grh.hop_limit = 64;
		attr.grh.dgid = own;
		memcpy(attr.grh.dgid.raw + 12, &to.sin_addr, sizeof(to.sin_addr));
		errno = 0;
		EXPECT_FALSE(Ah(ibv_create_ah(pd.get(), &attr)));
		expected(errno);

		const Id id = make_id(&active_);
		if (rdma_resolve_addr(id.get(), nullptr, generic(to), 1000)) {
			expected(errno);
			continue;
		}
		const auto event = active_.next();
		ASSERT_TRUE(event);
		EXPECT_EQ(event->type, RDMA_CM_EVENT_ADDR_ERROR) << rdma_event_str(event->type);
		expected(-event->status);
	}
}

// The core finds a RoCE device by a GID, but neither binds to one there nor finds a route, which needs a netdev.
TEST_F(Connections, AddressesOfInfinibandHaveNoRouteOverRoce)
{
	resolve_address();
	active_.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	sockaddr_ib ib = {};
	ib.sib_family = AF_IB;
	ib.sib_pkey = htons(0xffff);
	ib.sib_sid = htobe64(uint64_t{RDMA_PS_TCP} << 16 | 7777);
	ib.sib_sid_mask = htobe64(~0ull);
	memcpy(&ib.sib_addr, &client_->route.addr.addr.ibaddr.sgid, sizeof(ib.sib_addr));
	const Id bound = make_id(&active_), resolved = make_id(&active_);
	EXPECT_EQ(rdma_bind_addr(bound.get(), generic(ib)), -1);
	EXPECT_EQ(errno, ENODEV);
	ASSERT_EQ(rdma_resolve_addr(resolved.get(), nullptr, generic(ib), resolve_ms), 0);
	active_.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(rdma_resolve_route(resolved.get(), resolve_ms), -1);
	EXPECT_EQ(errno, ENODEV);
}

// What becomes of each of many clients whose listener goes away: connected, rejected, or told that nobody answers.
class Races : public testing::Test {
protected:
	struct Client {
		Id id;
		bool done = false;
	};
	void start(uint16_t port, size_t n)
	{
		for (size_t i = 0; i < n; i++) {
			sockaddr_in to = address(port);
			Id id = make_id(&active_);
			rdma_cm_id *key = id.get();
			ASSERT_EQ(rdma_resolve_addr(key, nullptr, generic(to), resolve_ms), 0);
			clients_[key] = {std::move(id), false};
		}
	}
	// Handle one event of the clients. False: none came.
	bool step()
	{
		rdma_conn_param param = {};
		param.retry_count = 7;
		const auto event = active_.next();
		if (!event)
			return false;
		Client &client = clients_.at(event->id);
		switch (event->type) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			EXPECT_EQ(rdma_resolve_route(event->id, resolve_ms), 0);
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			make_qp(event->id);
			EXPECT_EQ(rdma_connect(event->id, &param), 0);
			asked_++;
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			rdma_disconnect(event->id);
			finish(client, connected_);
			break;
		case RDMA_CM_EVENT_REJECTED:
		case RDMA_CM_EVENT_UNREACHABLE:
			finish(client, refused_);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			EXPECT_TRUE(client.done);
			break;
		default:
			ADD_FAILURE() << rdma_event_str(event->type) << ' ' << event->status;
			finish(client, refused_);
		}
		return true;
	}
	void finish(Client &client, size_t &count)
	{
		EXPECT_FALSE(client.done);
		client.done = true;
		count++;
	}

	Channel active_, passive_;
	std::map<rdma_cm_id *, Client> clients_;
	size_t asked_ = 0, connected_ = 0, refused_ = 0;
};

TEST_F(Races, EachClientOfAListenerThatClosesIsAnswered)
{
	constexpr size_t clients = 48;

	for (size_t accepted = 0; accepted < clients; accepted += 8) {
		sockaddr_in at = address(0);
		Id listener = make_id(&passive_);
		std::vector<Id> servers;
		ASSERT_EQ(rdma_bind_addr(listener.get(), generic(at)), 0);
		ASSERT_EQ(rdma_listen(listener.get(), clients), 0);
		asked_ = connected_ = refused_ = 0;
		start(ntohs(rdma_get_src_port(listener.get())), clients);
		while (asked_ < clients / 2)
			ASSERT_TRUE(step());
		while (servers.size() < accepted) {
			rdma_conn_param param = {};
			for (auto left = patience; !passive_.readable(milliseconds(1)); left--) {
				ASSERT_GT(left.count(), 0) << "no request";
				ASSERT_TRUE(!active_.readable(milliseconds(0)) || step());
			}
			const auto event = passive_.next();
			if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST)
				continue;
			servers.emplace_back(event->id);
			make_qp(event->id);
			ASSERT_EQ(rdma_accept(event->id, &param), 0);
		}
		// Requests that nobody has read go with it.
		listener.reset();
		while (connected_ + refused_ < clients)
			ASSERT_TRUE(step())
				<< connected_ << " connected, " << refused_ << " refused";
		EXPECT_GE(connected_, accepted);
		EXPECT_GE(refused_, size_t{1});
		clients_.clear();
		servers.clear();
		while (passive_.readable(milliseconds(0)))
			passive_.next();
	}
}

int hold(uint16_t port, int backlog)
{
	Channel channel;
	const Id listener = make_id(&channel);
	sockaddr_in at = address(port);
	if (!listener || rdma_bind_addr(listener.get(), generic(at)) ||
	    rdma_listen(listener.get(), backlog)) {
		std::perror("verbs_cm: listen");
		return 1;
	}
	for (;;)
		pause();
}

} // namespace
} // namespace verbs

int main(int argc, char **argv)
{
	testing::InitGoogleTest(&argc, argv);
	const bool holds = argc == 5 && !std::strcmp(argv[2], "--hold");
	if (argc != 2 && !holds) {
		std::fputs("verbs_cm ADDRESS [--gtest_...] | ADDRESS --hold PORT BACKLOG\n",
			   stderr);
		return 2;
	}
	verbs::own_address = argv[1];
	if (holds)
		return verbs::hold(static_cast<uint16_t>(std::atoi(argv[3])), std::atoi(argv[4]));
	return RUN_ALL_TESTS();
}
