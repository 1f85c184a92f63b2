#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# launcher.sh SIRDMA RDMA_NETLINK: devices appear in unmodified programs, and what cannot be served is refused. 77: no such programs here.
set -euo pipefail
sirdma=$1 rdma_netlink=$2
command -v ibv_devinfo > /dev/null || exit 77

# two addresses of this process
n=$((($$ << 1) & 0x7fffff))
net=127.$((128 + (n >> 16))).$((n >> 8 & 255))

"$sirdma" run --addr "$net.$((n & 255))" --mtu 1500 -- ibv_devinfo -v > /tmp/devinfo.$$
trap 'rm -f /tmp/devinfo.$$' EXIT
grep -q 'hca_id:.*sirdma0' /tmp/devinfo.$$
grep -q 'active_mtu:.*1024' /tmp/devinfo.$$
grep -q "::ffff:$net.$((n & 255)), RoCE v2" /tmp/devinfo.$$

# the same by libibverbs' own search, where it may be, and by the shim alone
for view in auto preload; do
	"$sirdma" run --view "$view" --verbose --devices 3 -- ibv_devices > /tmp/devinfo.$$ 2>&1
	[[ $(grep -o '^ *sirdma[0-9]\b' /tmp/devinfo.$$ | xargs) == "sirdma0 sirdma1 sirdma2" ]]
	grep -q '^sirdma run: view: ' /tmp/devinfo.$$
done

# where there may be a view of sysfs, also on a host whose kernel answers for RDMA devices, and for two runs of one user
if "$sirdma" run --view sysfs -- true 2> /dev/null; then
	LD_PRELOAD=$rdma_netlink "$sirdma" run --view sysfs -- ibv_devices > /tmp/devinfo.$$
	[[ $(grep -o '^ *sirdma[0-9]\b' /tmp/devinfo.$$ | xargs) == sirdma0 ]]

	# as many devices as there may be
	"$sirdma" run --view sysfs --devices 64 -- ibv_devices > /tmp/devinfo.$$
	[[ $(grep -c '^ *sirdma[0-9]' /tmp/devinfo.$$) == 64 ]]

	user=()
	[[ $(id -u) != 0 ]] || ! setpriv --reuid nobody --clear-groups test -x "$sirdma" || user=(setpriv --reuid nobody --regid nogroup --clear-groups)
	coproc "${user[@]}" "$sirdma" run --view sysfs -- sh -c 'readlink /proc/self/ns/user; read -r end'
	read -r first <&"${COPROC[0]}"
	[[ $("${user[@]}" "$sirdma" run --view sysfs -- readlink /proc/self/ns/user) == "$first" ]]
	echo >&"${COPROC[1]}"
	wait
fi

# the exit status is the program's
status=0
"$sirdma" run -- sh -c 'exit 42' || status=$?
[[ $status == 42 ]]

# a run inside another one has its own options only; a variable that is no option stays
variables() { sed -n 's/^SIRDMA_TWIN_\([A-Z_]*\)=.*/\1/p' | sort | xargs; }
all=(--addr "$net.$((n & 255))" --mtu 1500 --link udp --loss 1 --corrupt 1 --reorder 1 --seed 7 --pcap "/tmp/devinfo.$$.%p" --one-sided --stats
	--verbose)
[[ $("$sirdma" run "${all[@]}" -- env 2> /dev/null | variables) == "ADDR CORRUPT DEVICES LINK LOSS MTU ONE_SIDED PCAP REORDER SEED STATS VERBOSE VIEW" ]]
[[ $(SIRDMA_TWIN_BUFFER=65536 "$sirdma" run "${all[@]}" -- "$sirdma" run --seed 9 -- env 2> /dev/null | variables) == "ADDR BUFFER DEVICES SEED VIEW" ]]

# processes share an address
"$sirdma" run --addr "$net.$((n & 255 | 1))" -- sh -c '(sleep 3; exit) | ibv_asyncwatch > /dev/null & sleep 1
	ibv_devinfo; kill $!' > /tmp/devinfo.$$
grep -q 'PORT_ACTIVE' /tmp/devinfo.$$
