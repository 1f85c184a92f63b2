/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "neighbours.hpp"

#include <cerrno>
#include <cstring>
#include <random>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "wire_order.hpp"

extern "C" {
#include "model/super.h"
}

namespace sirdma::twin
{

namespace
{

enum RecordKind : uint16_t {
	record_packet = 1,
	record_datagram = 2,
	record_super = 3,
};

/* What a reader takes beyond packets and datagrams. */
constexpr uint32_t takes_supers = 1;
constexpr uint32_t takes_references = 2;
/* Of a super-packet's payload: by reference from so many bytes on, else copied up to so many. */
constexpr size_t reference_min = 16 << 10;
constexpr size_t copy_max = 16 << 10;
/* Times in a row that a lease was over when its bytes were read, after which no more are wanted. */
constexpr u32 stale_max = 8;

/* Before the payload of a super-packet, or the pieces of the sender's memory it lies in. */
struct SuperHead {
	uint64_t lease; /* 0: the payload follows */
	uint32_t payload_len;
	uint32_t npieces;
	uint16_t npkts;
	uint8_t hdr_len;
	uint8_t pad;
	uint8_t hdr[SNIC_MAX_HDR];
};

struct Piece {
	uint64_t addr;
	uint64_t len;
};

static_assert(sizeof(SuperHead) == 72 && sizeof(Piece) == 16);

constexpr uint16_t record_more = 1;

/* Before a datagram that is handed over. */
struct DatagramHead {
	sirdma_ip src;
	uint32_t scope;
	uint16_t sport;
	uint16_t index;
};

static_assert(sizeof(DatagramHead) == 24);

/* Goes with the rings: who connects. */
struct Hello {
	uint32_t magic;
	uint32_t slot;
	uint32_t scope;
	sirdma_ip addr;
	uint32_t ring_bytes;
};

/* Changes with the layout of anything shared. */
constexpr uint32_t hello_magic = 0x53520002;
/* Who could not be reached is not tried again before. */
constexpr u64 retry_ns = 200000000;
/* A reader that takes nothing for so long is stuck: packets are lost to it. */
constexpr u64 stuck_ns = 200000000;
constexpr size_t release_bytes = ring_bytes / 8;
/* What a writer gathers before it shows it. */
constexpr size_t publish_bytes = 16 << 10;

bool send_hello(int sock, const Hello &hello, int fd) noexcept
{
	alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = {};
	iovec piece = {.iov_base = const_cast<Hello *>(&hello), .iov_len = sizeof(hello)};
	msghdr m{};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);

	cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sock, &m, MSG_NOSIGNAL) == ssize_t(sizeof(hello));
}

/* False with errno: EAGAIN when nothing came yet. */
bool receive_hello(int sock, Hello &hello, Fd &rings) noexcept
{
	alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	iovec piece = {.iov_base = &hello, .iov_len = sizeof(hello)};
	msghdr m{};

	m.msg_iov = &piece;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);

	const ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);

	if (n < 0)
		return false;
	for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		int fd;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		    c->cmsg_len != CMSG_LEN(sizeof(fd)))
			continue;
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		rings = Fd(fd);
	}
	errno = EPROTO;
	return n == ssize_t(sizeof(hello)) && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && rings &&
	       hello.magic == hello_magic && hello.ring_bytes == ring_bytes &&
	       hello.slot < num_slots;
}

} // namespace

/* Both directions to and from one process. */
struct Neighbours::Connection {
	Neighbour *node = nullptr;
	Fd sock; /* its end is the neighbour's; a byte on it wakes */
	RingPair rings;
	RingReader in;
	pid_t pid = 0; /* of the neighbour; 0: not one we see */
	u32 stale = 0; /* leases in a row that were over */
	bool probed = false;
	std::mutex tx_lock; /* protects what follows */
	RingWriter out;
	u64 full_since = 0; /* 0: there was room */

	Connection(Fd s, RingPair pair, unsigned writes) noexcept : sock(std::move(s))
	{
		attach(std::move(pair), writes);
	}

	void attach(RingPair pair, unsigned writes) noexcept
	{
		rings = std::move(pair);
		if (!rings)
			return;
		out = rings.writer(writes);
		in = rings.reader(1 - writes);
	}

