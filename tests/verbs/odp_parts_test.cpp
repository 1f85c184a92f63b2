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
#include <memory>
#include <optional>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace verbs::odp
{
namespace
{

constexpr size_t part = 2 << 20, pages_per_part = part / page;
constexpr size_t region_pages = 128; // as which an explicit region counts beyond its own

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
		ASSERT_TRUE(local_ && remote_.mr);
		map_parts(4);
	}

	void TearDown() override
	{
		filler_ = {};
		OnDemand::TearDown();
	}

	// Memory of so many whole parts
	void map_parts(size_t parts)
	{
		remote_.memory = Mapping::anonymous((parts + 1) * part, MAP_NORESERVE);
		ASSERT_TRUE(remote_.memory);
		ASSERT_TRUE(
			!madvise(remote_.memory.data(), remote_.memory.size(), MADV_NOHUGEPAGE) ||
			errno == EINVAL);
	}

	// Offset of a whole part in the memory of the peer
	size_t at(size_t n) const { return (part - remote_.address() % part) % part + n * part; }

	uint64_t count(const char *name) const { return counter(peer(), name).value_or(0); }

	// Another region of the user takes all pages that it may have, but those of so many parts. The implicit one has its own.
	void leave_room_for(size_t parts)
	{
		const size_t pages =
			pages_of_the_machine() - (1 + parts) * pages_per_part - region_pages;

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
	const Mapping other = Mapping::anonymous(part / 2);
	ASSERT_TRUE(other);
	EXPECT_TRUE(await_condition([&] {
		return Mr(ibv_reg_mr(pair_->b.pd, other.data(), part / 2, on_demand)) != nullptr;
	}));
}

// A file whose server answers no page fault until it is killed. Meanwhile nothing may wait for an address space that maps it.
class StuckFile {
public:
	// NULL and errno: there is no FUSE.
	static std::unique_ptr<StuckFile> serve()
	{
		char path[] = "/tmp/verbs-stuck-XXXXXX";
		int report[2];

		close(mkstemp(path));
		EXPECT_EQ(pipe(report), 0);
		const pid_t server = stuck::serve_file(path, report[1], 120);
		const int err = errno;
		close(report[1]);
		if (server > 0)
			return std::unique_ptr<StuckFile>(new StuckFile(path, report[0], server));
		close(report[0]);
		unlink(path);
		errno = err;
		return nullptr;
	}
	StuckFile(const StuckFile &) = delete;
	StuckFile &operator=(const StuckFile &) = delete;
	~StuckFile()
	{
		kill_server();
		EXPECT_EQ(waitpid(server_, nullptr, 0), server_);
		close(file_);
		close(report_);
		EXPECT_EQ(umount2(path_.c_str(), MNT_DETACH), 0) << std::strerror(errno);
		unlink(path_.c_str());
	}
	bool map(std::byte *at) const
	{
		return mmap(at, stuck::length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
			    file_, 0) == at;
	}
	void await_fault() const
	{
		char line[64];

		EXPECT_GT(read(report_, line, sizeof(line)), 0);
	}
	void kill_server() const { kill(server_, SIGKILL); }

private:
	StuckFile(const char *path, int report, pid_t server)
		: path_(path), report_(report), server_(server), file_(stuck::open_file(path))
	{
		EXPECT_GE(file_, 0);
	}
	const std::string path_;
	const int report_;
	const pid_t server_;
	const int file_;
};

TEST_F(OnDemandParts, StuckPageFaultHoldsUpNoOtherPart)
{
	if (getuid())
		GTEST_SKIP() << "only root can mount FUSE";
	const auto file = StuckFile::serve();
	if (!file)
		GTEST_SKIP() << "no FUSE: " << std::strerror(errno);
	ASSERT_TRUE(file->map(remote_.memory.data() + at(3)));
	move(IBV_WR_RDMA_WRITE, 0, at(0), 64, 1);
	connect_again();
	move(IBV_WR_RDMA_WRITE, 0, at(1), 64, 1);

	const Pair &stuck = *former_[0];
	ASSERT_EQ(write_to(stuck, local_, remote_, at(3)), 0);
	file->await_fault();
	EXPECT_EQ(write_to(*pair_, local_, remote_, at(2)), 0);
	const auto wc = await(pair_->a.scq);
	expect_quiet(stuck.a.scq, std::chrono::milliseconds(1));
	file->kill_server();

	EXPECT_TRUE(wc && wc->status == IBV_WC_SUCCESS) << "an access to another part";
	expect_wc(stuck.a.scq, IBV_WC_REM_ACCESS_ERR);
}

// The driver has eight works for a region, each of which waits for a page fault here.
TEST_F(OnDemandParts, AccessThatFindsNoWorkIsCountedAndTriedAgain)
{
	constexpr size_t works = 8;

	if (getuid())
		GTEST_SKIP() << "only root can mount FUSE";
	const auto file = StuckFile::serve();
	if (!file)
		GTEST_SKIP() << "no FUSE: " << std::strerror(errno);
	map_parts(2 * works);
	for (size_t n = 0; n < works; n++)
		ASSERT_TRUE(file->map(remote_.memory.data() + at(n)));
	while (former_.size() < works)
		connect_again();
	local_.fill(1);
	const uint64_t before = count("odp_drops");

	for (size_t n = 0; n < works; n++)
		ASSERT_EQ(write_to(*former_[n], local_, remote_, at(n)), 0);
	file->await_fault();
	// Some of the eight may be late, and leave a work to others.
	std::optional<ibv_wc> wc;
	const auto dropped = [&] { return count("odp_drops") > before; };
	size_t n = works;
	do {
		ASSERT_EQ(write_to(*pair_, local_, remote_, at(n++)), 0);
		ASSERT_TRUE(await_condition([&] {
			return (wc = await(pair_->a.scq, std::chrono::milliseconds(1))) ||
			       dropped();
		}));
	} while (!dropped() && n < 2 * works);
	EXPECT_TRUE(dropped());
	file->kill_server();

	if (!wc)
		wc = await(pair_->a.scq);
	EXPECT_TRUE(wc && wc->status == IBV_WC_SUCCESS);
	EXPECT_TRUE(has_pattern(remote_.bytes(at(n - 1), 64), 1));
	for (const auto &stuck : former_)
		expect_wc(stuck->a.scq, IBV_WC_REM_ACCESS_ERR);
}

// A region costs memory of the kernel even if it has one page only.
TEST_F(OnDemandParts, RegionsCountAsMoreThanTheirPages)
{
	const Mapping memory = Mapping::anonymous(page);
	std::vector<Mr> regions;

	leave_room_for(1);
	for (size_t n = 0; n < pages_per_part; n++) {
		Mr mr(ibv_reg_mr(pair_->b.pd, memory.data(), page, on_demand));
		if (!mr)
			break;
		regions.push_back(std::move(mr));
	}
	EXPECT_EQ(regions.size(), pages_per_part / (region_pages + 1));
}

// A process that registers most of the pages that a user may have: as the user nobody, as another user ID of a user namespace of that
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
		const size_t length = pages_of_the_machine() / 4 * 3 * page;
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

bool has_user_namespaces()
{
	return access("/proc/self/ns/user", F_OK) == 0;
}

// A user with a range of user IDs (/etc/subuid) has what one user has.
TEST_F(OnDemand, UserIDsOfANamespaceAreItsOwner)
{
	if (getuid() || options().unpinned)
		GTEST_SKIP() << "users share a kernel's device, and only root can become another "
				"one";
	if (!has_user_namespaces())
		GTEST_SKIP() << "the kernel has no user namespaces";
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
	if (!has_user_namespaces())
		GTEST_SKIP() << "the kernel has no user namespaces";
	const Hog one(peer(), container);

	ASSERT_EQ(one.error(), 0) << std::strerror(one.error());
	EXPECT_EQ(Hog(peer(), container).error(), ENOMEM) << "the same user IDs";
	EXPECT_EQ(Hog(peer(), container, 2 * Hog::first_of_range).error(), 0);
	EXPECT_EQ(Hog(peer(), Hog::Place::host).error(), 0) << "not of the container";
}

} // namespace
} // namespace verbs::odp
