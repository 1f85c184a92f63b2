#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Compares uprov/provider/ibverbs_private.hpp and interface.hpp with the real private header of
# rdma-core, member by member: the same list of sizes and offsets is compiled in C against the one
# and in C++ against the other, and the two outputs must be equal.
#
#   RDMA_CORE_SRC="tree [tree...]" tests/provider/private_abi.sh [top]
#
# Each tree is an unpacked source of rdma-core 36 to 65. Without one the test is skipped (77).
set -eu

top=${1:-$(cd "$(dirname "$0")/../.." && pwd)}
here=$top/tests/provider
: "${CC:=cc}" "${CXX:=c++}"

if [ -z "${RDMA_CORE_SRC:-}" ]; then
	echo "private_abi: RDMA_CORE_SRC is not set, nothing to compare with"
	exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$CXX" -std=c++20 -I"$top/uprov/provider" -I"$top/include" -o "$work/ours" \
	"$here/private_abi_ours.cpp"

for tree in $RDMA_CORE_SRC; do
	inc=$work/include
	rm -rf "$inc"
	mkdir -p "$inc/infiniband" "$inc/kernel-abi"
	ln -s "$tree"/libibverbs/*.h "$tree/kernel-headers/rdma/ib_user_ioctl_verbs.h" "$inc/infiniband/"
	ln -s "$tree/ccan" "$inc/ccan"
	ln -s "$tree/kernel-headers/rdma" "$inc/rdma"
	ln -s "$tree/util" "$inc/util"
	: >"$inc/config.h"
	python3 "$tree/buildlib/make_abi_structs.py" "$tree/kernel-headers/rdma/ib_user_verbs.h" \
		"$inc/kernel-abi/ib_user_verbs.h"
	sed -n '/^struct verbs_context_ops {/,/^};/s/^.*(\*\([a-z_0-9]*\))(.*/AT(verbs_context_ops, \1)/p' \
		"$tree/libibverbs/driver.h" >"$inc/operations.inc"
	number=$(sed -n 's/^set(IBVERBS_PABI_VERSION "\(.*\)").*/\1/p' "$tree/CMakeLists.txt")
	release=$(sed -n 's/^set(PACKAGE_VERSION "\([0-9]*\).*/\1/p' "$tree/CMakeLists.txt")
	"$CC" -D_GNU_SOURCE -DIBVERBS_PABI_VERSION="$number" -I"$inc" -I"$here" -o "$work/theirs" "$here/private_abi_theirs.c"
	"$work/theirs" >"$work/theirs.txt"
	"$work/ours" "$release" >"$work/ours.txt"
	diff -u "$work/theirs.txt" "$work/ours.txt"
	echo "private_abi: $(wc -l <"$work/ours.txt") facts agree with $tree"
done
