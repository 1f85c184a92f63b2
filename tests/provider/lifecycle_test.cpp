/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Objects from open to close, against the fake driver: what is registered where,
 * what is undone when a step fails, and what outlives what. Completion queues: cq_test.cpp.
 */
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <infiniband/opcode.h>

#include "fake_device.hpp"
#include "lifecycle.hpp"
#include "pd.hpp"
#include "qp.hpp"

namespace sirdma::test
{

TEST_F(Lifecycle, MatchesByDriverIdBeforeAnythingElse)
{
	verbs_sysfs_dev found{};

	ASSERT_NE(driver.ops, nullptr);
	EXPECT_STREQ(driver.ops->name, "sirdma");
	EXPECT_EQ(driver.ops->match_table[0].u.driver_id, uint64_t{SIRDMA_DRIVER_ID});
	EXPECT_EQ(driver.ops->match_table[1].u.driver_id, uint64_t{RDMA_DRIVER_IRDMA});
	EXPECT_EQ(driver.ops->match_table[2].kind, VERBS_MATCH_SENTINEL);
	found.driver_id = SIRDMA_DRIVER_ID;
	EXPECT_TRUE(driver.ops->match_device(&found));
	found.driver_id = 13;
	EXPECT_FALSE(driver.ops->match_device(&found));
}

TEST_F(Lifecycle, MatchesIrdmaOnlyWhenTheUserSaysSo)
{
	verbs_sysfs_dev found{};

	found.driver_id = RDMA_DRIVER_IRDMA;
	EXPECT_FALSE(driver.ops->match_device(&found));
	setenv("SIRDMA_DRIVE_IRDMA", "0", 1);
	EXPECT_FALSE(driver.ops->match_device(&found));
	setenv("SIRDMA_DRIVE_IRDMA", "1", 1);
	EXPECT_TRUE(driver.ops->match_device(&found));
	unsetenv("SIRDMA_DRIVE_IRDMA");
}

TEST_F(Lifecycle, AsksADeviceOfIrdmaForNoExtension)
{
	ASSERT_TRUE(open_device(RDMA_DRIVER_IRDMA));
	EXPECT_EQ(driver.context_driver_id, uint32_t{RDMA_DRIVER_IRDMA});
	EXPECT_EQ(driver.context_request.comp_mask, uint64_t{SIRDMA_UCTX_USE_RAW_ATTR});
}

TEST_F(Lifecycle, MatchesByHcaTypeWhereNoDriverIdIsKnown)
{
	const auto dir = std::filesystem::path(testing::TempDir()) / "sirdma_hca_type";
	verbs_sysfs_dev found{};

	std::filesystem::create_directories(dir);
	strncpy(found.ibdev_path, dir.c_str(), sizeof(found.ibdev_path) - 1);
	std::filesystem::remove(dir / "hca_type");
	EXPECT_FALSE(driver.ops->match_device(&found));
	std::ofstream(dir / "hca_type") << "MT4099\n";
	EXPECT_FALSE(driver.ops->match_device(&found));
	std::ofstream(dir / "hca_type") << "SIRDMA soft NIC\n";
	EXPECT_TRUE(driver.ops->match_device(&found));
	found.driver_id = 13;
	EXPECT_FALSE(driver.ops->match_device(&found)) << "a file must not overrule the id";
	std::filesystem::remove_all(dir);
}

TEST_F(Lifecycle, OpensAndClosesTheDevice)
{
	ASSERT_TRUE(open_device());
	EXPECT_EQ(driver.context_driver_id, uint32_t{SIRDMA_DRIVER_ID});
	EXPECT_EQ(driver.context_request.userspace_ver, SIRDMA_ABI_VERSION);
	EXPECT_TRUE(driver.context_request.comp_mask & SIRDMA_UCTX_KICK);
	EXPECT_TRUE(driver.context_request.comp_mask & SIRDMA_UCTX_USE_RAW_ATTR);
	EXPECT_EQ(driver.pds.size(), 1u);

	ibv_device_attr_ex attr{};
	EXPECT_EQ(query_device_ex(context_, nullptr, &attr, sizeof(attr)), 0);
	EXPECT_STREQ(attr.orig_attr.fw_ver, "2.3.4");
	ibv_port_attr port{};
	EXPECT_EQ(query_port(context_, 1, &port), 0);
	EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
}

/* perftest decides by the part ID whether it uses ibv_wr_*(). */
TEST_F(Lifecycle, TellsThePartIdOfTheEnvironment)
{
	const auto part_id = [&](const char *text) {
		ibv_device_attr_ex attr{};

		attr.orig_attr.vendor_part_id = 0;
		if (text)
			setenv("SIRDMA_VENDOR_PART_ID", text, 1);
		EXPECT_TRUE(open_device());
		unsetenv("SIRDMA_VENDOR_PART_ID");
		EXPECT_EQ(query_device_ex(context_, nullptr, &attr, sizeof(attr)), 0);
		close_device();
		return attr.orig_attr.vendor_part_id;
	};

	EXPECT_EQ(part_id("4119"), 4119u);
	/* The device's own, which the fake driver does not have. */
	for (const char *text :
	     {static_cast<const char *>(nullptr), "", "4119x", "-1", "4294967296", "0"})
		EXPECT_EQ(part_id(text), 0u) << (text ? text : "none");
}

TEST_F(Lifecycle, PassesBackTheDriverIdTheKernelGave)
{
	ASSERT_TRUE(open_device(0, 4));
	EXPECT_EQ(driver.context_driver_id, 0u);
	close_device();
	ASSERT_TRUE(open_device(0, -1)) << "found in sysfs";
	EXPECT_EQ(driver.context_driver_id, uint32_t{SIRDMA_DRIVER_ID});
}

TEST_F(Lifecycle, FailedOpenLeavesNothing)
{
	for (const char *step : {"get_context", "alloc_pd", "dontfork"}) {
		driver.failing = step;
		EXPECT_FALSE(open_device()) << step;
		EXPECT_EQ(errno, ENOMEM) << step;
		EXPECT_EQ(driver.contexts, 0) << step;
		close_device();
	}
}

TEST_F(Lifecycle, RefusesADriverOfAnotherGeneration)
{
	driver.context_answer.hw_rev = 1;
	EXPECT_FALSE(open_device());
	EXPECT_EQ(errno, EOPNOTSUPP);
}

/* A driver that does not say so has no atomics; its device would fail the queue pair. */
TEST_F(WithCq, OperationsNeedTheirFeature)
{
	EXPECT_EQ(destroy_cq(cq), 0);
	EXPECT_EQ(dealloc_pd(pd), 0);
	cq = nullptr;
	pd = nullptr;
	EXPECT_EQ(Context::of(context_).limits.lacks, SIRDMA_SEND_OP_KERNEL);
	const uint64_t features = driver.context_answer.feature_flags;
	const auto lacks_without = [&](uint64_t feature) {
		close_device();
		driver.context_answer.feature_flags = features & ~feature;
		EXPECT_TRUE(open_device());
		return Context::of(context_).limits.lacks;
	};
	EXPECT_EQ(lacks_without(SIRDMA_FEATURE_ATOMICS),
		  SIRDMA_SEND_OP_ATOMIC | SIRDMA_SEND_OP_KERNEL);
	EXPECT_EQ(lacks_without(SIRDMA_FEATURE_PLACEMENT),
		  SIRDMA_SEND_OP_PLACEMENT | SIRDMA_SEND_OP_KERNEL);
}

TEST_F(WithCq, QpMemoryIsSqRqAndShadow)
{
	ibv_qp_init_attr attr = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &attr);

