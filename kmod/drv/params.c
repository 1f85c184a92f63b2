// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/cpumask.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "gid.h"
#include "hw/cqp.h"
#include "params.h"
#include "sirdma/hmc.h"

/*
 * Completion event queues: one for each CPU that is online, but not more than this, which bounds the
 * memory of their rings on large hosts. Not tuned.
 */
#define MAX_CEQS 32
/*
 * Entries of the ARP table: pairs of source and destination that QPs use at the same time. The
 * device allocates the table ahead, 7 bytes an entry. Not tuned.
 */
#define MAX_ARP 8192
/*
 * Numbers that no application gets: QP 0 and 1 are special, one CQ is the CQP's, SRQ and stag 0
 * mean none.
 */
#define RESERVED_QPS 2
#define RESERVED_CQS (SIRDMA_CCQ_ID + 1)
#define RESERVED_SRQS 1
#define RESERVED_MRS 1

struct sirdma_param {
	unsigned int value;
	unsigned int min;
	unsigned int max;
};

static int sirdma_param_set(const char *val, const struct kernel_param *kp)
{
	struct sirdma_param *range = kp->arg;
	unsigned int value;
	int err;

	err = kstrtouint(val, 0, &value);
	if (err)
		return err;
	if (value < range->min || value > range->max) {
		pr_err("sirdma: %s=%u is outside %u..%u\n", kp->name, value, range->min,
		       range->max);
		return -ERANGE;
	}
	range->value = value;
	return 0;
}

static int sirdma_param_get(char *buffer, const struct kernel_param *kp)
{
	const struct sirdma_param *range = kp->arg;

	return sysfs_emit(buffer, "%u\n", range->value);
}

static const struct kernel_param_ops sirdma_param_ops = {
	.set = sirdma_param_set,
	.get = sirdma_param_get,
};

static struct sirdma_param max_qp = {65536, 16, (1 << 18) - RESERVED_QPS};
module_param_cb(max_qp, &sirdma_param_ops, &max_qp, 0644);
MODULE_PARM_DESC(max_qp, "queue pairs of a new device (16..262142, default 65536)");

static struct sirdma_param max_cq = {65536, 16, (1 << 19) - RESERVED_CQS};
module_param_cb(max_cq, &sirdma_param_ops, &max_cq, 0644);
MODULE_PARM_DESC(max_cq, "completion queues of a new device (16..524287, default 65536)");

static struct sirdma_param max_mr = {1 << 20, 64, (1 << 24) - RESERVED_MRS};
module_param_cb(max_mr, &sirdma_param_ops, &max_mr, 0644);
MODULE_PARM_DESC(max_mr, "memory regions of a new device (64..16777215, default 1048576)");

static struct sirdma_param max_pd = {65536, 16, (1 << 18) - 1};
module_param_cb(max_pd, &sirdma_param_ops, &max_pd, 0644);
MODULE_PARM_DESC(max_pd, "protection domains of a new device (16..262143, default 65536)");

static struct sirdma_param max_hmc_segments = {SIRDMA_HMC_MAX_SD, 2, SIRDMA_HMC_MAX_SD};
module_param_cb(max_hmc_segments, &sirdma_param_ops, &max_hmc_segments, 0644);
MODULE_PARM_DESC(max_hmc_segments, "2 MiB HMC segments of a new device (2..4096, default 4096)");

u32 sirdma_params_num_ceqs(void)
{
	return min_t(u32, num_online_cpus(), MAX_CEQS);
}

void sirdma_params_to_config(struct sirdma_bus_config *config)
{
	*config = (struct sirdma_bus_config){
		.max_qps = max_qp.value + RESERVED_QPS,
		.max_cqs = max_cq.value + RESERVED_CQS,
		/* No application needs more than one for each QP; SIRDMA_CQP_SRQ_ID has 16 bits. */
		.max_srqs = min_t(u32, max_qp.value + RESERVED_SRQS, 1 << 16),
		.max_mrs = max_mr.value + RESERVED_MRS,
		.max_pds = max_pd.value,
		.max_sds = max_hmc_segments.value,
		.max_ceqs = sirdma_params_num_ceqs(),
		.max_arp = MAX_ARP,
		.max_sgids = SIRDMA_GID_SLOTS,
		.max_cqe = 1 << 20,
	};
}
