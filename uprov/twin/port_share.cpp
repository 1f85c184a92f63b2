/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "port_share.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace sirdma::twin
{

namespace
{

/* When an owner dies its name and its port do not become free at the same time: try again. */
constexpr unsigned settle_tries = 100;
/*
 * How long a process waits for an owner whose queue of connections is full. Such an owner is stopped,
 * or waits for a processor, for seconds where hundreds of processes compute. Each attempt to join
 * takes processor time that the owner may need. Not tuned.
 */
constexpr u64 busy_owner_max_ns = 20ull * 1000000000;
constexpr timespec busy_owner_pause = {.tv_sec = 0, .tv_nsec = 20000000};
/* The number of members that are accepted at once. */
constexpr unsigned members_batch = 64;
constexpr timespec settle_pause = {.tv_sec = 0, .tv_nsec = 1000000};
/*
 * Time between two attempts to settle which process owns the port. It is short at first, because
 * another process may be about to own it. Then it is a fraction of the time spent so far, because
 * this process may have no descriptor left, or the owner may close its connection.
 */
constexpr u64 settle_min_ns = 500000;
constexpr u64 settle_max_ns = 100000000;
constexpr u64 settle_part = 8;
/*
 * The number of members that watch the owner. More than one is needed, since several processes of
 * an address may be stopped together.
 */
constexpr uint32_t watchers = 3;
constexpr uint32_t no_rank = ~0u;
/*
 * Period in which the member of the first rank checks the socket; each later rank adds this
 * much. If the owner is stopped shortly after a check, the third check after it detects that,
 * within 6 ms. That is less than 10 ms, and longer than a sleeping owner usually waits for a
 * busy processor.
 */
constexpr u64 check_step_ns = 2000000;
constexpr unsigned checks_to_take_over = 2;
/*
 * A check that is late shows that processors are busy, so the owner may wait for one and not be
 * stopped. Late checks are ignored, but not for longer than this.
 */
constexpr u64 late_checks_max_ns = 500000000;

} // namespace

std::unique_ptr<PortShare> PortShare::create(const IpAddress &addr, bool alone, uint32_t buffer)
{
	std::unique_ptr<PortShare> share(new PortShare(addr, buffer));

	share->events_ = Fd(epoll_create1(EPOLL_CLOEXEC));
	share->spare_ = spare_file();
	if (!share->events_)
		return nullptr;

	const u64 busy_until = port_now_ns(nullptr) + busy_owner_max_ns;
	unsigned tries = 0;

	while (!share->settle()) {
		/* Try again only after errors that may be temporary. */
		const bool busy = errno == EAGAIN;
		const bool again = busy ? port_now_ns(nullptr) < busy_until :
					  (errno == EADDRINUSE || errno == ECONNREFUSED) &&
						   tries++ < settle_tries;

		if (alone || !again) {
			if (errno == ECONNREFUSED || errno == EACCES || (busy && alone))
				errno = EADDRINUSE;
			return nullptr;
		}
		nanosleep(busy ? &busy_owner_pause : &settle_pause, nullptr);
	}
	if (alone && !share->receiver()) {
		errno = EADDRINUSE;
		return nullptr;
	}
	return share;
}

bool PortShare::watch(int fd) noexcept
{
	epoll_event event{};

	event.events = EPOLLIN | EPOLLRDHUP;
	event.data.fd = fd;
	return !epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event);
}

/* Close a connection. A child may keep it open, so it must be removed from epoll first. */
void PortShare::hang_up(Fd &connection) noexcept
{
	if (connection)
		(void)epoll_ctl(events_.get(), EPOLL_CTL_DEL, connection.get(), nullptr);
	connection.reset();
}

/* Become the owner of the port or a member. Returns false with errno if neither is possible now. */
bool PortShare::settle() noexcept
{
	/*
	 * This process has the owner's name and socket already: no other process can create them.
	 */
	if (name_) {
		/* The socket could not be added to epoll when the owner was lost. */
		if (!watching_ && check_at_ == never_ns)
			watch_port();
		return join();
	}
	if (open())
		return true;
	return errno == EADDRINUSE && join();
}

/* The port has no owner: bind it and own it. */
bool PortShare::open() noexcept
{
	Fd name = rendezvous_listen(addr_, port_owner, opener_);

	if (!name)
		return false;

	PortFile file = PortFile::create();

	if (!file)
		return false;
	taken_ = UdpReceiver::create(addr_, buffer_);
	if (!taken_)
		return false;
	if (headers_)
		taken_->ask_for_header();
	name_ = std::move(name);
	file_ = std::move(file);
	number_ = file_.words().owner.load();
	if (take_over())
		return true;

	const int err = errno;

	taken_.reset();
	name_.reset();
	file_ = PortFile();
	errno = err;
	return false;
}

/* All processes of the address have one socket, with one set of options. */
void PortShare::ask_for_headers() noexcept
{
	if (!headers_ && taken_)
		taken_->ask_for_header();
	headers_ = true;
}

