#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# In a guest: Debian's RDMA programs between sirdma and soft-RoCE, and between two sirdma devices.
#
#   [init]                     [a]            [b]                     [c]
#   rxe0 on eth-init ── veth ── sir0 on eth-a  sir1 on eth-b ── veth ── sir2 on eth-c
#
# Soft-RoCE of these kernels lives in the initial namespace only, so sirdma's end of that link has its own.
. "$(dirname "$0")/../tests/accept/lib.sh"
scenario=demo
limit=180

show() {	# WHAT COMMAND...: run it, print its commands and, when it fails, its output; $figures is its last line or FAILED
	local what=$1
	shift
	if "$@" > "$work/out" 2>&1; then figures=$(tail -1 "$work/out"); else figures=FAILED; bad=1; fi
	grep '^\$' "$work/out" || true
	[[ $figures != FAILED ]] || sed 's/^/    /' "$work/out"
}
row() { rows+=("$(printf '%-26s %-26s %s' "$1" "$2" "$3")"); }
bad=0 rows=() figures=''

bandwidth() {	# TITLE A DEV B DEV
	local title=$1 prog size rate rest more
	shift
	show "$title" pingpong "$@" -n 200
	row "$title" ibv_rc_pingpong "$([[ $figures == FAILED ]] && echo FAILED ||
		awk '/usec\/iter/ { print $(NF - 1) " us per round trip of 4096 B" }' "$work/client")"
	for prog in ib_send_bw ib_write_bw ib_read_bw; do
		# Outstanding READs: perftest assumes one limit for both devices, so name one that both have
		more=()
		[[ $prog != ib_read_bw ]] || more=(-o 16)
		show "$title" perf "$prog" "$@" -s 65536 -n 200 "${more[@]}"
		read -r size rate rest <<< "$figures"
		row "$title" "$prog 64 KiB" "$([[ $figures == FAILED ]] && echo FAILED || echo "$rate MB/s")"
	done
	# Its client exits with 0 whatever happens; it prints what it received and compared.
	show "$title" pair "$1" "$3" cm -- rping -s -a "${ip4[$1]}" -C 50 -V -- rping -c -a "${ip4[$1]}" -C 50 -v -V
	[[ $(grep -c '^ping data: rdma-ping-' "$work/client") == 50 ]] || figures=FAILED bad=1
	row "$title" "rping, by rdma_cm" "$([[ $figures == FAILED ]] && echo FAILED || echo "50 round trips, data compared")"
}

say "modules"
modprobe rdma_ucm
for m in rdma_rxe sirdma; do echo "\$ modprobe $m"; modprobe "$m"; done
join init a
join b c
rxe_add init rxe0
echo "\$ rdma link add sir0 type sirdma netdev ${nic[a]}"
sirdma_add a sir0
sirdma_add b sir1
sirdma_add c sir2
echo "\$ rdma link"
rdma link
echo "\$ ibv_devinfo -d sir0"
ibv_devinfo -d sir0

say "sirdma and soft-RoCE, both directions"
bandwidth "rxe -> sirdma" a sir0 init rxe0
bandwidth "sirdma -> rxe" init rxe0 a sir0
say "two sirdma devices"
bandwidth "sirdma -> sirdma" b sir1 c sir2
say "soft-RoCE in loopback, for comparison"
bandwidth "rxe -> rxe (loopback)" init rxe0 init rxe0

printf '\n%-26s %-26s %s\n' "client -> server" program result
printf '%s\n' "${rows[@]}"
exit "$bad"
