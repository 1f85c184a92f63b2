// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit suites for what only a kernel has: its port of the primitives, skbs,
 * pinned pages, neighbours, module parameters. Loading the module runs them.
 *
 * A suite includes the source it tests, and stands in for that source's
 * neighbours itself.
 */
#include <linux/module.h>

MODULE_DESCRIPTION("tests of sirdma and sirdma_nic");
MODULE_LICENSE("GPL");
