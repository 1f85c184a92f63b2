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

namespace
{

/* How many groups one call of receive() serves. The kernel then names others first. */
constexpr int groups_at_once = 8;

} // namespace

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

int Groups::join(const IpAddress &group) noexcept
{
	const uint32_t interface = interface_index(addr_);

	if (!interface)
		return EADDRNOTAVAIL;
	if (!start())
		return errno;

	std::unique_ptr<UdpReceiver> receiver =
		UdpReceiver::create_member(group, interface, buffer_);
	epoll_event event{};

	if (!receiver)
		return errno;
	event.events = EPOLLIN;
	event.data.ptr = receiver.get();
	if (epoll_ctl(ready_.get(), EPOLL_CTL_ADD, receiver->fd(), &event))
		return errno;
	try {
		members_.push_back({group, std::move(receiver)});
	} catch (const std::bad_alloc &) {
		(void)epoll_ctl(ready_.get(), EPOLL_CTL_DEL, receiver->fd(), nullptr);
		return ENOMEM;
	}
	return 0;
}

/* By hand from the set: a copy of the socket in another process would keep it there. */
void Groups::remove(Members::iterator member) noexcept
{
	(void)epoll_ctl(ready_.get(), EPOLL_CTL_DEL, member->receiver->fd(), nullptr);
	overruns_ += member->receiver->overruns();
	members_.erase(member);
}

void Groups::leave(const IpAddress &group) noexcept
{
	const auto member = std::find_if(members_.begin(), members_.end(),
					 [&](const Member &m) { return m.group == group; });

	if (member != members_.end())
		remove(member);
}

u32 Groups::receive(DatagramSink &sink) noexcept
{
	epoll_event events[groups_at_once];
	const int n = raw_syscall::epoll_look(ready_.get(), events, groups_at_once);
	u32 got = 0;

	for (int i = 0; i < n; ++i)
		got += static_cast<UdpReceiver *>(events[i].data.ptr)->receive(sink);
	return got;
}

u64 Groups::overruns() const noexcept
{
	u64 n = overruns_;

	for (const Member &member : members_)
		n += member.receiver->overruns();
	return n;
}

} // namespace sirdma::twin
