// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Memory to move and the patterns it is filled with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace verbs
{

// One mmap()ed range. Null when the mapping failed; errno then says why.
class Mapping {
public:
	Mapping() = default;
	Mapping(Mapping &&other) noexcept
		: base_(std::exchange(other.base_, nullptr)),
		  length_(std::exchange(other.length_, 0))
	{
	}
	Mapping &operator=(Mapping &&other) noexcept;
	~Mapping();

	static Mapping anonymous(size_t length, int extra_flags = 0);
	static Mapping of_file(int fd, size_t length, int protection, int flags);
	// `length` bytes of address space over one small shared file repeated again and again, so that huge
	// registrations need little memory: byte i is byte i % period.
	static Mapping aliased(size_t length, size_t period);

	explicit operator bool() const { return base_ != nullptr; }
	std::byte *data() const { return base_; }
	size_t size() const { return length_; }
	std::span<std::byte> bytes() const { return {base_, length_}; }
	uint64_t address(size_t offset = 0) const
	{
		return reinterpret_cast<uint64_t>(base_) + offset;
	}

private:
	Mapping(std::byte *base, size_t length) : base_(base), length_(length) {}
	std::byte *base_ = nullptr;
	size_t length_ = 0;
};

// A file without a name, of that many bytes; -1 and errno on failure.
int anonymous_file(size_t length);

// Byte i of pattern `seed` depends on (seed, i) alone, so any part can be written or checked by itself.
void fill_pattern(std::span<std::byte> bytes, uint64_t seed, uint64_t first = 0);
// The index of the first byte that is not the pattern's.
std::optional<size_t> find_mismatch(std::span<const std::byte> bytes, uint64_t seed,
				    uint64_t first = 0);

// splitmix64: small, well mixed, the same everywhere.
class Random {
public:
	explicit Random(uint64_t seed) : state_(seed) {}
	uint64_t next();
	// Uniform enough for tests, in [0, bound).
	uint64_t below(uint64_t bound) { return bound ? next() % bound : 0; }

private:
	uint64_t state_;
};

// MemAvailable of /proc/meminfo in bytes.
uint64_t available_memory();

} // namespace verbs
