// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The parts of an implicit region, 2 MiB each, for which the driver of a kernel device has a page list and a page fault each: what
// one of them costs the others, and what happens when the user may have no more.
#include "datagram.hpp"
#include "odp.hpp"
#include "stuck_file.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbs::odp
{
namespace
{

constexpr size_t part = 2 << 20, pages_per_part = part / page;

size_t pages_of_the_machine()
{
	struct sysinfo info = {};

	EXPECT_EQ(sysinfo(&info), 0);
	return info.totalram * info.mem_unit / page;
}

class OnDemandParts : public OnDemand {
protected:
	void SetUp() override
	{
		OnDemand::SetUp();
		if (IsSkipped())
			return;
		if (options().unpinned ||
		    !(caps_of(peer()).general_caps & IBV_ODP_SUPPORT_IMPLICIT))
			GTEST_SKIP() << "no parts of a region in the kernel";
		make(16 * page);
		local_ = make_region(pair_->a.pd, 16 * page);
		remote_.mr.reset(ibv_reg_mr(pair_->b.pd, nullptr, SIZE_MAX, on_demand));
		remote_.memory = Mapping::anonymous(4 * part);
		ASSERT_TRUE(local_ && remote_);
		ASSERT_TRUE(!madvise(remote_.memory.data(), 4 * part, MADV_NOHUGEPAGE) ||
			    errno == EINVAL);
	}

	void TearDown() override
	{
		filler_ = {};
		OnDemand::TearDown();
	}

	// Offset of a whole part in the memory of the peer
	size_t at(size_t n) const { return (part - remote_.address() % part) % part + n * part; }

	uint64_t count(const char *name) const { return counter(peer(), name).value_or(0); }

	// Another region of the user takes all pages that it may have, but those of so many parts. The implicit one has its own.
	void leave_room_for(size_t parts)
	{
		const size_t pages = pages_of_the_machine() - (1 + parts) * pages_per_part;

		filler_.memory = Mapping::anonymous(pages * page, MAP_NORESERVE);
		ASSERT_TRUE(filler_.memory);
		filler_.mr.reset(
			ibv_reg_mr(pair_->b.pd, filler_.memory.data(), pages * page, on_demand));
		ASSERT_TRUE(filler_.mr) << std::strerror(errno);
	}

	static int write_to(const Pair &pair, const Region &from, const Region &to, size_t offset,
			    uint32_t length = 64)
	{
		return post(pair.a, {.op = IBV_WR_RDMA_WRITE,
				     .sges = {from.sge(0, length)},
				     .remote_addr = to.address(offset),
				     .rkey = to.mr->rkey});
	}

	Region filler_;
};

// Two queue pairs take turns although each needs the room of the other.
TEST_F(OnDemandParts, TakeTurnsWhenThereIsRoomForOne)
{
	leave_room_for(1);
	connect_again();
	for (unsigned round = 0; round < 6 && !HasFailure(); round++) {
		local_.fill(round);
		const Pair *const pairs[] = {former_[0].get(), pair_.get()};
		for (size_t n : {0, 1})
			ASSERT_EQ(write_to(*pairs[n], local_, remote_, at(n) + round * page), 0);
		for (size_t n : {0, 1}) {
			expect_wc(pairs[n]->a.scq);
			EXPECT_TRUE(has_pattern(remote_.bytes(at(n) + round * page, 64), round));
		}
	}
	EXPECT_GE(count("odp_reclaims"), 6u);
}

TEST_F(OnDemandParts, AccessThatNeedsMoreThanThereIsRoomForFails)
{
	leave_room_for(1);
	ASSERT_EQ(write_to(*pair_, local_, remote_, at(1) - 32), 0);
	expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
	filler_ = {};
	connect_again();
	move(IBV_WR_RDMA_WRITE, 0, at(1) - 32, 64, 1);
}

TEST_F(OnDemandParts, AccessWaitsForRoom)
{
	leave_room_for(0);
	const uint64_t before = count("odp_faults");
	local_.fill(3);
	ASSERT_EQ(write_to(*pair_, local_, remote_, at(0)), 0);
	ASSERT_TRUE(await_condition([&] { return count("odp_faults") > before + 1; }));
	expect_quiet(pair_->a.scq, std::chrono::milliseconds(1));
	filler_ = {};
	expect_wc(pair_->a.scq);
	EXPECT_TRUE(has_pattern(remote_.bytes(at(0), 64), 3));
}

TEST_F(OnDemandParts, AccessThatFindsNoRoomForLongFails)
{
	leave_room_for(0);
	ASSERT_EQ(write_to(*pair_, local_, remote_, at(0)), 0);
	expect_wc(pair_->a.scq, IBV_WC_REM_ACCESS_ERR);
}

// A part without memory is of use to the queue pair that asked for it only, which may never come back.
TEST_F(OnDemandParts, IsGivenBackWithoutItsQueuePair)
{
	link_.min_rnr_timer = 0; // the longest: the queue pair does not look for long
	connect_again();
	leave_room_for(1);
	ASSERT_EQ(mprotect(remote_.memory.data() + at(1), page, PROT_NONE), 0);
	const uint64_t before = count("odp_failures");
	ASSERT_EQ(write_to(*pair_, local_, remote_, at(1)), 0);
	ASSERT_TRUE(await_condition([&] { return count("odp_failures") > before; }));
	pair_ = std::move(former_[0]);
	former_.clear();
	const Mapping other = Mapping::anonymous(part);
	ASSERT_TRUE(other);
	EXPECT_TRUE(await_condition([&] {
		return Mr(ibv_reg_mr(pair_->b.pd, other.data(), part, on_demand)) != nullptr;
	}));
}

// The server of a file does not answer a page fault in one part.
TEST_F(OnDemandParts, StuckPageFaultHoldsUpNoOtherPart)
{
	char path[] = "/tmp/verbs-stuck-XXXXXX", line[64];
	int report[2];

	if (getuid())
		GTEST_SKIP() << "only root can mount FUSE";
	close(mkstemp(path));
	ASSERT_EQ(pipe(report), 0);
	const pid_t server = stuck::serve_file(path, report[1], 120);
	if (server < 0) {
		const int err = errno;

		unlink(path);
		GTEST_SKIP() << "no FUSE: " << std::strerror(err);
	}
	close(report[1]);
	const int file = stuck::open_file(path);
	ASSERT_GE(file, 0);
	void *const memory =
		mmap(nullptr, stuck::length, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	ASSERT_NE(memory, MAP_FAILED);
	move(IBV_WR_RDMA_WRITE, 0, at(0), 64, 1);
	connect_again();
	move(IBV_WR_RDMA_WRITE, 0, at(1), 64, 1);

	// Until the server is killed, nothing here may wait for the address space.
	const Pair &stuck = *former_[0];
	ASSERT_EQ(post(stuck.a, {.op = IBV_WR_RDMA_WRITE,
				 .sges = {local_.sge(0, 64)},
				 .remote_addr = reinterpret_cast<uintptr_t>(memory),
				 .rkey = remote_.mr->rkey}),
		  0);
	EXPECT_GT(read(report[0], line, sizeof(line)), 0);
	EXPECT_EQ(write_to(*pair_, local_, remote_, at(2)), 0);
	const auto wc = await(pair_->a.scq);
	expect_quiet(stuck.a.scq, std::chrono::milliseconds(1));
	kill(server, SIGKILL);

	EXPECT_TRUE(wc && wc->status == IBV_WC_SUCCESS) << "an access to another part";
	expect_wc(stuck.a.scq, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(waitpid(server, nullptr, 0), server);
	munmap(memory, stuck::length);
	close(file);
	EXPECT_EQ(umount(path), 0) << std::strerror(errno);
	unlink(path);
	close(report[0]);
}

// A process that registers as many pages as a user may have: as the user nobody, as another user ID of a user namespace of that
// user's, or of one of root's.
class Hog {
public:
	static constexpr uid_t nobody = 65534, first_of_range = 100000;
	enum class Place { host, users_namespace, roots_namespace };

	// @first: of the user IDs of the namespace
	Hog(const Device &of, Place place, uid_t first = first_of_range)
		: place_(place), first_(first)
	{
		char byte;

		EXPECT_EQ(pipe(go_), 0);
		EXPECT_EQ(pipe(said_), 0);
		pid_ = fork();
		if (!pid_) {
			close(go_[1]);
			close(said_[0]);
			_exit(run(of));
		}
		close(go_[0]);
		close(said_[1]);
		if (place != Place::host && read(said_[0], &byte, 1) == 1) {
			map("uid_map");
			map("gid_map");
			EXPECT_EQ(write(go_[1], "", 1), 1);
		}
		EXPECT_EQ(read(said_[0], &byte, 1), 1);
		err_ = byte;
	}
	Hog(const Hog &) = delete;
	Hog &operator=(const Hog &) = delete;
	~Hog()
	{
		close(go_[1]);
		close(said_[0]);
		waitpid(pid_, nullptr, 0);
	}
	int error() const { return err_; } // of the registration

private:
	void map(const char *name) const
	{
		std::ofstream file("/proc/" + std::to_string(pid_) + "/" + name);

		if (place_ == Place::users_namespace)
			file << "0 " << nobody << " 1\n1 " << first_ << " 10\n" << std::flush;
		else
			file << "0 " << first_ << " 10\n" << std::flush;
		EXPECT_TRUE(file) << name;
	}
	void say(int what) const
	{
		const char byte = static_cast<char>(what);

		if (write(said_[1], &byte, 1) != 1)
			_exit(1);
	}
	int run(const Device &of) const
	{
		char byte;

		if (place_ != Place::roots_namespace && (setgid(nobody) || setuid(nobody)))
			return 1;
		if (place_ != Place::host) {
			prctl(PR_SET_DUMPABLE, 1); // or its maps are root's
			if (unshare(CLONE_NEWUSER))
				return 2;
			say(0);
			if (read(go_[0], &byte, 1) != 1 || setgid(1) || setuid(1))
				return 3;
		}
		const size_t length = pages_of_the_machine() * page;
		const auto own = Device::open(of.name, {of.gid_index, 4});
		const Pd pd(own ? ibv_alloc_pd(own->context.get()) : nullptr);
		const Mapping memory = Mapping::anonymous(length, MAP_NORESERVE);
		if (!pd || !memory)
			return 4;
		const Mr mr(ibv_reg_mr(pd.get(), memory.data(), length, on_demand));
		say(mr ? 0 : errno);
		return read(go_[0], &byte, 1) ? 5 : 0;
	}

	const Place place_;
	const uid_t first_;
	int go_[2] = {}, said_[2] = {};
	pid_t pid_ = -1;
	int err_ = 0;
};

// A user with a range of user IDs (/etc/subuid) has what one user has.
TEST_F(OnDemand, UserIDsOfANamespaceAreItsOwner)
{
	if (getuid() || options().unpinned)
		GTEST_SKIP() << "users share a kernel's device, and only root can become another "
				"one";
	{
		const Hog one(peer(), Hog::Place::users_namespace);

		ASSERT_EQ(one.error(), 0) << std::strerror(one.error());
		EXPECT_EQ(Hog(peer(), Hog::Place::users_namespace).error(), ENOMEM);
		EXPECT_EQ(Hog(peer(), Hog::Place::host).error(), ENOMEM);
	}
	EXPECT_EQ(Hog(peer(), Hog::Place::host).error(), 0);
}

// What one of root's containers has does not keep the next from having as much.
TEST_F(OnDemand, UserIDsOfRootsNamespacesAreTheirRoots)
{
	constexpr auto container = Hog::Place::roots_namespace;

	if (getuid() || options().unpinned)
		GTEST_SKIP() << "users share a kernel's device, and only root makes containers";
	const Hog one(peer(), container);

	ASSERT_EQ(one.error(), 0) << std::strerror(one.error());
	EXPECT_EQ(Hog(peer(), container).error(), ENOMEM) << "the same user IDs";
	EXPECT_EQ(Hog(peer(), container, 2 * Hog::first_of_range).error(), 0);
	EXPECT_EQ(Hog(peer(), Hog::Place::host).error(), 0) << "not of the container";
}

} // namespace
} // namespace verbs::odp
