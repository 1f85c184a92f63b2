/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The helper of a process, and neighbours whose every word the test writes. */
#pragma once

#include <cerrno>
#include <cstring>
#include <memory>
#include <poll.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "hello.hpp"
#include "neighbours.hpp"
#include "own_address.hpp"
#include "packet_counts.hpp"

namespace sirdma::twin::test
{

constexpr uint16_t record_packet = 1;

class NeighboursTest : public ::testing::Test {
protected:
	void SetUp() override
	{
		n = Neighbours::create(own_address(0));
		name = rendezvous_listen(own_address(1), 3);
		ASSERT_TRUE(n && name);
	}
	static bool readable(const Neighbours &of)
	{
		pollfd p = {.fd = of.fd(), .events = POLLIN, .revents = 0};

		return ::poll(&p, 1, 0) == 1;
	}
	bool readable() const { return readable(*n); }
	/* As the helper does it; nothing is left to do at last. */
	void serve(Neighbours &of)
	{
		for (int i = 0; i < 1000 && readable(of); ++i)
			of.serve(sink);
		EXPECT_FALSE(readable(of)) << "the helper spins";
	}
	void serve() { serve(*n); }

	/* A neighbour whose every word the test writes */
	struct RawNeighbour {
		Fd sock;
		RingPair rings;
		RingWriter out;

		void put(size_t len = 32)
		{
			if (uint8_t *at = out.reserve(len)) {
				memset(at, 0, len);
				out.commit({.len = static_cast<uint32_t>(len),
					    .kind = record_packet,
					    .flags = 0});
				out.publish();
			}
		}
	};

	/* Connects one, whose hello is served. @slot: that of its name, at which the test listens */
	RawNeighbour connect(uint32_t slot = 3)
	{
		int file = -1;
		RawNeighbour raw{.sock = rendezvous_connect(own_address(0), n->slot()),
				 .rings = RingPair::create(file),
				 .out = {}};
		const Fd owner(file);

		EXPECT_TRUE(raw.sock && raw.rings);
		raw.out = raw.rings.writer(0);
		EXPECT_TRUE(send_hello(raw.sock.get(),
				       {.slot = slot, .scope = 0, .addr = own_address(1).ip()},
				       file));
		serve();
		return raw;
	}
	static bool hung_up(const RawNeighbour &raw)
	{
		ssize_t n;
		char c;

		/* A table may have come (access_table.hpp). */
		while ((n = recv(raw.sock.get(), &c, 1, MSG_DONTWAIT)) > 0)
			;
		return !n || errno != EAGAIN;
	}

	/* End a connection to @listener. @accepts: the rings are attached before. Returns false if no hello came. */
	static bool hang_up(const Fd &listener, bool accepts)
	{
		const Fd sock(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
		Hello hello;
		Fd file;

		if (!sock || !receive_hello(sock.get(), hello, file))
			return false;
		if (accepts)
			RingPair::map(file.get()).control(1).lease_at = 1;
		return true;
	}

	/* How many polls it takes until a record of @raw is delivered. */
	unsigned polls_until(RawNeighbour &raw)
	{
		const u32 before = sink.seen;
		unsigned polls = 0;

		raw.put();
		do
			n->receive(sink, false);
		while (++polls < 100 && sink.seen == before);
		EXPECT_EQ(sink.seen, before + 1);
		return polls;
	}

	std::unique_ptr<Neighbours> n;
	Fd name;
	Counts sink;
};

} // namespace sirdma::twin::test