	void wake() noexcept
	{
		/* A full socket wakes as well, and a closed one does not matter. */
		(void)!send(sock.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}

	/* Can its memory be read? Then references are welcome. */
	void probe() noexcept;

	uint8_t *reserve(size_t len) noexcept;
	bool put_super(const snic_burst &burst, u32 at, u32 n, uint64_t lease,
		       snic_seg_iter &payload) noexcept;
	u32 push(const snic_burst &burst, Neighbours &self) noexcept;
	bool push(const DatagramHead &head, const uint8_t *data, size_t len, bool more) noexcept;
};

/* Lives as long as its table. */
struct Neighbours::Neighbour {
	const IpAddress addr;
	const uint32_t slot;
	Neighbour *const next;
	std::atomic<Connection *> connection{nullptr}; /* read under RCU */
	std::atomic<u64> retry_at{0};
};

/* A connection found while this lives is not freed. */
class Neighbours::Guard {
public:
	Guard() noexcept { port_rcu_read_lock(); }
	~Guard() { port_rcu_read_unlock(); }
	Guard(const Guard &) = delete;
	Guard &operator=(const Guard &) = delete;
};

/* Sending */

/* Room for @len bytes; null when there is none and the reader will say so. */
uint8_t *Neighbours::Connection::reserve(size_t len) noexcept
{
	if (uint8_t *at = out.reserve(len)) [[likely]] {
		full_since = 0;
		return at;
	}
	return out.want_room(len) ? out.reserve(len) : nullptr;
}

/* @pkt as a record of @body bytes and the ICRC, which nobody computes. */
static void put_packet(uint8_t *at, const snic_tx_pkt &pkt, size_t body,
		       snic_seg_iter &payload) noexcept
{
	constexpr uint64_t zero = 0;

	/* All of the header's room: what it does not fill is written over, or behind the record's end. */
	static_assert(sizeof(RecordHead) + sizeof(pkt.hdr) <= ring_align);
	memcpy(at, pkt.hdr, sizeof(pkt.hdr));
	snic_seg_copy(&payload, at + pkt.hdr_len, pkt.payload_len);
	/* Pad and ICRC, which may reach into the next record's head: that is not written yet. */
	static_assert(SIRDMA_ICRC_LEN + 3 <= sizeof(zero));
	memcpy(at + body - pkt.pad, &zero, sizeof(zero));
}

/* The next @len bytes of @it as pieces; how many. */
static u32 take_pieces(snic_seg_iter &it, size_t len, Piece *pieces) noexcept
{
	u32 n = 0;

	while (len) {
		const size_t run = std::min<size_t>(len, it.seg->len - it.off);

		pieces[n++] = {.addr = reinterpret_cast<uintptr_t>(it.seg->ptr) + it.off,
			       .len = run};
		len -= run;
		it.off += static_cast<u32>(run);
		if (it.off == it.seg->len) {
			++it.seg;
			it.off = 0;
		}
	}
	return n;
}

/* @n packets of @burst from @at on in one record; by reference under @lease, unless that is 0. */
bool Neighbours::Connection::put_super(const snic_burst &burst, u32 at, u32 n, uint64_t lease,
				       snic_seg_iter &payload) noexcept
{
	Piece pieces[SNIC_BURST_SEGS];
	snic_seg_iter behind = payload;
	snic_super super;

	snic_super_build(&burst, at, n, &super);

	SuperHead head = {
		.lease = lease,
		.payload_len = super.payload_len,
		.npieces = lease ? take_pieces(behind, super.payload_len, pieces) : 0,
		.npkts = super.npkts,
		.hdr_len = super.hdr_len,
		.pad = super.pad,
		.hdr = {},
	};
	const size_t body = lease ? head.npieces * sizeof(Piece) : super.payload_len;
	uint8_t *to = reserve(sizeof(head) + body);

	if (!to)
		return false;
	memcpy(head.hdr, super.hdr, sizeof(head.hdr));
	memcpy(to, &head, sizeof(head));
	if (lease) {
		memcpy(to + sizeof(head), pieces, body);
		payload = behind;
	} else {
		snic_seg_copy(&payload, to + sizeof(head), super.payload_len);
	}
	order_by_wire();
	out.commit({.len = static_cast<uint32_t>(sizeof(head) + body),
		    .kind = record_super,
		    .flags = at + n < burst.npkts ? record_more : uint16_t{0}});
	return true;
}

/* Payload of @n packets from @at on. */
static size_t payload_of(const snic_burst &burst, u32 at, u32 n) noexcept
{
	size_t bytes = 0;

	for (u32 i = at; i < at + n; ++i)
		bytes += burst.pkts[i].payload_len;
	return bytes;
}

u32 Neighbours::Connection::push(const snic_burst &burst, Neighbours &self) noexcept
{
	snic_seg_iter payload;
	bool wake_it;
	u32 i, n;

	snic_seg_iter_init(&payload, &burst);
	{
		std::lock_guard hold(tx_lock);
		const u32 takes = out.takes();
		const bool refer = takes & takes_references;

		for (i = 0; i < burst.npkts; i += n) {
			const snic_tx_pkt &pkt = burst.pkts[i];
			const size_t body = pkt.hdr_len + pkt.payload_len + pkt.pad;

			n = takes ? snic_super_run(&burst, i, refer ? SNIC_BURST_BYTES : copy_max) :
				    1;
			if (n > 1) {
				const bool lend = refer && payload_of(burst, i, n) >= reference_min;

				if (!put_super(burst, i, n, lend ? self.lend() : 0, payload))
					break;
			} else {
				uint8_t *at = reserve(body + SIRDMA_ICRC_LEN);

				if (!at)
					break;
				put_packet(at, pkt, body, payload);
				order_by_wire();
				out.commit(
					{.len = static_cast<uint32_t>(body + SIRDMA_ICRC_LEN),
					 .kind = record_packet,
					 .flags = i + 1 < burst.npkts ? record_more : uint16_t{0}});
			}
			if (out.unpublished() >= publish_bytes)
				out.publish();
		}
		out.publish();
		wake_it = i && out.must_wake();
		if (i < burst.npkts) {
			const u64 now = port_now_ns(nullptr);

			if (!full_since)
				full_since = now;
			/* What it does not take is lost, as on any wire: retries decide. */
			if (out.broken() || now - full_since > stuck_ns)
				i = burst.npkts;
		}
	}
	if (wake_it)
		wake();
	return i;
}

bool Neighbours::Connection::push(const DatagramHead &head, const uint8_t *data, size_t len,
				  bool more) noexcept
{
	std::unique_lock hold(tx_lock);
	uint8_t *at = out.reserve(sizeof(head) + len);

	if (!at)
		return false;
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), data, len);
	order_by_wire();
	out.commit({.len = static_cast<uint32_t>(sizeof(head) + len),
		    .kind = record_datagram,
		    .flags = more ? record_more : uint16_t{0}});
	out.publish();

	const bool wake_it = out.must_wake();

	hold.unlock();
	if (wake_it)
		wake();
	return true;
}

