// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Calls that must fail, and the errno of each: the same for a device of the kernel and for the twin. What a device does not
// have is refused with EOPNOTSUPP.
#include "fixture.hpp"

#include <cerrno>
#include <cstring>
#include <ostream>
#include <utility>

namespace verbs
{
namespace
{

// What the calls need to be wrong in one point only.
struct Scene {
	ibv_context *context = device().context.get();
	End end = End::create(device(), {.inline_data = 16});
	Region region = make_region(end.pd, 4096);

	explicit operator bool() const { return end.qp && region; }
};

// Of a call that returns an object, or null with errno. 0: it succeeded, and @destroy undoes it.
template <typename Object> int made(Object *object, int (*destroy)(Object *))
{
	const int err = errno;
	if (!object)
		return err;
	EXPECT_EQ(destroy(object), 0);
	return 0;
}

// Of a call that returns -1 with errno, or an errno.
int result(int rc)
{
	return rc < 0 ? errno : rc;
}

struct Row {
	const char *name;
	int error;
	int (*call)(Scene &);
};

void PrintTo(const Row &row, std::ostream *out)
{
	*out << row.name;
}

int destroy_cq_ex(ibv_cq_ex *cq)
{
	return ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
}

int create_cq(Scene &scene, int cqe, int vector = 0)
{
	return made(ibv_create_cq(scene.context, cqe, nullptr, nullptr, vector), ibv_destroy_cq);
}

int create_cq_ex(Scene &scene, uint64_t wc_flags, uint32_t comp_mask, uint32_t flags)
{
	ibv_cq_init_attr_ex attr = {};
	attr.cqe = 4;
	attr.wc_flags = wc_flags;
	attr.comp_mask = comp_mask;
	attr.flags = flags;
	return made(ibv_create_cq_ex(scene.context, &attr), destroy_cq_ex);
}

int create_qp(Scene &scene, ibv_qp_type type, const ibv_qp_cap &cap)
{
	ibv_qp_init_attr attr = {};
	attr.qp_type = type;
	attr.send_cq = scene.end.scq;
	attr.recv_cq = scene.end.rcq;
	attr.cap = cap;
	return made(ibv_create_qp(scene.end.pd, &attr), ibv_destroy_qp);
}

int create_srq(Scene &scene, uint32_t max_wr, uint32_t max_sge)
{
	ibv_srq_init_attr attr = {};
	attr.attr.max_wr = max_wr;
	attr.attr.max_sge = max_sge;
	return made(ibv_create_srq(scene.end.pd, &attr), ibv_destroy_srq);
}

int create_srq_ex(Scene &scene, ibv_srq_type type)
{
	ibv_srq_init_attr_ex attr = {};
	attr.attr.max_wr = attr.attr.max_sge = 1;
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ;
	attr.srq_type = type;
	attr.pd = scene.end.pd;
	attr.cq = scene.end.rcq;
	if (type == IBV_SRQT_TM) {
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
		attr.tm_cap = {.max_num_tags = 1, .max_ops = 1};
	}
	return made(ibv_create_srq_ex(scene.context, &attr), ibv_destroy_srq);
}

// Peers name the queues of XRC domains alone.
int number_of_srq(Scene &scene)
{
	ibv_srq_init_attr attr = {};
	attr.attr.max_wr = attr.attr.max_sge = 1;
	ibv_srq *srq = ibv_create_srq(scene.end.pd, &attr);
	if (!srq)
		return errno;
	uint32_t number = 0;
	const int error = ibv_get_srq_num(srq, &number);
	EXPECT_EQ(ibv_destroy_srq(srq), 0);
	return error;
}

int create_ah(Scene &scene, uint8_t port, bool global)
{
	ibv_ah_attr attr = {};
	attr.port_num = port;
	attr.is_global = global;
	attr.grh.dgid = device().gid;
	attr.grh.sgid_index = static_cast<uint8_t>(device().gid_index);
	return made(ibv_create_ah(scene.end.pd, &attr), ibv_destroy_ah);
}

int alloc_parent_domain(Scene &scene, bool with_pd, uint32_t comp_mask)
{
	ibv_parent_domain_init_attr attr = {};
	attr.pd = with_pd ? scene.end.pd : nullptr;
	attr.comp_mask = comp_mask;
	return made(ibv_alloc_parent_domain(scene.context, &attr), ibv_dealloc_pd);
}

// Deallocates a PD, or a thread domain, that a parent domain uses.
int dealloc_in_use(Scene &scene, bool thread_domain)
{
	ibv_td_init_attr td_attr = {};
	ibv_td *td = ibv_alloc_td(scene.context, &td_attr);
	Pd pd(ibv_alloc_pd(scene.context));
	ibv_parent_domain_init_attr attr = {};
	attr.pd = pd.get();
	attr.td = td;
	ibv_pd *parent = ibv_alloc_parent_domain(scene.context, &attr);
	const int rc = thread_domain ? ibv_dealloc_td(td) : ibv_dealloc_pd(pd.get());
	EXPECT_EQ(ibv_dealloc_pd(parent), 0);
	EXPECT_EQ(ibv_dealloc_td(td), 0);
	return rc;
}

int modify_cq(Scene &scene, uint32_t mask, uint16_t count, uint16_t period)
{
	ibv_modify_cq_attr attr = {};
	attr.attr_mask = mask;
	attr.moderate = {.cq_count = count, .cq_period = period};
	return result(ibv_modify_cq(scene.end.scq, &attr));
}

const Row queues[] = {
	{"XrcDomainWithoutFlags", EINVAL,
	 [](Scene &s) {
		 ibv_xrcd_init_attr attr = {};
		 attr.comp_mask = IBV_XRCD_INIT_ATTR_FD;
		 attr.fd = -1;
		 return made(ibv_open_xrcd(s.context, &attr), ibv_close_xrcd);
	 }},
	{"XrcDomainOfNoFile", EBADF,
	 [](Scene &s) {
		 ibv_xrcd_init_attr attr = {};
		 attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
		 attr.fd = 1 << 20;
		 attr.oflags = 0100; /* O_CREAT */
		 return made(ibv_open_xrcd(s.context, &attr), ibv_close_xrcd);
	 }},
	{"SharedQueueOfXrcWithoutDomain", EINVAL,
	 [](Scene &s) { return create_srq_ex(s, IBV_SRQT_XRC); }},
	{"NumberOfASharedQueue", EINVAL, number_of_srq},
	{"CqModifiedInNothing", EINVAL, [](Scene &s) { return modify_cq(s, 0, 4, 4); }},
	{"CqModifiedInAnUnknownWay", EINVAL,
	 [](Scene &s) { return modify_cq(s, IBV_CQ_ATTR_RESERVED, 4, 4); }},
	{"CqEventsOfTooManyCompletions", EINVAL,
	 [](Scene &s) { return modify_cq(s, IBV_CQ_ATTR_MODERATE, 32768, 4); }},
	{"CqEventsThatAreTooLate", EINVAL,
	 [](Scene &s) { return modify_cq(s, IBV_CQ_ATTR_MODERATE, 4, 32768); }},
	{"CqOfNoEntries", EINVAL, [](Scene &s) { return create_cq(s, 0); }},
	{"CqOfTooManyEntries", EINVAL,
	 [](Scene &s) { return create_cq(s, device().attr.max_cqe + 1); }},
	{"CqOfAnUnknownVector", EINVAL,
	 [](Scene &s) { return create_cq(s, 4, s.context->num_comp_vectors); }},
	{"CqExOfAnUnknownField", EOPNOTSUPP,
	 [](Scene &s) { return create_cq_ex(s, 1ull << 40, 0, 0); }},
	{"CqExOfTagMatching", EOPNOTSUPP,
	 [](Scene &s) { return create_cq_ex(s, IBV_WC_EX_WITH_TM_INFO, 0, 0); }},
	{"CqExOfFlowTags", EOPNOTSUPP,
	 [](Scene &s) { return create_cq_ex(s, IBV_WC_EX_WITH_FLOW_TAG, 0, 0); }},
	{"CqExOfAnUnknownFlag", EOPNOTSUPP,
	 [](Scene &s) { return create_cq_ex(s, 0, IBV_CQ_INIT_ATTR_MASK_FLAGS, 1u << 20); }},
	{"CqExOfAnUnknownAttribute", EOPNOTSUPP,
	 [](Scene &s) { return create_cq_ex(s, 0, 1u << 20, 0); }},
	{"CqExThatIgnoresOverruns", EOPNOTSUPP,
	 [](Scene &s) {
		 return create_cq_ex(s, 0, IBV_CQ_INIT_ATTR_MASK_FLAGS,
				     IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	 }},
	{"CqExInNoParentDomain", EINVAL,
	 [](Scene &s) { return create_cq_ex(s, 0, IBV_CQ_INIT_ATTR_MASK_PD, 0); }},
	{"QpOfTooManyRequests", EINVAL,
	 [](Scene &s) {
		 return create_qp(s, IBV_QPT_RC, {1u << 30, 1, 1, 1, 0});
	 }},
	{"QpOfTooManyPieces", EINVAL,
	 [](Scene &s) {
		 return create_qp(s, IBV_QPT_RC, {1, 1, 1000, 1, 0});
	 }},
	{"QpOfTooMuchInlineData", EINVAL,
	 [](Scene &s) {
		 return create_qp(s, IBV_QPT_RC, {1, 1, 1, 1, 1u << 20});
	 }},
	{"QpOfRawPackets", EOPNOTSUPP,
	 [](Scene &s) {
		 return create_qp(s, IBV_QPT_RAW_PACKET, {1, 1, 1, 1, 0});
	 }},
	{"QpOfTheGeneralServices", EOPNOTSUPP,
	 [](Scene &s) {
		 return create_qp(s, static_cast<ibv_qp_type>(1), {1, 1, 1, 1, 0});
	 }},
	{"QpOfAnUnknownType", EOPNOTSUPP,
	 [](Scene &s) {
		 return create_qp(s, static_cast<ibv_qp_type>(200), {1, 1, 1, 1, 0});
	 }},
	{"SrqOfTooManyPieces", EINVAL, [](Scene &s) { return create_srq(s, 16, ~0u); }},
	{"SrqOfTooManyRequests", EINVAL, [](Scene &s) { return create_srq(s, 1u << 30, 1); }},
	{"AhOfAnUnknownPort", EINVAL, [](Scene &s) { return create_ah(s, 2, true); }},
	{"AhWithoutAddress", EINVAL, [](Scene &s) { return create_ah(s, 1, false); }},
	{"ParentDomainOfNothing", EINVAL,
	 [](Scene &s) { return alloc_parent_domain(s, false, 0); }},
	{"PdThatAParentDomainUses", EBUSY, [](Scene &s) { return dealloc_in_use(s, false); }},
	{"TdThatAParentDomainUses", EBUSY, [](Scene &s) { return dealloc_in_use(s, true); }},
	{"ParentDomainOfAnUnknownAttribute", EOPNOTSUPP,
	 [](Scene &s) { return alloc_parent_domain(s, true, 1u << 20); }},
};

// What is done to a window, which then goes.
int with_window(Scene &scene, ibv_mw_type type, int (*call)(Scene &, ibv_mw *))
{
	const Mw mw(ibv_alloc_mw(scene.end.pd, type));

	return mw ? call(scene, mw.get()) : errno;
}

const Row windows[] = {
	{"WindowOfAnUnknownType", EINVAL,
	 [](Scene &s) {
		 return made(ibv_alloc_mw(s.end.pd, static_cast<ibv_mw_type>(3)), ibv_dealloc_mw);
	 }},
	{"WindowThatIsNotThere", ENOENT,
	 [](Scene &s) {
		 return with_window(s, IBV_MW_TYPE_1, [](Scene &, ibv_mw *mw) {
			 const uint32_t handle = std::exchange(mw->handle, 0xfffff0u);
			 const int err = ibv_dealloc_mw(mw);
			 mw->handle = handle;
			 return err;
		 });
	 }},
	{"PdThatAWindowUses", EBUSY,
	 [](Scene &s) {
		 return with_window(s, IBV_MW_TYPE_2, [](Scene &scene, ibv_mw *) {
			 return ibv_dealloc_pd(scene.end.pd);
		 });
	 }},
	{"WindowOfType2BoundByTheVerb", EINVAL,
	 [](Scene &s) {
		 return with_window(s, IBV_MW_TYPE_2, [](Scene &scene, ibv_mw *mw) {
			 ibv_mw_bind bind = {};
			 bind.bind_info.mr = scene.region.mr.get();
			 bind.bind_info.addr = scene.region.address();
			 bind.bind_info.length = 64;
			 return ibv_bind_mw(scene.end.qp.get(), mw, &bind);
		 });
	 }},
};

// The errno behind a code of ibv_rereg_mr(); 0: it succeeded.
int change(Scene &scene, int flags, void *addr, size_t length, int access, ibv_pd *pd = nullptr)
{
	return ibv_rereg_mr(scene.region.mr.get(), flags, pd, addr, length, access) ? errno : 0;
}

int change_access(Scene &scene, int access)
{
	return change(scene, IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, access);
}

int change_place(Scene &scene, void *addr, size_t length)
{
	return change(scene, IBV_REREG_MR_CHANGE_TRANSLATION, addr, length, 0);
}

const Row regions[] = {
	{"ChangeOfNothing", EINVAL, [](Scene &s) { return change(s, 0, nullptr, 0, 0); }},
	{"ChangeThatIsUnknown", EINVAL, [](Scene &s) { return change(s, 1 << 3, nullptr, 0, 0); }},
	{"ChangeToNoBytes", EINVAL,
	 [](Scene &s) { return change_place(s, s.region.memory.data(), 0); }},
	{"ChangeToTooManyBytes", EINVAL,
	 [](Scene &s) { return change_place(s, s.region.memory.data(), size_t{1} << 50); }},
	{"ChangeToNoMemory", EFAULT,
	 [](Scene &s) { return change_place(s, reinterpret_cast<void *>(4096), 4096); }},
	{"ChangeToRemoteWritesOnly", EINVAL,
	 [](Scene &s) { return change_access(s, IBV_ACCESS_REMOTE_WRITE); }},
	{"ChangeToAnUnknownRight", EINVAL,
	 [](Scene &s) { return change_access(s, IBV_ACCESS_LOCAL_WRITE | 1 << 14); }},
	{"ChangeToOnDemand", EOPNOTSUPP,
	 [](Scene &s) { return change_access(s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND); }},
	{"ChangeToNoDomain", EINVAL,
	 [](Scene &s) { return change(s, IBV_REREG_MR_CHANGE_PD, nullptr, 0, 0); }},
	{"ChangeToADomainOfAnotherContext", EINVAL,
	 [](Scene &s) {
		 const Context other(ibv_open_device(s.context->device));
		 const Pd pd(ibv_alloc_pd(other.get()));
		 return pd ? change(s, IBV_REREG_MR_CHANGE_PD, nullptr, 0, 0, pd.get()) : errno;
	 }},
	{"ChangeOfARegionThatIsNotThere", ENOENT,
	 [](Scene &s) {
		 const uint32_t handle = std::exchange(s.region.mr->handle, 0xfffff0u);
		 const int err = change_access(s, IBV_ACCESS_LOCAL_WRITE);
		 s.region.mr->handle = handle;
		 return err;
	 }},
};

constexpr unsigned zero_based = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;

int alloc_dm(Scene &scene, size_t length, uint32_t log_align = 0, uint32_t comp_mask = 0)
{
	ibv_alloc_dm_attr attr = {
		.length = length, .log_align_req = log_align, .comp_mask = comp_mask};
	return made(ibv_alloc_dm(scene.context, &attr), ibv_free_dm);
}

// What is done to a page of device memory, which then goes.
int with_dm(Scene &scene, int (*call)(Scene &, ibv_dm *))
{
	ibv_alloc_dm_attr attr = {.length = 4096, .log_align_req = 0, .comp_mask = 0};
	ibv_dm *dm = ibv_alloc_dm(scene.context, &attr);
	if (!dm)
		return errno;
	errno = 0;
	const int err = call(scene, dm);
	EXPECT_EQ(ibv_free_dm(dm), 0);
	return err;
}

int reg_dm(Scene &scene, ibv_dm *dm, uint64_t offset, size_t length, unsigned access)
{
	return made(ibv_reg_dm_mr(scene.end.pd, dm, offset, length, access), ibv_dereg_mr);
}

const Row device_memory[] = {
	{"DeviceMemoryOfNoBytes", EINVAL, [](Scene &s) { return alloc_dm(s, 0); }},
	{"DeviceMemoryOfTooManyBytes", EINVAL,
	 [](Scene &s) {
		 ibv_device_attr_ex attr = {};
		 EXPECT_EQ(ibv_query_device_ex(s.context, nullptr, &attr), 0);
		 return alloc_dm(s, attr.max_dm_size + 1);
	 }},
	{"DeviceMemoryOfAllBytes", EINVAL, [](Scene &s) { return alloc_dm(s, ~size_t{0}); }},
	{"DeviceMemoryOfTooLargeAlignment", EINVAL, [](Scene &s) { return alloc_dm(s, 64, 13); }},
	{"DeviceMemoryOfAnUnknownAttribute", EOPNOTSUPP,
	 [](Scene &s) { return alloc_dm(s, 64, 0, 1u << 20); }},
	{"DeviceMemoryThatIsNotThere", ENOENT,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &, ibv_dm *dm) {
			 const uint32_t handle = std::exchange(dm->handle, 0xfffff0u);
			 const int err = ibv_free_dm(dm);
			 dm->handle = handle;
			 return err;
		 });
	 }},
	{"DeviceMemoryUnderARegion", EBUSY,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &scene, ibv_dm *dm) {
			 const Mr mr(ibv_reg_dm_mr(scene.end.pd, dm, 0, 64, zero_based));
			 return mr ? ibv_free_dm(dm) : errno;
		 });
	 }},
	{"DeviceMemoryRegionByAddress", EINVAL,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &scene, ibv_dm *dm) {
			 return reg_dm(scene, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE);
		 });
	 }},
	{"DeviceMemoryRegionOfNoBytes", 0,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &scene, ibv_dm *dm) {
			 return reg_dm(scene, dm, 0, 0, zero_based);
		 });
	 }},
	{"DeviceMemoryRegionBeyondTheEnd", EINVAL,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &scene, ibv_dm *dm) {
			 return reg_dm(scene, dm, 4090, 7, zero_based);
		 });
	 }},
	{"DeviceMemoryRegionBehindTheEnd", EINVAL,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &scene, ibv_dm *dm) {
			 return reg_dm(scene, dm, ~uint64_t{0}, 2, zero_based);
		 });
	 }},
	{"DeviceMemoryRegionOfRemoteWritesOnly", EINVAL,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &scene, ibv_dm *dm) {
			 return reg_dm(scene, dm, 0, 64,
				       IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE);
		 });
	 }},
	{"DeviceMemoryRegionOfAnUnknownRight", EINVAL,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &scene, ibv_dm *dm) {
			 return reg_dm(scene, dm, 0, 64, zero_based | 1 << 14);
		 });
	 }},
	{"DeviceMemoryOfAnotherContext", EINVAL,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &scene, ibv_dm *dm) {
			 const Context other(ibv_open_device(scene.context->device));
			 const Pd pd(ibv_alloc_pd(other.get()));
			 return made(ibv_reg_dm_mr(pd.get(), dm, 0, 64, zero_based), ibv_dereg_mr);
		 });
	 }},
	{"PdThatADeviceMemoryRegionUses", EBUSY,
	 [](Scene &s) {
		 return with_dm(s, [](Scene &scene, ibv_dm *dm) {
			 const Mr mr(ibv_reg_dm_mr(scene.end.pd, dm, 0, 64, zero_based));
			 return mr ? ibv_dealloc_pd(scene.end.pd) : errno;
		 });
	 }},
};

