# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For scenarios of devices that have irdma's identity, driven by the libirdma that the guest's distribution has. A scenario sources
# this and calls
#
#   compat_run RELEASE      all of it; RELEASE is that of rdma-core which the guest must have
. "$(dirname "$0")/lib.sh"

release() { basename "$(realpath /usr/lib/*/libibverbs.so.1)" | sed 's/libibverbs.so.1.[0-9]*.//'; }
irdma_add() { modprobe sirdma && device_add "$1" "$2" sirdma_irdma; }

# runs COMMAND...: it succeeds
count=0
runs() { "$@" > "$work/out" || { cat "$work/out"; fail "$*"; }; count=$((count + 1)); }

# Nobody but a provider that does not kick has pages whose doorbells fault. Ours kicks, and does not match this identity.
faults() { counter "$1" doorbell_faults; }

compat_devices() {
	local device
	for device in ir0 ir1 ir2; do
		ibv_devinfo -d "$device" -v > "$work/devinfo" 2>&1 || { cat "$work/devinfo"; fail "ibv_devinfo -d $device"; }
		! grep -i 'warning\|no userspace' "$work/devinfo" || fail "ibv_devinfo -d $device complains"
		grep -q 'GID\[.*RoCE v2' "$work/devinfo" || { cat "$work/devinfo"; fail "$device has no GID of RoCE v2"; }
	done
}

compat_pingpongs() {
	local ends mode size
	for ends in 'near ir0 far ir1' 'left ir2 right snic0' 'right snic0 left ir2' 'near ir0 near ir0'; do
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

compat_run() {
	[[ $(release) == "$1".* ]] || fail "rdma-core is $(release), not $1"
	#   [eth-near]near: ir0 ──── far: ir1[eth-far]      [eth-left]left: ir2 ──── right: snic0[eth-right]
	join near far
	irdma_add near ir0
	irdma_add far ir1
	join left right
	irdma_add left ir2
	sirdma_add right snic0
	say "devices"
	compat_devices
	say "pingpongs"
	compat_pingpongs
	pass "$count runs, $(faults ir0) doorbells of ir0 faulted"
}
