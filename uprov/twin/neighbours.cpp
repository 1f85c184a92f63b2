/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "neighbours.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "file_message.hpp"
#include "hello.hpp"
#include "no_cancel.hpp"
#include "ticks.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * Do not retry a failed connect for 200 ms: a connect takes some system calls, and packets would make
 * one each. A process that starts meanwhile gets them by UDP, or by the transport's next retry.
 */
constexpr u64 retry_ns = 200000000;
/*
 * What was sent before a neighbour refused the connection is lost. This time doubles with each connection that it
 * refuses, so often, up to 51 s: a neighbour that has become another user refuses all of them.
 */
constexpr u32 retry_doublings = 8;
/*
 * The time that finish_leases() waits for readers. A reader reads references within a time slice of
 * the scheduler, unless it is stopped or its processor is very busy; then its lease ends.
 */
constexpr u64 delivery_ns = 10000000;
/*
 * The time between two looks at the rings. A ring that was idle from one to the next gives its memory
 * back, and gets it again by page faults: about 100 us for all of it, so the pauses must be long.
 */
constexpr u64 trim_ns = 200000000;
/* Wake-up bytes of a neighbour that are read at once. */
constexpr int wakes_at_once = 64;

} // namespace

/* Sending */

Neighbour *Neighbours::find(const IpAddress &addr, uint32_t slot) noexcept
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

/* The caller holds a guard. */
Connection *Neighbours::connection(Neighbour &to) noexcept
{
	if (Connection *c = to.connection.load(std::memory_order_acquire)) [[likely]]
		return c;

	const u64 now = port_now_ns(nullptr);

	if (now < to.retry_at.load(std::memory_order_relaxed))
		return nullptr;
	const NoCancel no_cancel;
	std::lock_guard hold(connect_lock_);
	if (Connection *c = to.connection.load(std::memory_order_acquire))
		return c;
	Connection *c = connect(to);
	if (!c)
		to.retry_at.store(now + retry_ns, std::memory_order_relaxed);
	return c;
}

Connection *Neighbours::connect(Neighbour &to) noexcept
{
	/*
	 * A process that has changed its user uses UDP, since neighbours would refuse it. But only by a connection the owner
	 * of the port can forward a datagram to a process of the same address, which may have changed its user as well.
	 */
	const Trust trust = to.addr == addr_ ? Trust::opener_if_root : Trust::this_user;
	Fd sock = rendezvous_connect(to.addr, to.slot, opener_, trust);
	int file = -1;

	if (!sock)
		return nullptr;

	RingPair rings = RingPair::create(file);
	const Fd file_owner(file);
	const Hello hello = {
		.slot = slot_,
		.scope = addr_.scope(),
		.addr = addr_.ip(),
	};

	if (!rings || !send_hello(sock.get(), hello, file))
		return nullptr;

	auto *c = new (std::nothrow) Connection(std::move(sock));

	if (!c)
		return nullptr;
	c->node = &to;
	c->attach(std::move(rings), 0, supers_);
	if (!room_for_reader() || !watch(c->fd(), c)) {
		delete c;
		return nullptr;
	}
	grants_.add(*c);
	to.connection.store(c, std::memory_order_release);
	add_reader(c);
	return c;
}

bool Neighbours::transmit(snic_burst &burst, u32 &sent) noexcept
{
	sirdma_bth bth;

	memcpy(&bth, burst.pkts[0].hdr, sizeof(bth));

	const u32 slot = slot_of(be32_to_cpu(bth.qpn) & SIRDMA_QPN_MASK);
	Neighbour *to = slot < num_slots ?
				find(IpAddress(burst.flow->dst_ip, addr_.scope()), slot) :
				nullptr;
	const RcuGuard guard;
	Connection *c = to ? connection(*to) : nullptr;

	if (!c)
		return false;
	ask_for_trim();
	sent = c->push(burst);
	if (c->broken()) [[unlikely]]
		tell_helper();
	return true;
}

