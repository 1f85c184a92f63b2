// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The removal of a device that failed. */
#include <kunit/test.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

/* Other suites have the real one, or a stand-in. */
#define sirdma_dev_failed health_test_dev_failed
#define sirdma_kflush_start health_test_kflush_start
/* The module that is tested has its own. */
#define sirdma_rescue_wq system_long_wq

/* What is asked of the driver core, of kernel consumers and of the RDMA core. */
static struct {
	u32 resets;
	u32 flushes;
	u32 events;
	u32 removals;
} calls;

#define ib_dispatch_event(event) ((void)(event), calls.events++)
#define ib_unregister_device_queued(ibdev) ((void)(ibdev), calls.removals++)

#include "drv/health.c"

int sirdma_hw_check(struct sirdma_hw *hw)
{
	return 0;
}

void sirdma_cqp_kill(struct sirdma_hw *hw)
{
	calls.resets++;
}

void sirdma_kflush_start(struct sirdma_dev *dev)
{
	calls.flushes++;
	set_bit(SIRDMA_DEV_RESET, &dev->flags);
}

/* A device that is not registered: no reference can be taken. */
static int health_init(struct kunit *test)
{
	struct sirdma_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	test->priv = dev;
	memset(&calls, 0, sizeof(calls));
	refcount_set(&dev->ibdev.refcount, 0);
	sirdma_health_init(dev);
	return 0;
}

static void health_exit(struct kunit *test)
{
	if (test->priv)
		sirdma_health_fini(test->priv);
}

/* A device that moves between network namespaces is not registered for a while. */
static void device_is_removed_when_it_has_moved(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;
	u32 i;

	sirdma_dev_fail_async(dev);
	for (i = 0; i < 3; i++) {
		flush_delayed_work(&dev->fatal);
		KUNIT_EXPECT_TRUE(test, delayed_work_pending(&dev->fatal));
		KUNIT_EXPECT_EQ(test, calls.resets, 1);
		KUNIT_EXPECT_EQ(test, calls.flushes, 1);
		KUNIT_EXPECT_EQ(test, calls.removals, 0);
	}
	refcount_set(&dev->ibdev.refcount, 1);
	flush_delayed_work(&dev->fatal);
	KUNIT_EXPECT_EQ(test, calls.events, 1);
	KUNIT_EXPECT_EQ(test, calls.removals, 1);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&dev->fatal));
	KUNIT_EXPECT_EQ(test, refcount_read(&dev->ibdev.refcount), 1);
}

static void device_that_failed_before_it_was_registered_is_removed(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;

	sirdma_dev_fail_async(dev);
	flush_delayed_work(&dev->fatal);
	KUNIT_EXPECT_EQ(test, calls.removals, 0);
	refcount_set(&dev->ibdev.refcount, 1);
	sirdma_health_start(dev);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&dev->health));
	flush_delayed_work(&dev->fatal);
	KUNIT_EXPECT_EQ(test, calls.removals, 1);
}

static void device_that_is_being_removed_is_left_alone(struct kunit *test)
{
	struct sirdma_dev *dev = test->priv;

	sirdma_dev_fail_async(dev);
	flush_delayed_work(&dev->fatal);
	sirdma_health_fini(dev);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&dev->fatal));
	sirdma_dev_fail_async(dev);
	sirdma_dev_fail(dev, -EIO);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&dev->fatal));
	KUNIT_EXPECT_EQ(test, calls.removals, 0);
}

static struct kunit_case health_cases[] = {
	KUNIT_CASE(device_is_removed_when_it_has_moved),
	KUNIT_CASE(device_that_failed_before_it_was_registered_is_removed),
	KUNIT_CASE(device_that_is_being_removed_is_left_alone),
	{},
};

static struct kunit_suite health_suite = {
	.name = "sirdma_health",
	.init = health_init,
	.exit = health_exit,
	.test_cases = health_cases,
};
kunit_test_suite(health_suite);
