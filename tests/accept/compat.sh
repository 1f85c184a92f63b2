# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For scenarios of devices that have irdma's identity, driven by the libirdma that the guest's distribution has, and by our provider
# as libirdma drives them. A scenario sources this and calls
#
#   compat_run RELEASE      all of it; RELEASE is that of rdma-core which the guest must have
. "$(dirname "$0")/lib.sh"

ours=(env RDMAV_DRIVERS=sirdma SIRDMA_DRIVE_IRDMA=1)	# by our provider, without kicks

release() { basename "$(realpath /usr/lib/*/libibverbs.so.1)" | sed 's/libibverbs.so.1.[0-9]*.//'; }
irdma_add() { modprobe sirdma && device_add "$1" "$2" sirdma_irdma; }
mapped() { grep -qs "$2" "/proc/$1/maps"; }

# runs COMMAND...: it succeeds
count=0
runs() { "$@" > "$work/out" || { cat "$work/out"; fail "$*"; }; count=$((count + 1)); }

# Only the doorbells of a provider that never kicks fault.
faults() { counter "$1" doorbell_faults; }

compat_devices() {
	local device
	for device in ir0 ir1 ir2; do
		ibv_devinfo -d "$device" -v > "$work/devinfo" 2>&1 || { cat "$work/devinfo"; fail "ibv_devinfo -d $device"; }
		! grep -i 'warning\|no userspace' "$work/devinfo" || fail "ibv_devinfo -d $device complains"
		grep -q 'GID\[.*RoCE v2' "$work/devinfo" || { cat "$work/devinfo"; fail "$device has no GID of RoCE v2"; }
	done
}

compat_pingpongs() {	# ENDS...
	local ends mode size
	for ends in "$@"; do
		for mode in '' -e; do
			# shellcheck disable=SC2086
			{
				runs pingpong $ends -4 $mode -c -n 200
				runs pingpong $ends -6 $mode -c -n 200
			}
		done
		for size in 1 1025 65536 1000000; do
			# shellcheck disable=SC2086
			runs pingpong $ends -4 -c -n 20 -s "$size"
		done
		# shellcheck disable=SC2086
		{
			PINGPONG=ibv_ud_pingpong runs pingpong $ends -4 -c -n 100 -s 1024
			PINGPONG=ibv_ud_pingpong runs pingpong $ends -6 -c -e -n 50 -s 1000
		}
	done
}

# measure PROGRAM ENDS ARGS...: it prints a result of this size that is above zero
measure() {
	local prog=$1 ends=$2 size=$3 bytes figure
	shift 3
	# shellcheck disable=SC2086
	runs perf "$prog" $ends -s "$size" -n 300 "$@"
	read -r bytes figure _ < "$work/out"
	[[ $bytes == "$size" ]] && awk -v n="$figure" 'BEGIN { exit !(n > 0) }' || { cat "$work/client"; fail "$prog $ends -s $size $*: no result"; }
	result=$figure
}

compat_perftest() {	# ENDS...
	local ends old=--use_old_post_send
	for ends in "$@"; do
		for op in write read send; do
			measure "ib_${op}_bw" "$ends" 65536 $old
			figures+=("$op $result MB/s")
			measure "ib_${op}_bw" "$ends" 64 $old
			measure "ib_${op}_bw" "$ends" 4096 -b -q 4 $old
			measure "ib_${op}_lat" "$ends" 64 $old
		done
		figures+=("send latency $result us")
		measure ib_write_bw "$ends" 64 -I 64 $old
		measure ib_send_lat "$ends" 64 -I 64 $old
		measure ib_send_bw "$ends" 4096 -e $old
		measure ib_send_bw "$ends" 1024 -c UD $old
		measure ib_send_lat "$ends" 1024 -c UD $old
	done
}

# What both providers write into their rings, as far as libirdma goes: before rdma-core 64 it has no windows of type 2, and that of
# rdma-core 44 leaves in a receive without fragments what an earlier request had there.
compat_wqes() {
	local what skip='^bind type 2 |^no windows of type 2|^receive sge 0:'
	on near "$programs/verbs_wqes" -d ir0 > "$work/wqes-irdma" || fail "verbs_wqes by libirdma"
	on near "${ours[@]}" "$programs/verbs_wqes" -d ir0 > "$work/wqes-ours" || fail "verbs_wqes by our provider"
	# libirdma sets WRITE_SOL for a plain WRITE that asks for a solicited event, which no WRITE has (IBTA 9.2.3).
	for what in irdma ours; do grep -vE "^write sge .* flags 4:|$skip" "$work/wqes-$what" > "$work/wqes-$what-common"; done
	diff "$work/wqes-irdma-common" "$work/wqes-ours-common" || fail "the providers write different WQEs"
	wqes=$(wc -l < "$work/wqes-ours-common")
	[[ $wqes -gt 400 ]] || fail "only $wqes requests"
	! grep refused "$work/wqes-ours-common" || fail "requests are refused"
}

