# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For scenarios that make many connections by rdma_cm; to be sourced after lib.sh.
#
#   all_closed          no device has an rdma_cm identifier or a queue pair of type RC any more; what is left is listed

closed() {
	rdma resource show cm_id > "$work/ids" && rdma resource show qp > "$work/qps" || return
	! grep -q 'link ' "$work/ids" && ! grep -q 'type RC' "$work/qps"
}
all_closed() {
	await 20 closed || { rdma resource show cm_id; rdma resource show qp; fail "identifiers or queue pairs are left"; }
}
