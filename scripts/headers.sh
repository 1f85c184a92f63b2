#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Every header compiles alone: include/ as C11 and as C++20, the portable core's as C11.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
alone() {	# COMPILER HEADER FLAGS...
	local compiler=$1 header=$2
	shift 2
	echo "#include \"$header\"" | "$compiler" -Wall -Wextra -Werror -Wno-sign-compare -Wno-unused-parameter \
		-D_GNU_SOURCE -fsyntax-only -Iinclude -Ikmod "$@" - || { echo "not self-contained: $header ($*)"; failed=1; }
}

for h in include/sirdma/*.h; do
	alone gcc "${h#include/}" -std=c11 -x c
	alone g++ "${h#include/}" -std=c++20 -x c++
done
for h in kmod/hw/*.h kmod/model/*.h kmod/port/port.h; do
	alone gcc "${h#kmod/}" -std=gnu11 -x c
done
exit "$failed"
