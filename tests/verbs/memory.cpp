// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace verbs
{
namespace
{

uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

// Eight bytes of the pattern at once; `index` counts words.
uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	return mix(seed * 0x9e3779b97f4a7c15u + index);
}

// Calls visit(word, offset in bytes, first byte of the word, count) for each word the range touches, until it says stop.
template <typename Visit> void each_word(size_t length, uint64_t first, uint64_t seed, Visit visit)
{
	size_t done = 0;
	while (done < length) {
		const uint64_t position = first + done;
		const unsigned skip = position % 8;
		const size_t count = std::min<size_t>(8 - skip, length - done);
		const uint64_t word = pattern_word(seed, position / 8);
		if (!visit(reinterpret_cast<const std::byte *>(&word) + skip, done, count))
			return;
		done += count;
	}
}

} // namespace

Mapping &Mapping::operator=(Mapping &&other) noexcept
{
	std::swap(base_, other.base_);
	std::swap(length_, other.length_);
	return *this;
}

Mapping::~Mapping()
{
	if (base_)
		munmap(base_, length_);
}

Mapping Mapping::anonymous(size_t length, int extra_flags)
{
	void *base = mmap(nullptr, length, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
	return base == MAP_FAILED ? Mapping() : Mapping(static_cast<std::byte *>(base), length);
}

Mapping Mapping::of_file(int fd, size_t length, int protection, int flags)
{
	void *base = mmap(nullptr, length, protection, flags, fd, 0);
	return base == MAP_FAILED ? Mapping() : Mapping(static_cast<std::byte *>(base), length);
}

Mapping Mapping::aliased(size_t length, size_t period)
{
	void *base = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			  -1, 0);
	if (base == MAP_FAILED)
		return {};
	Mapping mapping(static_cast<std::byte *>(base), length);
	const int fd = anonymous_file(period);
	if (fd < 0)
		return {};
	for (size_t at = 0; at < length; at += period) {
		void *part = mmap(mapping.data() + at, std::min(period, length - at),
				  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
		if (part == MAP_FAILED) {
			close(fd);
			return {};
		}
	}
	close(fd);
	return mapping;
}

int anonymous_file(size_t length)
{
	const int fd = memfd_create("verbs", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, static_cast<off_t>(length))) {
		close(fd);
		return -1;
	}
	return fd;
}

void fill_pattern(std::span<std::byte> bytes, uint64_t seed, uint64_t first)
{
	each_word(bytes.size(), first, seed, [&](const std::byte *word, size_t at, size_t count) {
		std::memcpy(bytes.data() + at, word, count);
		return true;
	});
}

std::optional<size_t> find_mismatch(std::span<const std::byte> bytes, uint64_t seed, uint64_t first)
{
	std::optional<size_t> found;
	each_word(bytes.size(), first, seed, [&](const std::byte *word, size_t at, size_t count) {
		if (std::memcmp(bytes.data() + at, word, count) == 0)
			return true;
		for (size_t i = 0; i < count && !found; i++)
			if (bytes[at + i] != word[i])
				found = at + i;
		return false;
	});
	return found;
}

uint64_t Random::next()
{
	state_ += 0x9e3779b97f4a7c15u;
	return mix(state_);
}

uint64_t available_memory()
{
	unsigned long long kib = 0;
	char line[128];
	if (std::FILE *file = std::fopen("/proc/meminfo", "re")) {
		while (std::fgets(line, sizeof(line), file))
			if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
				break;
		std::fclose(file);
	}
	return kib * 1024;
}

} // namespace verbs
