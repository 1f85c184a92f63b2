# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For scenarios of the kernel's own RDMA consumers, both ends of which are in the initial namespace, where such consumers live. A
# scenario sources this after lib.sh.
#
#   ends_up                 init: [eth-host]$host ──── $target[eth-target], with rules of routing by which each end uses its own netdev,
#                           until the scenario ends. Two devices of ours deliver to each other locally, all others over the wire
#   devices_up HOST_TYPE TARGET_TYPE        the devices "here" on eth-host and "there" on eth-target; a type is sirdma or rxe
#   devices_down            delete them; fails if one had no traffic, or refused something of its consumer
#   objects                 the objects of each device, in words that can be compared
#   objects_are BEFORE      wait until they are as they were
#   driver_was_quiet        at the end: fails if our driver complained
#
# Blocks of $disk, which the target keeps on $backing:
#   backing_up              $backing, a disk in memory, and configfs, which targets are made by
#   data_make MIB           the random bytes that the blocks get: four parts of MIB each
#   checked BYTES PART      write a part in blocks of BYTES, compare it at the target and read it back
#   together                parts at once, in blocks of different sizes
#   load_start              readers and writers that go on until they get an error; their processes are in $load
#   load_ends               wait until they have ended with one
#   connect_and_check CONNECT DISCONNECT    all of it: connect by a command that sets $disk, write and compare, disconnect under load,
#                           and connect again; the objects are as before each time
#
# A disk of SCSI whose target is the kernel's target core, in $fabric:
#   store_up, store_down    make $backing a storage object of it, $store; delete it
#   disk_await, disk_gone   wait until the initiator has its $disk; until it is gone
#
# $what says what is under test, $combinations counts pairs of devices, $done_bytes what was compared.
host=10.82.0.1 target=10.82.0.2
what='' combinations=0 done_bytes=0 load=()

module_of() { case $1 in rxe) echo rdma_rxe ;; *) echo "$1" ;; esac; }

ends_up() {
	local end match
	trap ends_rules_remove EXIT
	ip link add eth-host type veth peer name eth-target
	for end in host target; do
		sysctl -qw "net.ipv4.conf.eth-$end.accept_local=1" "net.ipv4.conf.eth-$end.rp_filter=0" "net.ipv6.conf.eth-$end.disable_ipv6=1"
		ip link set "eth-$end" mtu 4200 up
		ip addr add "${!end}/32" dev "eth-$end"
	done
	# Both addresses are of this host, so that without rules rdma_cm would find the device of the destination for both ends.
	ip route add "$target" dev eth-host src "$host" table 201
	ip route add "$host" dev eth-target src "$target" table 202
	# What is sent, and what rdma_cm asks of the netdev of a request.
	for match in "iif lo" "oif eth-host"; do
		# shellcheck disable=SC2086	# two words
		ip rule add pref 10 $match from "$host" to "$target" lookup 201
	done
	for match in "iif lo" "oif eth-target"; do
		# shellcheck disable=SC2086	# two words
		ip rule add pref 10 $match from "$target" to "$host" lookup 202
	done
	# Consumers that name no source address get that of the other end.
	ip rule add pref 20 iif lo from 0.0.0.0/32 to "$target" lookup 201
	ip rule add pref 20 iif lo from 0.0.0.0/32 to "$host" lookup 202
	ip rule add pref 100 lookup local
	ip rule del pref 0
	await 10 ping -qc1 -W1 -I "$host" "$target"
}
ends_rules_remove() {
	ip rule show | grep -q '^0:' || ip rule add pref 0 lookup local
	local pref
	for pref in 100 20 10; do while ip rule del pref "$pref" 2> /dev/null; do :; done; done
}

devices_up() {
	modprobe -a "$(module_of "$1")" "$(module_of "$2")"
	rdma link add here type "$1" netdev eth-host
	rdma link add there type "$2" netdev eth-target
	await 10 device_active here
	await 10 device_active there
}
devices_down() {
	local end name
	for end in here there; do
		if [[ -e /sys/class/infiniband/$end/ports/1/hw_counters/rx_pkts ]]; then
			(($(counter "$end" rx_pkts) > 100)) || fail "$what: the device '$end' received $(counter "$end" rx_pkts) packets"
			for name in wqe_invalid cq_overflows mr_bad_pd mr_bad_range mr_bad_access mr_bad_fast_reg; do
				[[ $(counter "$end" "$name") == 0 ]] || fail "$what: $name of the device '$end' is $(counter "$end" "$name")"
			done
		else
			(($(counter "$end" rcvd_pkts) > 100)) || fail "$what: the device '$end' received $(counter "$end" rcvd_pkts) packets"
		fi
		rdma link delete "$end"
	done
	combinations=$((combinations + 1))
}

