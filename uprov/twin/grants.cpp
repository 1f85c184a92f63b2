/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "grants.hpp"

namespace sirdma::twin
{

namespace
{

/*
 * A copy of SNIC_ONE_SIDED_MAX bytes takes 2 us. A thread that is stopped or preempted outside of the kernel
 * does not begin one any more (guarded_copy.hpp). So an honest thread that has not ended its access in this
 * time is in the kernel, and waits for pages of the target's own memory, or, preempted there, for a
 * processor, or its control group is frozen. It is the time for all neighbours together. Only the thread
 * that closes something waits.
 */
constexpr u64 access_stuck_ns = 1000000000;
/*
 * The same for a neighbour that has violated the protocol. The helper does nothing else meanwhile, nor
 * does the device receive: a thousand times as long as a copy takes.
 */
constexpr u64 withdraw_ns = 2000000;

} // namespace

/* Add @c to the list before the neighbour gets the table. */
void Grants::add(Connection &c) noexcept
{
	if (!table_)
		return;
	{
		std::lock_guard hold(lock_);

		c.granted = true;
		c.next_granted.store(first_.load());
		first_.store(&c);
	}
	(void)c.grant().give(*table_);
}

void Grants::remove(Connection &c) noexcept
{
	std::atomic<Connection *> *at = &first_;

	if (!c.granted)
		return;
	c.grant().withdraw();
	{
		const AccessTable::Closing closing(*table_);

		if (c.grant().in_use(closing.number()))
			(void)c.grant().await(closing.number(), port_now_ns(nullptr) + withdraw_ns);
	}
	std::lock_guard hold(lock_);

	while (at->load() != &c)
		at = &at->load()->next_granted;
	at->store(c.next_granted.load());
}

/* A connection with accesses that may have begun before the Closing @number. The caller holds a guard. */
Connection *Grants::used_before(uint64_t number) noexcept
{
	Connection *c = first_.load();

	while (c && !c->grant().in_use(number))
		c = c->next_granted.load();
	return c;
}

bool Grants::finish() noexcept
{
	bool all_ended = true;

	if (!first_.load())
		return true;

	const AccessTable::Closing closing(*table_);
	const u64 until = port_now_ns(nullptr) + access_stuck_ns;

	/* The list may change during a wait, so each search begins anew. */
	for (;;) {
		const CountedConnection c([&] { return used_before(closing.number()); });

		if (!c)
			return all_ended;
		if (c->grant().await(closing.number(), until))
			continue;
		port_warn("a process does not end its access to memory: its connection is closed");
		c->grant().give_up();
		c->set_broken();
		all_ended = false;
	}
}

/* Partner: Access::unmap_closed(). The Closing after the region was closed is a full barrier. */
void Grants::ask_to_unmap() noexcept
{
	for (Connection *c = first_.load(); c; c = c->next_granted.load())
		if (c->grant().has_mappings())
			c->wake();
}

} // namespace sirdma::twin
