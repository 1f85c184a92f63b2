/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "groups.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <sys/epoll.h>

#include "config.hpp"
#include "no_cancel.hpp"

namespace sirdma::twin
{

Groups::~Groups()
{
	while (any())
		remove(members_.begin());
}

bool Groups::start() noexcept
{
	if (ready_)
		return true;
	ready_ = Fd(epoll_create1(EPOLL_CLOEXEC));
	file_.store(ready_.get(), std::memory_order_relaxed);
	return bool(ready_);
}

std::unique_ptr<UdpReceiver> Groups::open(const IpAddress &group) const noexcept
{
	const uint32_t interface = interface_index(addr_);

	if (!interface) {
		errno = EADDRNOTAVAIL;
		return nullptr;
	}
	return UdpReceiver::create_member(group, interface, buffer_);
}

int Groups::add(const IpAddress &group, std::unique_ptr<UdpReceiver> &receiver) noexcept
{
	epoll_event event{};

	if (!start())
		return errno;
	event.events = EPOLLIN;
	event.data.ptr = receiver.get();
	if (epoll_ctl(ready_.get(), EPOLL_CTL_ADD, receiver->fd(), &event))
		return errno;
	try {
		members_.push_back({group, nullptr});
	} catch (const std::bad_alloc &) {
		(void)epoll_ctl(ready_.get(), EPOLL_CTL_DEL, receiver->fd(), nullptr);
		return ENOMEM;
	}
	members_.back().receiver = std::move(receiver);
	return 0;
}

/*
 * Remove the socket from the set explicitly: a forked child may have a copy of it, and close()
 * would then leave it there.
 */
std::unique_ptr<UdpReceiver> Groups::remove(Members::iterator member) noexcept
{
	std::unique_ptr<UdpReceiver> receiver = std::move(member->receiver);

	(void)epoll_ctl(ready_.get(), EPOLL_CTL_DEL, receiver->fd(), nullptr);
	overruns_ += receiver->overruns();
	members_.erase(member);
	return receiver;
}

std::unique_ptr<UdpReceiver> Groups::leave(const IpAddress &group) noexcept
{
	const auto member = std::find_if(members_.begin(), members_.end(),
					 [&](const Member &m) { return m.group == group; });

	return member == members_.end() ? nullptr : remove(member);
}

/* One group is as much work as the port; epoll then puts it behind the others that are ready. */
u32 Groups::receive(DatagramSink &sink) noexcept
{
	epoll_event event;

	if (raw_syscall::epoll_look(ready_.get(), &event, 1) != 1)
		return 0;
	return static_cast<UdpReceiver *>(event.data.ptr)->receive(sink);
}

u64 Groups::overruns() const noexcept
{
	u64 n = overruns_;

	for (const Member &member : members_)
		n += member.receiver->overruns();
	return n;
}

} // namespace sirdma::twin
