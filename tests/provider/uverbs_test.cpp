/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device memory and imports of a kernel's device: the commands, which the program's own ioctl() takes
 * (it is linked with --wrap=ioctl), and the mapping.
 */
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include "context.hpp"
#include "doorbell.hpp"
#include "lifecycle.hpp"
#include "pd.hpp"
#include "qp.hpp"

namespace
{

using namespace sirdma;

constexpr uint64_t mmap_key = 4096;
constexpr uint64_t map_bytes = 8192;

/* The kernel's end. */
struct FakeUverbs {
	std::map<uint32_t, uint64_t> dms; /* length by handle */
	std::map<uint32_t, uint32_t> regions; /* device memory by handle */
	std::map<uint16_t, uint64_t> seen; /* attributes of the last command that are no pointers */
	std::vector<uint32_t> kicked; /* numbers of queue pairs */
	std::vector<size_t> advised; /* fragments of each command */
	std::vector<uint32_t> requested; /* an event of these completion queues */
	int fails = 0; /* errno of the next command */
	uint64_t key = mmap_key;
	uint32_t driver_id = 0;
	uint32_t next = 7;
};

FakeUverbs *uverbs;

ib_uverbs_attr *find(ib_uverbs_ioctl_hdr *command, uint16_t id)
{
	for (int i = 0; i < command->num_attrs; ++i)
		if (command->attrs[i].attr_id == id)
			return &command->attrs[i];
	return nullptr;
}

template <typename Value> bool answer(ib_uverbs_ioctl_hdr *command, uint16_t id, const Value &value)
{
	ib_uverbs_attr *attr = find(command, id);

	if (!attr || attr->len != sizeof(value))
		return false;
	memcpy(reinterpret_cast<void *>(attr->data), &value, sizeof(value));
	return true;
}

int alloc_dm_command(ib_uverbs_ioctl_hdr *command)
{
	const sirdma_dm_resp resp = {.mmap_key = uverbs->key,
				     .map_bytes = map_bytes,
				     .length = find(command, UVERBS_ATTR_ALLOC_DM_LENGTH)->data};

	if (!answer(command, SIRDMA_ATTR_ALLOC_DM_RESP, resp))
		return EPROTO;
	uverbs->dms[uverbs->next] = resp.length;
	find(command, UVERBS_ATTR_ALLOC_DM_HANDLE)->data = uverbs->next++;
	return 0;
}

int free_dm_command(ib_uverbs_ioctl_hdr *command)
{
	const auto handle = static_cast<uint32_t>(find(command, UVERBS_ATTR_FREE_DM_HANDLE)->data);

	for (const auto &[region, dm] : uverbs->regions)
		if (dm == handle)
			return EBUSY;
	return uverbs->dms.erase(handle) ? 0 : ENOENT;
}

int reg_dm_mr_command(ib_uverbs_ioctl_hdr *command)
{
	const uint32_t keys[] = {0x1100, 0x2200};

	if (!answer(command, UVERBS_ATTR_REG_DM_MR_RESP_LKEY, keys[0]) ||
	    !answer(command, UVERBS_ATTR_REG_DM_MR_RESP_RKEY, keys[1]))
		return EPROTO;
	uverbs->regions[uverbs->next] =
		static_cast<uint32_t>(find(command, UVERBS_ATTR_REG_DM_MR_DM_HANDLE)->data);
	find(command, UVERBS_ATTR_REG_DM_MR_HANDLE)->data = uverbs->next++;
	return 0;
}

uint32_t handle_in(ib_uverbs_ioctl_hdr *command, uint16_t id)
{
	return static_cast<uint32_t>(find(command, id)->data);
}

int reg_dmabuf_mr_command(ib_uverbs_ioctl_hdr *command)
{
	const uint32_t keys[] = {0x4400, 0x5500};

	if (!answer(command, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, keys[0]) ||
	    !answer(command, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, keys[1]))
		return EPROTO;
	find(command, UVERBS_ATTR_REG_DMABUF_MR_HANDLE)->data = uverbs->next++;
	return 0;
}

int query_dm_command(ib_uverbs_ioctl_hdr *command)
{
	const auto it = uverbs->dms.find(handle_in(command, SIRDMA_ATTR_DM_QUERY_HANDLE));

	if (it == uverbs->dms.end())
		return ENOENT;
	const sirdma_dm_resp resp = {
		.mmap_key = uverbs->key, .map_bytes = map_bytes, .length = it->second};

	return answer(command, SIRDMA_ATTR_DM_QUERY_RESP, resp) ? 0 : EPROTO;
}

int query_pd_command(ib_uverbs_ioctl_hdr *command)
{
	const sirdma_alloc_pd_resp resp = {.pd_id = 99, .rsvd = {}};

	if (!test::fake_driver().pds.contains(handle_in(command, SIRDMA_ATTR_PD_QUERY_HANDLE)))
		return ENOENT;
	return answer(command, SIRDMA_ATTR_PD_QUERY_RESP, resp) ? 0 : EPROTO;
}

int query_mr_command(ib_uverbs_ioctl_hdr *command)
{
	const auto &all = test::fake_driver().registrations;
	const auto it = all.find(handle_in(command, UVERBS_ATTR_QUERY_MR_HANDLE));

	if (it == all.end())
		return ENOENT;
	/* Ring memory has no key. */
	const uint32_t key = it->second.what.reg_type == SIRDMA_MEMREG_MEM ? 0x3300 : 0;

	return answer(command, UVERBS_ATTR_QUERY_MR_RESP_LKEY, key) &&
			       answer(command, UVERBS_ATTR_QUERY_MR_RESP_RKEY, key) &&
			       answer(command, UVERBS_ATTR_QUERY_MR_RESP_LENGTH,
				      it->second.length) ?
		       0 :
		       EPROTO;
}

int query_context_command(ib_uverbs_ioctl_hdr *command)
{
	const uint32_t vectors = 5;
	const uint64_t core_support = 1;

	return answer(command, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, vectors) &&
			       answer(command, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
				      core_support) &&
			       answer(command, SIRDMA_ATTR_QUERY_CONTEXT_RESP,
				      test::fake_driver().context_answer) ?
		       0 :
		       EPROTO;
}

int kick_command(ib_uverbs_ioctl_hdr *command)
{
	const ib_uverbs_attr *qpn = find(command, SIRDMA_ATTR_KICK_QPN);

	if (command->num_attrs != 1 || !qpn || qpn->len != sizeof(uint32_t) ||
	    qpn->flags != UVERBS_ATTR_F_MANDATORY)
		return EPROTO;
	uverbs->kicked.push_back(static_cast<uint32_t>(qpn->data));
	return 0;
}

int advise_mr_command(ib_uverbs_ioctl_hdr *command)
{
	const ib_uverbs_attr *sges = find(command, UVERBS_ATTR_ADVISE_MR_SGE_LIST);

	uverbs->advised.push_back(sges->len / sizeof(ib_uverbs_sge));
	return 0;
}

int invoke_write_command(ib_uverbs_ioctl_hdr *command)
{
	const ib_uverbs_attr *which = find(command, UVERBS_ATTR_WRITE_CMD),
			     *in = find(command, UVERBS_ATTR_CORE_IN);
	ib_uverbs_req_notify_cq request;

	if (command->num_attrs != 2 || !which || !in || which->len != sizeof(uint64_t) ||
	    which->data != IB_USER_VERBS_CMD_REQ_NOTIFY_CQ || in->len != sizeof(request))
		return EPROTO;
	memcpy(&request, &in->data, sizeof(request));
	uverbs->requested.push_back(request.cq_handle);
	return 0;
}

constexpr struct {
	uint16_t object, method;
	int (*execute)(ib_uverbs_ioctl_hdr *);
} known_commands[] = {
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, alloc_dm_command},
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, free_dm_command},
	{UVERBS_OBJECT_DM, SIRDMA_METHOD_DM_QUERY, query_dm_command},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, reg_dm_mr_command},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, query_mr_command},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, reg_dmabuf_mr_command},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, advise_mr_command},
	{UVERBS_OBJECT_PD, SIRDMA_METHOD_PD_QUERY, query_pd_command},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, query_context_command},
	{UVERBS_OBJECT_DEVICE, SIRDMA_METHOD_KICK, kick_command},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, invoke_write_command},
};

