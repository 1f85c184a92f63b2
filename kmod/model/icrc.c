// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Invariant CRC of RoCEv2 (IBTA annex A17.3.3): CRC-32 over the packet from the
 * IP header on, preceded by eight bytes of ones in place of the LRH; every field that
 * a router may change counts as ones.
 */
#include "crc32_table.h"
#include "frame.h"

/* State after the eight bytes of ones. */
#define ICRC_AFTER_LRH 0xdebb20e3u

/* Offsets of the fields that count as ones. */
#define IPV4_TOS 1
#define IPV4_TTL 8
#define IPV4_CSUM 10
#define IPV6_HOP_LIMIT 7
#define UDP_CSUM 6
#define BTH_RESV8A 4

static inline u32 crc_byte(u32 crc, u8 byte)
{
	return crc32_table[0][(crc ^ byte) & 0xff] ^ (crc >> 8);
}

/* @word: eight bytes of the message, the first in bits 7:0. */
static inline u32 crc_word(u32 crc, u64 word)
{
	u32 lo = (u32)word ^ crc, hi = word >> 32;

	return crc32_table[7][lo & 0xff] ^ crc32_table[6][(lo >> 8) & 0xff] ^
	       crc32_table[5][(lo >> 16) & 0xff] ^ crc32_table[4][lo >> 24] ^
	       crc32_table[3][hi & 0xff] ^ crc32_table[2][(hi >> 8) & 0xff] ^
	       crc32_table[1][(hi >> 16) & 0xff] ^ crc32_table[0][hi >> 24];
}

/*
 * The words of long runs are distributed cyclically over this many sums, which a processor
 * computes in parallel; the last block combines them (M. Adler's braided CRC).
 */
#define BRAIDS 5
#define BRAID_BLOCK (BRAIDS * (u32)sizeof(u64))

static inline u32 crc_braid(u64 word)
{
	return crc32_braid[0][word & 0xff] ^ crc32_braid[1][(word >> 8) & 0xff] ^
	       crc32_braid[2][(word >> 16) & 0xff] ^ crc32_braid[3][(word >> 24) & 0xff] ^
	       crc32_braid[4][(word >> 32) & 0xff] ^ crc32_braid[5][(word >> 40) & 0xff] ^
	       crc32_braid[6][(word >> 48) & 0xff] ^ crc32_braid[7][word >> 56];
}

/* The bytes to sum and, if dst is not NULL, to copy. */
struct crc_run {
	const u8 *src;
	u8 *dst;
	u32 len;
};

/*
 * Copy the next @n bytes of @run to @to. Each byte is read once: the application may write it
 * meanwhile, and the device must send the bytes that it summed.
 */
static __always_inline void crc_fetch(struct crc_run *run, void *to, u32 n, bool copy)
{
	memcpy(to, run->src, n);
	run->src += n;
	run->len -= n;
	if (copy) {
		memcpy(run->dst, to, n);
		run->dst += n;
	}
}

static __always_inline u64 crc_fetch_word(struct crc_run *run, bool copy)
{
	__le64 word;

	crc_fetch(run, &word, sizeof(word), copy);
	return le64_to_cpu(word);
}

/* The indices of the sums are constant, so that the compiler keeps the sums in registers. */
static __always_inline u32 crc_blocks(u32 crc, struct crc_run *run, bool copy)
{
	struct crc_run r = *run;
	u32 sums[BRAIDS] = {crc};

	while (r.len >= 2 * BRAID_BLOCK) {
		sums[0] = crc_braid(crc_fetch_word(&r, copy) ^ sums[0]);
		sums[1] = crc_braid(crc_fetch_word(&r, copy) ^ sums[1]);
		sums[2] = crc_braid(crc_fetch_word(&r, copy) ^ sums[2]);
		sums[3] = crc_braid(crc_fetch_word(&r, copy) ^ sums[3]);
		sums[4] = crc_braid(crc_fetch_word(&r, copy) ^ sums[4]);
	}
	crc = crc_word(0, crc_fetch_word(&r, copy) ^ sums[0]);
	crc = crc_word(crc, crc_fetch_word(&r, copy) ^ sums[1]);
	crc = crc_word(crc, crc_fetch_word(&r, copy) ^ sums[2]);
	crc = crc_word(crc, crc_fetch_word(&r, copy) ^ sums[3]);
	crc = crc_word(crc, crc_fetch_word(&r, copy) ^ sums[4]);
	*run = r;
	return crc;
}

/*
 * A function of at most 2,048 bytes that is aligned to them lies within one page. QEMU's TCG
 * chains jumps within a page only: with a loop that crossed one, 64 KiB WRITEs in a guest took 1.5
 * times as long. The functions have sections of their own because objtool reports the padding
 * between functions so aligned as unreachable code.
 */
#define CRC_LOOP(name) noinline __aligned(2048) __section(".text." name)

