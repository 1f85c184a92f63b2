# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For scenarios of a twin on this machine and a device of a guest's kernel; to be sourced after lib.sh. The scenario's file
# runs three times: as it was started, in a network namespace of its own (NODE 0) and in the guest (NODE 1). The last two
# run both_sides at the same time and do the same steps in the same order.
#
#   host, NODE 0: sirdma run on tap0 ──── eth0: guest, NODE 1, dev0
#
#   guest_side COMMAND...   in the guest: COMMAND makes dev0 on eth0, then both_sides runs
#   host_side "$@"          on the host: boot the guest, run both_sides, end the guest; $guest_limit seconds at most
#   across SERVER-NODE FAMILY PROGRAM ARGS...     run a program at both ends; both must succeed. The output of this end is in
#                           $work/here, the twin's with its counters. When one fails, the last packets between the two are
#                           in build/capture-SCENARIO, headers only
# shellcheck disable=SC2154
top=$(cd "$(dirname "$0")/../.." && pwd)
own4=10.78.0.$((${NODE:-0} + 1)) own6=fd78::$((${NODE:-0} + 1)) peer4=10.78.0.$((2 - ${NODE:-0})) peer6=fd78::$((2 - ${NODE:-0}))
guest_limit=800
capturing=''

across() {
	local server_node=$1 family=$2 name=$3 status=0 program=() index=-g process
	port=$((port + 1))
	shift 3
	[[ $name == ib_* ]] && index=-x
	local -n own=own$family
	if [[ $NODE == 0 ]]; then
		[[ $name != verbs_stream ]] || name=$tests/tests/verbs/verbs_stream
		options=(--addr "$own" --stats)
		program=(run -- "$name" "$index" 0 -p "$port" "$@")
	else
		[[ $name != verbs_stream ]] || name=$programs/verbs_stream
		program=(timeout "$limit" "$name" -d dev0 "$index" "$(gid_index dev0 "$own")" -p "$port" "$@")
	fi
	if [[ $NODE == "$server_node" ]]; then
		"${program[@]}" > "$work/here" 2>&1 &
		process=$!
		await 60 eval "listening init $port || ! kill -0 $process" || true
		rendezvous
		wait "$process" || status=$?
	else
		rendezvous
		"${program[@]}" "$peer4" > "$work/here" 2>&1 || status=$?
	fi
	echo "[node $NODE] IPv$family ${name##*/} $*, server: node $server_node"
	grep 'iters in\|: OK\|^ *[0-9]\+ \+[0-9.]\+ \|rx_bad_icrc\|retransmits' "$work/here" | sed "s/^/[node $NODE]   /" || true
	if [[ $status != 0 ]]; then
		cat "$work/here"
		keep_capture
		# The guest's last output
		[[ $NODE != 0 ]] || tail -n 40 "$work/guest"
	fi
	[[ $status == 0 ]] || fail "node $NODE: IPv$family ${name##*/} $*, server: node $server_node: exit $status"
}

# Capture the packets of the tap. dumpcap keeps the newest four files, which hold some seconds.
capture() {
	mkdir -p "$work/capture"
	chmod 777 "$work/capture"
	dumpcap -q -i tap0 -f 'udp port 4791' -s 140 -b filesize:30000 -b files:4 -w "$work/capture/packets.pcapng" 2> "$work/capture.log" &
	capturing=$!
}

keep_capture() {
	local to=$top/build/capture-$scenario
	[[ $capturing ]] || return 0
	sleep 1		# the kernel passes packets to dumpcap in blocks, up to a second late
	kill "$capturing" 2> /dev/null || true
	wait "$capturing" || true
	rm -rf "$to"
	mkdir -p "$top/build"
	cp -a "$work/capture" "$to" && say "the last packets are in $to"
}

guest_side() {
	two_guests_up
	"$@"
	both_sides
	pass
}

host_side() {
	if [[ ${1:-} != inside ]]; then
		"$top/scripts/stage" trixie > "$work/stage" 2>&1 || { tail -n 20 "$work/stage"; fail "no modules and programs for the guest"; }
		ip netns add "$scenario-$$"
		# shellcheck disable=SC2064
		trap "ip netns del $scenario-$$" EXIT
		ip netns exec "$scenario-$$" "$0" inside || exit
		exit 0
	fi
	NODE=0
	# shellcheck source=tests/accept/twin.sh
	. "$top/tests/accept/twin.sh"
	with_tests verbs_stream
	ip link set lo up
	ip tuntap add tap0 mode tap
	sysctl -qw net.ipv6.conf.tap0.accept_dad=0
	ip link set tap0 up
	ip addr add "$own4/24" dev tap0
	ip addr add "$own6/64" dev tap0 nodad
	capture
	# one processor for the guest, one for what runs here
	"$top/vm/run" --tap tap0 --cpus 1 --env NODE=1 --env "ROUNDS=${ROUNDS:-1}" --timeout "$guest_limit" "$0" > "$work/guest" 2>&1 &
	local guest=$!
	await 300 eval "ping -qc1 -W1 $peer4 || ! kill -0 $guest" && kill -0 "$guest" 2> /dev/null ||
		{ tail -n 20 "$work/guest"; fail "the guest does not answer"; }
	both_sides
	kill "$capturing"
	wait "$guest" || { tail -n 40 "$work/guest"; fail "in the guest: exit $?"; }
}