bool Neighbours::forward(uint32_t slot, const Path &path, const uint8_t *data, size_t len,
			 u32 index, bool more) noexcept
{
	Neighbour *to = slot < num_slots ? find(addr_, slot) : nullptr;
	const RcuGuard guard;
	Connection *c = to ? connection(*to) : nullptr;

	if (!c)
		return false;
	ask_for_trim();
	return c->push(path, data, len, index, more);
}

/* The helper clears the flag seldom, so nearly all calls only read it. */
void Neighbours::ask_for_trim() noexcept
{
	if (!trim_asked_.load(std::memory_order_relaxed)) [[unlikely]]
		trim_asked_.store(true, std::memory_order_relaxed);
}

u64 Neighbours::ns_until_trim() noexcept
{
	if (!trim_at_ && !trim_asked_.load(std::memory_order_relaxed))
		return ~0ull;

	const u64 now = port_now_ns(nullptr);

	if (!trim_at_) {
		trim_asked_.store(false, std::memory_order_relaxed);
		trim_at_ = now + trim_ns;
	}
	return trim_at_ - std::min(now, trim_at_);
}

void Neighbours::trim() noexcept
{
	if (!trim_at_ || port_now_ns(nullptr) < trim_at_)
		return;

	bool again = false;
	const RcuGuard guard;

	for_each_neighbour([&](const std::atomic<Connection *> &connection) {
		Connection *const c = connection.load(std::memory_order_acquire);

		if (!c)
			return;
		c->access().unmap_closed();
		again = c->trim() || c->access().has_retired() || again;
		if (c->broken()) [[unlikely]]
			tell_helper();
	});
	trim_at_ = again ? port_now_ns(nullptr) + trim_ns : 0;
}

/* @what gets the connection, or null, of each neighbour. */
template <typename Do> void Neighbours::for_each_neighbour(Do what) noexcept
{
	for (const std::atomic<Neighbour *> &bucket : nodes_)
		for (Neighbour *n = bucket.load(std::memory_order_acquire); n; n = n->next)
			what(n->connection);
}

void Neighbours::finish_leases() noexcept
{
	if (unused())
		return;

	const u64 until = port_now_ns(nullptr) + delivery_ns;

	for_each_neighbour([&](const std::atomic<Connection *> &connection) {
		if (!connection.load(std::memory_order_relaxed))
			return;

		const CountedConnection c([&] {
			Connection *const now = connection.load(std::memory_order_acquire);

			return now && now->lease().in_use() ? now : nullptr;
		});

		if (c)
			c->lease().finish(until);
	});
}

/* One-sided access */

/* Null: there is none yet. The caller holds a guard. */
Connection *Neighbours::connection_for(const snic_one_sided &request) noexcept
{
	const u32 slot = slot_of(request.dest_qpn);
	Neighbour *to = slot < num_slots ?
				find(IpAddress(request.flow->dst_ip, addr_.scope()), slot) :
				nullptr;

	return to ? to->connection.load(std::memory_order_acquire) : nullptr;
}

OneSidedWay Neighbours::execute_mapped(const snic_one_sided &request) noexcept
{
	const RcuGuard guard;
	Connection *c = connection_for(request);

	return c ? c->access().execute_mapped(request) : OneSidedWay::packets;
}

/* The copy may wait for a page of the target. port_rcu_wait() does not wait for this thread meanwhile. */
OneSidedWay Neighbours::execute(const snic_one_sided &request) noexcept
{
	const CountedConnection c([&] { return connection_for(request); });

	if (!c)
		return OneSidedWay::packets;

	const u32 guards = port_rcu_suspend();
	const OneSidedWay done = c->access().execute(request);

	port_rcu_resume(guards);
	if (c->access().has_retired())
		ask_for_trim();
	return done;
}

void Neighbours::finish_accesses() noexcept
{
	if (!grants_.finish())
		tell_helper();
}

void Neighbours::ask_to_unmap() noexcept
{
	const RcuGuard guard;

	grants_.ask_to_unmap();
}

/* Receiving */

