# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For scenarios of the twin, which run on the host; to be sourced after lib.sh. Started by root, they run the programs as user
# nobody if that user can read the build folder.
#
#   $sirdma                 the command, built
#   run OPTIONS -- PROGRAM  sirdma run, as that user, started by the command "${wrapper[@]}" if a scenario sets it
#   both PROGRAM ARGS...    a server and a client, each with a device of its own (and $options); both must succeed;
#                           output in $work/server and $work/client
#   serve PROGRAM ARGS...   only the server: $server is the process, $tcp its port
#   listens ADDRESS PORT   a process listens there by rdma_cm
#   ends PROCESS SECONDS    wait until it ends, at most so long; $status is its exit status
#   with_tests TARGET       build a test program below $tests, which the next call may change;  stream ARGS...: both verbs_stream, which checks every byte
#   own_address 0|1         one of two loopback addresses that no other process uses: they contain this process's number
#   refused STATUS WORDS COMMAND...     it must end with STATUS and print one line with WORDS
# shellcheck disable=SC2154,SC2034

build=${SIRDMA_TWIN_BUILT:-$PWD/build/user-shipped}
sirdma=$build/cli/sirdma
user=() wrapper=() options=()
server='' tcp='' status=0 tests=''

[[ -n ${SIRDMA_TWIN_BUILT:-} ]] || nice scripts/user-build shipped sirdma > "$work/build" 2>&1 || { tail -20 "$work/build"; fail "build"; }
chmod 755 "$work"

if [[ $(id -u) == 0 ]] && setpriv --reuid nobody --regid nogroup --clear-groups test -r "$sirdma" 2> /dev/null; then
	user=(setpriv --reuid nobody --regid nogroup --clear-groups)
fi

run() { timeout "$limit" "${wrapper[@]}" "${user[@]}" "$sirdma" run "${options[@]}" "$@"; }

own_address() {
	local n=$((($$ << 1 | $1) & 0x7fffff))
	echo "127.$((128 + (n >> 16))).$((n >> 8 & 255)).$((n & 255))"
}

# Choose a TCP port that no process listens at: other tests may run on this host at the same time. Two parts of a scenario that run at the
# same time set parity to 0 and 1, and cannot choose the same.
free_port() {
	tcp=$((20000 + RANDOM % 6000 * 2 + ${parity:-0}))
	while ss -Hltn "sport = :$tcp" | grep -q .; do tcp=$((tcp + 2)); done
}
up() { ss -Hltn "sport = :$tcp" | grep -q .; }

# listens ADDRESS PORT: a twin at this address listens by rdma_cm, for connections or datagrams. A service is a name in the abstract
# namespace of UNIX sockets (see uprov/twin/rendezvous.hpp), of a socket that listens: its flags
listens() {
	local tcp_space=$((0x106)) udp_space=$((0x111)) end=00000001 bytes
	IFS=. read -ra bytes <<< "$1"
	[[ $1 == *:* ]] || printf -v end '%02x%02x%02x%02x' "${bytes[@]}"
	grep -qE " 00010000 .*@sirdma/.*$end/0/($((tcp_space << 16 | $2))|$((udp_space << 16 | $2)))$" /proc/net/unix
}

serve() {
	free_port
	run -- "$1" -p "$tcp" "${@:2}" > "$work/server" 2>&1 &
	server=$!
	await 30 eval "up || ! kill -0 $server" && kill -0 "$server" 2> /dev/null || { cat "$work/server"; fail "$1: the server does not listen"; }
}

both() {
	local try
	say "$*"
	# perftest measures the processor's clock, and gives up at the end if the machine was disturbed meanwhile.
	for try in 1 2 3; do
		serve "$@"
		status=0
		run -- "$1" -p "$tcp" "${@:2}" 127.0.0.1 > "$work/client" 2>&1 || status=$?
		wait "$server" || status=$?
		[[ $status != 0 ]] && grep -q '^Correlation coefficient' "$work/server" "$work/client" || break
	done
	[[ $status == 0 ]] || { head -n 40 "$work/server" "$work/client"; fail "$*: exit status $status, try $try"; }
}

program() {	# PROCESS NAME: its descendants of this name
	local pid
	for pid in $(pgrep -P "$1"); do
		if [[ $(cat "/proc/$pid/comm") == "$2" ]]; then echo "$pid"; else program "$pid" "$2"; fi
	done
}

ends() {
	await "$2" eval "! kill -0 $1" || fail "process $1 still runs after $2 s"
	status=0
	wait "$1" || status=$?
}

# scripts/stage builds the programs for guests (verbs_*, cm_*) as "shipped", so they are not compiled once more. Unit tests are only in "plain".
with_tests() {
	local flavour=plain
	case $1 in verbs_* | cm_*) flavour=shipped ;; esac
	tests=$PWD/build/user-$flavour
	nice scripts/user-build "$flavour" "$1" > "$work/build" 2>&1 || { tail -20 "$work/build"; fail "build"; }
}

# stream ARGS...: verbs_stream between two twins with $options
stream() { both "$tests/tests/verbs/verbs_stream" -g 0 "$@"; }

refused() {
	local want=$1 words=$2
	shift 2
	status=0
	"$@" > "$work/refused" 2>&1 || status=$?
	[[ $status == "$want" ]] && grep -q -- "$words" "$work/refused" && [[ $(wc -l < "$work/refused") == 1 ]] ||
		{ cat "$work/refused"; fail "$*: exit status $status"; }
}