int run(ib_uverbs_ioctl_hdr *command)
{
	if (command->length != sizeof(*command) + command->num_attrs * sizeof(command->attrs[0]))
		return EINVAL;
	uverbs->driver_id = command->driver_id;
	uverbs->seen.clear();
	for (int i = 0; i < command->num_attrs; ++i)
		if (command->attrs[i].len <= 8)
			uverbs->seen[command->attrs[i].attr_id] = command->attrs[i].data;
	if (uverbs->fails)
		return std::exchange(uverbs->fails, 0);
	for (const auto &known : known_commands)
		if (command->object_id == known.object && command->method_id == known.method)
			return known.execute(command);
	return EPROTONOSUPPORT;
}

} // namespace

extern "C" {

int __real_ioctl(int fd, unsigned long request, ...);

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list list;

	va_start(list, request);
	void *argument = va_arg(list, void *);
	va_end(list);
	if (request != RDMA_VERBS_IOCTL)
		return __real_ioctl(fd, request, argument);
	errno = run(static_cast<ib_uverbs_ioctl_hdr *>(argument));
	return errno ? -1 : 0;
}
}

namespace sirdma::test
{

namespace
{

class DeviceMemory : public WithCq {
protected:
	void SetUp() override
	{
		uverbs = &uverbs_;
		WithCq::SetUp();
		ASSERT_EQ(ftruncate(fd_, mmap_key + map_bytes), 0);
	}

