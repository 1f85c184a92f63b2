/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Captures whose file fails. The tests of the links and of the launcher look at what captures contain. */
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <pthread.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "own_address.hpp"
#include "pcap.hpp"

namespace sirdma::twin::test
{

namespace
{

/* A capture into a FIFO. A write that raises SIGPIPE ends the test. */
class TwinPcap : public ::testing::Test {
protected:
	void SetUp() override
	{
		char name[] = "/tmp/sirdma-pcap-XXXXXX";

		ASSERT_TRUE(mkdtemp(name));
		folder = name;
		fifo = folder + "/fifo";
		ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
		read_again();
		writer = PcapWriter::create(fifo);
		ASSERT_TRUE(writer);
		ASSERT_EQ(take(), file_header);
	}
	void TearDown() override
	{
		leave();
		unlink(fifo.c_str());
		rmdir(folder.c_str());
	}

	void read_again()
	{
		reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		ASSERT_GE(reader, 0);
	}
	/* The reader ends. */
	void leave()
	{
		if (reader >= 0)
			close(reader);
		reader = -1;
	}
	/* The number of bytes that came. */
	ssize_t take() const
	{
		uint8_t bytes[4096];

		return read(reader, bytes, sizeof(bytes));
	}
	void put()
	{
		const Path path = {.src = own_address(0),
				   .dst = own_address(1),
				   .sport = 777,
				   .dport = SIRDMA_ROCE_UDP_PORT,
				   .traffic_class = 0,
				   .hop_limit = 64};
		const uint8_t datagram[64] = {};

		writer->write(path, 0, datagram, sizeof(datagram));
	}
	static bool is_pending()
	{
		sigset_t signals;

		sigpending(&signals);
		return sigismember(&signals, SIGPIPE);
	}
	static bool is_blocked()
	{
		sigset_t signals;

		pthread_sigmask(SIG_BLOCK, nullptr, &signals);
		return sigismember(&signals, SIGPIPE);
	}

	static constexpr ssize_t file_header = 24;
	std::string folder, fifo;
	int reader = -1;
	std::unique_ptr<PcapWriter> writer;
};

size_t lines_of(const std::string &text)
{
	return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

} // namespace

TEST_F(TwinPcap, SaysOnceThatItsReaderEnded)
{
	put();
	EXPECT_GT(take(), 64);
	leave();
	testing::internal::CaptureStderr();
	for (int i = 0; i < 3; ++i)
		put();

	const std::string said = testing::internal::GetCapturedStderr();

	EXPECT_NE(said.find(fifo), std::string::npos) << said;
	EXPECT_NE(said.find("Broken pipe"), std::string::npos) << said;
	EXPECT_EQ(lines_of(said), 1u) << said;
	EXPECT_FALSE(is_pending());
	EXPECT_FALSE(is_blocked());
}

/* The program's own signals stay its own. */
TEST_F(TwinPcap, LeavesASignalThatTheProgramHasBlocked)
{
	sigset_t signal, before;

	sigemptyset(&signal);
	sigaddset(&signal, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &signal, &before);
	leave();
	testing::internal::CaptureStderr();
	put();
	EXPECT_FALSE(is_pending()) << "of the capture";
	raise(SIGPIPE);
	put();
	EXPECT_TRUE(is_pending()) << "of the program";
	EXPECT_TRUE(is_blocked());
	EXPECT_EQ(lines_of(testing::internal::GetCapturedStderr()), 1u);
	if (is_pending()) {
		int ignored;

		sigwait(&signal, &ignored);
	}
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

} // namespace sirdma::twin::test
