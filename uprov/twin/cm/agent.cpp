/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Channels, IDs, events and timers. */
#include "cm/agent.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <sys/uio.h>
#include <unistd.h>

#include "no_cancel.hpp"
#include "rendezvous.hpp"

namespace sirdma::twin::cm
{

static_assert(num_slots <= 1u << (32 - Agent::handle_bits));

Agent::Agent(Host &host) noexcept
	/*
	 * A process that takes the slot of a dead one must not use its IDs again at once: peers
	 * would take its requests for duplicates.
	 */
	: host_(host), next_handle_(port_random_u32() & handle_mask)
{
}

void Agent::print_counters() const noexcept
{
	static constexpr const char *names[] = {
#define COUNTER(name) #name,
		SIRDMA_CM_COUNTERS(COUNTER)
#undef COUNTER
	};

	for (size_t i = 0; i < std::size(names); ++i)
		if (const u64 n = counters_[i])
			fprintf(stderr, "sirdma: %d: %-20s %llu\n", getpid(), names[i],
				static_cast<unsigned long long>(n));
}

/* Channels */

int Agent::open_channel(int file) noexcept
{
	std::lock_guard hold(lock_);

	/* The number may belong to a channel that was closed without the shim's knowledge. */
	end_channel(file);
	try {
		auto channel = std::make_unique<Channel>();

		channel->file = file;
		channels_[file] = std::move(channel);
		return 0;
	} catch (const std::bad_alloc &) {
		return ENOMEM;
	}
}

void Agent::close_channel(int file) noexcept
{
	std::lock_guard hold(lock_);

	end_channel(file);
}

void Agent::end_channel(int file) noexcept
{
	const auto channel = channels_.find(file);

	if (channel == channels_.end())
		return;
	const auto is_ours = [&](const auto &entry) {
		return entry.second->channel == channel->second.get();
	};
	const auto listens = [&](const auto &entry) {
		return is_ours(entry) && entry.second->state == State::listening;
	};

	/*
	 * A listener destroys its requests that the program has not fetched, so the search begins anew
	 * after each. A list of them could find no memory.
	 */
	for (auto at = std::find_if(ids_.begin(), ids_.end(), listens); at != ids_.end();
	     at = std::find_if(ids_.begin(), ids_.end(), listens))
		destroy(*at->second);
	for (auto at = ids_.begin(); at != ids_.end();) {
		const auto &entry = *at++;

		if (is_ours(entry))
			destroy(*entry.second);
	}
	channels_.erase(channel);
}

/* Remove the token of an event that was removed from the channel. */
void Agent::take_token(const Channel &channel) noexcept
{
	u64 token;
	const iovec piece = {.iov_base = &token, .iov_len = sizeof(token)};

	(void)!preadv2(channel.file, &piece, 1, -1, RWF_NOWAIT);
}

void Agent::add_event(Channel &channel, const Event &event) noexcept
{
	const u64 one = 1;

	try {
		channel.events.push_back(event);
	} catch (const std::bad_alloc &) {
		port_warn("an event of rdma_cm is lost: no memory");
		return;
	}
	(void)!raw_syscall::write(channel.file, &one, sizeof(one));
}

void Agent::post(Id &id, rdma_ucm_event_resp &body) noexcept
{
	/* The program does not know the ID yet. Its accept will fail. */
	if (!id.uid)
		return;
	body.uid = id.uid;
	body.id = id.handle;
	if (body.event == RDMA_CM_EVENT_DISCONNECTED && id.port)
		id.port->note_end();
	add_event(*id.channel, {.id = id.handle, .body = body});
}

void Agent::post(Id &id, u32 event, int status) noexcept
{
	rdma_ucm_event_resp body{};

	body.event = event;
	body.status = static_cast<u32>(status);
	post(id, body);
}

/* IDs */

Id *Agent::find(u32 handle) noexcept
{
	const auto id = ids_.find(handle);

	return id == ids_.end() ? nullptr : id->second.get();
}

Id *Agent::find(const Channel &channel, u32 handle) noexcept
{
	Id *id = find(handle);

	/* A request that was not fetched is no ID of the program yet. */
	return id && id->channel == &channel && !id->listener ? id : nullptr;
}

Id &Agent::create(Channel &channel)
{
	auto id = std::make_unique<Id>();

	do {
		next_handle_ = (next_handle_ + 1) & handle_mask;
	} while (!next_handle_ || ids_.contains(next_handle_));
	id->handle = next_handle_;
	id->channel = &channel;
	return *(ids_[next_handle_] = std::move(id));
}

u32 Agent::comm_id(const Id &id) const noexcept
{
	return id.port->slot() << handle_bits | id.handle;
}

Agent::Remote Agent::remote(const IpAddress &peer, u64 guid, u32 number) noexcept
{
	return {std::to_array(peer.ip().b), guid, number};
}

Id *Agent::find(const std::map<Remote, u32> &map, const Remote &of) noexcept
{
	const auto known = map.find(of);

	return known == map.end() ? nullptr : find(known->second);
}

void Agent::learn_remote(Id &id, u64 guid)
{
	/*
	 * Do this first, so that forget_remote() finds the entries that were added before memory
	 * ran out.
	 */
	id.remote_guid = guid;
	by_remote_[remote(id.peer, guid, id.remote_id)] = id.handle;
	by_qp_[remote(id.peer, guid, id.remote_qpn)] = id.handle;
}

void Agent::forget_remote(Id &id) noexcept
{
	const auto drop = [&](std::map<Remote, u32> &map, u32 number) {
		const auto entry = map.find(remote(id.peer, id.remote_guid, number));

		if (entry != map.end() && entry->second == id.handle)
			map.erase(entry);
	};

	drop(by_remote_, id.remote_id);
	drop(by_qp_, id.remote_qpn);
	id.remote_guid = 0;
}

void Agent::release_claims(Id &id) noexcept
{
	release_claims(id, [](const Claim &) { return true; });
}

void Agent::learn_request(Id &id, u64 guid)
{
	try {
		learn_remote(id, guid);
	} catch (const std::bad_alloc &) {
		drop_request(id);
		throw;
	}
}

/* The program gives up the ID: tell the peer, once. */
void Agent::leave(Id &id) noexcept
{
	switch (id.state) {
	case State::req_sent:
		send_rej(id, SIRDMA_CM_REJECT_TIMEOUT, nullptr, 0);
		break;
	case State::req_received:
	case State::rep_sent:
	case State::rep_received:
		send_rej(id, SIRDMA_CM_REJECT_CONSUMER, nullptr, 0);
		break;
	case State::established:
		send_dreq(id);
		break;
	case State::dreq_received:
		send_drep(id);
		break;
	case State::sidr_req_received:
		send_sidr_rep(id, SIRDMA_CM_SIDR_REJECTED, nullptr, 0);
		break;
	default:
		break;
	}
}

/* The connection has ended. */
void Agent::close(Id &id) noexcept
{
	stop_timer(id);
	forget_remote(id);
	id.state = State::closed;
}

void Agent::destroy(Id &id) noexcept
{
	if (id.state == State::listening) {
		const u32 handle = id.handle;

		listeners_.erase({id.service(), handle});
		for (auto entry = ids_.begin(); entry != ids_.end();) {
			Id &request = *(entry++)->second;

			/* Erasing an element leaves iterators to the others valid. */
			if (request.listener == handle)
				destroy(request);
		}
	}
	leave(id);
	close(id);
	purge_events(id, [&](const Event &event) {
		return event.id == id.handle || event.request == id.handle;
	});
	std::erase_if(memberships_,
		      [&](const auto &entry) { return entry.second.id == id.handle; });
	release_claims(id);
	bound_.erase({id.service(), id.handle});
	ids_.erase(id.handle);
}

void Agent::forget(const Port &port) noexcept
{
	std::lock_guard hold(lock_);

	hops_.clear();
	for (auto entry = ids_.begin(); entry != ids_.end();) {
		/* Erasing an element leaves iterators to the others valid. */
		Id &id = *(entry++)->second;

		release_claims(id, [&](const Claim &claim) { return claim.port == &port; });
		if (id.port != &port)
			continue;
		if (id.listener) {
			/* The program could not accept the request any more. */
			drop_request(id);
			continue;
		}
		listeners_.erase({id.service(), id.handle});
		close(id);
		id.port = nullptr;
	}
	host_.detach(port);
}

Agent::Holdings Agent::holdings() noexcept
{
	std::lock_guard hold(lock_);
	Holdings all = {.ids = ids_.size(),
			.claims = 0,
			.bound = bound_.size(),
			.listeners = listeners_.size(),
			.remotes = by_remote_.size() + by_qp_.size(),
			.timers = timers_.size() + queries_.size(),
			.memberships = memberships_.size(),
			.events = 0};

	for (const auto &entry : ids_)
		all.claims += entry.second->claims.size();
	for (const auto &entry : channels_)
		all.events += entry.second->events.size();
	return all;
}

void Agent::finish() noexcept
{
	std::lock_guard hold(lock_);

	for (const auto &entry : ids_)
		leave(*entry.second);
}

/* Timers */

void Agent::start_timer(Id &id, u64 ns) noexcept
{
	stop_timer(id);
	try {
		const u64 due = host_.now_ns() + ns;

		timers_.emplace(due, id.handle);
		id.due = due;
		if (timers_.begin()->second == id.handle)
			host_.timer_changed();
	} catch (const std::bad_alloc &) {
		port_warn("rdma_cm: no memory for a timer");
	}
}

void Agent::stop_timer(Id &id) noexcept
{
	if (id.due)
		timers_.erase({id.due, id.handle});
	id.due = 0;
}

u64 Agent::next_due() noexcept
{
	std::lock_guard hold(lock_);
	const u64 timer = timers_.empty() ? never_due : timers_.begin()->first;

	return queries_.empty() ? timer : std::min(timer, hops_.period_end());
}

void Agent::expire() noexcept
{
	std::lock_guard hold(lock_);
	const u64 now = host_.now_ns();

	hops_.begin(now);
	while (!timers_.empty() && timers_.begin()->first <= now) {
		Id &id = *find(timers_.begin()->second);

		stop_timer(id);
		expire(id);
	}
	poll_addresses();
}

void Agent::expire(Id &id) noexcept
{
	if (id.state == State::address_query) {
		if (host_.now_ns() < id.deadline)
			queue_query(id);
		else
			poll_address(id);
		return;
	}
	if (!id.tries_left || id.in(states(State::req_received, State::sidr_req_received))) {
		give_up(id);
		return;
	}
	--id.tries_left;
	count(Counter::cm_retries);
	send(*id.port, id.peer, id.message);
	start_timer(id, id.period_ns);
}

/* Drop a request that the program has not fetched. The peer is not told. */
void Agent::drop_request(Id &id) noexcept
{
	if (Id *listener = find(id.listener))
		++listener->backlog;
	close(id);
	destroy(id);
}

void Agent::give_up(Id &id) noexcept
{
	const State was = id.state;

	if (was == State::req_received || was == State::sidr_req_received) {
		/* The peer has given up as well. */
		count(Counter::cm_expired);
		drop_request(id);
		return;
	}
	if (was == State::timewait) {
		close(id);
		post(id, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		return;
	}
	count(Counter::cm_timeouts);
	if (was == State::dreq_sent) {
		enter_timewait(id);
		post(id, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
	} else {
		close(id);
		post(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	}
}

/* Packets of the connection may still be in flight (IBTA 12.9.8.4). */
void Agent::enter_timewait(Id &id) noexcept
{
	id.state = State::timewait;
	id.tries_left = 0;
	start_timer(id, exponent_ms(id.timeout + 1u) * ns_per_ms);
}

void Agent::send(Port &port, const IpAddress &dst, const sirdma_mad &mad) noexcept
{
	count(Counter::cm_sent);
	port.send(dst, mad);
}

/* Send id.message until it is answered. */
void Agent::send_and_wait(Id &id, u64 period_ns, unsigned tries) noexcept
{
	id.period_ns = period_ns;
	id.tries_left = tries;
	send(*id.port, id.peer, id.message);
	start_timer(id, period_ns);
}

} // namespace sirdma::twin::cm