	void TearDown() override
	{
		WithCq::TearDown();
		EXPECT_TRUE(uverbs_.dms.empty());
	}

	ibv_dm *alloc(size_t length, uint32_t comp_mask = 0)
	{
		ibv_alloc_dm_attr attr{};

		attr.length = length;
		attr.log_align_req = 6;
		attr.comp_mask = comp_mask;
		errno = 0;
		return alloc_dm(context_, &attr);
	}

	/* The part of the device file that is mapped. */
	std::string in_file(off_t at, size_t bytes)
	{
		std::string got(bytes, 0);

		EXPECT_EQ(pread(fd_, got.data(), bytes, static_cast<off_t>(mmap_key) + at),
			  static_cast<ssize_t>(bytes));
		return got;
	}

	FakeUverbs uverbs_;
};

TEST_F(DeviceMemory, IsTheMappingThatTheDriverNames)
{
	ibv_dm *dm = alloc(5000);

	ASSERT_TRUE(dm);
	EXPECT_EQ(uverbs_.driver_id, uint32_t{SIRDMA_DRIVER_ID});
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_ALLOC_DM_LENGTH], 5000u);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_ALLOC_DM_ALIGNMENT], 6u);
	EXPECT_EQ(dm->handle, 7u);
	EXPECT_EQ(dm->comp_mask, uint32_t{IBV_DM_MASK_HANDLE});
	EXPECT_EQ(dm->memcpy_to_dm(dm, 4, "abcdefgh", 8), 0);
	EXPECT_EQ(in_file(4, 8), "abcdefgh");
	EXPECT_EQ(dm->memcpy_to_dm(dm, 4996, "WXYZ", 4), 0);
	EXPECT_EQ(in_file(4996, 4), "WXYZ");
	/* It ends where the application said, not with the page. */
	EXPECT_EQ(dm->memcpy_to_dm(dm, 5000, "WXYZ", 4), EINVAL);
	char back[12] = {};
	EXPECT_EQ(dm->memcpy_from_dm(back, dm, 0, sizeof(back)), 0);
	EXPECT_EQ(std::string(back, 12), std::string(4, '\0') + "abcdefgh");
	EXPECT_EQ(free_dm(dm), 0);
}

