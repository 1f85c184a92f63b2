/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "port_share.hpp"

#include <cerrno>
#include <sys/epoll.h>
#include <time.h>

namespace sirdma::twin
{

namespace
{

/* A dying owner's name may be free a moment before its port is, and the other way round. */
constexpr unsigned settle_tries = 100;
/* Members let in in one go. */
constexpr unsigned members_batch = 64;
constexpr timespec settle_pause = {.tv_sec = 0, .tv_nsec = 1000000};

} // namespace

std::unique_ptr<PortShare> PortShare::create(const IpAddress &addr, bool alone, uint32_t buffer)
{
	std::unique_ptr<PortShare> share(new PortShare(addr, buffer));

	share->events_ = Fd(epoll_create1(EPOLL_CLOEXEC));
	share->spare_ = spare_file();
	if (!share->events_)
		return nullptr;
	for (unsigned i = 0; !share->settle(); ++i) {
		/* Only what may pass is worth waiting for. */
		if ((errno != EADDRINUSE && errno != ECONNREFUSED && errno != EAGAIN) || alone ||
		    i == settle_tries) {
			if (errno == ECONNREFUSED || errno == EAGAIN || errno == EACCES)
				errno = EADDRINUSE;
			return nullptr;
		}
		nanosleep(&settle_pause, nullptr);
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

/* Own the port or know who does; false with errno when neither is possible now. */
bool PortShare::settle() noexcept
{
	if (!name_) {
		name_ = rendezvous_listen(addr_, port_owner);
		if (name_ && !watch(name_.get()))
			name_.reset();
	}
	if (!name_) {
		if (errno != EADDRINUSE)
			return false;
		owner_ = rendezvous_connect(addr_, port_owner);
		return owner_ && watch(owner_.get());
	}
	taken_ = UdpReceiver::create(addr_, buffer_);
	receiver_.store(taken_.get(), std::memory_order_release);
	return taken_ != nullptr;
}

void PortShare::accept_members() noexcept
{
	for (unsigned i = 0; i < members_batch; ++i) {
		Fd member = rendezvous_accept(name_.get(), spare_, refused_);

		if (!member)
			break;
		try {
			if (watch(member.get()))
				members_.push_back(std::move(member));
		} catch (const std::bad_alloc &) {
		} /* the connection is dropped; the peer retries */
	}
}

void PortShare::serve() noexcept
{
	epoll_event events[16];
	const int n = epoll_wait(events_.get(), events, std::size(events), 0);

	for (int i = 0; i < n; ++i) {
		const int fd = events[i].data.fd;

		if (fd == name_.get()) {
			accept_members();
			continue;
		}
		/* A child may keep it open: closing ours would not end its events. */
		epoll_ctl(events_.get(), EPOLL_CTL_DEL, fd, nullptr);
		if (fd == owner_.get())
			owner_.reset();
		else
			std::erase_if(members_, [fd](const Fd &m) { return m.get() == fd; });
	}
	if (unsettled())
		(void)settle();
}

} // namespace sirdma::twin
