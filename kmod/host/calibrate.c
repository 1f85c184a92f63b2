// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "calibrate.h"

#include <linux/ktime.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include "model/frame.h"

/* The payload of a packet of the largest MTU is copied and summed SNIC_CALIBRATE_REPEAT times. */
#define SNIC_CALIBRATE_BYTES 4096
#define SNIC_CALIBRATE_REPEAT 4
/* The shortest of these times counts, because interrupts lengthen the others. */
#define SNIC_CALIBRATE_TRIES 8

static u64 snic_calibrate_time(struct snic_icrc *icrc, u8 *dst, const u8 *src)
{
	u64 best = U64_MAX, start;
	u32 i, n;

	for (i = 0; i < SNIC_CALIBRATE_TRIES; i++) {
		preempt_disable();
		start = ktime_get_ns();
		for (n = 0; n < SNIC_CALIBRATE_REPEAT; n++)
			snic_icrc_copy(icrc, dst, src, SNIC_CALIBRATE_BYTES);
		best = min_t(u64, best, ktime_get_ns() - start);
		preempt_enable();
	}
	return max_t(u64, best, 1);
}

/*
 * An emulated processor may have the instructions, but be slower with them than with tables (QEMU's TCG
 * takes ten times as long).
 */
void snic_calibrate(void)
{
	static const char *const names[PORT_CRC32_WAYS] = {
		[PORT_CRC32_NONE] = "tables",
		[PORT_CRC32_LIBRARY] = "the kernel's library",
		[PORT_CRC32_PCLMUL] = "PCLMULQDQ",
		[PORT_CRC32_VPCLMUL] = "VPCLMULQDQ",
	};
	const u32 bytes = SNIC_CALIBRATE_BYTES * SNIC_CALIBRATE_REPEAT;
	u8 *buf = kzalloc(2 * SNIC_CALIBRATE_BYTES, GFP_KERNEL);
	u64 best = U64_MAX, took;
	struct snic_icrc icrc = {};
	u32 way, quickest = PORT_CRC32_NONE;

	if (!buf)
		return;
	for (way = 0; way < PORT_CRC32_WAYS; way++) {
		if (!port_crc32_use(way))
			continue;
		took = snic_calibrate_time(&icrc, buf, buf + SNIC_CALIBRATE_BYTES);
		pr_debug("sirdma: %s: %u bytes in %llu ns\n", names[way], bytes, took);
		if (took >= best)
			continue;
		best = took;
		quickest = way;
	}
	port_crc32_use(quickest);
	kfree(buf);
	pr_info("sirdma: payload is copied and its ICRC summed by %s, %u bytes in %llu ns\n",
		names[quickest], bytes, best);
}