/* Connect to the owner. */
bool PortShare::join() noexcept
{
	owner_ = rendezvous_connect(addr_, port_owner, opener_);
	if (owner_ && !watch(owner_.get()))
		hang_up(owner_);
	return static_cast<bool>(owner_);
}

/*
 * Succeed owner number_. Returns false with errno if another process did (EADDRINUSE), or if this
 * process could not accept members.
 */
bool PortShare::take_over() noexcept
{
	uint64_t seen = number_;

	if (!watch(name_.get()))
		return false;
	if (!file_.words().owner.compare_exchange_strong(seen, number_ + 1)) {
		(void)epoll_ctl(events_.get(), EPOLL_CTL_DEL, name_.get(), nullptr);
		errno = EADDRINUSE;
		return false;
	}
	++number_;
	progress_ = file_.words().progress.load();
	(void)rendezvous_take(name_.get());
	unwatch_port();
	hang_up(owner_);
	receiver_.store(taken_.get(), std::memory_order_release);
	return true;
}

/* This process was stopped, and another one owns the port now: become a member. */
void PortShare::step_down() noexcept
{
	receiver_.store(nullptr, std::memory_order_release);
	(void)epoll_ctl(events_.get(), EPOLL_CTL_DEL, name_.get(), nullptr);
	/* Members connect to the new owner when their connection is closed. */
	for (Member &member : members_)
		hang_up(member.fd);
	members_.clear();
	follow_owner();
}

/*
 * Another process owns the port now. Until the owner grants a rank, this process watches the port,
 * because the owner may be stopped or dead, or this process may be unable to connect.
 */
void PortShare::follow_owner() noexcept
{
	hang_up(owner_);
	number_ = file_.words().owner.load();
	rank_ = 0;
	settle_at_ = 0;
	watch_port();
}

/* Keep the files of a grant, by which this member can succeed the owner. */
bool PortShare::keep(PortFiles files) noexcept
{
	if (name_)
		return true; /* the files are the same: no other process can create them */

	PortFile file = PortFile::map(std::move(files.words));
	auto socket = UdpReceiver::adopt(std::move(files.socket), addr_);

	if (!file || !socket)
		return false;
	file_ = std::move(file);
	taken_ = std::move(socket);
	if (headers_)
		taken_->ask_for_header();
	name_ = std::move(files.name);
	return true;
}