# Pauses in which the page is unmapped, threads that share it, queue pairs in its user's hands, the timer's or a worker's, and a user
# who only rings
compat_doorbells() {
	local before args
	before=$(faults ir0)
	for args in '-t 1 -q 1 -n 3000 -p 200' '-t 1 -q 1 -n 1000 -p 3000' '-t 3 -q 2 -n 700 -p 3000' '-t 1 -q 40 -n 2000 -p 200' \
		'-t 2 -q 40 -n 1000 -p 400 -x 5'; do
		# shellcheck disable=SC2086
		runs on near timeout "$limit" "$programs/verbs_doorbell" -d ir0 $args
		lost=$(tail -n 1 "$work/out")
		say "$lost"
	done
	[[ $(faults ir0) -gt $((before + 100)) ]] || fail "the doorbell page never sleeps"
}

# A program outlives its device: its stores harm nobody, and it waits for completions in vain. Its mapping keeps the module.
compat_removal() {
	local holder status=0
	on near timeout "$limit" "$programs/verbs_doorbell" -d ir0 -x 10 -n 1 -w 1000 > "$work/outlive" 2>&1 &
	holder=$!
	await 20 eval 'rdma resource show qp | grep -q "link ir0/.* type RC state RTS"' || { cat "$work/outlive"; fail "verbs_doorbell does not begin"; }
	on near rdma link delete ir0
	! grep -q stores "$work/outlive" || fail "the device was deleted too late"
	! modprobe -r sirdma 2> "$work/modprobe" || { cat "$work/outlive"; fail "the module goes under a mapping of its page"; }
	wait "$holder" || status=$?
	[[ $status == 1 ]] && grep -q ', [1-9][0-9]* lost' "$work/outlive" || { cat "$work/outlive"; fail "a program ends with $status after its device's removal"; }
}

# irdma.ko takes all devices of this identity for its own
compat_exclusion() {
	! modprobe irdma 2> "$work/modprobe" || fail "irdma.ko is loaded beside a device of its identity"
	dmesg | tail -n 30 | grep -q 'irdma is not loaded while' || fail "the driver does not say why irdma.ko is not loaded"
	on far rdma link delete ir1
	on left rdma link delete ir2
	modprobe irdma || fail "irdma.ko does not load after all"
	! on far rdma link add ir1 type sirdma_irdma netdev "${nic[far]}" 2> "$work/link" || fail "a link of irdma's identity beside irdma.ko"
	grep -q 'busy' "$work/link" || { cat "$work/link"; fail "the link is refused for another reason"; }
	sirdma_add far snic1	# ours has nothing to do with it
	on far ip addr add 10.99.0.1/24 dev "${nic[far]}"	# irdma's notifiers look for its devices
	on far rdma link delete snic1
	modprobe -r irdma
	irdma_add far ir1
}

compat_run() {
	[[ $(release) == "$1".* ]] || fail "rdma-core is $(release), not $1"
	#   [eth-near]near: ir0 ──── far: ir1[eth-far]      [eth-left]left: ir2 ──── right: snic0[eth-right]
	join near far
	irdma_add near ir0
	irdma_add far ir1
	join left right
	irdma_add left ir2
	sirdma_add right snic0
	figures=()
	say "devices"
	compat_devices
	say "pingpongs"
	compat_pingpongs 'near ir0 far ir1' 'left ir2 right snic0' 'right snic0 left ir2' 'near ir0 near ir0'
	say "perftest"
	compat_perftest 'near ir0 far ir1' 'left ir2 right snic0'
	runs stream left ir2 right snic0 -4 -t 3 -b -l 2
	say "doorbells"
	compat_doorbells
	say "WQEs"
	compat_wqes
	say "our provider on the same devices"
	export RDMAV_DRIVERS=sirdma SIRDMA_DRIVE_IRDMA=1
	compat_pingpongs 'near ir0 far ir1'
	compat_perftest 'left ir2 right snic0'
	unset RDMAV_DRIVERS SIRDMA_DRIVE_IRDMA
	say "removal"
	compat_removal
	compat_exclusion
	pass "rdma-core $1: $count runs, $wqes WQEs alike, $lost; $(IFS=,; echo "${figures[*]}")"
}
