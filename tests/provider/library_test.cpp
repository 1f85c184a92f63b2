/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The provider and libibverbs of every private interface, each a stub with the
 * places and sizes of the real headers. A process has one libibverbs, so each is
 * loaded in a child.
 */
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>

#include <gtest/gtest.h>

#include "commands.hpp"
#include "library.hpp"

namespace sirdma::test
{

namespace
{

int poll_nothing(ibv_cq *, int, ibv_wc *)
{
	return 0;
}

ibv_pd *alloc_nothing(ibv_context *)
{
	return nullptr;
}

int rereg_nothing(verbs_mr *, int, ibv_pd *, void *, size_t, int)
{
	return 0;
}

constexpr Operations some_ops = [] {
	Operations ops{};

	ops.alloc_pd = alloc_nothing;
	ops.poll_cq = poll_nothing;
	ops.rereg_mr = rereg_nothing;
	return ops;
}();

struct Opened {
	alignas(ibv_context) uint8_t room[context_room];
	ibv_context verbs;
	uint64_t behind;
};

/* As a process that has this libibverbs: 0, or the number of the step that failed. */
int use(const std::string &stub)
{
	void *handle = dlopen((STUBS "/" + stub + "/libibverbs.so.1").c_str(), RTLD_NOW);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}

	const verbs_device_ops driver{};

	register_driver(driver);
	if (!library_is_known())
		return 2;

	auto **registered = static_cast<const void **>(dlsym(handle, "stub_registered"));

	if (!registered || *registered != &driver)
		return 3;

	auto *context = static_cast<Opened *>(
		alloc_context_memory(nullptr, 7, sizeof(Opened), offsetof(Opened, verbs), 1));

	if (!context)
		return errno == EPROTO ? 4 : 5;
	if (context->verbs.cmd_fd != 7 || context->behind)
		return 6;
	if (set_operations(&context->verbs, some_ops))
		return 7;

	GetContextRequest request;
	GetContextResponse response;

	if (kernel_commands.get_context(&context->verbs, request, response))
		return 8;
	uninit_context(&context->verbs);
	free(context);
	return 0;
}

void expect(const std::string &stub, int step, const std::string &words)
{
	EXPECT_EXIT(_exit(use(stub)), testing::ExitedWithCode(step), words) << stub;
}

const Interface &of_release(unsigned release)
{
	return *std::find_if(std::begin(interfaces), std::end(interfaces), [=](const Interface &i) {
		return release >= i.first_release && release <= i.last_release;
	});
}

} // namespace

/* Numbers read from the real headers. */
TEST(Interface, OperationsAreFoundByName)
{
	static constexpr struct {
		unsigned release, count;
		int alloc_pd, create_cq, poll_cq, query_port, rereg_mr, unimport_pd;
	} headers[] = {
		{44, 76, 5, 15, 53, 60, 70, 75}, {56, 76, 5, 15, 53, 60, 70, 75},
		{58, 76, 5, 15, 53, 60, 70, 75}, {59, 79, 6, 16, 55, 62, 73, 78},
		{61, 79, 6, 16, 55, 62, 73, 78}, {62, 81, 6, 16, 56, 63, 75, 80},
		{64, 83, 7, 17, 58, 65, 77, 82}, {65, 93, 7, 18, 62, 71, 85, 92},
	};

	for (const auto &header : headers) {
		const Interface &of = of_release(header.release);

		EXPECT_EQ(operation_count(of), header.count) << header.release;
		EXPECT_EQ(operation_slot(of, "alloc_pd"), header.alloc_pd) << header.release;
		EXPECT_EQ(operation_slot(of, "create_cq"), header.create_cq) << header.release;
		EXPECT_EQ(operation_slot(of, "poll_cq"), header.poll_cq) << header.release;
		EXPECT_EQ(operation_slot(of, "query_port"), header.query_port) << header.release;
		EXPECT_EQ(operation_slot(of, "rereg_mr"), header.rereg_mr) << header.release;
		EXPECT_EQ(operation_slot(of, "unimport_pd"), header.unimport_pd) << header.release;
	}
	EXPECT_EQ(operation_slot(of_release(56), "alloc_buf"), -1);
	EXPECT_EQ(operation_slot(of_release(65), "alloc_buff"), -1);
}

TEST(Interface, OperationsAreInTheLibrarysOrder)
{
	EXPECT_TRUE(std::is_sorted(std::begin(operations), std::end(operations),
				   [](const Operation &a, const Operation &b) {
					   return a.name < b.name;
				   }));
}

TEST(Library, EveryKnownOneIsUsed)
{
	for (const char *stub : {"56", "57", "59", "62", "64", "65"})
		expect(stub, 0, "^$");
}

TEST(Library, AnUnknownOneIsRefusedInWords)
{
	expect("unknown", 2,
	       "IBVERBS_PRIVATE_66, newer than sirdma knows: it knows rdma-core 36 to 65");
	expect("old", 2, "IBVERBS_PRIVATE_25, which sirdma does not know");
	expect("incomplete", 2, "IBVERBS_PRIVATE_65 has no ibv_cmd_destroy_qp");
}

TEST(Library, OneThatIsNotWhatItsNumberSaysIsRefusedInWords)
{
	expect("larger", 4, "struct verbs_context has another size");
	expect("shifted", 7, "table of operations is not the one");
}

TEST(Library, TheOneOfThisMachineIsKnown)
{
	EXPECT_EXIT(_exit(dlopen("libibverbs.so.1", RTLD_NOW) && library_is_known() ? 0 : 1),
		    testing::ExitedWithCode(0), "^$");
}

} // namespace sirdma::test