/* The owner sent a grant or closed the connection. */
void PortShare::hear_owner() noexcept
{
	PortFiles files;
	PortGrant grant;

	if (receive_grant(owner_.get(), grant, files)) {
		if (!keep(std::move(files)))
			return;
		number_ = grant.owner;
		rank_ = grant.rank;
		settle_at_ = 0;
		if (rank_ < watchers)
			watch_port();
		else
			unwatch_port();
		return;
	}
	if (errno == EAGAIN || errno == EINTR)
		return;
	/*
	 * Without descriptors for the files, this process stays a plain member; another one gets
	 * the rank.
	 */
	if (errno == EMFILE && send(owner_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		return;
	hang_up(owner_);
	if (name_ && !take_over())
		follow_owner();
}

/* The kernel counts for the socket, which passes from owner to owner. */
uint64_t PortShare::overruns() noexcept
{
	if (const UdpReceiver *port = receiver(); port && !succeeded()) {
		const uint64_t all = port->overruns();
		std::atomic<uint64_t> &counted = file_.words().overruns;
		uint64_t before = counted.load();

		while (before < all && !counted.compare_exchange_weak(before, all)) {}
		if (before < all)
			overruns_ += all - before;
	}
	return overruns_.load();
}

/* Watching */

u64 PortShare::check_ns() const noexcept
{
	return check_step_ns * (1 + rank_);
}

/* Let the next packet make events_ readable, so that an idle port costs nothing. */
void PortShare::watch_port() noexcept
{
	watching_ = watching_ || watch(taken_->fd());
	check_at_ = never_ns;
	stuck_ = 0;
}

void PortShare::unwatch_port() noexcept
{
	/* Other processes have the socket too, so closing it would not remove it from epoll. */
	if (watching_)
		(void)epoll_ctl(events_.get(), EPOLL_CTL_DEL, taken_->fd(), nullptr);
	watching_ = false;
	check_at_ = never_ns;
}

/* While packets come only the timer wakes this process. */
void PortShare::begin_to_check(u64 now) noexcept
{
	unwatch_port();
	seen_progress_ = file_.words().progress.load(std::memory_order_relaxed);
	stuck_since_ = now;
	check_at_ = now + check_ns();
}

void PortShare::check(u64 now) noexcept
{
	const PortWords &words = file_.words();
	const uint64_t progress = words.progress.load(std::memory_order_relaxed);
	pollfd port = {.fd = taken_->fd(), .events = POLLIN, .revents = 0};
	const bool moved = progress != seen_progress_, late = now - check_at_ > check_step_ns;

	if (words.owner.load() != number_) {
		/* Another member was faster. */
		follow_owner();
		return;
	}
	seen_progress_ = progress;
	check_at_ = now + check_ns();
	if (moved) {
		stuck_ = 0;
		stuck_since_ = now;
	} else if (poll(&port, 1, 0) <= 0) {
		watch_port();
	} else if (late && now - stuck_since_ < late_checks_max_ns) {
		stuck_ = 0;
	} else if (++stuck_ >= checks_to_take_over && !take_over()) {
		follow_owner();
	}
}

u64 PortShare::wait() const noexcept
{
	if (succeeded())
		return 0;

	const u64 at = unsettled() ? std::min(settle_at_, check_at_) : check_at_;

	if (at == never_ns)
		return never_ns;

	const u64 now = port_now_ns(nullptr);

	return at > now ? at - now : 0;
}

/* The owner's members */

uint32_t PortShare::free_rank() const noexcept
{
	for (uint32_t rank = 0; rank < watchers; ++rank)
		if (std::none_of(members_.begin(), members_.end(),
				 [rank](const Member &m) { return m.rank == rank; }))
			return rank;
	return no_rank;
}

/* Is @group neither the group of this process nor that of a member that watches? */
bool PortShare::unwatched_by(pid_t group) const noexcept
{
	return group != getpgrp() &&
	       std::none_of(members_.begin(), members_.end(), [group](const Member &m) {
		       return m.rank != no_rank && m.group == group;
	       });
}

/*
 * The rank of a new member: a rank that no other has, or that of a watcher which is stopped
 * together with this process or another watcher.
 */
uint32_t PortShare::rank_for(pid_t group) noexcept
{
	if (const uint32_t rank = free_rank(); rank != no_rank || !unwatched_by(group))
		return rank;
	for (auto m = members_.rbegin(); m != members_.rend(); ++m) {
		const uint32_t rank = std::exchange(m->rank, no_rank);

		if (rank != no_rank && !unwatched_by(m->group)) {
			grant(*m);
			return rank;
		}
		m->rank = rank;
	}
	return no_rank;
}

/* Grant @member its rank. If that fails, the member is a plain one until it gets another rank. */
void PortShare::grant(const Member &member) noexcept
{
	const int files[PortFiles::count] = {taken_->fd(), name_.get(), file_.fd()};

	(void)send_grant(member.fd.get(), {.rank = member.rank, .owner = number_}, files);
}

void PortShare::accept_members() noexcept
{
	for (unsigned i = 0; i < members_batch; ++i) {
		Fd fd = rendezvous_accept(name_.get(), spare_, refused_, opener_);

		if (!fd)
			break;
		try {
			if (watch(fd.get())) {
				const pid_t group = rendezvous_group(fd.get());

				members_.push_back({.fd = std::move(fd),
						    .group = group,
						    .rank = rank_for(group)});
				grant(members_.back());
			}
		} catch (const std::bad_alloc &) {
		} /* the connection is closed; the peer retries */
	}
}

/*
 * A watching member left: grant its rank to another member, if possible one of another process
 * group.
 */
void PortShare::pass_rank_on() noexcept
{
	const uint32_t rank = free_rank();
	const auto may_watch = [](const Member &m) { return m.rank == no_rank && m.can_watch; };
	auto next = std::find_if(members_.begin(), members_.end(), [&](const Member &m) {
		return may_watch(m) && unwatched_by(m.group);
	});

	if (next == members_.end())
		next = std::find_if(members_.begin(), members_.end(), may_watch);
	if (rank == no_rank || next == members_.end())
		return;
	next->rank = rank;
	grant(*next);
}

/* A member declined its rank or closed the connection. */
void PortShare::hear_member(int fd) noexcept
{
	const auto member = std::find_if(members_.begin(), members_.end(),
					 [fd](const Member &m) { return m.fd.get() == fd; });
	char byte;

	if (member == members_.end())
		return;
	if (member->can_watch && recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) == 1) {
		member->rank = no_rank;
		member->can_watch = false;
	} else {
		hang_up(member->fd);
		members_.erase(member);
	}
	pass_rank_on();
}

void PortShare::serve() noexcept
{
	const u64 now = port_now_ns(nullptr);
	epoll_event events[16];

	if (succeeded())
		step_down();

	const int n = epoll_wait(events_.get(), events, std::size(events), 0);

	for (int i = 0; i < n; ++i) {
		const int fd = events[i].data.fd;

		if (name_ && fd == name_.get()) {
			if (receiver())
				accept_members();
		} else if (owner_ && fd == owner_.get()) {
			hear_owner();
		} else if (taken_ && fd == taken_->fd()) {
			/* An earlier event may have ended the watch. */
			if (watching_)
				begin_to_check(now);
		} else {
			hear_member(fd);
		}
	}
	if (check_at_ <= now)
		check(now);
	if (unsettled() && settle_at_ <= now) {
		/*
		 * Set the time also when settle() connects: the owner may close the connection at
		 * once.
		 */
		if (now - settle_at_ > settle_max_ns)
			settle_since_ = now;
		settle_at_ = now + std::clamp((now - settle_since_) / settle_part, settle_min_ns,
					      settle_max_ns);
		(void)settle();
	}
}

} // namespace sirdma::twin