// On a connected queue pair, which takes every good request.
const Row requests[] = {
	{"SendOfTooManyPieces", EINVAL,
	 [](Scene &s) {
		 return post(s.end, {.sges = std::vector<ibv_sge>(s.end.cap.max_send_sge + 1,
								  s.region.sge(0, 1))});
	 }},
	{"SendOfTooMuchInlineData", EINVAL,
	 [](Scene &s) {
		 return post(s.end, {.sges = {s.region.sge(0, s.end.cap.max_inline_data + 1)},
				     .flags = signaled | IBV_SEND_INLINE});
	 }},
	{"SendOfSegmentedPackets", EINVAL,
	 [](Scene &s) { return post(s.end, {.op = IBV_WR_TSO}); }},
	{"ReceiveOfTooManyPieces", EINVAL,
	 [](Scene &s) {
		 return post_recv(s.end, std::vector<ibv_sge>(s.end.cap.max_recv_sge + 1,
							      s.region.sge(0, 1)));
	 }},
};

const Row queries[] = {
	{"PortZero", EINVAL,
	 [](Scene &s) {
		 ibv_port_attr attr = {};
		 return result(ibv_query_port(s.context, 0, &attr));
	 }},
	{"PortBeyondTheLast", EINVAL,
	 [](Scene &s) {
		 ibv_port_attr attr = {};
		 return result(ibv_query_port(s.context, 2, &attr));
	 }},
	{"DeviceExOfAnUnknownInput", EINVAL,
	 [](Scene &s) {
		 const ibv_query_device_ex_input input = {.comp_mask = 1};
		 ibv_device_attr_ex attr = {};
		 return result(ibv_query_device_ex(s.context, &input, &attr));
	 }},
	{"ModifyQpOfNothingKnown", EOPNOTSUPP,
	 [](Scene &s) {
		 ibv_qp_attr attr = {};
		 return result(ibv_modify_qp(s.end.qp.get(), &attr, 1 << 30));
	 }},
	{"GroupOfAConnectedQp", EINVAL,
	 [](Scene &s) {
		 ibv_gid group = {};
		 group.raw[0] = 0xff;
		 return result(ibv_attach_mcast(s.end.qp.get(), &group, 0));
	 }},
};

