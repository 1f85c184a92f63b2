// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What every fuzz target has: its input as a stream, and a failed EXPECT as a find.
#pragma once

#include <algorithm>
#include <span>

#include <gtest/gtest.h>

extern "C" {
#include "port/port.h"
}

namespace sirdma::test
{

// Input as a stream; zeros behind its end.
class Input {
public:
	Input(const u8 *data, size_t size) : data_(data), size_(size) {}

	bool more() const { return at_ < size_; }
	u8 byte() { return at_ < size_ ? data_[at_++] : 0; }
	u16 half() { return static_cast<u16>(byte() | byte() << 8); }
	u64 word()
	{
		u64 out = 0;

		for (int i = 0; i < 8; i++)
			out |= u64{byte()} << 8 * i;
		return out;
	}
	std::span<const u8> bytes(size_t n)
	{
		n = std::min(n, size_ - std::min(at_, size_));
		at_ += n;
		return {data_ + at_ - n, n};
	}

private:
	const u8 *data_;
	size_t size_;
	size_t at_ = 0;
};

// A failed EXPECT is the fuzzer's find.
inline void fail_loudly()
{
	static const bool once = [] {
		int argc = 1;
		char name[] = "fuzz", *argv[] = {name, nullptr};

		::testing::InitGoogleTest(&argc, argv);
		::testing::GTEST_FLAG(break_on_failure) = true;
		return true;
	}();

	(void)once;
}

} // namespace sirdma::test
