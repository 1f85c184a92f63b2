/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "cm/service.hpp"

#include <cerrno>
#include <csignal>
#include <endian.h>
#include <new>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <system_error>

#include <sirdma/roce.h>

#include "device.hpp"
#include "next_hop.hpp"
#include "no_cancel.hpp"
#include "rendezvous.hpp"

namespace sirdma::twin::cm
{

namespace
{

/*
 * The last service that was made, perhaps by a parent: then its thread is not here. It is never
 * freed.
 */
std::atomic<Service *> last{nullptr};
std::mutex making; /* a child initialises it again */

__attribute__((constructor)) void hook_fork() noexcept
{
	port_on_fork([] { new (&making) std::mutex; });
}

} // namespace

/* ForwardedRequests */

void ForwardedRequests::add(const Key &key, u32 service) noexcept
{
	try {
		const auto [entry, is_new] = services_.insert_or_assign(key, service);

		if (!is_new)
			return;
		order_.push_back(entry);
	} catch (const std::bad_alloc &) {
		/* If there is no entry, a reject cannot be forwarded: the request times out. */
		services_.erase(key);
		return;
	}
	if (order_.size() > requests_max) {
		services_.erase(order_.front());
		order_.pop_front();
	}
}

u32 ForwardedRequests::service_of(const Key &key) const noexcept
{
	const auto known = services_.find(key);

	return known == services_.end() ? 0 : known->second;
}

void ForwardedRequests::forget(const Port &port) noexcept
{
	std::erase_if(order_, [&](const Services::iterator &entry) {
		if (entry->first.port != &port)
			return false;
		services_.erase(entry);
		return true;
	});
}

Service::Service() : agent_(*this)
{
	/* A span of them stays valid while devices are added. */
	ports_.reserve(devices_max);
}

Service *Service::existing() noexcept
{
	Service *service = last.load(std::memory_order_acquire);

	return service && port_process_is(service->process_) ? service : nullptr;
}

Service *Service::of_process() noexcept
{
	if (Service *service = existing())
		return service;
	(void)port_process();

	std::lock_guard hold(making);

	if (Service *service = existing())
		return service;
	try {
		std::unique_ptr<Service> service(new Service);

		if (!service->start())
			return nullptr;
		last.store(service.get(), std::memory_order_release);
		return service.release();
	} catch (const std::bad_alloc &) {
		errno = ENOMEM;
		return nullptr;
	}
}

bool Service::watch(int fd, bool edge) noexcept
{
	/*
	 * A child may have a copy of a claim that this process closed, which then stays in the
	 * set: edges keep it from being reported for ever.
	 */
	epoll_event event = {.events = edge ? EPOLLIN | EPOLLET : EPOLLIN, .data = {.fd = fd}};

	return !epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event);
}

/* A change makes epoll report the listener once more if connections still wait. */
void Service::watch_again(int listener) noexcept
{
	epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.fd = listener}};

	(void)epoll_ctl(events_.get(), EPOLL_CTL_MOD, listener, &event);
}