Neighbours::Neighbour *Neighbours::find(const IpAddress &addr, uint32_t slot) noexcept
{
	uint64_t words[2];

	memcpy(words, addr.ip().b, sizeof(words));

	const uint64_t hash = ((words[0] ^ words[1]) + slot) * 0x9e3779b97f4a7c15ull;
	std::atomic<Neighbour *> &bucket = nodes_[hash >> 56];
	const auto look = [&] {
		Neighbour *n = bucket.load(std::memory_order_acquire);

		while (n && !(n->addr == addr && n->slot == slot))
			n = n->next;
		return n;
	};

	if (Neighbour *n = look()) [[likely]]
		return n;
	std::lock_guard hold(nodes_lock_);
	if (Neighbour *n = look())
		return n;
	auto *n = new (std::nothrow) Neighbour{.addr = addr, .slot = slot, .next = bucket.load()};
	if (n)
		bucket.store(n, std::memory_order_release);
	return n;
}

/* Under a guard. */
Neighbours::Connection *Neighbours::connection(Neighbour &to) noexcept
{
	if (Connection *c = to.connection.load(std::memory_order_acquire)) [[likely]]
		return c;

	const u64 now = port_now_ns(nullptr);

	if (now < to.retry_at.load(std::memory_order_relaxed))
		return nullptr;
	std::lock_guard hold(connect_lock_);
	if (Connection *c = to.connection.load(std::memory_order_acquire))
		return c;
	Connection *c = connect(to);
	if (!c)
		to.retry_at.store(now + retry_ns, std::memory_order_relaxed);
	return c;
}

