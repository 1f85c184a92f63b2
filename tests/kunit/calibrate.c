// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The choice of the quickest way to sum ICRCs. */
#include <kunit/test.h>
#include <linux/delay.h>

#define port_crc32_use fake_use
#define snic_icrc_copy fake_copy
#include "host/calibrate.c"
#undef port_crc32_use
#undef snic_icrc_copy

/* A machine: microseconds that a packet takes each way; 0: it lacks the way. */
static struct {
	u32 us[PORT_CRC32_WAYS];
	enum port_crc32_way used;
	u32 calls;
} machine;

bool fake_use(enum port_crc32_way way)
{
	if (!machine.us[way])
		return false;
	machine.used = way;
	return true;
}

void fake_copy(struct snic_icrc *icrc, void *dst, const void *src, u32 len)
{
	machine.calls++;
	/* Something else now and then takes the CPU, whatever the way. */
	if (machine.calls % 16 == 1)
		udelay(200);
	udelay(machine.us[machine.used]);
}

static void expect_chosen(struct kunit *test, u32 tables, u32 library, u32 pclmul, u32 vpclmul,
			  enum port_crc32_way best)
{
	machine.us[PORT_CRC32_NONE] = tables;
	machine.us[PORT_CRC32_LIBRARY] = library;
	machine.us[PORT_CRC32_PCLMUL] = pclmul;
	machine.us[PORT_CRC32_VPCLMUL] = vpclmul;
	machine.calls = 0;
	snic_calibrate();
	KUNIT_EXPECT_GT(test, machine.calls, 0);
	KUNIT_EXPECT_EQ(test, machine.used, best);
}

static void quickest_way_is_chosen(struct kunit *test)
{
	expect_chosen(test, 50, 0, 5, 0, PORT_CRC32_PCLMUL);
	expect_chosen(test, 50, 5, 20, 20, PORT_CRC32_LIBRARY);
	expect_chosen(test, 50, 30, 20, 5, PORT_CRC32_VPCLMUL);
	/* An emulated processor. */
	expect_chosen(test, 10, 50, 100, 100, PORT_CRC32_NONE);
}

static void way_that_is_lacking_is_not_chosen(struct kunit *test)
{
	expect_chosen(test, 10, 0, 0, 0, PORT_CRC32_NONE);
	expect_chosen(test, 50, 5, 0, 0, PORT_CRC32_LIBRARY);
}

static struct kunit_case calibrate_cases[] = {
	KUNIT_CASE(quickest_way_is_chosen),
	KUNIT_CASE(way_that_is_lacking_is_not_chosen),
	{},
};

static struct kunit_suite calibrate_suite = {
	.name = "sirdma_calibrate",
	.test_cases = calibrate_cases,
};
kunit_test_suite(calibrate_suite);