bool Service::start() noexcept
{
	sigset_t all, old;
	bool ok = true;

	events_ = Fd(epoll_create1(EPOLL_CLOEXEC));
	wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	spare_ = spare_file();
	if (!events_ || !wake_ || !watch(wake_.get(), false))
		return false;
	/* The application's signals must not be delivered to this thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	try {
		thread_ = std::thread([this] { run(); });
	} catch (const std::system_error &) {
		errno = EAGAIN;
		ok = false;
	} catch (const std::bad_alloc &) {
		errno = ENOMEM;
		ok = false;
	}
	pthread_sigmask(SIG_SETMASK, &old, nullptr);
	if (ok)
		pthread_setname_np(thread_.native_handle(), "sirdma-cm");
	return ok;
}

void Service::wake() noexcept
{
	const u64 one = 1;

	(void)!raw_syscall::write(wake_.get(), &one, sizeof(one));
}

u64 Service::now_ns() noexcept
{
	return port_now_ns(nullptr);
}

void Service::run() noexcept
{
	epoll_event events[16];

	for (;;) {
		const u64 due = agent_.next_due(), now = now_ns();
		const u64 wait_ms = due == Agent::never_due ? 0 :
				    due > now		    ? (due - now) / ns_per_ms + 1 :
							      0;
		const int wait = due == Agent::never_due ?
					 -1 :
					 static_cast<int>(std::min<u64>(wait_ms, 60'000));
		const int n = epoll_wait(events_.get(), events, std::size(events), wait);

		for (int i = 0; i < n; ++i) {
			const int fd = events[i].data.fd;
			u64 count;

			if (fd == wake_.get())
				(void)!read(fd, &count, sizeof(count));
			else if (connections_.contains(fd))
				take_forwarded(fd);
			else
				take_connections(fd);
		}
		empty_inbox();
		agent_.expire();
	}
}

/* From the wire */

void Service::deliver(Port &port, const IpAddress &src, const sirdma_mad &mad) noexcept
{
	{
		std::lock_guard hold(inbox_lock_);

		if (inbox_.size() >= inbox_max) {
			agent_.count(Counter::cm_overruns);
			return;
		}
		try {
			inbox_.push_back({&port, src, mad});
		} catch (const std::bad_alloc &) {
			agent_.count(Counter::cm_overruns);
			return;
		}
	}
	wake();
}

/* Handle timers and messages of other processes even if the wire never pauses. */
void Service::empty_inbox() noexcept
{
	std::lock_guard routing(routing_lock_);

	for (unsigned n = 0; n < messages_at_once; ++n) {
		Arrival arrival;
		{
			std::lock_guard hold(inbox_lock_);

			if (inbox_.empty())
				return;
			arrival = inbox_.front();
			inbox_.pop_front();
		}
		route(arrival);
	}
	wake();
}

void Service::route(const Arrival &arrival) noexcept
{
	if (agent_.serves(*arrival.port, arrival.src, arrival.mad))
		agent_.receive(*arrival.port, arrival.src, arrival.mad);
	else if (!forward(arrival))
		agent_.refuse(*arrival.port, arrival.src, arrival.mad);
}

/* The name of the process that gets @arrival; 0: there is none. */
u32 Service::name_for(const Arrival &arrival) noexcept
{
	const u32 receiver = Agent::receiver_of(arrival.mad);
	u64 guid;
	u32 id;

	if (receiver)
		return slot_name | Agent::slot_of_id(receiver);
	if (!Agent::names_request(arrival.mad, guid, id))
		return Agent::service_of(arrival.mad);
	if (be16toh(arrival.mad.hdr.attr_id) == SIRDMA_CM_REQ)
		return Agent::service_of(arrival.mad);
	return requests_.service_of({arrival.port, arrival.src, guid, id});
}

/* Returns false if no process has the name. */
bool Service::forward(const Arrival &arrival) noexcept
{
	const u32 name = name_for(arrival);
	u64 guid;
	u32 id;

	if (!name)
		return false;

	const Fd connection = rendezvous_connect(arrival.port->address(), name);
	const Forwarded message = {.magic = forwarded_magic,
				   .scope = arrival.src.scope(),
				   .src = arrival.src.ip(),
				   .dst = arrival.port->address().ip(),
				   .mad = arrival.mad};

	/* A process whose backlog is full already loses this message, and the peer repeats it. */
	if (!connection)
		return errno == EAGAIN;
	(void)!raw_syscall::send(connection.get(), &message, sizeof(message),
				 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (be16toh(arrival.mad.hdr.attr_id) == SIRDMA_CM_REQ &&
	    Agent::names_request(arrival.mad, guid, id))
		requests_.add({arrival.port, arrival.src, guid, id}, name);
	return true;
}

/*
 * The listener may have been closed since epoll reported it, and the application may have a file of
 * this number now. Returns an invalid file if no connection waits, if the listener is closed, or if
 * epoll is to report it again after other events.
 */
Fd Service::accept(int listener) noexcept
{
	std::lock_guard hold(listeners_lock_);

	if (!listeners_.contains(listener))
		return Fd();

	Fd connection = rendezvous_accept(listener, spare_, refused_);

	if (!connection && errno == EBUSY)
		watch_again(listener);
	return connection;
}

void Service::take_connections(int listener) noexcept
{
	for (;;) {
		Fd connection = accept(listener);
		const int fd = connection.get();

		if (!connection)
			return;
		if (connections_.size() >= connections_max)
			continue;
		try {
			connections_.emplace(fd, std::move(connection));
		} catch (const std::bad_alloc &) {
			continue;
		}
		if (!watch(fd, false))
			connections_.erase(fd);
	}
}

void Service::take_forwarded(int connection) noexcept
{
	Forwarded message;
	const bool came = recv(connection, &message, sizeof(message), MSG_DONTWAIT) ==
				  static_cast<ssize_t>(sizeof(message)) &&
			  message.magic == forwarded_magic;

	(void)epoll_ctl(events_.get(), EPOLL_CTL_DEL, connection, nullptr);
	connections_.erase(connection);
	if (came)
		agent_.receive(IpAddress(message.dst), IpAddress(message.src, message.scope),
			       message.mad);
}

/* Devices */

/* Take connections of @listener until unlisten(). May throw std::bad_alloc. */
bool Service::listen(int listener)
{
	std::lock_guard hold(listeners_lock_);

	listeners_.insert(listener);
	if (watch(listener, true))
		return true;
	listeners_.erase(listener);
	return false;
}

/*
 * The listener is removed from epoll explicitly: a forked child may have a copy of it, and epoll
 * would then report events under a number that means another file.
 */
void Service::unlisten(Fd listener) noexcept
{
	std::lock_guard hold(listeners_lock_);

	if (listeners_.erase(listener.get()))
		(void)epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener.get(), nullptr);
	listener.reset();
}

void Service::attach(Port &port)
{
	Fd name = rendezvous_listen(port.address(), slot_name | port.slot());

	/* No step may fail between listen() and the entry by which detach() finds the file. */
	names_.reserve(names_.size() + 1);
	if (name && listen(name.get()))
		names_.emplace_back(&port, std::move(name));
	ports_.push_back(&port);
}

void Service::start_devices() noexcept
{
	try {
		for (Device *device : known_devices())
			if (!device->instance())
				(void)device->start();
	} catch (const std::bad_alloc &) {
		/* ports() contains the devices that have started. */
	}
}

std::span<Port *const> Service::ports()
{
	for (Device *device : known_devices()) {
		Port *port = device->instance() ? device->nic->cm_port() : nullptr;

		if (port && std::find(ports_.begin(), ports_.end(), port) == ports_.end())
			attach(*port);
	}
	return ports_;
}

Fd Service::claim(Port &port, u32 service) noexcept
{
	return rendezvous_bind(port.address(), service);
}

int Service::next_hop(const Port &port, const IpAddress &dst) noexcept
{
	return check_next_hop(port.address(), dst);
}

bool Service::serve(const Fd &claim) noexcept
{
	try {
		return listen(claim.get()) && rendezvous_take(claim.get());
	} catch (const std::bad_alloc &) {
		errno = ENOMEM;
		return false;
	}
}

void Service::release(Fd claim) noexcept
{
	unlisten(std::move(claim));
}

void Service::detach(const Port &port) noexcept
{
	std::erase(ports_, &port);
	requests_.forget(port);
	for (auto &[of, name] : names_)
		if (of == &port)
			unlisten(std::move(name));
	std::erase_if(names_, [&](const auto &name) { return name.first == &port; });
}

IpAddress Service::loopback_of(const IpAddress &dst, u32 service) noexcept
{
	if (rendezvous_connect(dst, service))
		return dst;

	const IpAddress other = rendezvous_find_loopback(dst.is_v4(), service);

	/* Do not ask a process of another user: it would learn what the client sends. */
	return !other.any() || !rendezvous_connect(dst, port_owner) ? other : dst;
}

void Service::forget(Port &port) noexcept
{
	std::lock_guard routing(routing_lock_);

	{
		std::lock_guard hold(inbox_lock_);

		std::erase_if(inbox_, [&](const Arrival &a) { return a.port == &port; });
	}
	agent_.forget(port);
}

} // namespace sirdma::twin::cm
