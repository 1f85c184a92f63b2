// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Ranges of module parameters. */
#include <kunit/test.h>
#include "drv/params.c"

static const struct {
	const char *name;
	struct sirdma_param *range;
} params[] = {
	{"max_qp", &max_qp},
	{"max_cq", &max_cq},
	{"max_mr", &max_mr},
	{"max_pd", &max_pd},
	{"max_hmc_segments", &max_hmc_segments},
};

static int set(u32 i, const char *text)
{
	const struct kernel_param kp = {.name = params[i].name, .arg = params[i].range};

	return sirdma_param_set(text, &kp);
}

static int set_number(u32 i, u64 value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", value);
	return set(i, text);
}

static void ends_of_the_range_are_taken(struct kunit *test)
{
	u32 i, old;

	for (i = 0; i < ARRAY_SIZE(params); i++) {
		struct sirdma_param *r = params[i].range;

		old = r->value;
		KUNIT_EXPECT_GE_MSG(test, old, r->min, "%s", params[i].name);
		KUNIT_EXPECT_LE_MSG(test, old, r->max, "%s", params[i].name);
		KUNIT_EXPECT_EQ(test, set_number(i, r->min), 0);
		KUNIT_EXPECT_EQ(test, r->value, r->min);
		KUNIT_EXPECT_EQ(test, set_number(i, r->max), 0);
		KUNIT_EXPECT_EQ(test, r->value, r->max);
		r->value = old;
	}
}

static void anything_else_is_refused_and_changes_nothing(struct kunit *test)
{
	u32 i, old;

	for (i = 0; i < ARRAY_SIZE(params); i++) {
		struct sirdma_param *r = params[i].range;

		old = r->value;
		KUNIT_EXPECT_EQ(test, set_number(i, (u64)r->max + 1), -ERANGE);
		if (r->min)
			KUNIT_EXPECT_EQ(test, set_number(i, r->min - 1), -ERANGE);
		KUNIT_EXPECT_EQ(test, set_number(i, 1ull << 32), -ERANGE);
		KUNIT_EXPECT_EQ(test, set(i, "-1"), -EINVAL);
		KUNIT_EXPECT_EQ(test, set(i, ""), -EINVAL);
		KUNIT_EXPECT_EQ(test, set(i, "many"), -EINVAL);
		KUNIT_EXPECT_EQ(test, r->value, old);
	}
}

static void value_is_shown(struct kunit *test)
{
	const struct kernel_param kp = {.name = "max_qp", .arg = &max_qp};
	char *page = (char *)get_zeroed_page(GFP_KERNEL);
	unsigned int value;

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_GT(test, sirdma_param_get(page, &kp), 0);
	KUNIT_EXPECT_EQ(test, kstrtouint(page, 10, &value), 0);
	KUNIT_EXPECT_EQ(test, value, max_qp.value);
	free_page((unsigned long)page);
}

/* The model refuses a configuration beyond its own limits: the largest values must be within them. */
static void largest_device_is_within_the_models_limits(struct kunit *test)
{
	u32 old[ARRAY_SIZE(params)], i;
	struct sirdma_bus_config cfg;

	for (i = 0; i < ARRAY_SIZE(params); i++) {
		old[i] = params[i].range->value;
		params[i].range->value = params[i].range->max;
	}
	sirdma_params_to_config(&cfg);
	KUNIT_EXPECT_LE(test, cfg.max_qps, 1 << 18);
	KUNIT_EXPECT_LE(test, cfg.max_cqs, 1 << 19);
	KUNIT_EXPECT_LE(test, cfg.max_mrs, 1 << 24);
	KUNIT_EXPECT_LT(test, cfg.max_pds, 1 << 18);
	KUNIT_EXPECT_LE(test, cfg.max_sds, SIRDMA_HMC_MAX_SD);
	KUNIT_EXPECT_LE(test, cfg.max_sgids, 1024);
	KUNIT_EXPECT_GE(test, cfg.max_ceqs, 1);
	KUNIT_EXPECT_LE(test, cfg.max_ceqs, 1023);
	for (i = 0; i < ARRAY_SIZE(params); i++)
		params[i].range->value = old[i];
}

/* sirdma_hw_probe() gives numbers from these on to applications. */
static void device_has_what_the_parameters_say(struct kunit *test)
{
	struct sirdma_bus_config cfg;

	sirdma_params_to_config(&cfg);
	KUNIT_EXPECT_EQ(test, cfg.max_qps - 2, max_qp.value);
	KUNIT_EXPECT_EQ(test, cfg.max_cqs - 1, max_cq.value);
	KUNIT_EXPECT_EQ(test, cfg.max_mrs - 1, max_mr.value);
	KUNIT_EXPECT_EQ(test, cfg.max_pds, max_pd.value);
	KUNIT_EXPECT_EQ(test, cfg.max_sds, max_hmc_segments.value);
}

static struct kunit_case params_cases[] = {
	KUNIT_CASE(ends_of_the_range_are_taken),
	KUNIT_CASE(anything_else_is_refused_and_changes_nothing),
	KUNIT_CASE(value_is_shown),
	KUNIT_CASE(largest_device_is_within_the_models_limits),
	KUNIT_CASE(device_has_what_the_parameters_say),
	{},
};

static struct kunit_suite params_suite = {
	.name = "sirdma_params",
	.test_cases = params_cases,
};
kunit_test_suite(params_suite);