// Verbs of other devices.
const Row absent[] = {
	{"Counters", EOPNOTSUPP,
	 [](Scene &s) {
		 ibv_counters_init_attr attr = {};
		 return made(ibv_create_counters(s.context, &attr), ibv_destroy_counters);
	 }},
	{"Flow", EOPNOTSUPP,
	 [](Scene &s) {
		 ibv_flow_attr attr = {};
		 attr.size = sizeof(attr);
		 attr.port = 1;
		 return made(ibv_create_flow(s.end.qp.get(), &attr), ibv_destroy_flow);
	 }},
	{"WorkQueue", EOPNOTSUPP,
	 [](Scene &s) {
		 ibv_wq_init_attr attr = {};
		 attr.wq_type = IBV_WQT_RQ;
		 attr.max_wr = attr.max_sge = 1;
		 attr.pd = s.end.pd;
		 attr.cq = s.end.rcq;
		 return made(ibv_create_wq(s.context, &attr), ibv_destroy_wq);
	 }},
	{"TableOfWorkQueues", EOPNOTSUPP,
	 [](Scene &s) {
		 ibv_rwq_ind_table_init_attr attr = {};
		 return made(ibv_create_rwq_ind_table(s.context, &attr), ibv_destroy_rwq_ind_table);
	 }},
	{"SharedQueueOfTags", EOPNOTSUPP, [](Scene &s) { return create_srq_ex(s, IBV_SRQT_TM); }},
	{"NullRegion", EOPNOTSUPP,
	 [](Scene &s) { return made(ibv_alloc_null_mr(s.end.pd), ibv_dereg_mr); }},
	{"QueryOfEce", EOPNOTSUPP,
	 [](Scene &s) {
		 ibv_ece ece = {};
		 return result(ibv_query_ece(s.end.qp.get(), &ece));
	 }},
	{"Ece", EOPNOTSUPP,
	 [](Scene &s) {
		 ibv_ece ece = {.vendor_id = 1, .options = 1, .comp_mask = 0};
		 return result(ibv_set_ece(s.end.qp.get(), &ece));
	 }},
	{"RateLimit", EOPNOTSUPP,
	 [](Scene &s) {
		 ibv_qp_rate_limit_attr attr = {.rate_limit = 1000};
		 return result(ibv_modify_qp_rate_limit(s.end.qp.get(), &attr));
	 }},
};