# Without listeners, and without the completion queues of the core's pool, which stay as long as their device
objects() { rdma resource | sed 's/ cm_id [0-9]*//; s/ cq [0-9]*//'; }
objects_are() {	# BEFORE
	local before=$1
	await 20 eval '[[ $(objects) == "$before" ]]' || { rdma resource show; fail "$what: objects are left; before: $before"; }
}

driver_was_quiet() {
	! dmesg | grep -iE 'sirdma.*(left|fail|fatal)' | grep -v 'module verification' || fail "the driver complained"
}

# ---- blocks

backing=/dev/ram0
backing_up() {
	modprobe brd rd_size=65536 rd_nr=1
	await 10 test -b "$backing"
	mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
}

data_make() {	# MIB
	size=$(($1 << 20))
	head -c "$((4 * size))" /dev/urandom > "$work/data"
}

blocks_of() { echo $((size / $1 < 1024 ? size / $1 : 1024)); }	# BYTES: how many of them are written of a part
checked() {	# BYTES PART
	local count skip=$((size * $2 / $1)) from
	count=$(blocks_of "$1")
	dd if="$work/data" of="$disk" bs="$1" count="$count" skip="$skip" seek="$skip" oflag=direct conv=nocreat,notrunc status=none
	# Not through the page cache, which does not know of what the target writes.
	for from in "$backing" "$disk"; do
		dd if="$from" bs="$1" count="$count" skip="$skip" iflag=direct status=none |
			cmp -n "$(($1 * count))" -i "$(($1 * skip)):0" "$work/data" - || fail "$what: what $from has of blocks of $1 is wrong"
	done
	done_bytes=$((done_bytes + 2 * $1 * count))
}

together() {
	local p pids=()
	for p in "0 4096" "1 16384" "2 131072" "3 1048576"; do
		checked "${p#* }" "${p% *}" &
		pids+=($!)
		done_bytes=$((done_bytes + 2 * ${p#* } * $(blocks_of "${p#* }")))
	done
	for p in "${pids[@]}"; do wait "$p" || fail "$what: blocks of several sizes at once"; done
}

# Requests of the disk and of the paths below it: NVMe with several paths counts those of the disk since Linux 6.4 only.
requests_done() (
	name=${disk##*/}
	shopt -s nullglob
	awk '{ n += $1 + $5 } END { print n }' "/sys/block/$name/stat" /sys/block/"${name%n1}"c*n1/stat
)
load_start() {
	local p from
	from=$(requests_done)
	load=()
	for p in 0 1 2 3; do
		{ while dd if="$work/data" of="$disk" bs=128k count=64 oflag=direct conv=nocreat,notrunc status=none; do :; done 2> /dev/null; } &
		load+=($!)
		{ while dd if="$disk" of=/dev/null bs=1M count=8 iflag=direct status=none; do :; done 2> /dev/null; } &
		load+=($!)
	done
	await 120 eval '(( $(requests_done) > from + 200 ))' || fail "$what: no load"
}
load_ends() {
	local p
	for p in "${load[@]}"; do await 120 eval "! kill -0 $p" || fail "$what: a program hangs"; done
	wait "${load[@]}" 2> /dev/null || true
}

connect_and_check() {
	local before
	before=$(objects)
	"$1"
	checked 4096 0
	checked 65536 1
	checked 1048576 2
	together
	# Readers and writers are in the middle of their blocks: they end with an error, and all that they used is free.
	load_start
	"$2"
	load_ends
	objects_are "$before"
	# The same target again
	"$1"
	checked 524288 3
	"$2"
	objects_are "$before"
}

# ---- SCSI

fabric=/sys/kernel/config/target
store=$fabric/core/iblock_0/disk
store_up() {
	mkdir -p "$store"
	echo "udev_path=$backing" > "$store/control"
	echo 1 > "$store/enable"
}
store_down() { rmdir "$store" "${store%/*}"; }

disk_await() {
	await 20 eval 'compgen -G "/sys/block/sd*"' || { dmesg | tail -n 5; fail "$what: there is no disk"; }
	disk=/dev/$(basename /sys/block/sd*)
	grep -q LIO-ORG "/sys/block/${disk##*/}/device/vendor" || fail "$what: $disk is not of the target"
	await 20 test -b "$disk"
}
disk_gone() { await 30 eval '! compgen -G "/sys/block/sd*"' || fail "$what: $disk is left"; }
