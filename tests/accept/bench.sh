# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For the scenarios that run the benchmark and judge its results by tests/bench/goals, behind lib.sh.

bench_judged() {	# guest|uml: runs the benchmark there and ends the scenario
	local status=0 judged=0 verdict
	cd "$(dirname "$0")/../.." || exit
	scripts/bench "$1" || status=$?
	# scripts/bench fails also for a round of 1 MiB that is slower than rdma_rxe's. The names of the goals say more.
	tests/bench/judge "$1" > "$work/judged" || judged=$?
	cat "$work/judged"
	((judged < 2)) || fail "scripts/bench $1 ended with $status and gave no results"
	verdict=$(tail -n 1 "$work/judged")
	[[ $judged == 0 ]] || fail "$verdict"
	[[ $status == 0 ]] || fail "scripts/bench $1 ended with $status; $verdict"
	pass "$verdict"
}
