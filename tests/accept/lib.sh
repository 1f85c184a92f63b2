# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For acceptance scenarios. A scenario sources this, does its work, and ends with `pass FIGURES` or `fail WHY`; a command
# that fails unexpectedly fails it too. A and B name network namespaces: "init" is the initial one, any other is ours.
#
#   join A B [MTU]          two namespaces, made when missing, joined by veth:   A[eth-A] ──── [eth-B]B
#                           with ip4[A], ip6[A] (a /24 and a /64) and nic[A]
#   on A COMMAND...         run it in that namespace
#   sirdma_add A NAME       an sirdma device on A's end;  rxe_add A NAME: a soft-RoCE one (A must be init)
#   four_devices            rxe0 and snic0 joined, snic1 and snic2 joined
#   counter DEV NAME        one of its hw_counters;  twin_counter NAME FILE...: of twins that ran with --stats, the sum
#   congested A             packets that leave A's end are marked now and then, or dropped if they are not ECN-capable, until calm A
#   gid_index DEV ADDRESS   the RoCEv2 GID index of an address
#   await SECONDS COMMAND   poll until it succeeds; no fixed sleeps
#   pair A B PORT -- SERVER... -- CLIENT...     both exits collected, output in $work/server and $work/client; the client starts
#                           when TCP port PORT listens at A, or, if PORT is "cm", an rdma_cm identifier of the server
#   server_ended_well STATUS OUTPUT             did a server (of rping or another program) end well? OUTPUT is a file with what it printed
#   part_start NAME COMMAND...                  run a part of the scenario in the background; parts_wait waits for such parts
#   stop PROCESS...         end programs that were started with "on A COMMAND &", and wait for them
#   pingpong A DEV B DEV [-4|-6] [ARGS]         ibv_rc_pingpong, server at A
#   perf PROGRAM A DEV B DEV [-4|-6] [ARGS]     a perftest program, server at A; prints its result line's figures
#   two_guests_up           address eth0, wait for the peer; peer4, peer6, own4, own6. rendezvous [PORT]: both reach it
#   stream A DEV B DEV [-4|-6] [ARGS]           verbs_stream, every byte checked, listener at A; prints MB/s
#   unreclaimable           KiB of the kernel's memory that it cannot give back
#   leaks_clear             at the beginning: kmemleak forgets what earlier scenarios lost
#   leaks_check DEVICE...   at the end: delete the devices, unload the modules, fail if kmemleak finds lost memory
#   tally PASSED FAILED     count these tests instead of one for the scenario
#   gtest NAME COMMAND...   a GoogleTest program, tallied; $figures says how many tests passed and how many were skipped, and
#                           $work/NAME has its output; fails the scenario when a test fails
#   verbs_suite ARGS...     verbs_test by gtest, as "verbs". $programs is its folder, "${launch[@]}" the command that starts it
set -Eeuo pipefail
# shellcheck disable=SC2154
trap 's=$?; [[ $BASHPID != "$$" ]] || fail "line $LINENO: $BASH_COMMAND gave $s"' ERR

