// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "dma_space.hpp"

#include <sys/mman.h>

namespace sirdma::test
{

namespace
{
constexpr u64 address_space = 1ull << 46;
}

DmaSpace::DmaSpace(u64 seed) : rng_(seed)
{
	port_.ptr = access;
	port_.access = &checked;
	port_.space = this;
}

DmaSpace::~DmaSpace() = default;

u64 DmaSpace::pick(u64 len, u64 align)
{
	for (;;) {
		// Neither the zero page nor an address near the top, where sums could wrap.
		u64 addr = (rng_() % (address_space - 2 * len - 2 * align) + align) / align * align;

		if (addr == 0)
			continue;
		auto it = map_.upper_bound(addr);
		if (it != map_.end() && it->first < addr + len + 4096)
			continue;
		if (it != map_.begin()) {
			--it;
			if (it->first + it->second.len + 4096 > addr)
				continue;
		}
		return addr;
	}
}

u64 DmaSpace::map(void *ptr, u64 len, u64 align)
{
	std::unique_lock hold(lock_);
	u64 addr = pick(len, align);

	map_.emplace(addr, Mapping{static_cast<u8 *>(ptr), len});
	return addr;
}

void DmaSpace::unmap(u64 addr)
{
	std::unique_lock hold(lock_);

	if (map_.erase(addr) != 1)
		ADD_FAILURE() << "unmap of device address 0x" << std::hex << addr
			      << ", which no mapping starts at";
}

void *DmaSpace::lookup(u64 addr, u64 len)
{
	std::shared_lock hold(lock_);
	auto it = map_.upper_bound(addr);

	if (it == map_.begin())
		return nullptr;
	--it;
	u64 off = addr - it->first;
	if (off > it->second.len || len > it->second.len - off)
		return nullptr;
	return it->second.ptr + off;
}

bool DmaSpace::is_mapped(u64 addr, u64 len)
{
	return lookup(addr, len) != nullptr;
}

void *DmaSpace::peek(u64 addr, u64 len)
{
	return lookup(addr, len);
}

u64 DmaSpace::unmapped_address(u64 len, u64 align)
{
	std::unique_lock hold(lock_);

	return pick(len, align);
}

size_t DmaSpace::mappings()
{
	std::shared_lock hold(lock_);

	return map_.size();
}

void *DmaSpace::access(port_dma *dma, u64 addr, u32 len)
{
	auto *space = static_cast<Port *>(dma)->space;
	void *ptr = space->lookup(addr, len);

	if (ptr)
		return ptr;
	space->violations_++;
	if (!space->expected_)
		ADD_FAILURE() << "device access outside mapped memory: address 0x" << std::hex
			      << addr << ", " << std::dec << len << " bytes";
	return nullptr;
}

// Memory that may be missing: what is not mapped is no violation.
const port_dma_access DmaSpace::checked = {
	.read = read,
	.write = write,
	.atomic = atomic,
};

int DmaSpace::find(u64 addr, u64 len, void **found)
{
	if (busy_) {
		busy_--;
		return -EAGAIN;
	}
	*found = lookup(addr, len);
	return *found ? 0 : -EFAULT;
}

int DmaSpace::read(port_dma *dma, u64 addr, void *to, u32 len)
{
	void *from;
	const int err = static_cast<Port *>(dma)->space->find(addr, len, &from);

	if (!err)
		memcpy(to, from, len);
	return err;
}

int DmaSpace::write(port_dma *dma, u64 addr, const void *from, u32 len)
{
	void *to;
	const int err = static_cast<Port *>(dma)->space->find(addr, len, &to);

	if (!err)
		memcpy(to, from, len);
	return err;
}

int DmaSpace::atomic(port_dma *dma, u64 addr, port_atomic op, u64 operand, u64 compare, u64 *before)
{
	void *word;
	const int err = static_cast<Port *>(dma)->space->find(addr, sizeof(u64), &word);

	if (err)
		return err;
	memcpy(before, word, sizeof(*before));
	if (op == PORT_ATOMIC_ADD)
		operand += *before;
	if (op != PORT_ATOMIC_SWAP_IF || *before == compare)
		memcpy(word, &operand, sizeof(operand));
	return 0;
}

UserMemory::UserMemory(DmaSpace &dma, size_t bytes, u32 block_shift, bool contiguous)
	: dma_(dma), shift_(block_shift), contiguous_(contiguous)
{
	size_t block = size_t{1} << block_shift;
	size_t count = (bytes + block - 1) >> block_shift;

	size_ = count << block_shift;
	if (block_shift == 12) {
		mem_ = static_cast<u8 *>(std::aligned_alloc(block, size_));
		memset(mem_, 0, size_);
	} else {
		// Address space only: untouched pages of a 1 GiB block cost nothing.
		void *p = mmap(nullptr, size_ + block, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			throw std::bad_alloc();
		u64 start = reinterpret_cast<u64>(p);
		u64 aligned = (start + block - 1) & ~(block - 1);
		if (aligned > start)
			munmap(p, aligned - start);
		if (start + block > aligned)
			munmap(reinterpret_cast<void *>(aligned + size_), start + block - aligned);
		mem_ = reinterpret_cast<u8 *>(aligned);
	}
	if (contiguous) {
		u64 first = dma.map(mem_, size_, block);
		for (size_t i = 0; i < count; i++)
			blocks_.push_back(first + (i << block_shift));
	} else {
		for (size_t i = 0; i < count; i++)
			blocks_.push_back(dma.map(mem_ + (i << block_shift), block, block));
	}
}

UserMemory::~UserMemory()
{
	unmap();
	if (shift_ == 12)
		std::free(mem_);
	else
		munmap(mem_, size_);
}

void UserMemory::fill(u64 seed)
{
	std::mt19937_64 rng(seed);

	for (size_t i = 0; i < size_; i += sizeof(u64)) {
		u64 v = rng();
		memcpy(mem_ + i, &v, sizeof(v));
	}
}

void UserMemory::unmap()
{
	if (!mapped_)
		return;
	mapped_ = false;
	if (contiguous_) {
		dma_.unmap(blocks_[0]);
		return;
	}
	for (u64 addr : blocks_)
		dma_.unmap(addr);
}

} // namespace sirdma::test
