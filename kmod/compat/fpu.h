/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * May kernel code use the AVX-512 registers between kernel_fpu_begin() and kernel_fpu_end()?
 *
 * X86_FEATURE_PREFER_YMM (6.15) marks the processors that lower their clock for all code when 64-byte registers are used; before
 * that the kernel's own code had a list of them. Under User-Mode Linux interrupts are signals, for which the host saves all
 * registers; but what is saved when a process is preempted has no room for these.
 */
#ifndef SIRDMA_COMPAT_FPU_H
#define SIRDMA_COMPAT_FPU_H

#include <asm/cpufeature.h>
#include <asm/fpu/api.h>

#ifdef CONFIG_UML
static inline bool sirdma_may_use_avx512(void)
{
	return boot_cpu_has(X86_FEATURE_AVX512F) && !IS_ENABLED(CONFIG_PREEMPTION);
}
#else
#include <asm/fpu/types.h>
#include <linux/string.h>

#ifdef X86_FEATURE_PREFER_YMM
static inline bool sirdma_prefers_ymm(void)
{
	return boot_cpu_has(X86_FEATURE_PREFER_YMM);
}
#else
static inline bool sirdma_prefers_ymm(void)
{
	/* Skylake-X, Ice Lake, Tiger Lake */
	static const u8 models[] = {0x55, 0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0x9d};

	return boot_cpu_data.x86_vendor == X86_VENDOR_INTEL && boot_cpu_data.x86 == 6 &&
	       memchr(models, boot_cpu_data.x86_model, sizeof(models));
}
#endif

static inline bool sirdma_may_use_avx512(void)
{
	return boot_cpu_has(X86_FEATURE_AVX512F) && !sirdma_prefers_ymm() &&
	       cpu_has_xfeatures(XFEATURE_MASK_YMM | XFEATURE_MASK_AVX512, NULL);
}
#endif

#endif
