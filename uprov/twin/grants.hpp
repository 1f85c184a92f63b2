/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connections whose neighbours may access this process's memory (one_sided.hpp), and the wait for
 * accesses that are under way.
 */
#pragma once

#include "connection.hpp"

namespace sirdma::twin
{

class Grants {
public:
	/* Grant what is open in @table. Call this before there are connections; @table must outlive them. */
	void set_table(AccessTable &table) noexcept { table_ = &table; }
	/* May neighbours have access at all? */
	bool any() const noexcept { return table_; }

	/* The neighbour of @c gets the table. Any thread. */
	void add(Connection &c) noexcept;
	/*
	 * The connection is about to be freed after a grace period. A neighbour that is alive and closes
	 * its end has no access under way; the wait is for one that violates the protocol. An access of one
	 * that does not end it in that time may write to this process's memory later, as that of a
	 * neighbour that was given up.
	 */
	void remove(Connection &c) noexcept;
	/*
	 * Wait until no neighbour uses what was closed in the table before. Returns false if a neighbour had
	 * to be given up: its connection is set_broken(). Any thread.
	 */
	bool finish() noexcept;
	/* Wake neighbours that have mapped regions: one was closed. The caller holds a guard. */
	void ask_to_unmap() noexcept;

private:
	Connection *used_before(uint64_t number) noexcept;

	AccessTable *table_ = nullptr;
	std::atomic<Connection *> first_{nullptr}; /* read under RCU */
	std::mutex lock_; /* protects changes of the list */
};

} // namespace sirdma::twin