/* Reserve for two readers: the connecting thread and the helper may each add one. */
bool Neighbours::room_for_reader() noexcept
{
	std::lock_guard hold(fresh_lock_);

	try {
		fresh_.reserve(fresh_.size() + 2);
		return true;
	} catch (const std::bad_alloc &) {
		return false;
	}
}

/* Call this after room_for_reader(). */
void Neighbours::add_reader(Connection *c) noexcept
{
	std::lock_guard hold(fresh_lock_);

	fresh_.push_back(c);
	fresh_waiting_.store(true, std::memory_order_release);
	readers_used_.store(true, std::memory_order_relaxed);
	tell_helper();
}

void Neighbours::tell_helper() noexcept
{
	const uint64_t one = 1;

	/* If the counter is full, the helper is notified already. */
	(void)!raw_syscall::write(news_.get(), &one, sizeof(one));
}

void Neighbours::take_fresh() noexcept
{
	if (!fresh_waiting_.load(std::memory_order_acquire)) [[likely]]
		return;
	std::lock_guard hold(fresh_lock_);
	try {
		readers_.insert(readers_.end(), fresh_.begin(), fresh_.end());
	} catch (const std::bad_alloc &) {
		return; /* try again next time */
	}
	fresh_.clear();
	fresh_waiting_.store(false, std::memory_order_relaxed);
}

u32 Neighbours::receive_from(Connection &c, PacketSink &sink) noexcept
{
	if (!c.waiting())
		return 0;

	/* Packets look up objects under RCU: enter RCU once for all of them. */
	const RcuGuard guard;

	sender_ = &c;

	const u32 n = c.receive(addr_, sink, share);

	if (c.broken()) [[unlikely]]
		tell_helper();
	return n;
}

/* Receive from the idle reader @at. If it has sent something it is idle no more. */
u32 Neighbours::receive_from_idle(size_t at, PacketSink &sink) noexcept
{
	const u32 n = receive_from(*readers_[at], sink);

	if (n) {
		readers_[at]->quiet = 0;
		std::swap(readers_[at], readers_[busy_++]);
	}
	return n;
}

u32 Neighbours::receive(PacketSink &sink, bool all, bool paused) noexcept
{
	u32 n = 0;

	if (unused())
		return 0;
	take_fresh();
	for (size_t i = 0; i < busy_; ++i) {
		Connection &c = *readers_[i];
		const u32 got = receive_from(c, sink);

		n += got;
		c.quiet = got ? 0 : c.quiet + 1;
		if (c.quiet > quiet_max) {
			/* Return the last part of the room too, so that the writer can trim(). */
			c.release();
			std::swap(readers_[i--], readers_[--busy_]);
		}
	}
	/* Records of busy neighbours are work enough for this call. */
	if (!n && readers_.size() - busy_ > 1 && (paused || !(++empty_calls_ % calls_to_clock))) {
		const u64 now = ticks();

		all = all || now - polled_all_at_ > idle_ticks_;
		if (all)
			polled_all_at_ = now;
	}
	if (all) {
		for (size_t i = busy_; i < readers_.size(); ++i)
			n += receive_from_idle(i, sink);
		return n;
	}
	/* Others may have joined the busy ones, or have been removed. */
	if (next_idle_ < busy_ || next_idle_ >= readers_.size())
		next_idle_ = busy_;
	if (next_idle_ < readers_.size())
		n += receive_from_idle(next_idle_++, sink);
	return n;
}

bool Neighbours::fall_asleep() noexcept
{
	take_fresh();
	for (Connection *c : readers_)
		c->fall_asleep();
	/* Partner: RingWriter::must_wake(). */
	smp_mb();
	return std::none_of(readers_.begin(), readers_.end(),
			    [](const Connection *c) { return c->waiting(); });
}

void Neighbours::wake_up() noexcept
{
	for (Connection *c : readers_)
		c->wake_up();
}

/* Coming and going */

Neighbours::Neighbours(const IpAddress &addr, bool supers) noexcept
	: addr_(addr), supers_(supers), idle_ticks_(idle_us * ticks_per_us())
{
}