Neighbours::Connection *Neighbours::connect(Neighbour &to) noexcept
{
	Fd sock = rendezvous_connect(to.addr, to.slot);
	int file = -1;

	if (!sock)
		return nullptr;

	RingPair rings = RingPair::create(file);
	const Fd file_owner(file);
	const Hello hello = {
		.magic = hello_magic,
		.slot = slot_,
		.scope = addr_.scope(),
		.addr = addr_.ip(),
		.ring_bytes = ring_bytes,
	};

	if (!rings || !send_hello(sock.get(), hello, file))
		return nullptr;

	auto *c = new (std::nothrow) Connection(std::move(sock), std::move(rings), 0);

	if (!c)
		return nullptr;
	c->node = &to;
	set_up(*c);
	if (!watch(*c)) {
		delete c;
		return nullptr;
	}
	to.connection.store(c, std::memory_order_release);
	add_reader(c);
	return c;
}

bool Neighbours::transmit(const snic_burst &burst, u32 &sent) noexcept
{
	sirdma_bth bth;

	memcpy(&bth, burst.pkts[0].hdr, sizeof(bth));

	const u32 slot = slot_of(be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK);
	Neighbour *to = slot < num_slots ?
				find(IpAddress(burst.flow->dst_ip, addr_.scope()), slot) :
				nullptr;
	const Guard guard;
	Connection *c = to ? connection(*to) : nullptr;

	if (!c)
		return false;
	sent = c->push(burst, *this);
	return true;
}

bool Neighbours::forward(uint32_t slot, const Path &path, const uint8_t *data, size_t len,
			 u32 index, bool more) noexcept
{
	const DatagramHead head = {
		.src = path.src.ip(),
		.scope = path.src.scope(),
		.sport = path.sport,
		.index = static_cast<uint16_t>(index),
	};
	Neighbour *to = slot < num_slots ? find(addr_, slot) : nullptr;
	const Guard guard;
	Connection *c = to ? connection(*to) : nullptr;

	return c && c->push(head, data, len, more);
}

/* Receiving */

void Neighbours::add_reader(Connection *c) noexcept
{
	std::lock_guard hold(fresh_lock_);

	fresh_.push_back(c);
	fresh_waiting_.store(true, std::memory_order_release);
	fresh_any_.store(true);
	readers_used_.store(true, std::memory_order_relaxed);
}

void Neighbours::take_fresh() noexcept
{
	if (!fresh_waiting_.load(std::memory_order_acquire)) [[likely]]
		return;
	std::lock_guard hold(fresh_lock_);
	readers_.insert(readers_.end(), fresh_.begin(), fresh_.end());
	fresh_.clear();
	fresh_waiting_.store(false, std::memory_order_relaxed);
}

void Neighbours::Connection::probe() noexcept
{
	uint64_t word;
	const iovec to = {.iov_base = &word, .iov_len = sizeof(word)};
	const iovec from = {.iov_base = reinterpret_cast<void *>(in.lease_at()),
			    .iov_len = sizeof(word)};

	probed = true;
	if (pid && from.iov_base &&
	    process_vm_readv(pid, &to, 1, &from, 1, 0) == ssize_t(sizeof(word)))
		in.set_takes(takes_supers | takes_references);
}

bool Neighbours::pull(snic_seg_iter &it, void *to, size_t len) noexcept
{
	Connection &c = *lender_;
	uint64_t word = 0;
	Piece pieces[SNIC_BURST_SEGS];
	iovec from[SNIC_BURST_SEGS + 1];
	const u32 n = take_pieces(it, len, pieces);
	const iovec into[] = {{.iov_base = to, .iov_len = len},
			      {.iov_base = &word, .iov_len = sizeof(word)}};

	for (u32 i = 0; i < n; ++i)
		from[i] = {.iov_base = reinterpret_cast<void *>(pieces[i].addr),
			   .iov_len = pieces[i].len};
	/* Read last: it was valid when the bytes were read if it is then. */
	from[n] = {.iov_base = reinterpret_cast<void *>(c.in.lease_at()), .iov_len = sizeof(word)};
	if (process_vm_readv(c.pid, into, std::size(into), from, n + 1, 0) !=
	    ssize_t(len + sizeof(word))) {
		c.in.set_takes(takes_supers);
		return false;
	}
	if (word == lease_wanted_) {
		c.stale = 0;
		return true;
	}
	if (++c.stale >= stale_max)
		c.in.set_takes(takes_supers);
	return false;
}