TEST_F(DeviceMemory, CopiesAnyWholeWords)
{
	const std::string text = "0123456789abcdefghijklmnopqrstuvwxyz";
	ibv_dm *dm = alloc(64);

	ASSERT_TRUE(dm);
	for (uint64_t offset = 0; offset <= 16; offset += 4) {
		for (size_t length = 0; length <= 32; length += 4) {
			char back[33] = {};

			ASSERT_EQ(dm->memcpy_to_dm(dm, 0, std::string(64, '-').data(), 64), 0);
			ASSERT_EQ(dm->memcpy_to_dm(dm, offset, text.data() + 1, length), 0);
			EXPECT_EQ(in_file(0, 64), std::string(offset, '-') +
							  text.substr(1, length) +
							  std::string(64 - offset - length, '-'));
			ASSERT_EQ(dm->memcpy_from_dm(back + 1, dm, offset, length), 0);
			EXPECT_EQ(std::string(back + 1, length), text.substr(1, length));
		}
	}
	for (uint64_t bad : {1, 2, 3, 5}) {
		EXPECT_EQ(dm->memcpy_to_dm(dm, bad, text.data(), 4), EINVAL);
		EXPECT_EQ(dm->memcpy_to_dm(dm, 0, text.data(), bad), EINVAL);
	}
	EXPECT_EQ(free_dm(dm), 0);
}

TEST_F(DeviceMemory, FailuresLeaveNothing)
{
	uverbs_.fails = ENOMEM;
	EXPECT_FALSE(alloc(64));
	EXPECT_EQ(errno, ENOMEM);
	/* The kernel, or its driver, is older. */
	for (int unknown : {EPROTONOSUPPORT, ENOTTY}) {
		uverbs_.fails = unknown;
		EXPECT_FALSE(alloc(64));
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	EXPECT_FALSE(alloc(64, 1));
	EXPECT_EQ(errno, EOPNOTSUPP);
	uverbs_.key = 100; /* cannot be mapped */
	EXPECT_FALSE(alloc(64));
	EXPECT_EQ(errno, EINVAL);
	EXPECT_TRUE(uverbs_.dms.empty());
}

TEST_F(DeviceMemory, RegionsNameItByHandleAndOffset)
{
	ibv_dm *dm = alloc(4096);

	ASSERT_TRUE(dm);
	ibv_mr *mr = reg_dm_mr(pd, dm, 100, 200, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ);
	ASSERT_TRUE(mr);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DM_MR_DM_HANDLE], dm->handle);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DM_MR_PD_HANDLE], pd->handle);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DM_MR_OFFSET], 100u);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DM_MR_LENGTH], 200u);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS],
		  uint64_t{IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ});
	EXPECT_EQ(mr->lkey, 0x1100u);
	EXPECT_EQ(mr->rkey, 0x2200u);
	EXPECT_EQ(mr->length, 200u);
	EXPECT_EQ(mr->addr, nullptr);
	EXPECT_EQ(mr->pd, pd);
	/* The library leaves the address space of such a region alone. */
	EXPECT_NE(reinterpret_cast<verbs_mr *>(mr)->mr_type, int{VERBS_MR_MEMORY});

	EXPECT_EQ(free_dm(dm), EBUSY);
	EXPECT_EQ(dm->memcpy_to_dm(dm, 0, "abcd", 4), 0);
	uverbs_.regions.clear();
	fake_driver().registrations[mr->handle] = {};
	EXPECT_EQ(dereg_mr(reinterpret_cast<verbs_mr *>(mr)), 0);

	uverbs_.fails = EINVAL;
	EXPECT_FALSE(reg_dm_mr(pd, dm, 0, 5000, IBV_ACCESS_ZERO_BASED));
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(free_dm(dm), 0);
}

