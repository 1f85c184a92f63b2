# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For scenarios that make many connections by rdma_cm; to be sourced after lib.sh.
#
#   cm_serve A PROGRAM...   start the program in A and wait until it listens; its process is in $server, its output in $work/server
#   cmtime_server_ends PID
#   resources_idle      before the first connection: this is what the devices have when no program uses them
#   all_closed          wait until the devices have that again, and nothing more: identifiers, queue pairs, completion queues, regions,
#                       domains, contexts, shared receive queues; $left says it in figures. What is left is listed

idle='' left='' server=''
cm_serve() {	# A PROGRAM...
	echo "\$ [$1] ${*:2}"
	on "$1" timeout "$limit" "${@:2}" > "$work/server" 2>&1 &
	server=$!
	await 20 cm_listening "$1" "$server" || fail "${*:2} does not listen: $(tail -n 3 "$work/server")"
}
# cmtime_server_ends PID: after its client has. That of rdma-core 44 serves for ever.
cmtime_server_ends() {
	if [[ $(readlink -f /usr/lib/*/librdmacm.so.1) == *.44.0 ]]; then stop "$1"; else wait "$1"; fi
}
resources_idle() { idle=$(rdma resource show); echo "$idle"; }
closed() { [[ $(rdma resource show) == "$idle" ]]; }
all_closed() {
	local kind
	[[ $idle ]] || fail "all_closed without resources_idle"
	await 20 closed || {
		diff <(echo "$idle") <(rdma resource show) || true
		for kind in cm_id qp cq mr pd ctx srq; do rdma resource show "$kind"; done
		fail "resources are left"
	}
	left="as before: $(sed 's/^[0-9]*: //; s/ *$//' <<< "$idle" | paste -sd';')"
}

# answered CLIENT'S-OUTPUT COUNT: a client of rping that is disconnected exits with 0, so its answers are counted
answered() { [[ $(grep -c '^ping data: rdma-ping-' "$1") == "$2" ]] || { tail -n 3 "$1"; fail "rping: not $2 answers"; }; }

# one_server A B CLIENTS ANSWERS: clients of rping in B, each with so many answers of one server in A. Each begins when the one before
# has its first answer, because "rping -P" keeps the newest request in one variable.
one_server() {
	local n clients=()
	cm_serve "$1" rping -s -P -a "${ip4[$1]}"
	echo "$3 clients in [$2]"
	for ((n = 1; n <= $3; n++)); do
		: > "$work/client$n"
		on "$2" timeout "$limit" stdbuf -oL rping -c -a "${ip4[$1]}" -C "$4" -v -V > "$work/client$n" 2>&1 &
		clients+=($!)
		await 20 grep -q '^ping data: rdma-ping-' "$work/client$n" ||
			{ cat "$work/client$n" "$work/server"; fail "rping -P: client $n has no answer"; }
	done
	for ((n = 1; n <= $3; n++)); do
		wait "${clients[n - 1]}" || { tail -n 3 "$work/client$n"; fail "rping -P: client $n"; }
		answered "$work/client$n" "$4"
	done
	stop "$server"
}
