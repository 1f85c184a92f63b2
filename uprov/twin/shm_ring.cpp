/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shm_ring.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sirdma::twin
{

namespace
{

/* The file has a page of control words, then the data of both rings. */
constexpr size_t page = ring_page;
constexpr size_t file_bytes = page + 2 * ring_bytes;
/* Each data area is mapped twice in a row. */
constexpr size_t mapped_bytes = page + 4 * ring_bytes;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static_assert(2 * sizeof(RingControl) <= page && ring_bytes % page == 0);

bool map_at(uint8_t *where, size_t bytes, int fd, size_t offset) noexcept
{
	return mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		    static_cast<off_t>(offset)) != MAP_FAILED;
}

} // namespace

/*
 * Pages without memory read as zero, which is what the ring has where no record is. The reader reads
 * nothing but the word of the next record, because it has released all others.
 */
bool RingWriter::trim() noexcept
{
	const uint64_t last = tail_ & ~(page - 1); /* the page that stays */

	if (tail_ != published_ || !look_for_room(ring_align) || head_ != tail_)
		return false;
	if (last == trimmed_)
		return true;

	/*
	 * The area begins where nothing is in use any more, but not more than a ring before the page
	 * that stays. In the first lap the difference is negative and the area is all of the ring but
	 * that page: position and length are right modulo 2^64. The area may go past the end of the
	 * data, into its second mapping.
	 */
	const uint64_t from = std::max(trimmed_, last + page - ring_bytes);

	/* On failure (memory that is locked) the pages stay until the ring is used again. */
	(void)madvise(at(from), last - from, MADV_REMOVE);
	trimmed_ = last;
	return true;
}

RingPair::~RingPair()
{
	if (base_)
		munmap(base_, mapped_bytes);
}

RingPair RingPair::create(int &fd) noexcept
{
	fd = memfd_create("sirdma-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return {};
	if (!ftruncate(fd, file_bytes) && !fcntl(fd, F_ADD_SEALS, seals))
		if (RingPair pair = map(fd))
			return pair;

	const int err = errno;

	close(fd);
	fd = -1;
	errno = err;
	return {};
}

RingPair RingPair::map(int fd) noexcept
{
	const int has = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (has < 0 || (has & seals) != seals || fstat(fd, &st) || st.st_size != file_bytes) {
		errno = EINVAL;
		return {};
	}

	void *area = mmap(nullptr, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		return {};

	RingPair pair(static_cast<uint8_t *>(area));
	bool ok = map_at(pair.base_, page, fd, 0);

	for (unsigned copy = 0; copy < 4; ++copy)
		ok = ok && map_at(pair.base_ + page + copy * ring_bytes, ring_bytes, fd,
				  page + copy / 2 * ring_bytes);
	/* A forked child must not keep the rings of a dead parent in use. */
	if (!ok || madvise(pair.base_, mapped_bytes, MADV_DONTFORK))
		return {};
	return pair;
}

/* The initial value of the words is zero, as is new memory. */
RingControl &RingPair::control(unsigned ring) const noexcept
{
	return std::launder(reinterpret_cast<RingControl *>(base_))[ring];
}

uint8_t *RingPair::data(unsigned ring) const noexcept
{
	return base_ + page + ring * 2 * ring_bytes;
}

RingWriter RingPair::writer(unsigned ring) const noexcept
{
	return {&control(ring), data(ring)};
}

RingReader RingPair::reader(unsigned ring) const noexcept
{
	return {&control(ring), data(ring)};
}

} // namespace sirdma::twin
