/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Random numbers: the same names in all supported kernels, from 6.1 on. */
#ifndef SIRDMA_COMPAT_RANDOM_H
#define SIRDMA_COMPAT_RANDOM_H

#include <linux/random.h>

#endif
