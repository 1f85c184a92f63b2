// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A context that processes share: ibv_import_device() of a descriptor that came over a UNIX socket, and domains, regions and
// device memory by their handles. A device that cannot be shared refuses.
#include "dm.hpp"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbs
{
namespace
{

constexpr size_t room = 16384;
constexpr uint32_t no_handle = 0xfffff0;

class Imports : public VerbsTest {
protected:
	// Memory that a child process shares, registered in a context of this process's own.
	void SetUp() override
	{
		VerbsTest::SetUp();
		owner_ = Device::open(device().name, {device().gid_index, options().gid.family});
		ASSERT_TRUE(owner_);
		pd_.reset(ibv_alloc_pd(context()));
		const int file = anonymous_file(room);
		memory_ = Mapping::of_file(file, room, PROT_READ | PROT_WRITE, MAP_SHARED);
		close(file);
		ASSERT_TRUE(pd_ && memory_);
		mr_.reset(ibv_reg_mr(pd_.get(), memory_.data(), room, all_access));
		ASSERT_TRUE(mr_);
		refused_ = import_refused();
	}

	ibv_context *context() const { return owner_->context.get(); }

	// The errno of an import, 0 if it succeeds. What was refused was refused as the manual says.
	int import_refused()
	{
		Context imported(import());
		const int err = errno;

		if (imported)
			return 0;
		EXPECT_EQ(err, EOPNOTSUPP) << std::strerror(err);
		errno = 0;
		EXPECT_FALSE(ibv_import_pd(context(), pd_->handle));
		EXPECT_EQ(errno, EOPNOTSUPP);
		errno = 0;
		EXPECT_FALSE(ibv_import_mr(pd_.get(), mr_->handle));
		EXPECT_EQ(errno, EOPNOTSUPP);
		errno = 0;
		EXPECT_FALSE(ibv_import_dm(context(), 1));
		EXPECT_EQ(errno, EOPNOTSUPP);
		EXPECT_TRUE(owner_->is_rxe() || options().unpinned) << "a kernel's device of ours "
								       "can be shared";
		return err;
	}

	// In this process, by a copy of the descriptor.
	Context import() const
	{
		errno = 0;
		return Context(ibv_import_device(dup(context()->cmd_fd)));
	}

#define SKIP_WITHOUT_IMPORT() \
	if (refused_) \
	GTEST_SKIP() << not_offered("ibv_import_device", refused_)

	std::optional<Device> owner_;
	Pd pd_;
	Mapping memory_;
	Mr mr_;
	int refused_ = 0; // errno
};

TEST_F(Imports, SeeTheObjectsOfTheContext)
{
	SKIP_WITHOUT_IMPORT();
	const Context imported = import();
	ASSERT_TRUE(imported);
	EXPECT_GE(imported->num_comp_vectors, 1);

	ibv_pd *pd = ibv_import_pd(imported.get(), pd_->handle);
	ASSERT_TRUE(pd) << std::strerror(errno);
	EXPECT_EQ(pd->handle, pd_->handle);
	EXPECT_EQ(pd->context, imported.get());
	ibv_mr *mr = ibv_import_mr(pd, mr_->handle);
	ASSERT_TRUE(mr) << std::strerror(errno);
	EXPECT_EQ(mr->lkey, mr_->lkey);
	EXPECT_EQ(mr->rkey, mr_->rkey);
	EXPECT_EQ(mr->length, mr_->length);
	EXPECT_EQ(mr->addr, nullptr);
	// An imported region does not change.
	EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
		  IBV_REREG_MR_ERR_INPUT);
	// A region made through the imported domain is one of the owner's.
	ibv_mr *made = ibv_reg_mr(pd, memory_.data(), room, all_access);
	ASSERT_TRUE(made);
	EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
	EXPECT_EQ(ibv_dereg_mr(made), 0);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
}

TEST_F(Imports, OfUnknownHandlesFail)
{
	SKIP_WITHOUT_IMPORT();
	const Context imported = import();
	ASSERT_TRUE(imported);

	for (uint32_t handle : {no_handle, mr_->handle == pd_->handle ? no_handle : mr_->handle}) {
		errno = 0;
		EXPECT_FALSE(ibv_import_pd(imported.get(), handle)) << handle;
		EXPECT_TRUE(errno == ENOENT || errno == EINVAL) << std::strerror(errno);
	}
	ibv_pd *pd = ibv_import_pd(imported.get(), pd_->handle);
	ASSERT_TRUE(pd);
	for (uint32_t handle : {no_handle, pd->handle == mr_->handle ? no_handle : pd->handle}) {
		errno = 0;
		EXPECT_FALSE(ibv_import_mr(pd, handle)) << handle;
		EXPECT_TRUE(errno == ENOENT || errno == EINVAL) << std::strerror(errno);
	}
	errno = 0;
	EXPECT_FALSE(ibv_import_dm(imported.get(), no_handle));
	EXPECT_EQ(errno, ENOENT) << std::strerror(errno);
	ibv_unimport_pd(pd);
}

TEST_F(Imports, OfAnotherFileFail)
{
	SKIP_WITHOUT_IMPORT();
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	errno = 0;
	EXPECT_FALSE(ibv_import_device(ends[0]));
	EXPECT_EQ(errno, EINVAL) << std::strerror(errno);
	close(ends[0]);
	close(ends[1]);
}

// "The first one will go to the kernel to destroy the object."
TEST_F(Imports, MayBeDestroyedByEitherSide)
{
	SKIP_WITHOUT_IMPORT();
	const Context imported = import();
	ASSERT_TRUE(imported);
	ibv_pd *pd = ibv_import_pd(imported.get(), pd_->handle);
	ASSERT_TRUE(pd);
	ibv_mr *mr = ibv_import_mr(pd, mr_->handle);
	ASSERT_TRUE(mr);
	ASSERT_EQ(ibv_dereg_mr(mr), 0);
	// The owner's part of the object is freed without the kernel.
	ibv_unimport_mr(mr_.release());
	ASSERT_EQ(ibv_dealloc_pd(pd), 0);
	errno = 0;
	EXPECT_FALSE(ibv_import_pd(imported.get(), pd_->handle));
	EXPECT_EQ(errno, ENOENT);
	ibv_unimport_pd(pd_.release());
}

TEST_F(Imports, OfDeviceMemoryAreTheSameMemory)
{
	SKIP_WITHOUT_IMPORT();
	if (!max_dm_size(*owner_))
		GTEST_SKIP() << not_reported("max_dm_size");
	const Dm dm = alloc_dm(*owner_, room);
	const Context imported = import();
	ASSERT_TRUE(dm && imported);
	ibv_dm *other = ibv_import_dm(imported.get(), dm->handle);
	ASSERT_TRUE(other) << std::strerror(errno);
	EXPECT_EQ(other->handle, dm->handle);
	fill_dm(dm.get(), room, 1);
	EXPECT_TRUE(has_pattern(read_dm(other, 0, room), 1));
	fill_dm(other, room, 2);
	EXPECT_TRUE(has_pattern(read_dm(dm.get(), 0, room), 2));
	EXPECT_EQ(ibv_memcpy_to_dm(other, room, &imported, 4), EINVAL);
	ibv_unimport_dm(other);
	EXPECT_TRUE(has_pattern(read_dm(dm.get(), 0, room), 2));
}

bool send_descriptor(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
	iovec part = {.iov_base = &byte, .iov_len = 1};
	msghdr message = {};

	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return sendmsg(socket, &message, 0) == 1;
}

int receive_descriptor(int socket)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
	iovec part = {.iov_base = &byte, .iov_len = 1};
	msghdr message = {};
	int fd = -1;

	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	if (recvmsg(socket, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

// What one process tells the other about its end.
struct Terms {
	uint32_t pd, mr, dm; // handles
	Address address;
	uint64_t addr;
	uint32_t rkey;
};

template <typename T> bool send_value(int socket, const T &value)
{
	return write(socket, &value, sizeof(value)) == sizeof(value);
}

template <typename T> bool receive_value(int socket, T &value)
{
	return recv(socket, &value, sizeof(value), MSG_WAITALL) == sizeof(value);
}

// The child: a queue pair of its own in the imported domain writes from the imported region, then from device memory by
// a region it makes. Returns 0, or the step that failed.
int use_imports(int socket, const Device &device, uint64_t own_addr)
{
	Terms terms = {};
	const int fd = receive_descriptor(socket);
	if (fd < 0 || !receive_value(socket, terms))
		return 1;
	Device own;
	own.name = device.name;
	own.context.reset(ibv_import_device(fd));
	own.attr = device.attr;
	own.port = device.port;
	own.port_attr = device.port_attr;
	own.gid_index = device.gid_index;
	own.gid = device.gid;
	if (!own.context)
		return 2;
	ibv_pd *pd = ibv_import_pd(own.context.get(), terms.pd);
	if (!pd)
		return 3;
	ibv_mr *mr = ibv_import_mr(pd, terms.mr);
	ibv_dm *dm = ibv_import_dm(own.context.get(), terms.dm);
	if (!mr || !dm)
		return 4;
	EndOptions options;
	options.shared_pd = pd;
	std::optional<End> end = End::create(own, options);
	if (!end->qp)
		return 5;
	if (!send_value(socket, end->address()))
		return 6;
	if (to_init(end->qp.get(), own, default_link()) ||
	    to_rtr(end->qp.get(), own, terms.address, default_link()) ||
	    to_rts(end->qp.get(), end->psn, default_link()))
		return 7;
	Mr over(ibv_reg_dm_mr(pd, dm, 0, room / 2, dm_access));
	if (!over)
		return 8;
	fill_dm(dm, room / 2, 8);
	const ibv_sge from_region = {own_addr, room / 2, mr->lkey};
	const ibv_sge from_dm = {0, room / 2, over->lkey};
	for (const auto &[sge, at] :
	     {std::pair{from_region, terms.addr}, std::pair{from_dm, terms.addr + room / 2}}) {
		if (post(*end, {.op = IBV_WR_RDMA_WRITE,
				.sges = {sge},
				.remote_addr = at,
				.rkey = terms.rkey}))
			return 9;
		const auto wc = await(end->scq);
		if (!wc || wc->status != IBV_WC_SUCCESS)
			return 10;
	}
	over.reset();
	end.reset();
	ibv_unimport_dm(dm);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	return testing::Test::HasFailure() ? 11 : 0;
}

TEST_F(Imports, OfAnotherProcessCarryItsTraffic)
{
	SKIP_WITHOUT_IMPORT();
	int ends[2], status = -1;
	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	fill_pattern(memory_.bytes(), 7);
	const uint64_t addr = memory_.address();
	const pid_t child = fork();
	if (!child)
		_exit(use_imports(ends[1], *owner_, addr));
	close(ends[1]);

	// The rings of this process may lie at the addresses of the child's.
	End mine = End::create(*owner_, {.shared_pd = pd_.get()});
	End far = End::create(peer());
	const Region target = make_region(far.pd, room);
	const Dm dm = alloc_dm(*owner_, room);
	ASSERT_TRUE(mine.qp && far.qp && target && dm);
	ASSERT_TRUE(send_descriptor(ends[0], context()->cmd_fd));
	ASSERT_TRUE(send_value(ends[0], Terms{.pd = pd_->handle,
					      .mr = mr_->handle,
					      .dm = dm->handle,
					      .address = far.address(),
					      .addr = target.address(),
					      .rkey = target.mr->rkey}));
	// Until the child's address is here, this end is not ready; its first packets are repeated.
	Address address;
	if (receive_value(ends[0], address)) {
		EXPECT_EQ(to_init(far.qp.get(), peer(), default_link()), 0);
		EXPECT_EQ(to_rtr(far.qp.get(), peer(), address, default_link()), 0);
		EXPECT_EQ(to_rts(far.qp.get(), far.psn, default_link()), 0);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_TRUE(WIFEXITED(status)) << status;
	EXPECT_EQ(WEXITSTATUS(status), 0) << "the step that failed";
	EXPECT_TRUE(has_pattern(target.bytes(0, room / 2), 7));
	EXPECT_TRUE(has_pattern(target.bytes(room / 2, room / 2), 8));
	EXPECT_TRUE(has_pattern(read_dm(dm.get(), 0, room / 2), 8));
	close(ends[0]);

	// What the child did not destroy is as before.
	EXPECT_EQ(state_of(mine.qp.get()), IBV_QPS_RESET);
	EXPECT_EQ(to_init(mine.qp.get(), *owner_, default_link()), 0);
}

} // namespace
} // namespace verbs
