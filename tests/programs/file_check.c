// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Random operations on one file of a file system under test, compared with a copy in memory.
 *
 *	file_check [-s SEED] [-n OPERATIONS] [-m BYTES] [-l BYTES] [-b OFFSET] FILE COPY
 *
 *	-m	the file's greatest size (4 MiB)
 *	-l	the longest read or write (1 MiB); the logarithms of the lengths are evenly distributed
 *	-b	the bytes [OFFSET, OFFSET + -m) of a file whose other bytes belong to other writers: its
 *		size does not change, and O_DIRECT is left out unless OFFSET is that of a block
 *
 * Reads and writes of one and of several buffers, through the page cache, past it (O_DIRECT) and
 * through mappings; holes, truncation to less and to more, fsync(), close and open. Every read is
 * compared. At the end COPY has what FILE must have. The exit status is 1 when anything was wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pattern.h"

enum { BLOCK = 4096, VECS = 5 };

static const char *path;
static uint8_t *model, *buffer; /* what the file has; what is read */
static size_t size, size_max = 4 << 20, length_max = 1 << 20;
static off_t base;
static int fd, region;
static uint64_t state;
static unsigned long long seed = 1, operation, written, compared;

static void fail(const char *what)
{
	fprintf(stderr, "file_check: %s: seed %llu, operation %llu: %s: %s\n", path, seed,
		operation, what, strerror(errno));
	exit(1);
}

static uint64_t any(uint64_t below)
{
	return random_below(&state, below);
}

/* 1 to MAX, short ones as often as long ones */
static size_t any_length(size_t max)
{
	size_t bits = 0;

	while (bits < 63 && (size_t)1 << bits < max)
		bits++;
	size_t length = ((size_t)1 << any(bits + 1)) + any(64);
	return length > max ? max : length;
}

static void fill(uint8_t *to, size_t length)
{
	for (size_t i = 0; i < length; i++)
		to[i] = (uint8_t)(any(256));
}

static void compare(size_t at, size_t length, const uint8_t *got, const char *how)
{
	compared += length;
	if (!memcmp(got, model + at, length))
		return;
	size_t first = 0, last = length - 1;
	while (got[first] == model[at + first])
		first++;
	while (got[last] == model[at + last])
		last--;
	fprintf(stderr,
		"file_check: %s: seed %llu, operation %llu, %s of %zu bytes at %zu, file of %zu: "
		"bytes %zu to %zu are wrong; the first is %02x and should be %02x\n",
		path, seed, operation, how, length, at, size, at + first, at + last, got[first],
		model[at + first]);
	exit(1);
}

static void open_file(void)
{
	fd = open(path, O_RDWR | O_CREAT, 0644);
	if (fd < 0)
		fail("open");
}

static void grown(size_t end)
{
	if (end > size)
		size = end;
}

/* Split a buffer at random. */
static int split(struct iovec *iov, uint8_t *at, size_t length)
{
	int count = 0;

	while (length && count < VECS) {
		size_t part = count == VECS - 1 ? length : 1 + any(length);
		iov[count++] = (struct iovec){at, part};
		at += part;
		length -= part;
	}
	return count;
}

/* A number of bytes may be less than what was asked for. */
static void transfer(int to, size_t at, size_t length, uint8_t *data, int is_write, int vectors)
{
	while (length) {
		struct iovec iov[VECS] = {{data, length}};
		int count = vectors ? split(iov, data, length) : 1;
		ssize_t did = is_write ? pwritev(to, iov, count, base + (off_t)at) :
					 preadv(to, iov, count, base + (off_t)at);
		if (did <= 0)
			fail(is_write ? "write" : did ? "read" : "the file ends too early");
		at += did;
		data += did;
		length -= did;
	}
}

static void do_write(size_t at, size_t length)
{
	fill(model + at, length);
	/* What was between the end and here is a hole. The model has zeroes there. */
	transfer(fd, at, length, model + at, 1, any(3) == 0);
	written += length;
	grown(at + length);
}

static void do_read(size_t at, size_t length)
{
	transfer(fd, at, length, buffer, 0, any(3) == 0);
	compare(at, length, buffer, "read");
}

