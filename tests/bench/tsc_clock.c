// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * LD_PRELOAD for perftest. It takes its times from the TSC, whose rate it finds at each start by comparing the TSC with
 * gettimeofday(); where the machine is busy, or gettimeofday() is a slow system call, it gives up and reports 0 MB/s. The
 * benchmark measures the rate once, with care, and hands it over as TSC_MHZ: gettimeofday() computed from the TSC agrees with
 * itself. On other machines, or without TSC_MHZ, this changes nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

typedef int (*gettimeofday_fn)(struct timeval *restrict tv, void *restrict tz);

static double mhz;
static uint64_t start;
static struct timeval start_time;

static int libc_gettimeofday(struct timeval *tv, void *tz)
{
	static gettimeofday_fn fn;

	if (!fn)
		fn = (gettimeofday_fn)dlsym(RTLD_NEXT, "gettimeofday");
	return fn(tv, tz);
}

__attribute__((constructor)) static void init(void)
{
#ifdef __x86_64__
	const char *rate = getenv("TSC_MHZ");

	if (!rate)
		return;
	libc_gettimeofday(&start_time, NULL);
	start = __rdtsc();
	mhz = atof(rate);
#endif
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) /* tv is declared nonnull */
{
#ifdef __x86_64__
	if (mhz > 0) {
		uint64_t us = (double)(__rdtsc() - start) / mhz + start_time.tv_usec;

		tv->tv_sec = start_time.tv_sec + us / 1000000;
		tv->tv_usec = us % 1000000;
		return 0;
	}
#endif
	return libc_gettimeofday(tv, tz);
}