TEST_F(DeviceMemory, DmaBuffersAreNamedByDescriptor)
{
	ibv_mr *mr = reg_dmabuf_mr(pd, 4097, 200, 0x12340001, 33, IBV_ACCESS_REMOTE_READ);

	ASSERT_TRUE(mr);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE], pd->handle);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DMABUF_MR_OFFSET], 4097u);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DMABUF_MR_LENGTH], 200u);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DMABUF_MR_IOVA], 0x12340001u);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DMABUF_MR_FD], 33u);
	EXPECT_EQ(uverbs_.seen[UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS],
		  uint64_t{IBV_ACCESS_REMOTE_READ});
	EXPECT_EQ(mr->lkey, 0x4400u);
	EXPECT_EQ(mr->rkey, 0x5500u);
	EXPECT_EQ(mr->length, 200u);
	EXPECT_EQ(reinterpret_cast<verbs_mr *>(mr)->mr_type, int{VERBS_MR_DMABUF});
	fake_driver().registrations[mr->handle] = {};
	EXPECT_EQ(dereg_mr(reinterpret_cast<verbs_mr *>(mr)), 0);
	uverbs_.fails = EBADF;
	EXPECT_FALSE(reg_dmabuf_mr(pd, 0, 200, 0, -1, 0));
	EXPECT_EQ(errno, EBADF);
}

/* The kernel takes the length of the list in 16 bits. */
TEST_F(DeviceMemory, AdviceIsGivenForAllFragmentsOrNone)
{
	std::vector<ibv_sge> sges(4097);
	const auto advise = [&](size_t count) {
		return advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, sges.data(),
				 static_cast<uint32_t>(count));
	};

	EXPECT_EQ(advise(1), 0);
	EXPECT_EQ(advise(4095), 0);
	EXPECT_EQ(uverbs_.advised, (std::vector<size_t>{1, 4095}));
	for (size_t count : {size_t{4096}, sges.size(), size_t{UINT32_MAX}})
		EXPECT_EQ(advise(count), EINVAL) << count;
	EXPECT_EQ(uverbs_.advised.size(), 2u);
}

class Imports : public DeviceMemory {
protected:
	/* As the library does for ibv_import_device(). Null with errno. */
	ibv_context *import()
	{
		errno = 0;
		verbs_context *context = driver.ops->import_context(&device_->device, dup(fd_));

		return context ? &context->context : nullptr;
	}
};

TEST_F(Imports, ContextIsTheOneThatExists)
{
	const int before = driver.contexts;
	ibv_context *context = import();

	ASSERT_TRUE(context);
	EXPECT_EQ(context->num_comp_vectors, 5);
	EXPECT_EQ(device_->core_support, 1u);
	EXPECT_EQ(driver.contexts, before + 1);
	EXPECT_EQ(Context::of(context).limits.max_sge, Context::of(context_).limits.max_sge);
	free_context(context);
}

/* The kernel takes write() only from the process that opened the file. */
TEST_F(Imports, KickIsACommandThatEveryProcessMayGive)
{
	Kick kick;

	kick.prepare_method(fd_, SIRDMA_DRIVER_ID, 77);
	kick.wake();
	EXPECT_EQ(uverbs_.driver_id, uint32_t{SIRDMA_DRIVER_ID});
	kick.wake();
	EXPECT_EQ(uverbs_.kicked, (std::vector<uint32_t>{77, 77}));
	/* Without memory it is repeated. */
	uverbs_.fails = ENOMEM;
	kick.wake();
	EXPECT_EQ(uverbs_.kicked.size(), 3u);
	uverbs_.fails = EIO;
	kick.wake();
	EXPECT_EQ(uverbs_.kicked.size(), 3u);
	EXPECT_EQ(lseek(fd_, 0, SEEK_CUR), 0) << "nothing was written";
}