static void do_direct(size_t at, size_t length, int is_write)
{
	int other = open(path, O_RDWR | O_DIRECT);

	if (other < 0)
		fail("open for O_DIRECT");
	if (is_write) {
		fill(buffer, length);
		transfer(other, at, length, buffer, 1, 0);
		memcpy(model + at, buffer, length);
		written += length;
		grown(at + length);
	} else {
		transfer(other, at, length, buffer, 0, 0);
		compare(at, length, buffer, "direct read");
	}
	close(other);
}

static void do_mapping(size_t at, size_t length, int is_write)
{
	size_t skip = (base + at) % BLOCK;
	uint8_t *map = mmap(NULL, skip + length, PROT_READ | (is_write ? PROT_WRITE : 0),
			    MAP_SHARED, fd, base + (off_t)(at - skip));

	if (map == MAP_FAILED)
		fail("mmap");
	if (is_write) {
		fill(model + at, length);
		memcpy(map + skip, model + at, length);
		written += length;
		if (msync(map, skip + length, MS_SYNC))
			fail("msync");
	} else {
		compare(at, length, map + skip, "mapping");
	}
	if (munmap(map, skip + length))
		fail("munmap");
}

static void do_truncate(size_t to)
{
	struct stat is;

	if (ftruncate(fd, (off_t)to))
		fail("truncate");
	if (to < size)
		memset(model + to, 0, size - to);
	size = to;
	if (fstat(fd, &is) || (size_t)is.st_size != size)
		fail("the size after truncation");
}

static void do_sync(void)
{
	if (fsync(fd))
		fail("fsync");
	if (any(2))
		return;
	if (close(fd))
		fail("close");
	open_file();
}

/* A place to read LENGTH bytes from, and LENGTH cut to what is there; none in an empty file. */
static int place(size_t *at, size_t *length)
{
	if (!size)
		return 0;
	*at = any(size);
	if (*length > size - *at)
		*length = size - *at;
	return 1;
}

static void step(void)
{
	size_t length = any_length(length_max), at, blocks = size_max / BLOCK;
	unsigned what = any(100);

	if (what < 30) {
		at = any(size_max);
		do_write(at, length > size_max - at ? size_max - at : length);
	} else if (what < 55) {
		if (place(&at, &length))
			do_read(at, length);
	} else if (what < 70) {
		if (base % BLOCK)
			return;
		int is_write = what < 63;
		if (!is_write)
			blocks = size / BLOCK;
		if (!blocks)
			return;
		at = any(blocks) * BLOCK;
		length = (length + BLOCK - 1) / BLOCK * BLOCK;
		if (length > blocks * BLOCK - at)
			length = blocks * BLOCK - at;
		do_direct(at, length, is_write);
	} else if (what < 85) {
		if (place(&at, &length))
			do_mapping(at, length, what < 78);
	} else if (what < 90) {
		if (!region)
			do_truncate(any(4) ? any(size_max + 1) : 0);
	} else {
		do_sync();
	}
}

static void leave_copy(const char *copy)
{
	FILE *f = fopen(copy, "w");

	if (!f || fwrite(model, 1, size, f) != size || fclose(f))
		fail(copy);
}

int main(int argc, char **argv)
{
	unsigned long long operations = 500;
	int opt;

	while ((opt = getopt(argc, argv, "s:n:m:l:b:DM")) != -1) {
		switch (opt) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			operations = strtoull(optarg, NULL, 0);
			break;
		case 'm':
			size_max = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			length_max = strtoull(optarg, NULL, 0);
			break;
		case 'b':
			base = (off_t)strtoull(optarg, NULL, 0), region = 1;
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != 2 || size_max < BLOCK || !length_max || length_max > size_max)
		return 2;
	path = argv[optind];
	state = seed * 0x9e3779b97f4a7c15ull + 1;

	model = calloc(1, size_max);
	buffer = mmap(NULL, size_max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!model || buffer == MAP_FAILED)
		fail("memory");
	open_file();
	if (region)
		do_write(0, size_max);
	else
		do_truncate(0);
	for (operation = 1; operation <= operations; operation++)
		step();
	if (fsync(fd) || close(fd))
		fail("the last fsync and close");
	leave_copy(argv[optind + 1]);
	printf("file_check: %s: %llu operations, %llu bytes written, %llu compared, size %zu\n",
	       path, operations, written, compared, size);
	return 0;
}