class ErrnoTable : public VerbsTest, public testing::WithParamInterface<Row> {};

TEST_P(ErrnoTable, Refuses)
{
	const Row &row = GetParam();

	if (device().is_rxe())
		GTEST_SKIP() << "the table is that of sirdma";
	Scene scene;
	ASSERT_TRUE(scene);
	errno = 0;
	const int error = row.call(scene);
	EXPECT_EQ(error, row.error) << std::strerror(error);
	// What is left is as usable as before.
	EXPECT_EQ(state_of(scene.end.qp.get()), IBV_QPS_RESET);
}

class ErrnoOfRequests : public VerbsTest, public testing::WithParamInterface<Row> {};

TEST_P(ErrnoOfRequests, Refuses)
{
	const Row &row = GetParam();

	if (device().is_rxe())
		GTEST_SKIP() << "the table is that of sirdma";
	Pair pair = make_pair({.inline_data = 16});
	ASSERT_FALSE(HasFailure());
	Scene scene{.end = std::move(pair.a)};
	ASSERT_TRUE(scene);
	const int error = row.call(scene);
	EXPECT_EQ(error, row.error) << std::strerror(error);
	// Nothing of it is in the queues: those that come next are the first to complete.
	ASSERT_EQ(post_recv(pair.b, {}, 1), 0);
	ASSERT_EQ(post(scene.end, {.wr_id = 2}), 0);
	EXPECT_EQ(expect_wc(scene.end.scq).wr_id, 2u);
	EXPECT_EQ(expect_wc(pair.b.rcq).wr_id, 1u);
	ASSERT_EQ(post_recv(scene.end, {}, 3), 0);
	ASSERT_EQ(post(pair.b, {.wr_id = 4}), 0);
	EXPECT_EQ(expect_wc(pair.b.scq).wr_id, 4u);
	EXPECT_EQ(expect_wc(scene.end.rcq).wr_id, 3u);
}

std::string row_name(const testing::TestParamInfo<Row> &info)
{
	return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Queues, ErrnoTable, testing::ValuesIn(queues), row_name);
INSTANTIATE_TEST_SUITE_P(Requests, ErrnoOfRequests, testing::ValuesIn(requests), row_name);
INSTANTIATE_TEST_SUITE_P(Regions, ErrnoTable, testing::ValuesIn(regions), row_name);
INSTANTIATE_TEST_SUITE_P(Windows, ErrnoTable, testing::ValuesIn(windows), row_name);
INSTANTIATE_TEST_SUITE_P(DeviceMemory, ErrnoTable, testing::ValuesIn(device_memory), row_name);
INSTANTIATE_TEST_SUITE_P(Queries, ErrnoTable, testing::ValuesIn(queries), row_name);
INSTANTIATE_TEST_SUITE_P(Absent, ErrnoTable, testing::ValuesIn(absent), row_name);

} // namespace
} // namespace verbs
