# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For scenarios that run rdma-core's own tests (pyverbs), as Debian's package rdma-core has them; to be sourced after lib.sh.
#
#   pyverbs_unpack          put them into $work/tests
#   pyverbs_leave_out TABLE       without the tests that the file TABLE marks "left out:"
#   suite DEVICE GID_INDEX [COMMAND...]     run each file in a process of its own, started by COMMAND. Results in $work/DEVICE:
#                           "FILE TEST ok|FAIL|ERROR|skipped WHY", and "FILE - crashed STATUS"; how many are in $passed, $skipped, $bad
#   must_pass DEVICE TABLE  none failed, and what is skipped is what the file TABLE lists
declare -A passed=() skipped=() bad=()

pyverbs_unpack() {
	mkdir "$work/tests"
	cp -r /usr/share/doc/rdma-core/tests/. "$work/tests/"
	gunzip -f "$work"/tests/*.gz
	# Tests of other providers, and of memory of graphics cards
	rm -f "$work"/tests/test_{mlx5,efa,hns,irdma,cuda}*.py
}

pyverbs_leave_out() {
	local file name
	while read -r file name; do sed -i "s/def $name(/def left_out_$name(/" "$work/tests/$file.py"; done < <(sed -n '/ left out:/s/ left out:.*//p' "$1")
}

suite() {
	local file name status log=$work/log
	: > "$work/$1"
	for file in "$work"/tests/test_*.py; do
		name=$(basename "$file" .py) status=0
		(cd "$work/tests" && timeout "$limit" "${@:3}" python3 run_tests.py --dev "$1" --gid "$2" -v "$name") > "$log" 2>&1 || status=$?
		cat "$log"
		python3 - "$name" "$status" "$log" >> "$work/$1" << 'PY'
import re, sys
name, status, log = sys.argv[1], int(sys.argv[2]), open(sys.argv[3], errors="replace").read()
for test, result in re.findall(r"^(test_\w+) \([^)]*\)(?:\n[^\n]*)?\s*\.\.\. (?:.*?)(ok|FAIL|ERROR|skipped [^\n]*)$", log, re.M | re.S):
    print(name, test, result)
if not re.search(r"^Ran \d+ test", log, re.M):
    print(name, "-", "crashed", status)
PY
	done
	passed[$1]=$(grep -c ' ok$' "$work/$1") skipped[$1]=$(grep -c ' skipped ' "$work/$1") bad[$1]=$(grep -cE ' (FAIL|ERROR|crashed .*)$' "$work/$1" || true)
	say "$1: ${passed[$1]} passed, ${skipped[$1]} skipped, ${bad[$1]} failed"
}

must_pass() {
	grep -vE ' ok$' "$work/$1" || true
	[[ ${bad[$1]} == 0 ]] || fail "${passed[$1]} passed, ${skipped[$1]} skipped, ${bad[$1]} failed"
	diff <(awk '!/^#/ && !/ left out:/ { print $1, $2 }' "$2" | sort) <(awk '$3 == "skipped" { print $1, $2 }' "$work/$1" | sort) ||
		fail "what is skipped (>) is not what $2 lists (<)"
}
