/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How the device sleeps and wakes: what its helper asks of it. */
#include "nic.hpp"

#include <algorithm>

namespace sirdma::twin
{

void Nic::expect_event() noexcept
{
	answer_habit_.note_no_post();
	settle();
	if (pending())
		helper_.wake();
	helper_.expect_event();
}

bool Nic::can_help() noexcept
{
	return can_work();
}

Helper::Files Nic::files() noexcept
{
	const UdpReceiver *port = port_->receiver();
	Helper::Files files;

	files[Helper::neighbours] = neighbours_->fd();
	files[Helper::port_share] = port_->fd();
	files[Helper::port] = port ? port->fd() : -1;
	files[Helper::groups] = groups_->fd();
	return files;
}

u64 Nic::ns_until_work() noexcept
{
	return std::min(port_->wait(), neighbours_->ns_until_trim());
}

u64 Nic::ns_until_retry() noexcept
{
	return stalled_.count.load() ? retry_stalled_ns : ~0ull;
}

bool Nic::fall_asleep() noexcept
{
	seen_polls_.store(helper_.polls(), std::memory_order_relaxed);
	if (table_)
		table_->note_no_poll();
	if (owes())
		return false;
	std::lock_guard hold(rx_lock_);

	return neighbours_->fall_asleep();
}

void Nic::wake_up() noexcept
{
	std::lock_guard hold(rx_lock_);

	neighbours_->wake_up();
}

/* Neighbours connect, die or wake this process. The owner of the port may be one of them. */
void Nic::manage(bool readable) noexcept
{
	neighbours_->trim();
	if (!readable && port_->wait())
		return;
	std::lock_guard hold(rx_lock_);

	polled_ = false;
	neighbours_->serve(*this);
	port_->serve();
}

void Nic::help() noexcept
{
	serve(Effort::help);
}

} // namespace sirdma::twin