std::unique_ptr<Neighbours> Neighbours::create(const IpAddress &addr, bool supers)
{
	std::unique_ptr<Neighbours> self(new Neighbours(addr, supers));

	for (; self->slot_ < num_slots; ++self->slot_) {
		self->listener_ = rendezvous_listen(addr, self->slot_, self->opener_);
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
	self->news_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	self->spare_ = spare_file();
	if (!self->events_ || !self->news_ ||
	    !self->watch(self->listener_.get(), &self->listener_) ||
	    !self->watch(self->news_.get(), &self->news_))
		return nullptr;
	return self;
}

Neighbours::~Neighbours()
{
	for (std::vector<Connection *> *list : {&readers_, &fresh_})
		for (Connection *c : *list)
			c->put();
	for (std::atomic<Neighbour *> &bucket : nodes_) {
		for (Neighbour *n = bucket.load(), *next; n; n = next) {
			next = n->next;
			delete n;
		}
	}
}

bool Neighbours::watch(int fd, void *what) noexcept
{
	epoll_event event{};

	event.events = EPOLLIN | EPOLLRDHUP;
	event.data.ptr = what;
	return !epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event);
}

/* A child may keep the socket open, so closing it would not remove it from epoll. */
void Neighbours::unwatch(const Connection &c) noexcept
{
	epoll_ctl(events_.get(), EPOLL_CTL_DEL, c.fd(), nullptr);
}

/* Accept a batch of connections. If there are more, the listener stays readable. */
void Neighbours::accept_some() noexcept
{
	uint64_t refused = 0;

	for (size_t i = 0; i < strangers_max; ++i) {
		Fd sock = rendezvous_accept(listener_.get(), spare_, refused, opener_);

		if (!sock)
			break;
		/*
		 * A process sends its hello as soon as it has connected. The oldest process did
		 * not: drop its connection.
		 */
		if (strangers_.size() == strangers_max) {
			unwatch(*strangers_.front());
			strangers_.erase(strangers_.begin());
			++refused;
		}

		/* If memory is short the connection is dropped; the peer retries. */
		std::unique_ptr<Connection> c(new (std::nothrow) Connection(std::move(sock)));

		try {
			if (c) {
				strangers_.reserve(strangers_max);
				if (watch(c->fd(), c.get()))
					strangers_.push_back(std::move(c));
			}
		} catch (const std::bad_alloc &) {
		}
	}
	refused_.fetch_add(refused, std::memory_order_relaxed);
}

bool Neighbours::refuse() noexcept
{
	refused_.fetch_add(1, std::memory_order_relaxed);
	return false;
}

/* Receive the hello of an accepted connection. Returns false if the connection cannot be used. */
bool Neighbours::greet(Connection &c) noexcept
{
	Hello hello;
	Fd file;

	if (!receive_hello(c.fd(), hello, file))
		return errno == EAGAIN || (errno != ENOTCONN && refuse());

	const IpAddress addr(hello.addr, hello.scope);

	if (!rendezvous_is(c.fd(), addr, hello.slot, opener_))
		return refuse();

	const auto at = std::find_if(strangers_.begin(), strangers_.end(),
				     [&](const auto &s) { return s.get() == &c; });

	Neighbour *node = find(addr, hello.slot);

	if (!node || at == strangers_.end())
		return refuse();
	take_fresh();
	if (std::count_if(readers_.begin(), readers_.end(),
			  [node](const Connection *r) { return r->node == node; }) >= per_name ||
	    !room_for_reader())
		return refuse();
	/* The peer takes attached rings for an accepted connection, so nothing is refused any more. */
	c.attach(RingPair::map(file.get()), 1, supers_);
	if (!c.attached())
		return refuse();
	c.node = node;
	(void)at->release();
	strangers_.erase(at);
	grants_.add(c);

	/* The connection serves both directions, unless this process has connected as well. */
	Connection *none = nullptr;

	c.node->connection.compare_exchange_strong(none, &c);
	add_reader(&c);
	return true;
}

/*
 * Read the wake-up bytes, and the table that comes with one. Returns false if the neighbour died or
 * violates the protocol.
 */