scenario=${0##*/}
work=$(mktemp -d "/tmp/$scenario-XXXXXX")
limit=${LIMIT:-120}			# seconds for any one program
declare -A ip4 ip6 nic
links=0
programs=/usr/lib/sirdma/tests
launch=()
port=18515

say() { printf '[+] %s\n' "$*"; }
result() { printf '%s %s %s\n' "$1" "$scenario" "${*:2}" | tee -a "${RESULTS:-/dev/null}" >&2; }	# stdout may be a variable's
declare -A parts=()
pass() {
	[[ ${#parts[@]} == 0 ]] || fail "pass without parts_wait: ${!parts[*]}"
	trap - ERR
	result PASS "$@"
	exit 0
}
fail() { trap - ERR; result FAIL "$@"; exit 1; }
tally() { printf 'TALLY %s %s %s\n' "$scenario" "$1" "$2" | tee -a "${RESULTS:-/dev/null}"; }

# Run the KUnit suites of these modules and end the scenario. On a debug kernel none may lose memory: leaks_clear goes before, and
# $devices are deleted.
devices=()
kunit_run() {	# MODULE...
	local mark="kunit of sirdma $$" module ok bad suites planned
	# Loading a module runs its suites. Their results are in the kernel log after this line.
	echo "$mark" > /dev/kmsg
	for module in "$@"; do
		modprobe "$module"
		modprobe -r "$module"
	done
	dmesg | sed "1,/$mark/d; s/^\[[^]]*\] //" > "$work/ktap"
	cat "$work/ktap"
	# Cases are indented below their suites.
	ok=$(grep -c '^ \+ok ' "$work/ktap" || true)
	bad=$(grep -c '^ \+not ok ' "$work/ktap" || true)
	suites=$(grep -c '^ok [0-9]* sirdma_' "$work/ktap" || true)
	planned=$(grep -c '# Subtest: sirdma_' "$work/ktap" || true)
	tally "$ok" "$bad"
	[[ $bad == 0 && $ok -gt 0 && $suites == "$planned" ]] || fail "$bad of $((ok + bad)) cases failed, $suites of $planned suites passed"
	[[ ! -e /sys/kernel/debug/kmemleak ]] || leaks_check "${devices[@]}"
	pass "$ok cases in $suites suites"
}

# Who waits for words in the output of a background job empties its file before the job starts: the job's own redirection may come after
# the first look, which would find the words of an earlier job.
await() {
	local end=$((SECONDS + $1))
	shift
	until "$@" > /dev/null 2>&1; do
		((SECONDS < end)) || { echo "gave up waiting: $*" >&2; return 1; }
		sleep 0.1
	done
}

# ---- topology

on() {
	local netns=$1
	shift
	if [[ $netns == init ]]; then "$@"; else ip netns exec "$netns" "$@"; fi
}

netns_make() {	# NAME
	[[ $1 == init || -e /run/netns/$1 ]] && return
	ip netns add "$1"
	on "$1" ip link set lo up
}

join() {
	local a=$1 b=$2 mtu=${3:-1500} p n=1
	netns_make "$a"
	netns_make "$b"
	links=$((links + 1))
	ip link add "eth-$a" type veth peer name "tmp-$b"
	for p in "$a" "$b"; do
		nic[$p]=eth-$p
		ip4[$p]=10.77.$links.$n ip6[$p]=fd77:$links::$n
		n=$((n + 1))
	done
	[[ $b == init ]] || ip link set "tmp-$b" netns "$b"
	on "$b" ip link set "tmp-$b" name "eth-$b"
	[[ $a == init ]] || ip link set "eth-$a" netns "$a"
	for p in "$a" "$b"; do
		on "$p" sysctl -qw "net.ipv6.conf.eth-$p.accept_dad=0"
		on "$p" ip link set "eth-$p" mtu "$mtu" up
		on "$p" ip addr add "${ip4[$p]}/24" dev "eth-$p"
		on "$p" ip addr add "${ip6[$p]}/64" dev "eth-$p" nodad
	done
	await 10 on "$a" ping -qc1 -W1 "${ip4[$b]}"
	await 10 on "$a" ping -qc1 -W1 "${ip6[$b]}"
}

# ---- devices

twin_counter() { awk -v n="$1" 'NF > 1 && $(NF - 1) == n { s += $NF } END { print s + 0 }' "${@:2}"; }
congested() { on "$1" tc qdisc add dev "${nic[$1]}" root netem loss 3% ecn limit 100000; }
calm() { on "$1" tc qdisc del dev "${nic[$1]}" root; }
counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }
device_active() { grep -q ACTIVE "/sys/class/infiniband/$1/ports/1/state"; }

device_add() {
	local netns=$1 name=$2 type=$3
	on "$netns" rdma link add "$name" type "$type" netdev "${nic[$netns]}"
	await 10 device_active "$name"
}

sirdma_add() { modprobe sirdma && device_add "$1" "$2" sirdma; }
rxe_add() { modprobe rdma_rxe && device_add "$1" "$2" rxe; }

#   [eth-init]init: rxe0 ──── far: snic0[eth-far]      [eth-near]near: snic1 ──── off: snic2[eth-off]
four_devices() {
	join init far
	rxe_add init rxe0
	sirdma_add far snic0
	join near off
	sirdma_add near snic1
	sirdma_add off snic2
}

# gid_of ADDRESS: its GID as the kernel writes it, in eight groups of four digits; an IPv4 address as ::ffff:a.b.c.d
gid_of() {
	local groups left right
	if [[ $1 != *:* ]]; then
		# shellcheck disable=SC2046
		printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n' $(tr . ' ' <<< "$1")
		return
	fi
	IFS=: read -ra left <<< "${1%%::*}"
	IFS=: read -ra right <<< "$([[ $1 != *::* ]] || echo "${1##*::}")"
	groups=("${left[@]}")
	while ((${#groups[@]} + ${#right[@]} < 8)); do groups+=(0); done
	printf '%04x:%04x:%04x:%04x:%04x:%04x:%04x:%04x\n' "${groups[@]/#/0x}" "${right[@]/#/0x}"
}

gid_index() {
	local dev=$1 want ports=/sys/class/infiniband/$1/ports/1 end=$((SECONDS + 10)) g
	want=$(gid_of "$2")
	while ((SECONDS < end)); do
		for g in $(grep -lx "$want" "$ports"/gids/* 2> /dev/null); do
			g=${g##*/}
			grep -qs 'RoCE v2' "$ports/gid_attrs/types/$g" && { echo "$g"; return; }
		done
		sleep 0.1
	done
	echo "$dev has no RoCEv2 GID for $2" >&2
	return 1
}

# ---- programs

listening() { on "$1" ss -Hltn "sport = :$2" | grep -q .; }

# part_start NAME COMMAND...: run COMMAND in a subshell in the background. Its $work is the folder $work/NAME, which must not exist yet. It
# may use tally, gtest, pair, say and fail, but not pass, and start no part. Variables that it sets are lost: it leaves figures in files of
# $work. It counts $port by itself, so "perf", "pingpong" and "stream" need network namespaces that the main part does not use. Call
# parts_wait before "pass". The EXIT trap of the scenario is taken.
part_start() {
	local name=$1
	shift
	mkdir "$work/$name"
	(
		work=$work/$name self=$BASHPID
		fail() { echo "$*" > "$work/why"; exit 1; }
		pass() { fail "a part of the scenario says pass: $*"; }
		trap 's=$?; [[ $BASHPID != "$self" ]] || fail "line $LINENO: $BASH_COMMAND gave $s"' ERR
		"$@"
	) > "$work/$name/output" 2>&1 &
	parts[$name]=$!
	trap parts_stop EXIT
}
# Print what the parts have said, and fail if one of them did.
parts_wait() {
	local name status why=() failed=()
	for name in "${!parts[@]}"; do
		status=0
		wait "${parts[$name]}" || status=$?
		unset "parts[$name]"
		if [[ $status == 0 ]]; then
			part_output "$name"
		else
			failed+=("$name")
			why+=("$name: $(cat "$work/$name/why" 2> /dev/null || echo "exit $status")")
		fi
	done
	for name in "${failed[@]}"; do part_output "$name"; done
	[[ ${#why[@]} == 0 ]] || fail "${why[*]}"
}
part_output() { echo "--- $1:"; cat "$work/$1/output"; }
parts_stop() {	# the scenario ends early
	local name
	for name in "${!parts[@]}"; do
		stop "${parts[$name]}"
		part_output "$name" | tail -n 20
	done
}

# The program is a child of timeout, which may be a child of ip.
descendants() { local p; for p in $(pgrep -P "$1"); do echo "$p"; descendants "$p"; done; }
stop() {	# PROCESS...: end what was started by "on ... &"
	local p
	for p; do
		# shellcheck disable=SC2046	# a list
		kill $(descendants "$p") "$p" 2> /dev/null || true
		wait "$p" || true
	done
}
# No queue pair of a program whose description matches is there
no_qp() { rdma resource show qp > "$work/qps" && ! grep -qE "$1" "$work/qps"; }
cm_listening() {	# NETNS PROCESS
	local p listeners
	listeners=$(on "$1" rdma resource show cm_id | grep 'state LISTEN')
	for p in "$2" $(descendants "$2"); do ! grep -qE "pid $p( |$)" <<< "$listeners" || return 0; done
	return 1
}
# Does a twin in NETNS listen? A service of it is a listening socket whose name ends with the service's number.
twin_listening() { on "$1" grep -q ' 00010000 .*@sirdma/.*/[0-9]\{8\}$' /proc/net/unix; }
serves() {	# NETNS PORT PROCESS
	if [[ $2 == cm ]]; then cm_listening "$1" "$3"; else listening "$1" "$2"; fi
}

# The main thread of rping (rdma-core 44) closes the event channel when the client has gone. If its other thread calls
# rdma_get_cm_event() only after that, the call fails with EBADF and the program exits with 255.
server_ended_well() { [[ $1 == 0 ]] || { [[ $1 == 255 ]] && grep -qx 'rdma_get_cm_event: Bad file descriptor' "$2"; }; }

# Start the server, wait until it listens, run the client. Both must succeed within the limit.
pair() {
	local a=$1 b=$2 tcp=$3 server=() status=0
	shift 4
	while [[ $1 != -- ]]; do server+=("$1"); shift; done
	shift
	echo "\$ [$a] ${server[*]}"
	on "$a" timeout "$limit" "${server[@]}" > "$work/server" 2>&1 &
	local pid=$!
	if await "$limit" eval "serves $a $tcp $pid || ! kill -0 $pid" && kill -0 "$pid" 2> /dev/null; then
		echo "\$ [$b] $*"
		on "$b" timeout "$limit" "$@" > "$work/client" 2>&1 || { status=$?; echo "client: exit $status"; }
		# shellcheck disable=SC2046	# a list
		[[ $status == 0 ]] || kill $(descendants "$pid") "$pid" 2> /dev/null || true
	else
		: > "$work/client"
		# shellcheck disable=SC2046	# a list
		kill $(descendants "$pid") "$pid" 2> /dev/null || true
		status=1
	fi
	wait "$pid" || { status=$?; echo "server: exit $status"; }
	[[ $status == 0 ]] || {
		sed '/^ *[-*]/d; /^$/d; s/^/server| /' "$work/server" | tail -n 15
		sed '/^ *[-*]/d; /^$/d; s/^/client| /' "$work/client" | tail -n 15
		dmesg | tail -n 5 | sed 's/^/kernel| /'
	}
	return "$status"
}

# -4 (default) or -6 chooses the GID; the programs' own TCP connection is always IPv4
pingpong() {
	local a=$1 dev_a=$2 b=$3 dev_b=$4 prog=${PINGPONG:-ibv_rc_pingpong} gid_a gid_b
	shift 4
	local -n address=ip4
	case ${1:-} in -4) shift ;; -6) local -n address=ip6; shift ;; esac
	port=$((port + 1))
	gid_a=$(gid_index "$dev_a" "${address[$a]}") && gid_b=$(gid_index "$dev_b" "${address[$b]}") || return
	pair "$a" "$b" "$port" \
		-- "$prog" -d "$dev_a" -g "$gid_a" -p "$port" "$@" \
		-- "$prog" -d "$dev_b" -g "$gid_b" -p "$port" "$@" "${ip4[$a]}"
}

perf() {
	local prog=$1 a=$2 dev_a=$3 b=$4 dev_b=$5 gid_a gid_b at
	shift 5
	local -n address=ip4
	case ${1:-} in -4) shift ;; -6) local -n address=ip6; shift ;; esac
	port=$((port + 1))
	gid_a=$(gid_index "$dev_a" "${address[$a]}") && gid_b=$(gid_index "$dev_b" "${address[$b]}") || return
	at=$port
	[[ " $* " != *" -R "* ]] || at=cm
	pair "$a" "$b" "$at" \
		-- "$prog" -d "$dev_a" -x "$gid_a" -p "$port" -F "$@" \
		-- "$prog" -d "$dev_b" -x "$gid_b" -p "$port" -F "$@" "${ip4[$a]}" >&2 &&
		perf_figures "$prog" < "$work/client"
}

# The last line of numbers: "BYTES AVERAGE-MB/s MPPS" for *_bw, "BYTES TYPICAL-us" for *_lat
perf_figures() {
	case $1 in
	*_lat) awk '/^ *[0-9]+ +[0-9]/ { l = $1 " " $5 } END { if (l == "") exit 1; print l }' ;;
	*) awk '/^ *[0-9]+ +[0-9]/ { l = $1 " " $4 " " $5 } END { if (l == "") exit 1; print l }' ;;
	esac
}

# The tally counts the tests that GoogleTest reports as passed or failed. $figures has the number of those that were skipped.
gtest() {
	local name=$1 log=$work/$1 ok bad skipped status=0
	shift
	echo "\$ $*"
	timeout "$limit" "$@" 2>&1 | tee "$log" || status=$?
	ok=$(grep -c '^\[       OK' "$log" || true)
	bad=$(grep -c '^\[  FAILED  \].*ms)' "$log" || true)
	grep -q '^\[==========\].* ran' "$log" || { bad=$((bad + 1)); echo "$name did not finish:"; tail -n 5 "$log"; }
	# A sanitizer may complain after the last test.
	[[ $status == 0 || $bad != 0 ]] || { bad=1; echo "$name: exit $status"; }
	tally "$ok" "$bad"
	if [[ $bad != 0 || $ok == 0 ]]; then
		dmesg | tail -n 20 | sed 's/^/kernel| /'
		fail "$name: $bad failed, $ok passed"
	fi
	skipped=$(grep -c '^\[  SKIPPED \].*ms)' "$log" || true)
	figures="$ok $name tests"
	[[ $skipped == 0 ]] || figures+=" ($skipped skipped)"
}
verbs_suite() { gtest verbs "${launch[@]}" "$programs/verbs_test" "$@"; }

# sum_of NAMES FILE: the sum of the KiB in these lines of a file of /proc. It starts no process, because that takes long under emulation.
sum_of() {
	local name kib sum=0
	while read -r name kib _; do [[ ! $name =~ ^($1):$ ]] || sum=$((sum + kib)); done < "$2"
	echo "$sum"
}
unreclaimable() { sum_of 'SUnreclaim|Percpu|VmallocUsed|KernelStack' /proc/meminfo; }

# Debug kernels: without devices and modules nothing refers to memory that was never freed. kmemleak reports only what is older
# than 5 s.
leaks_clear() {
	echo 'sirdma-accept: leaks_clear' > /dev/kmsg	# vm/kernel-log.sh
	echo scan > /sys/kernel/debug/kmemleak
	echo scan > /sys/kernel/debug/kmemleak
	echo clear > /sys/kernel/debug/kmemleak
	leaks_since=$(awk '/^jiffies:/ { print $2; exit }' /proc/timer_list)
}
# Memory that was allocated since leaks_clear: what was lost before may have been referred to by chance until then.
leaks() {
	awk -v since="$leaks_since" '/^unreferenced/ { object = $0; next }
		object != "" { mine = !match($0, /, jiffies [0-9]+/) || substr($0, RSTART + 10, RLENGTH - 10) + 0 >= since + 0; if (mine) print object; object = "" }
		mine' /sys/kernel/debug/kmemleak
}
leaks_check() {	# DEVICE...
	local device file=/sys/kernel/debug/kmemleak
	for device in "$@"; do rdma link delete "$device"; done
	modprobe -r sirdma sirdma_nic
	sleep 6
	echo scan > "$file"	# the first scan does not report memory that changed since the one before
	echo scan > "$file"
	leaks > "$work/leaks"
	[[ ! -s $work/leaks ]] || { head -n 100 "$work/leaks"; fail "memory is lost"; }
}

# Both ends check every byte; the client chooses what is sent
stream() {
	local a=$1 dev_a=$2 b=$3 dev_b=$4 gid_a gid_b
	shift 4
	local -n address=ip4
	case ${1:-} in -4) shift ;; -6) local -n address=ip6; shift ;; esac
	port=$((port + 1))
	gid_a=$(gid_index "$dev_a" "${address[$a]}") && gid_b=$(gid_index "$dev_b" "${address[$b]}") || return
	pair "$a" "$b" "$port" \
		-- "$programs/verbs_stream" -d "$dev_a" -g "$gid_a" -p "$port" \
		-- "$programs/verbs_stream" -d "$dev_b" -g "$gid_b" -p "$port" "$@" "${ip4[$a]}" >&2 &&
		sed -n 's|.*: OK .* s, \([0-9.]*\) MB/s.*|\1|p' "$work/client"
}

# ---- two guests

rendezvous() {
	local tcp=${1:-7777}
	if [[ $NODE == 0 ]]; then timeout 60 busybox nc -l -p "$tcp" < /dev/null > /dev/null
	else await 60 eval "echo | busybox nc -w 2 10.78.0.1 $tcp"; fi
}

two_guests_up() {
	own4=10.78.0.$((NODE + 1)) own6=fd78::$((NODE + 1)) peer4=10.78.0.$((2 - NODE)) peer6=fd78::$((2 - NODE))
	sysctl -qw net.ipv6.conf.eth0.accept_dad=0
	ip link set eth0 up
	ip addr add "$own4/24" dev eth0
	ip addr add "$own6/64" dev eth0 nodad
	nic[init]=eth0
	await 60 ping -qc1 -W1 "$peer4"
	await 20 ping -qc1 -W1 "$peer6"
}
