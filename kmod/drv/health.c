// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "device.h"
#include "health.h"
#include "kflush.h"

/*
 * A fault of the event queue itself raises no event, so the status is polled: one read of a register.
 * Applications learn of such a fault within the period, which was not tuned.
 */
#define HEALTH_PERIOD (2 * HZ)
/* How soon the removal is tried again of a device that cannot be removed now. Not tuned. */
#define HEALTH_RETRY (HZ / 10)

bool sirdma_dev_failed(const struct sirdma_dev *dev)
{
	return test_bit(SIRDMA_DEV_FAILED, &dev->flags);
}

static void sirdma_health_poll(struct work_struct *work)
{
	struct sirdma_dev *dev = container_of(work, struct sirdma_dev, health.work);

	if (sirdma_hw_check(&dev->hw))
		sirdma_dev_fail_async(dev);
	else
		queue_delayed_work(sirdma_rescue_wq, &dev->health, HEALTH_PERIOD);
}

static void sirdma_health_remove(struct work_struct *work)
{
	struct sirdma_dev *dev = container_of(work, struct sirdma_dev, fatal.work);
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_DEVICE_FATAL,
	};

	if (!test_bit(SIRDMA_DEV_RESET, &dev->flags)) {
		sirdma_cqp_kill(&dev->hw);
		sirdma_kflush_start(dev);
	}
	if (!ib_device_try_get(&dev->ibdev)) {
		/*
		 * Try again later: the device is not registered yet, or is moving between network
		 * namespaces. If it is being removed already, sirdma_health_fini() ends this.
		 */
		queue_delayed_work(sirdma_rescue_wq, &dev->fatal, HEALTH_RETRY);
		return;
	}
	ibdev_err(&dev->ibdev, "the device failed; it was reset, and its link is removed\n");
	ib_dispatch_event(&event);
	ib_unregister_device_queued(&dev->ibdev);
	ib_device_put(&dev->ibdev);
}

void sirdma_health_init(struct sirdma_dev *dev)
{
	INIT_DELAYED_WORK(&dev->health, sirdma_health_poll);
	INIT_DELAYED_WORK(&dev->fatal, sirdma_health_remove);
}

void sirdma_health_start(struct sirdma_dev *dev)
{
	/* After an earlier failure the work that removes the device is waiting for it to be registered. */
	if (!sirdma_dev_failed(dev))
		queue_delayed_work(sirdma_rescue_wq, &dev->health, HEALTH_PERIOD);
}

void sirdma_health_fini(struct sirdma_dev *dev)
{
	/* The device is being removed: a failure from here on needs no further work. */
	set_bit(SIRDMA_DEV_FAILED, &dev->flags);
	cancel_delayed_work_sync(&dev->health);
	cancel_delayed_work_sync(&dev->fatal);
}

void sirdma_dev_fail_async(struct sirdma_dev *dev)
{
	if (!test_and_set_bit(SIRDMA_DEV_FAILED, &dev->flags))
		queue_delayed_work(sirdma_rescue_wq, &dev->fatal, 0);
}

void sirdma_dev_fail(struct sirdma_dev *dev, int err)
{
	ibdev_dbg(&dev->ibdev, "a command that frees device state failed: %d\n", err);
	sirdma_cqp_kill(&dev->hw);
	sirdma_dev_fail_async(dev);
}
