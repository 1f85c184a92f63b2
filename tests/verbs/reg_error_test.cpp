// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Registrations that must fail, each with its errno, and what the failure leaves behind: nothing.
#include "fixture.hpp"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace verbs
{
namespace
{

constexpr size_t page = 4096;

class RegErrors : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		pd_.reset(ibv_alloc_pd(device().context.get()));
		memory_ = Mapping::anonymous(16 * page);
		ASSERT_TRUE(pd_ && memory_);
	}

	void expect_error(int error, void *start, size_t length, int access = all_access)
	{
		errno = 0;
		const Mr mr(ibv_reg_mr(pd_.get(), start, length, access));
		EXPECT_FALSE(mr);
		EXPECT_EQ(errno, error) << std::strerror(errno);
	}

	Pd pd_;
	Mapping memory_;
};

TEST_F(RegErrors, RemoteWriteNeedsLocalWrite)
{
	expect_error(EINVAL, memory_.data(), page, IBV_ACCESS_REMOTE_WRITE);
	expect_error(EINVAL, memory_.data(), page,
		     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	expect_error(EINVAL, memory_.data(), page, IBV_ACCESS_REMOTE_ATOMIC);
}

TEST_F(RegErrors, UnknownAccessFlag)
{
	errno = 0;
	const Mr mr(ibv_reg_mr_iova2(pd_.get(), memory_.data(), page, memory_.address(),
				     IBV_ACCESS_LOCAL_WRITE | 1u << 14));
	EXPECT_FALSE(mr);
	EXPECT_EQ(errno, EINVAL) << std::strerror(errno);
}

// UCX registers all its memory so, whether the device has atomics or not.
TEST_F(RegErrors, AtomicsMayBeGrantedOnAnyDevice)
{
	const Mr mr(
		ibv_reg_mr(pd_.get(), memory_.data(), page, all_access | IBV_ACCESS_REMOTE_ATOMIC));

	EXPECT_TRUE(mr) << std::strerror(errno);
}

TEST_F(RegErrors, AccessFlagThatIsNotOffered)
{
	if (device().is_rxe())
		GTEST_SKIP() << "soft-RoCE of older kernels takes it";
	errno = 0;
	const Mr mr(ibv_reg_mr_iova2(pd_.get(), memory_.data(), page, memory_.address(),
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB));
	EXPECT_FALSE(mr);
	EXPECT_EQ(errno, EOPNOTSUPP) << std::strerror(errno);
}

// Handles that nothing of the device has.
TEST_F(RegErrors, WrongHandlesAreNotFound)
{
	static constexpr uint32_t nobodys = 0xfffff0;
	const auto lost = [](auto *object, int (*destroy)(decltype(object))) {
		const uint32_t handle = std::exchange(object->handle, nobodys);
		const int error = destroy(object);
		object->handle = handle;
		return error;
	};
	Mr mr(ibv_reg_mr(pd_.get(), memory_.data(), page, all_access));
	Cq cq(ibv_create_cq(device().context.get(), 1, nullptr, nullptr, 0));
	ASSERT_TRUE(mr && cq);
	EXPECT_EQ(lost(mr.get(), ibv_dereg_mr), ENOENT);
	EXPECT_EQ(lost(cq.get(), ibv_destroy_cq), ENOENT);
	EXPECT_EQ(destroy(mr), 0);
	EXPECT_EQ(destroy(cq), 0);
	EXPECT_EQ(lost(pd_.get(), ibv_dealloc_pd), ENOENT);
	EXPECT_EQ(destroy(pd_), 0);
}

TEST_F(RegErrors, NoBytes)
{
	expect_error(EINVAL, memory_.data(), 0);
}

TEST_F(RegErrors, RangeThatWraps)
{
	expect_error(EINVAL, memory_.data(), ~size_t{0});
	expect_error(EINVAL, memory_.data(),
		     ~size_t{0} - reinterpret_cast<size_t>(memory_.data()) + 2);
}

TEST_F(RegErrors, NothingMappedThere)
{
	void *hole = mmap(nullptr, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(hole, MAP_FAILED);
	expect_error(EFAULT, hole, page);
	munmap(hole, 4 * page);
	expect_error(EFAULT, hole, page);
}

TEST_F(RegErrors, HoleInTheMiddle)
{
	ASSERT_EQ(munmap(memory_.data() + 8 * page, page), 0);
	expect_error(EFAULT, memory_.data(), 16 * page);
	const Mr left(ibv_reg_mr(pd_.get(), memory_.data(), 8 * page, all_access));
	const Mr right(ibv_reg_mr(pd_.get(), memory_.data() + 9 * page, 7 * page, all_access));
	EXPECT_TRUE(left && right);
}

TEST_F(RegErrors, FailuresLeaveNothingBehind)
{
	for (int i = 0; i < 500 && !HasFailure(); i++) {
		expect_error(EFAULT, reinterpret_cast<void *>(page), 3 * page);
		expect_error(EINVAL, memory_.data(), page, IBV_ACCESS_REMOTE_WRITE);
	}
	const Mr mr(ibv_reg_mr(pd_.get(), memory_.data(), 16 * page, all_access));
	EXPECT_TRUE(mr);
}

TEST_F(RegErrors, ProtectionDomainInUseStays)
{
	Mr mr(ibv_reg_mr(pd_.get(), memory_.data(), page, all_access));
	ASSERT_TRUE(mr);
	EXPECT_EQ(destroy(pd_), EBUSY);
	EXPECT_EQ(destroy(mr), 0);
	EXPECT_EQ(destroy(pd_), 0);
}

// ---- RLIMIT_MEMLOCK, in a child process without privileges

bool drop_capabilities()
{
	__user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	__user_cap_data_struct data[2] = {};
	return syscall(SYS_capset, &header, data) == 0;
}

enum Verdict { right, no_limit, no_device, small_failed, large_passed, wrong_errno, leaked };

Verdict register_within_limit(const std::string &name)
{
	constexpr size_t limit = 1 << 20;
	const rlimit bounds = {limit, limit};
	const std::optional<Device> dev = Device::open(name, options().gid);
	if (!dev)
		return no_device;
	const Pd pd(ibv_alloc_pd(dev->context.get()));
	const Mapping memory = Mapping::anonymous(4 * limit);
	if (setrlimit(RLIMIT_MEMLOCK, &bounds) || !drop_capabilities())
		return no_limit;
	// Pinned pages must be given back by each deregistration and by each failure.
	for (int i = 0; i < 20; i++) {
		const Mr fits(ibv_reg_mr(pd.get(), memory.data(), limit / 2, all_access));
		if (!fits)
			return i ? leaked : small_failed;
		errno = 0;
		const Mr too_large(ibv_reg_mr(pd.get(), memory.data(), 2 * limit, all_access));
		if (too_large)
			return large_passed;
		if (errno != ENOMEM)
			return wrong_errno;
	}
	return right;
}

TEST_F(RegErrors, LockedMemoryLimitGivesEnomem)
{
	if (options().unpinned)
		GTEST_SKIP() << device().name << " locks no memory";
	const pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		const Verdict verdict = register_within_limit(device().name);
		if (verdict != right)
			std::perror("register_within_limit");
		_exit(verdict);
	}
	int status = 0;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), right) << "1: limit not set, 2: no device, 3: half the "
						 "limit refused, 4: twice the limit accepted, 5: "
						 "wrong errno, "
						 "6: accounting leaks";
}

} // namespace
} // namespace verbs
