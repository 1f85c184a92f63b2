// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Device address space of a test host. Addresses are random and unrelated to
// process addresses; every access is checked against what is mapped at that
// moment, as an IOMMU would.
#pragma once

#include "c_api.hpp"

namespace sirdma::test
{

class DmaSpace {
public:
	explicit DmaSpace(u64 seed);
	~DmaSpace();
	DmaSpace(const DmaSpace &) = delete;
	DmaSpace &operator=(const DmaSpace &) = delete;

	port_dma *port() { return &port_; }

	// Map @len bytes at @ptr to a random address of the given alignment.
	u64 map(void *ptr, u64 len, u64 align = 4096);
	// End a mapping made by map(); the memory itself stays the caller's.
	void unmap(u64 addr);
	bool is_mapped(u64 addr, u64 len);
	// Test-side view of device memory: nullptr when not mapped, never a failure.
	void *peek(u64 addr, u64 len);
	// A random address with nothing mapped behind it.
	u64 unmapped_address(u64 len = 4096, u64 align = 4096);

	// The next @n accesses to memory that may be missing find that it may come later.
	void be_busy(unsigned n) { busy_ = n; }

	u64 violations() const { return violations_.load(); }
	size_t mappings();

	// While one exists, accesses outside mapped memory are counted, not failures.
	class ExpectFaults {
	public:
		explicit ExpectFaults(DmaSpace &dma) : dma_(dma) { dma_.expected_++; }
		~ExpectFaults() { dma_.expected_--; }
		ExpectFaults(const ExpectFaults &) = delete;
		ExpectFaults &operator=(const ExpectFaults &) = delete;

	private:
		DmaSpace &dma_;
	};

private:
	struct Port : port_dma {
		DmaSpace *space;
	};
	struct Mapping {
		u8 *ptr;
		u64 len;
	};

	static void *access(port_dma *dma, u64 addr, u32 len);
	static int read(port_dma *dma, u64 addr, void *to, u32 len);
	static int write(port_dma *dma, u64 addr, const void *from, u32 len);
	static int atomic(port_dma *dma, u64 addr, port_atomic op, u64 operand, u64 compare,
			  u64 *before);
	static const port_dma_access checked;
	int find(u64 addr, u64 len, void **found);
	void *lookup(u64 addr, u64 len);
	u64 pick(u64 len, u64 align);

	Port port_{};
	std::shared_mutex lock_;
	std::map<u64, Mapping> map_;
	std::mt19937_64 rng_;
	std::atomic<u64> violations_{0};
	std::atomic<unsigned> busy_{0};
	std::atomic<int> expected_{0};
};

// Memory of a user process, pinned and mapped block by block: contiguous for the
// process, scattered for the device.
class UserMemory {
public:
	// @block_shift: 12, 21 or 30. @contiguous: one run for the device, too.
	UserMemory(DmaSpace &dma, size_t bytes, u32 block_shift = 12, bool contiguous = false);
	~UserMemory();
	UserMemory(const UserMemory &) = delete;
	UserMemory &operator=(const UserMemory &) = delete;

	u8 *data() { return mem_; }
	size_t size() const { return size_; }
	std::span<u8> bytes() { return {mem_, size_}; }
	u64 va() const { return reinterpret_cast<u64>(mem_); }
	u32 block_shift() const { return shift_; }
	// Device address of each block.
	const std::vector<u64> &blocks() const { return blocks_; }
	// Device address of byte @off.
	u64 pa(size_t off) const { return blocks_[off >> shift_] + (off & ((1ull << shift_) - 1)); }
	void fill(u64 seed);
	// Unpin: the device may not touch it any more. The bytes stay.
	void unmap();

private:
	DmaSpace &dma_;
	u8 *mem_ = nullptr;
	size_t size_;
	u32 shift_;
	bool contiguous_;
	bool mapped_ = true;
	std::vector<u64> blocks_;
};

} // namespace sirdma::test