/* Where an event may not have been raised for a completion */
TEST_F(Imports, ARequestForAnEventMayBeACommand)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_comp_channel channel{};
	ibv_qp *qp = create_qp(pd, &init);
	ibv_recv_wr recv{}, *bad = nullptr;

	ASSERT_TRUE(qp);
	ASSERT_EQ(to_state(qp, IBV_QPS_INIT), 0);
	ASSERT_EQ(post_recv(qp, &recv, &bad), 0);
	cq->channel = &channel;
	EXPECT_EQ(req_notify_cq(cq, 1), 0);
	EXPECT_TRUE(uverbs_.requested.empty()) << "nothing has come";
	complete_receive();
	uverbs_.fails = ENOMEM; /* it is repeated */
	EXPECT_EQ(req_notify_cq(cq, 0), 0);
	EXPECT_EQ(uverbs_.requested, (std::vector<uint32_t>{cq->handle}));
	EXPECT_EQ(uverbs_.driver_id, uint32_t{SIRDMA_DRIVER_ID});
	EXPECT_EQ(lseek(fd_, 0, SEEK_CUR), 0) << "nothing was written";
	EXPECT_EQ(req_notify_cq(cq, 0), 0);
	EXPECT_EQ(uverbs_.requested.size(), 1u) << "once";
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(Imports, NoEventIsAskedForWhereNoneCanCome)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &init);
	ibv_recv_wr recv{}, *bad = nullptr;

	ASSERT_TRUE(qp);
	ASSERT_EQ(to_state(qp, IBV_QPS_INIT), 0);
	ASSERT_EQ(post_recv(qp, &recv, &bad), 0);
	complete_receive();
	EXPECT_EQ(req_notify_cq(cq, 0), 0);
	EXPECT_TRUE(uverbs_.requested.empty()) << "the queue has no channel";
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(Imports, ContextOfAnOlderDriverIsRefused)
{
	for (int unknown : {EPROTONOSUPPORT, EOPNOTSUPP}) {
		uverbs_.fails = unknown;
		EXPECT_FALSE(import());
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	uverbs_.fails = EIO; /* the device is gone */
	EXPECT_FALSE(import());
	EXPECT_EQ(errno, EIO);
	/* A driver that answers otherwise than providers can work with. */
	driver.context_answer.comp_mask &= ~uint64_t{SIRDMA_UCTX_USE_RAW_ATTR};
	EXPECT_FALSE(import());
	EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Imports, DomainIsTheKernelsAndStays)
{
	ibv_pd *other = import_pd(context_, pd->handle);

	ASSERT_TRUE(other);
	EXPECT_NE(other, pd);
	EXPECT_EQ(other->handle, pd->handle);
	EXPECT_EQ(Pd::of(other).pd_id, 99u);
	unimport_pd(other);
	EXPECT_TRUE(driver.pds.contains(pd->handle));
	errno = 0;
	EXPECT_FALSE(import_pd(context_, 12345));
	EXPECT_EQ(errno, ENOENT);
}

/* A domain that is imported twice is one domain for the device. */
TEST_F(Imports, DatagramsMayGoByAHandleOfTheSameDomain)
{
	ibv_pd *first = import_pd(context_, pd->handle);
	ibv_pd *second = import_pd(context_, pd->handle);
	ibv_ah_attr attr{};
	ibv_qp_init_attr init = qp_attr(cq);

	init.qp_type = IBV_QPT_UD;
	ASSERT_TRUE(first && second);
	ibv_ah *ah = create_ah(first, &attr);
	ibv_qp *qp = create_qp(second, &init);
	ASSERT_TRUE(ah && qp);
	Qp::of(qp).queues().set_state(IBV_QPS_RTS);
	ibv_send_wr wr{}, *bad;
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.ah = ah;
	EXPECT_EQ(post_send(qp, &wr, &bad), 0);
	EXPECT_EQ(destroy_qp(qp), 0);
	EXPECT_EQ(destroy_ah(ah), 0);
	unimport_pd(second);
	unimport_pd(first);
}

/* LeakSanitizer and AddressSanitizer find an object that is freed never, or too early. */
TEST_F(Imports, DomainUnderParentsIsFreedWithTheLast)
{
	ibv_pd *other = import_pd(context_, pd->handle);
	ibv_parent_domain_init_attr attr{};

	ASSERT_TRUE(other);
	attr.pd = other;
	ibv_pd *first = alloc_parent_domain(context_, &attr);
	ibv_pd *second = alloc_parent_domain(context_, &attr);
	ASSERT_TRUE(first && second);
	unimport_pd(other);
	EXPECT_EQ(dealloc_pd(first), 0);
	EXPECT_EQ(Pd::of(second).contained->pd_id, 99u) << "the second still has it";
	EXPECT_EQ(dealloc_pd(second), 0);
	EXPECT_TRUE(driver.pds.contains(pd->handle));

	/* Without an end of the import the domain stays when its parents go. */
	other = import_pd(context_, pd->handle);
	ASSERT_TRUE(other);
	attr.pd = other;
	first = alloc_parent_domain(context_, &attr);
	ASSERT_TRUE(first);
	EXPECT_EQ(dealloc_pd(first), 0);
	EXPECT_EQ(Pd::of(other).users.load(), 0u);
	unimport_pd(other);
}

TEST_F(Imports, RegionHasItsKeys)
{
	alignas(4096) static uint8_t memory[4096];
	ibv_mr *mr = reg_mr(pd, memory, sizeof(memory), reinterpret_cast<uintptr_t>(memory), 0);

	ASSERT_TRUE(mr);
	ibv_mr *other = import_mr(pd, mr->handle);
	ASSERT_TRUE(other);
	EXPECT_EQ(other->lkey, 0x3300u);
	EXPECT_EQ(other->length, sizeof(memory));
	EXPECT_EQ(other->addr, nullptr);
	EXPECT_EQ(reinterpret_cast<verbs_mr *>(other)->mr_type, int{VERBS_MR_IMPORTED});
	unimport_mr(other);
	EXPECT_TRUE(driver.registrations.contains(mr->handle));
	EXPECT_EQ(dereg_mr(reinterpret_cast<verbs_mr *>(mr)), 0);
	errno = 0;
	EXPECT_FALSE(import_mr(pd, 12345));
	EXPECT_EQ(errno, ENOENT);
}

TEST_F(Imports, RingMemoryIsNoRegion)
{
	ASSERT_FALSE(driver.registrations.empty()); /* the CQ's */
	for (const auto &[handle, registration] : driver.registrations) {
		errno = 0;
		EXPECT_FALSE(import_mr(pd, handle));
		EXPECT_EQ(errno, EINVAL);
	}
}

TEST_F(Imports, DeviceMemoryIsMappedAgain)
{
	ibv_dm *dm = alloc(4096);

	ASSERT_TRUE(dm);
	ibv_dm *other = import_dm(context_, dm->handle);
	ASSERT_TRUE(other);
	EXPECT_EQ(other->handle, dm->handle);
	ASSERT_EQ(dm->memcpy_to_dm(dm, 8, "shared!!", 8), 0);
	char back[8];
	ASSERT_EQ(other->memcpy_from_dm(back, other, 8, 8), 0);
	EXPECT_EQ(std::string(back, 8), "shared!!");
	EXPECT_EQ(other->memcpy_from_dm(back, other, 4096, 4), EINVAL);
	unimport_dm(other);
	EXPECT_EQ(uverbs_.dms.size(), 1u);
	uverbs_.key = 100;
	EXPECT_FALSE(import_dm(context_, dm->handle));
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(uverbs_.dms.size(), 1u) << "what cannot be mapped here is not freed there";
	errno = 0;
	EXPECT_FALSE(import_dm(context_, 12345));
	EXPECT_EQ(errno, ENOENT);
	EXPECT_EQ(free_dm(dm), 0);
}

} // namespace

} // namespace sirdma::test
