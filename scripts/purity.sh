#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# kmod/hw and kmod/model stay portable: they include include/sirdma, port.h and their own layer only, and their objects refer to
# nothing but each other, what port.h provides (also through its inline functions) and the four memory functions a compiler may
# call by itself. kmod/drv uses neither the model nor its host: it reaches its device through sirdma/bus.h.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
complain() { echo "purity: $*"; failed=1; }

for layer in hw model; do
	while IFS=: read -r file line text; do
		header=$(sed -n 's/^ *# *include *["<]\([^">]*\)[">].*/\1/p' <<< "$text")
		case $header in
		sirdma/*.h) [[ -e include/$header ]] && continue ;;
		port/port.h | port.h) continue ;;
		"$layer"/*.h) [[ -e kmod/$header ]] && continue ;;
		*/*) ;;
		*.h) [[ $text == *'"'* && -e kmod/$layer/$header ]] && continue ;;
		esac
		complain "$file:$line: includes $header"
	done < <(grep -rn '^ *# *include' "kmod/$layer" --include='*.[ch]' || true)
done

while IFS= read -r line; do
	complain "$line: kmod/drv goes past sirdma/bus.h"
done < <(grep -rnE '^ *# *include *"(host|model)/|\bsnic_[a-z]' kmod/drv --include='*.[ch]' || true)

objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
for layer in hw model; do
	compgen -G "kmod/$layer/*.c" > /dev/null || continue
	mkdir "$objects/$layer"
	for c in kmod/"$layer"/*.c; do
		gcc -std=gnu11 -O2 -D_GNU_SOURCE -DSIRDMA_PURITY -Iinclude -Ikmod -c "$c" -o "$objects/$layer/$(basename "$c" .c).o" ||
			complain "$c does not compile in userspace"
	done
	while read -r symbol; do
		grep -qw "$symbol" kmod/port/port_user.h && continue
		complain "kmod/$layer refers to $symbol: $(cd "$objects/$layer" && nm -Au ./*.o | awk -v s="$symbol" '$NF == s { print $1 }' | paste -sd' ')"
	done < <(comm -23 <(nm -u "$objects/$layer"/*.o | awk 'NF == 2 { print $2 }' | sort -u) \
		<(nm --defined-only "$objects/$layer"/*.o | awk 'NF == 3 { print $3 }' | sort -u) |
		grep -vxE 'port_.*|mem(cpy|move|set|cmp)|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail' || true)
done
exit "$failed"