bool Neighbours::alive(Connection &c) noexcept
{
	char bytes[16];
	ssize_t n = 1;

	if (!c.attached())
		return greet(c);
	/* A neighbour that sends more than this without a reason only wakes this process again. */
	for (int i = 0; i < wakes_at_once && n > 0; ++i) {
		Fd file;

		n = receive_with_file(c.fd(), bytes, sizeof(bytes), file);
		if (n > 0 && file && grants_.any())
			c.access().take_table(file);
	}

	const bool is_alive = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));

	c.access().unmap_closed();
	if (c.access().has_retired() && !trim_at_)
		trim_at_ = port_now_ns(nullptr) + trim_ns;
	return is_alive;
}

/* The readers before busy_ stay before it. Returns false if @c is no reader. */
bool Neighbours::remove_reader(Connection *c) noexcept
{
	const auto at = std::find(readers_.begin(), readers_.end(), c);

	if (at == readers_.end())
		return false;
	busy_ -= at - readers_.begin() < static_cast<ptrdiff_t>(busy_);
	readers_.erase(at);
	return true;
}

/* The time of the next connection to the neighbour of @c, which ends; 0: at once. */
u64 Neighbours::retry_at(const Connection &c) noexcept
{
	u32 &refusals = c.node->refusals;

	if (c.broken())
		return port_now_ns(nullptr) + retry_ns;
	if (c.accepted()) {
		refusals = 0;
		return 0;
	}

	const u64 wait = retry_ns << refusals;

	refusals = std::min(refusals + 1, retry_doublings);
	return port_now_ns(nullptr) + wait;
}

/*
 * Deliver the records that the neighbour had sent, unlink the connection, and free it after a grace
 * period.
 */
void Neighbours::remove(Connection *c, PacketSink &sink) noexcept
{
	Connection *self = c;

	unwatch(*c);
	{
		/*
		 * A connecting thread adds the connection to epoll before it is visible to others.
		 */
		std::lock_guard hold(connect_lock_);
	}
	/* End the lease while finish_leases() can still find the connection. */
	c->lease().close();
	grants_.remove(*c);
	if (c->node) {
		/* A thread that finds no connection finds this. */
		c->node->retry_at.store(retry_at(*c), std::memory_order_relaxed);
		c->node->connection.compare_exchange_strong(self, nullptr);
	}
	take_fresh();

	bool reader = remove_reader(c);

	if (!reader) {
		/* If memory was short, the connection is still in fresh_. */
		std::lock_guard hold(fresh_lock_);

		reader = std::erase(fresh_, c);
	}
	/*
	 * Read at most one ring: the neighbour may be alive and keep writing. No record has more packets than a stream of
	 * SNIC_BURST_PKTS, which has less than four in each ring_align bytes.
	 */
	if (reader)
		for (u32 n = 0, got = 1; got && n < 4 * ring_bytes / ring_align; n += got)
			got = receive_from(*c, sink);
	if (std::erase_if(strangers_, [&](const auto &s) { return s.get() == c; }))
		return;
	port_rcu_wait();
	c->put();
}

void Neighbours::hang_up_on_broken(PacketSink &sink) noexcept
{
	uint64_t count;

	(void)!read(news_.get(), &count, sizeof(count));
	take_fresh();
	for (size_t i = readers_.size(); i--;) {
		if (!readers_[i]->broken())
			continue;
		refuse();
		remove(readers_[i], sink);
	}
}

void Neighbours::serve(PacketSink &sink) noexcept
{
	epoll_event events[32];
	const int n = epoll_wait(events_.get(), events, std::size(events), 0);

	bool accept = false, news = false;

	for (int i = 0; i < n; ++i) {
		void *what = events[i].data.ptr;

		if (what == &listener_)
			accept = true;
		else if (what == &news_)
			news = true;
		else if (auto *c = static_cast<Connection *>(what); !alive(*c))
			remove(c, sink);
	}
	/* Do these last, because they free connections that earlier events may name. */
	if (news)
		hang_up_on_broken(sink);
	if (accept)
		accept_some();
}

} // namespace sirdma::twin