	ASSERT_TRUE(qp);
	EXPECT_EQ(qp->qp_num, 77u);
	/* 3 fragments: 2 quanta; (100 << 1) + 258 -> 512; (50 << 1) + 1 -> 128. */
	EXPECT_EQ(attr.cap.max_send_wr, (512u - 258) >> 1);
	EXPECT_EQ(attr.cap.max_recv_wr, (128u - 1) >> 1);
	EXPECT_EQ(attr.cap.max_send_sge, 2u);
	EXPECT_EQ(attr.cap.max_inline_data, 39u) << "what 2 quanta hold";
	EXPECT_EQ(driver.qp_cap.max_send_wr, 100u) << "the driver wants raw attributes";

	const Registration *memory = registered_at(driver.qp_request.user_wqe_bufs);
	ASSERT_TRUE(memory);
	EXPECT_EQ(memory->what.reg_type, SIRDMA_MEMREG_QP);
	EXPECT_EQ(memory->what.sq_pages, 512 * 32 / 4096);
	EXPECT_EQ(memory->what.rq_pages, 1);
	EXPECT_EQ(memory->length, 512 * 32 + 4096 + uint64_t{SIRDMA_SHADOW_SIZE});

	ibv_qp_attr queried{};
	ibv_qp_init_attr init{};
	driver.qp_state = IBV_QPS_ERR;
	EXPECT_EQ(query_qp(qp, &queried, IBV_QP_STATE, &init), 0);
	EXPECT_EQ(init.cap.max_send_wr, attr.cap.max_send_wr);
	EXPECT_EQ(Qp::of(qp).queues().state(), IBV_QPS_ERR);
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(WithCq, FailedQpLeavesNothing)
{
	const size_t before = driver.registrations.size();

	for (const char *step : {"create_qp", "reg_mr", "dontfork"}) {
		ibv_qp_init_attr attr = qp_attr(cq);

		driver.failing = step;
		const ibv_qp_cap asked = attr.cap;
		EXPECT_EQ(create_qp(pd, &attr), nullptr) << step;
		EXPECT_EQ(memcmp(&attr.cap, &asked, sizeof(asked)), 0) << step;
		EXPECT_EQ(errno, ENOMEM) << step;
		EXPECT_EQ(driver.registrations.size(), before) << step;
	}
	driver.failing.clear();
}

TEST_F(WithCq, RingSizesThatDifferFromTheDriversAreAProtocolError)
{
	ibv_qp_init_attr attr = qp_attr(cq);

	driver.sq_size_error = 1;
	EXPECT_EQ(create_qp(pd, &attr), nullptr);
	EXPECT_EQ(errno, EPROTO);
	EXPECT_TRUE(driver.qps.empty());
	EXPECT_EQ(driver.registrations.size(), 2u);
}

TEST_F(WithCq, QpAttributesOutOfRangeAreRefused)
{
	ibv_qp_init_attr attr = qp_attr(cq);

	attr.cap.max_send_sge = SIRDMA_MAX_SGE + 1;
	EXPECT_EQ(create_qp(pd, &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	attr = qp_attr(cq);
	attr.cap.max_inline_data = SIRDMA_MAX_INLINE + 1;
	EXPECT_EQ(create_qp(pd, &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	attr = qp_attr(cq);
	attr.cap.max_send_wr = 0xffffffff;
	EXPECT_EQ(create_qp(pd, &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	attr = qp_attr(cq);
	attr.cap.max_recv_wr = SIRDMA_MAX_WQ_QUANTA;
	EXPECT_EQ(create_qp(pd, &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	attr = qp_attr(cq);
	attr.qp_type = IBV_QPT_RAW_PACKET;
	EXPECT_EQ(create_qp(pd, &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(WithCq, SharedReceiveQueuesHaveARingAndAShadowArea)
{
	ibv_srq_init_attr attr{};

	attr.attr.max_wr = 100;
	attr.attr.max_sge = 3;
	ibv_srq *srq = create_srq(pd, &attr);
	ASSERT_TRUE(srq);
	/* 3 fragments: 2 quanta; 100 << 1 -> 256. */
	EXPECT_EQ(attr.attr.max_wr, 128u);

	const Registration *memory = registered_at(driver.srq_request.user_srq_buf);
	ASSERT_TRUE(memory);
	EXPECT_EQ(memory->what.reg_type, SIRDMA_MEMREG_SRQ);
	EXPECT_EQ(memory->what.rq_pages, 2);
	EXPECT_EQ(memory->length, 2 * 4096 + uint64_t{SIRDMA_SHADOW_SIZE});
	EXPECT_EQ(driver.srq_request.user_shadow_area, memory->start + 2 * 4096);

	/* The wr_id is in the WQE; the device says in the shadow area which places are free. */
	const auto *wqe = reinterpret_cast<const sirdma_wqe *>(memory->start);
	auto *shadow = reinterpret_cast<sirdma_srq_shadow *>(driver.srq_request.user_shadow_area);
	ibv_recv_wr wr{}, *bad = nullptr;

	wr.wr_id = 0x1234;
	for (uint32_t i = 0; i < attr.attr.max_wr; ++i)
		ASSERT_EQ(post_srq_recv(srq, &wr, &bad), 0) << i;
	EXPECT_EQ(le64toh(wqe[0].remote), 0x1234u);
	EXPECT_TRUE(le64toh(wqe[0].hdr) & SIRDMA_WQE_VALID);
	EXPECT_EQ(post_srq_recv(srq, &wr, &bad), ENOMEM);
	EXPECT_EQ(bad, &wr);
	shadow->fetched = htole64(1);
	EXPECT_EQ(post_srq_recv(srq, &wr, &bad), 0);
	EXPECT_EQ(post_srq_recv(srq, &wr, &bad), ENOMEM);
	/* A device that fetched more than was posted opens nothing. */
	shadow->fetched = htole64(1000);
	EXPECT_EQ(post_srq_recv(srq, &wr, &bad), ENOMEM);

	ibv_srq_attr now{};
	now.srq_limit = 9;
	EXPECT_EQ(modify_srq(srq, &now, IBV_SRQ_LIMIT), 0);
	EXPECT_EQ(driver.srq_attr.srq_limit, 9u);

	/* A queue pair on it has no receive queue. */
	ibv_qp_init_attr init = qp_attr(cq);
	init.srq = srq;
	ibv_qp *qp = create_qp(pd, &init);
	ASSERT_TRUE(qp);
	EXPECT_EQ(init.cap.max_recv_wr, 0u);
	EXPECT_EQ(registered_at(driver.qp_request.user_wqe_bufs)->what.rq_pages, 0);
	ibv_qp_attr state{};
	state.qp_state = IBV_QPS_INIT;
	EXPECT_EQ(modify_qp(qp, &state, IBV_QP_STATE), 0);
	EXPECT_EQ(post_recv(qp, &wr, &bad), EINVAL);
	EXPECT_EQ(destroy_qp(qp), 0);

	driver.failing = "destroy_srq";
	EXPECT_EQ(destroy_srq(srq), EBUSY);
	driver.failing.clear();
	EXPECT_EQ(destroy_srq(srq), 0);
	EXPECT_TRUE(driver.srqs.empty());
}

/* Another thread gets the number as soon as it is free: its completions are not forgotten with the old ones. */
TEST_F(WithCq, ANumberThatIsUsedAgainKeepsItsSharedCompletions)
{
	ibv_srq_init_attr attr{};

	attr.attr.max_wr = 10;
	attr.attr.max_sge = 1;
	ibv_srq *srq = create_srq(pd, &attr);
	ASSERT_TRUE(srq);
	ibv_qp_init_attr init = qp_attr(cq);
	init.srq = srq;
	ibv_qp *old = create_qp(pd, &init), *successor = nullptr;
	ASSERT_TRUE(old);

	auto *ring = reinterpret_cast<sirdma_cqe *>(driver.cq_request.user_cq_buf);
	auto *shadow = reinterpret_cast<sirdma_cq_shadow *>(driver.cq_request.user_shadow_area);
	CompletionWriter device({ring, static_cast<size_t>(driver.cq_size)}, *shadow);
	std::atomic<bool> created{false};
	std::jthread other;

	driver.after_destroy_qp = [&] {
		other = std::jthread([&] {
			ibv_qp_init_attr again = qp_attr(cq);

			again.srq = srq;
			successor = create_qp(pd, &again);
			device.write({.compl_ctx = 5,
				      .op = IBV_OPCODE_SEND_ONLY,
				      .send = false,
				      .shared = true,
				      .qp_id = 77});
			created = true;
		});
		/* It has to wait for the end of this call; if it did not, it would be done by then. */
		for (int ms = 0; ms < 100 && !created; ++ms)
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
	};
	EXPECT_EQ(destroy_qp(old), 0);
	other.join();
	driver.after_destroy_qp = nullptr;
	ASSERT_TRUE(successor);
	ibv_wc wc{};
	ASSERT_EQ(poll_cq(cq, 1, &wc), 1);
	EXPECT_EQ(wc.wr_id, 5u);
	EXPECT_EQ(destroy_qp(successor), 0);
	EXPECT_EQ(destroy_srq(srq), 0);
}

TEST_F(WithCq, FailedSharedReceiveQueueLeavesNothing)
{
	const size_t before = driver.registrations.size();
	ibv_srq_init_attr attr{};

	attr.attr.max_wr = 100;
	attr.attr.max_sge = 1;
	for (const char *step : {"create_srq", "reg_mr", "dontfork"}) {
		driver.failing = step;
		EXPECT_EQ(create_srq(pd, &attr), nullptr) << step;
		EXPECT_EQ(errno, ENOMEM) << step;
	}
	driver.failing.clear();
	driver.srq_size_error = 1;
	EXPECT_EQ(create_srq(pd, &attr), nullptr);
	EXPECT_EQ(errno, EPROTO);
	driver.srq_size_error = 0;
	for (const ibv_srq_attr wrong : {ibv_srq_attr{0, 1, 0}, ibv_srq_attr{~0u, 1, 0},
					 ibv_srq_attr{10, SIRDMA_MAX_SGE + 1, 0}}) {
		attr.attr = wrong;
		EXPECT_EQ(create_srq(pd, &attr), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	EXPECT_TRUE(driver.srqs.empty());
	EXPECT_EQ(driver.registrations.size(), before);
}

TEST_F(WithCq, ObjectsSurviveARefusedDestroy)
{
	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &init);

	ASSERT_TRUE(qp);
	driver.failing = "destroy_qp";
	EXPECT_EQ(destroy_qp(qp), EBUSY);
	driver.failing = "destroy_cq";
	EXPECT_EQ(destroy_cq(cq), EBUSY);
	driver.failing.clear();
	EXPECT_EQ(destroy_qp(qp), 0);
}

TEST_F(WithCq, MemoryRegionsCarryTheirType)
{
	char buffer[64];
	ibv_mr *mr = reg_mr(pd, buffer, sizeof(buffer), 0x1000, IBV_ACCESS_LOCAL_WRITE);

	ASSERT_TRUE(mr);
	const Registration *r = registered_at(reinterpret_cast<uintptr_t>(buffer));
	ASSERT_TRUE(r);
	EXPECT_EQ(r->what.reg_type, SIRDMA_MEMREG_MEM);
	EXPECT_EQ(dereg_mr(reinterpret_cast<verbs_mr *>(mr)), 0);

	driver.failing = "reg_mr";
	EXPECT_EQ(reg_mr(pd, buffer, 1, 0, 0), nullptr);
	EXPECT_EQ(errno, ENOMEM);
}

TEST_F(WithCq, ChangedRegionsTellTheErrnoInErrno)
{
	char before[64], after[32];
	ibv_mr *mr = reg_mr(pd, before, sizeof(before), reinterpret_cast<uintptr_t>(before), 1);
	ASSERT_TRUE(mr);
	auto *region = reinterpret_cast<verbs_mr *>(mr);
	ibv_context other{};
	ibv_pd foreign{};

	mr->context = context_;
	foreign.context = &other;
	foreign.handle = pd->handle;
	errno = 0;
	EXPECT_EQ(rereg_mr(region, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), EINVAL);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rereg_mr(region, IBV_REREG_MR_CHANGE_PD, &foreign, nullptr, 0, 0), EINVAL);
	driver.failing = "rereg_mr";
	EXPECT_EQ(rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, after, 32, 0), ENOMEM);
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_TRUE(registered_at(reinterpret_cast<uintptr_t>(before)));
	driver.failing.clear();
	EXPECT_EQ(rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD, pd,
			   after, 32, 0),
		  0);
	const Registration *r = registered_at(reinterpret_cast<uintptr_t>(after));
	ASSERT_TRUE(r);
	EXPECT_EQ(r->length, 32u);
	EXPECT_EQ(r->what.reg_type, SIRDMA_MEMREG_MEM);
	EXPECT_EQ(dereg_mr(region), 0);
}

TEST_F(WithCq, ThreadDomainHoldsAndUnlocks)
{
	ibv_td_init_attr td_attr{};
	ibv_td *td = alloc_td(context_, &td_attr);
	ibv_parent_domain_init_attr parent_attr{};

	ASSERT_TRUE(td);
	EXPECT_EQ(alloc_parent_domain(context_, &parent_attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	ibv_context *other = sirdma::open_device(&device_->device, fd_, kernel_commands);
	ASSERT_TRUE(other);
	parent_attr.pd = pd;
	errno = 0;
	EXPECT_EQ(alloc_parent_domain(other, &parent_attr), nullptr) << "of another context";
	EXPECT_EQ(errno, EINVAL);
	free_context(other);
	parent_attr.td = td;
	ibv_pd *parent = alloc_parent_domain(context_, &parent_attr);
	ASSERT_TRUE(parent);
	EXPECT_EQ(parent->handle, pd->handle);
	EXPECT_FALSE(Pd::of(parent).locked());
	EXPECT_TRUE(Pd::of(pd).locked());
	EXPECT_EQ(dealloc_td(td), EBUSY);
	EXPECT_EQ(dealloc_pd(pd), EBUSY);

	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(parent, &init);
	ASSERT_TRUE(qp);
	EXPECT_EQ(destroy_qp(qp), 0);

	EXPECT_EQ(dealloc_pd(parent), 0);
	EXPECT_EQ(dealloc_td(td), 0);
}

TEST_F(WithCq, WindowsComeAndGo)
{
	driver.failing = "alloc_mw";
	EXPECT_EQ(alloc_mw(pd, IBV_MW_TYPE_1), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	driver.failing.clear();

	ibv_mw *first = alloc_mw(pd, IBV_MW_TYPE_1), *second = alloc_mw(pd, IBV_MW_TYPE_2);
	ASSERT_TRUE(first && second);
	EXPECT_EQ(first->context, context_);
	EXPECT_EQ(first->pd, pd);
	EXPECT_EQ(first->type, IBV_MW_TYPE_1);
	EXPECT_EQ(driver.mws.at(second->handle), IBV_MW_TYPE_2);

	ibv_qp_init_attr init = qp_attr(cq);
	ibv_qp *qp = create_qp(pd, &init);
	ASSERT_TRUE(qp);
	ibv_mw_bind bind{};
	const uint32_t key = first->rkey;

	EXPECT_EQ(bind_mw(qp, first, &bind), EINVAL) << "in RESET nothing is posted";
	EXPECT_EQ(first->rkey, key);
	Qp::of(qp).queues().set_state(IBV_QPS_RTS);
	EXPECT_EQ(bind_mw(qp, first, &bind), 0);
	EXPECT_EQ(first->rkey, key + 1);
	first->rkey = key | 0xff;
	EXPECT_EQ(bind_mw(qp, first, &bind), 0);
	EXPECT_EQ(first->rkey, key) << "the index stays";
	EXPECT_EQ(bind_mw(qp, second, &bind), EINVAL) << "work requests bind those of type 2";
	EXPECT_EQ(destroy_qp(qp), 0);

	driver.failing = "dealloc_mw";
	EXPECT_EQ(dealloc_mw(first), EBUSY);
	driver.failing.clear();
	EXPECT_EQ(dealloc_mw(first), 0);
	EXPECT_EQ(dealloc_mw(second), 0);
	EXPECT_TRUE(driver.mws.empty());
}

} // namespace sirdma::test
