#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Inside a guest: run acceptance scenarios one after the other, with nothing left of the one before. One line each to $RESULTS.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. vm/kernel-log.sh
RESULTS=${RESULTS:-/dev/null}
mine=/tmp/results

. vm/scenario.sh

# Remove what a scenario leaves behind: programs, RDMA links, namespaces, veth ends, and our modules with the parameters it set.
remove_leftovers() {	# SESSION
	local link i
	pkill -KILL -s "$1" 2> /dev/null
	for link in $(rdma link show 2> /dev/null | sed -n 's|^link \([^/ ]*\)/.*|\1|p'); do
		rdma link delete "$link" 2> /dev/null || echo "could not delete RDMA link $link"
	done
	ip -all netns delete 2> /dev/null
	for link in $(ip -o link show type veth 2> /dev/null | sed 's/^[0-9]*: \([^@:]*\).*/\1/'); do ip link delete "$link" 2> /dev/null; done
	for ((i = 0; i < 100; i++)); do
		grep -q '^sirdma' /proc/modules || return 0
		modprobe -rq sirdma sirdma_nic 2> /dev/null || sleep 0.1
	done
	grep '^sirdma' /proc/modules
	return 1
}

failed=0
for name in "$@"; do
	printf '\n=== %s: %s\n' "$name" "$(field "$name" summary)"
	echo "sirdma-accept: $name starts" > /dev/kmsg
	: > "$mine"
	started=$SECONDS seconds=$(limit_of "$name")
	RESULTS=$mine setsid -w timeout -k 10 "$seconds" "tests/accept/$name" &
	session=$!
	wait "$session"
	status=$?
	remove_leftovers "$session" || sed -i "s/^PASS.*/FAIL $name the modules do not unload/" "$mine"
	dmesg | sed "1,/sirdma-accept: $name starts/d" > "$mine.dmesg"
	complaints=$(kernel_complaints < "$mine.dmesg")
	grep -q '^PASS\|^FAIL' "$mine" || case $status in
	124 | 137) echo "FAIL $name no result within $seconds s" > "$mine" ;;
	*) echo "FAIL $name ended with $status and no result" > "$mine" ;;
	esac
	[[ -z $complaints ]] || sed -i "s/^PASS.*/FAIL $name the kernel complained: $(head -1 <<< "$complaints" | tr -d '/&\\')/" "$mine"
	[[ -z $complaints ]] || { printf '%s\n' "$complaints"; complaint_in_full < "$mine.dmesg"; }
	grep -q '^FAIL' "$mine" && failed=1
	cat "$mine" >> "$RESULTS"
	echo "=== $(tail -1 "$mine") ($((SECONDS - started)) s)"
done
exit "$failed"