static CRC_LOOP("crc_blocks_sum") u32 crc_blocks_sum(u32 crc, struct crc_run *run)
{
	return crc_blocks(crc, run, false);
}

static CRC_LOOP("crc_blocks_copy") u32 crc_blocks_copy(u32 crc, struct crc_run *run)
{
	return crc_blocks(crc, run, true);
}

static u32 crc_table(u32 crc, struct crc_run run)
{
	bool copy = run.dst;
	u8 byte;

	if (run.len >= 2 * BRAID_BLOCK)
		crc = copy ? crc_blocks_copy(crc, &run) : crc_blocks_sum(crc, &run);
	while (run.len >= sizeof(u64))
		crc = crc_word(crc, crc_fetch_word(&run, copy));
	while (run.len) {
		crc_fetch(&run, &byte, sizeof(byte), copy);
		crc = crc_byte(crc, byte);
	}
	return crc;
}

/* The tables sum shorter runs: vector instructions gain nothing for them. */
#define FOLD_MIN 64

/* The sum, which includes the gathered bytes. */
static u32 icrc_head(const struct snic_icrc *icrc)
{
	return crc_table(icrc->sum,
			 (struct crc_run){.src = icrc->bytes + SNIC_ICRC_HEAD, .len = icrc->n});
}

/* Sum the gathered bytes and the front of @run by the processor's instructions. */
static void icrc_fold(struct snic_icrc *icrc, struct crc_run *run)
{
	u8 *head = icrc->bytes + SNIC_ICRC_HEAD;
	__le32 front;
	u32 n, sum;

	if (icrc->n < sizeof(front)) {
		icrc->sum = icrc_head(icrc);
		icrc->n = 0;
		n = port_crc32_fold(icrc->sum, NULL, run->dst, run->src, run->len, &sum);
	} else {
		/*
		 * Fold the sum so far into the first bytes. Zero bytes before them leave this CRC
		 * unchanged, so all of @head can be summed.
		 */
		memcpy(&front, head, sizeof(front));
		front ^= cpu_to_le32(icrc->sum);
		memcpy(head, &front, sizeof(front));
		icrc->sum = 0;
		n = port_crc32_fold(0, head + icrc->n - SNIC_ICRC_HEAD, run->dst, run->src,
				    run->len, &sum);
	}
	if (!n)
		return;
	run->src += n;
	run->len -= n;
	if (run->dst)
		run->dst += n;
	icrc->sum = sum;
	icrc->n = 0;
}

static void icrc_run(struct snic_icrc *icrc, struct crc_run run)
{
	u8 *head = icrc->bytes + SNIC_ICRC_HEAD;

	if (!run.len)
		return;
	if (run.len < FOLD_MIN && run.len <= SNIC_ICRC_HEAD - icrc->n) {
		icrc->n += run.len;
		crc_fetch(&run, head + icrc->n - run.len, run.len, run.dst);
		return;
	}
	if (run.len >= FOLD_MIN)
		icrc_fold(icrc, &run);
	icrc->sum = crc_table(icrc_head(icrc), run);
	icrc->n = 0;
}

void snic_icrc_update(struct snic_icrc *icrc, const void *data, u32 len)
{
	icrc_run(icrc, (struct crc_run){.src = data, .len = len});
}

void snic_icrc_copy(struct snic_icrc *icrc, void *dst, const void *src, u32 len)
{
	icrc_run(icrc, (struct crc_run){.src = src, .dst = dst, .len = len});
}

void snic_icrc_start(struct snic_icrc *icrc, const u8 *ip, bool is_v4)
{
	u32 ip_hlen = is_v4 ? SNIC_IPV4_HLEN : SNIC_IPV6_HLEN;
	u32 len = ip_hlen + SNIC_UDP_HLEN + sizeof(struct sirdma_bth);
	u8 *buf = icrc->bytes + SNIC_ICRC_HEAD;

	memset(icrc->bytes, 0, SNIC_ICRC_HEAD);
	memcpy(buf, ip, len);
	if (is_v4) {
		buf[IPV4_TOS] = 0xff;
		buf[IPV4_TTL] = 0xff;
		buf[IPV4_CSUM] = 0xff;
		buf[IPV4_CSUM + 1] = 0xff;
	} else {
		/* The mask covers all but the version: traffic class and flow label. */
		buf[0] |= 0x0f;
		buf[1] = 0xff;
		buf[2] = 0xff;
		buf[3] = 0xff;
		buf[IPV6_HOP_LIMIT] = 0xff;
	}
	buf[ip_hlen + UDP_CSUM] = 0xff;
	buf[ip_hlen + UDP_CSUM + 1] = 0xff;
	buf[ip_hlen + SNIC_UDP_HLEN + BTH_RESV8A] = 0xff;
	icrc->n = len;
	icrc->sum = ICRC_AFTER_LRH;
}

u32 snic_icrc_final(const struct snic_icrc *icrc)
{
	return ~icrc_head(icrc);
}
