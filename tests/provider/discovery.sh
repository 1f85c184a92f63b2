#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# libibverbs finds the provider for a device of ours in sysfs, whatever the device is called, and
# leaves other devices alone. Uses a sysfs tree made of files, in a mount namespace of its own.
#
#   tests/provider/discovery.sh /path/libsirdma        what comes before -rdmav34.so, as the library wants it
#
# LD_LIBRARY_PATH may name another libibverbs. Skipped (77) without root or where RDMA netlink
# answers, since the library then asks the kernel and not the tree.
set -eu

if [ "${DISCOVERY_INSIDE:-}" != 1 ]; then
	command -v ibv_devices >/dev/null || { echo "discovery: no ibv_devices"; exit 77; }
	[ ! -e /sys/class/infiniband_verbs ] || { echo "discovery: ib_uverbs is loaded"; exit 77; }
	[ -d /dev/infiniband ] || mkdir /dev/infiniband 2>/dev/null || { echo "discovery: not root"; exit 77; }
	DISCOVERY_INSIDE=1 unshare -m true 2>/dev/null || { echo "discovery: no namespaces"; exit 77; }
	DISCOVERY_INSIDE=1 exec unshare -m "$0" "$1"
fi

provider=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mount -t tmpfs none /dev/infiniband

# device NAME UVERBS HCA_TYPE
device() {
	mkdir -p "$tree/class/infiniband_verbs/$2" "$tree/class/infiniband/$1"
	echo "$1" >"$tree/class/infiniband_verbs/$2/ibdev"
	echo "231:192" >"$tree/class/infiniband_verbs/$2/dev"
	echo 5 >"$tree/class/infiniband_verbs/$2/abi_version"
	echo "1: CA" >"$tree/class/infiniband/$1/node_type"
	echo "0253:49ff:fe00:0001" >"$tree/class/infiniband/$1/node_guid"
	echo "$3" >"$tree/class/infiniband/$1/hca_type"
	: >"/dev/infiniband/$2"
}

mkdir -p "$tree/class/infiniband_verbs"
echo 6 >"$tree/class/infiniband_verbs/abi_version"
device anyname uverbs0 "SIRDMA soft NIC"
device stranger uverbs1 "XYZ4711"

export SYSFS_PATH="$tree" RDMAV_DRIVERS="$provider"
found=$(ibv_devices)
echo "$found"
echo "$found" | grep -q anyname || { echo "discovery: our device was not found"; exit 1; }
! echo "$found" | grep -q stranger || { echo "discovery: a stranger was claimed"; exit 1; }