/* False when the record breaks the rules. */
bool Neighbours::receive_super(Connection &c, const uint8_t *data, size_t len, bool more,
			       PacketSink &sink) noexcept
{
	static uint8_t zero[8];
	snic_seg segs[SNIC_BURST_SEGS + 2];
	SuperHead head;
	u32 n = 0;

	if (len < sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	len -= sizeof(head);
	if (head.hdr_len > sizeof(head.hdr) || !head.npkts || head.npkts > SNIC_BURST_PKTS ||
	    head.payload_len > SNIC_BURST_BYTES || head.pad > 3)
		return false;
	segs[n++] = {.ptr = head.hdr, .len = head.hdr_len};
	if (head.lease) {
		u64 sum = 0;

		if (head.npieces > SNIC_BURST_SEGS || len != head.npieces * sizeof(Piece))
			return false;
		for (u32 i = 0; i < head.npieces; ++i) {
			Piece piece;

			memcpy(&piece, data + i * sizeof(piece), sizeof(piece));
			if (!piece.len || piece.len > head.payload_len - sum)
				return false;
			sum += piece.len;
			segs[n++] = {.ptr = reinterpret_cast<void *>(piece.addr),
				     .len = static_cast<u32>(piece.len)};
		}
		if (sum != head.payload_len)
			return false;
	} else {
		if (len != head.payload_len)
			return false;
		segs[n++] = {.ptr = const_cast<uint8_t *>(data), .len = head.payload_len};
		if (!c.probed)
			c.probe();
	}
	/* Pad and ICRC. */
	segs[n++] = {.ptr = zero, .len = sizeof(zero)};
	lender_ = &c;
	lease_wanted_ = head.lease;
	sink.packet(c.node->addr,
		    {.segs = {segs, n},
		     .len = head.hdr_len + head.payload_len + head.pad + SIRDMA_ICRC_LEN,
		     .payload_len = head.payload_len,
		     .npkts = head.npkts,
		     .by_reference = head.lease != 0},
		    more);
	return true;
}

u32 Neighbours::receive_from(Connection &c, PacketSink &sink) noexcept
{
	if (!c.in.waiting())
		return 0;

	/* What a packet needs is found under RCU: entered once, for all of them. */
	const Guard guard;
	RecordHead head;
	u32 n;

	for (n = 0; n < share; ++n) {
		uint8_t *data = c.in.peek(head);

		if (!data)
			break;
		order_by_wire();

		const bool more = head.flags & record_more;

		if (head.kind == record_packet) {
			sink.packet(c.node->addr, data, head.len, more);
		} else if (head.kind == record_super) {
			receive_super(c, data, head.len, more, sink);
		} else if (head.kind == record_datagram && head.len > sizeof(DatagramHead)) {
			DatagramHead from;

			memcpy(&from, data, sizeof(from));
			sink.datagram({.src = IpAddress(from.src, from.scope),
				       .dst = addr_,
				       .sport = from.sport,
				       .dport = SIRDMA_ROCE_UDP_PORT},
				      data + sizeof(from), head.len - sizeof(from), from.index,
				      more);
		}
		c.in.next();
		if (c.in.unreleased() >= release_bytes && c.in.release() && c.out.must_wake())
			c.wake();
	}
	if (!n)
		return 0;
	sink.end_turn();
	if (c.in.release() && c.out.must_wake())
		c.wake();
	return n;
}

u32 Neighbours::receive(PacketSink &sink) noexcept
{
	u32 n = 0;

	if (unused())
		return 0;
	take_fresh();
	for (size_t i = 0; i < readers_.size(); ++i)
		n += receive_from(*readers_[i], sink);
	return n;
}

bool Neighbours::fall_asleep() noexcept
{
	bool quiet = true;

	take_fresh();
	for (Connection *c : readers_)
		quiet = c->in.fall_asleep() && quiet;
	return quiet;
}

void Neighbours::wake_up() noexcept
{
	for (Connection *c : readers_)
		c->in.wake_up();
}

/* Coming and going */

Neighbours::Neighbours(const IpAddress &addr, bool supers) noexcept
	: addr_(addr), supers_(supers), lease_(std::random_device()() | 1ull << 32)
{
}

std::unique_ptr<Neighbours> Neighbours::create(const IpAddress &addr, bool supers)
{
	std::unique_ptr<Neighbours> self(new Neighbours(addr, supers));
	epoll_event event{};

	for (; self->slot_ < num_slots; ++self->slot_) {
		self->listener_ = rendezvous_listen(addr, self->slot_);
		if (self->listener_)
			break;
		if (errno != EADDRINUSE)
			return nullptr;
	}
	if (!self->listener_) {
		errno = EADDRNOTAVAIL;
		return nullptr;
	}
	self->events_ = Fd(epoll_create1(EPOLL_CLOEXEC));
	event.events = EPOLLIN;
	event.data.ptr = nullptr;
	if (!self->events_ ||
	    epoll_ctl(self->events_.get(), EPOLL_CTL_ADD, self->listener_.get(), &event))
		return nullptr;
	return self;
}

Neighbours::~Neighbours()
{
	for (std::vector<Connection *> *list : {&readers_, &fresh_})
		for (Connection *c : *list)
			delete c;
	for (std::atomic<Neighbour *> &bucket : nodes_) {
		for (Neighbour *n = bucket.load(), *next; n; n = next) {
			next = n->next;
			delete n;
		}
	}
}

/* What either side wants to know before it sends or reads by reference. */
void Neighbours::set_up(Connection &c) noexcept
{
	ucred peer;
	socklen_t len = sizeof(peer);

	if (!getsockopt(c.sock.get(), SOL_SOCKET, SO_PEERCRED, &peer, &len))
		c.pid = peer.pid;
	c.out.set_lease(&lease_);
	if (supers_)
		c.in.set_takes(takes_supers);
}

bool Neighbours::watch(Connection &c) noexcept
{
	epoll_event event{};

	event.events = EPOLLIN | EPOLLRDHUP;
	event.data.ptr = &c;
	return !epoll_ctl(events_.get(), EPOLL_CTL_ADD, c.sock.get(), &event);
}

void Neighbours::accept_all() noexcept
{
	while (Fd sock = rendezvous_accept(listener_.get())) {
		auto c = std::make_unique<Connection>(std::move(sock), RingPair(), 1);

		if (watch(*c))
			strangers_.push_back(std::move(c));
	}
}

/* The first message of an accepted connection; false when it cannot be served. */
bool Neighbours::greet(Connection &c) noexcept
{
	Hello hello;
	Fd file;

	if (!receive_hello(c.sock.get(), hello, file))
		return errno == EAGAIN;

	const auto at = std::find_if(strangers_.begin(), strangers_.end(),
				     [&](const auto &s) { return s.get() == &c; });

	c.attach(RingPair::map(file.get()), 1);
	c.node = find(IpAddress(hello.addr, hello.scope), hello.slot);
	if (!c.rings || !c.node || at == strangers_.end())
		return false;
	set_up(c);
	(void)at->release();
	strangers_.erase(at);

	/* Unless we connected as well, it serves both ways. */
	Connection *none = nullptr;

	c.node->connection.compare_exchange_strong(none, &c);
	add_reader(&c);
	return true;
}

/* Take the bytes that woke us; false when the neighbour is gone or breaks the rules. */
bool Neighbours::alive(Connection &c) noexcept
{
	char bytes[16];
	ssize_t n;

	if (!c.rings)
		return greet(c);
	do
		n = recv(c.sock.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
	while (n > 0);
	return n < 0 && (errno == EAGAIN || errno == EINTR) && !c.in.broken();
}

/* What it had sent is taken; nobody finds it any more; then nobody has it. */
void Neighbours::remove(Connection *c, PacketSink &sink) noexcept
{
	Connection *self = c;

	if (c->node) {
		c->node->connection.compare_exchange_strong(self, nullptr);
		c->node->retry_at.store(0, std::memory_order_relaxed);
	}
	take_fresh();
	if (std::erase(readers_, c))
		while (receive_from(*c, sink))
			;
	if (std::erase_if(strangers_, [&](const auto &s) { return s.get() == c; }))
		return;
	port_rcu_wait_and_free(port_alloc(1));
	delete c;
}

void Neighbours::serve(PacketSink &sink) noexcept
{
	epoll_event events[32];
	const int n = epoll_wait(events_.get(), events, std::size(events), 0);

	for (int i = 0; i < n; ++i) {
		auto *c = static_cast<Connection *>(events[i].data.ptr);

		if (!c)
			accept_all();
		else if (!alive(*c))
			remove(c, sink);
	}
}

} // namespace sirdma::twin
