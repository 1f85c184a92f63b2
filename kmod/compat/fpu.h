/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which vector registers kernel_fpu_begin() saves. User-Mode Linux is a process, for which the host saves all that it offers. */
#ifndef SIRDMA_COMPAT_FPU_H
#define SIRDMA_COMPAT_FPU_H

#include <asm/fpu/api.h>

#ifdef CONFIG_UML
static inline bool sirdma_saves_avx512(void)
{
	return true;
}
#else
#include <asm/fpu/types.h>

static inline bool sirdma_saves_avx512(void)
{
	return cpu_has_xfeatures(XFEATURE_MASK_YMM | XFEATURE_MASK_AVX512, NULL);
}
#endif

#endif
