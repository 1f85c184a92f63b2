/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Attributes that older kernels, and older updates of 6.1, do not know. */
#ifndef COMPAT_COMPILER_H
#define COMPAT_COMPILER_H

#include <linux/compiler.h>

#ifndef __counted_by
#define __counted_by(member)
#endif

#endif
