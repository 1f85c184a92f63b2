# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For the scenarios that run the benchmark and judge its results by tests/bench/goals, behind lib.sh.

bench_judged() {	# guest|uml: runs the benchmark there and ends the scenario
	local status=0 verdict
	cd "$(dirname "$0")/../.." || exit
	scripts/bench "$1" || status=$?
	# What the last lines of scripts/bench complain of is judged here again; a guest that crashed gave no results.
	((status < 98)) || fail "scripts/bench $1 ended with $status"
	status=0
	tests/bench/judge "$1" > "$work/judged" || status=$?
	cat "$work/judged"
	verdict=$(tail -n 1 "$work/judged")
	[[ $status == 0 ]] || fail "$verdict"
	pass "$verdict"
}
