# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# kernel_complaints < dmesg: print the warnings of the kernel that fail a run, even when the script's exit code is 0, and lines of
# ours that show an address of the kernel. What kmemleak finds from a scenario's leaks_clear on does not count: leaks_check does, which
# knows what was lost before.
kernel_complaints() {
	awk '/sirdma-accept: leaks_clear/ { checks = 1 } /sirdma-accept: .* starts/ { checks = 0 } !(checks && /kmemleak:/)' |
		grep -E -e 'WARNING:|BUG:|Oops|general protection fault|refcount_t:|UBSAN:|KASAN:|KCSAN:' \
			-e 'unregister_netdevice: waiting|INFO: task .* blocked for more than|soft lockup|detected stalls?|self-detected stall' \
			-e 'possible (circular|recursive) locking|inconsistent lock state|suspicious RCU|held lock freed|sleeping function called' \
			-e '(sirdma|snic).*[^0-9a-f]ff[0-9a-f]{14}([^0-9a-f]|$)' \
			-e 'kmemleak: [1-9].* new suspected|still has .* (user|reference)s?|leaked .* object|Fixing recursive fault|DMA-API:.*' |
			grep -vE -e 'DMA-API: (preallocated|debugging)' || true
}

# complaint_in_full < dmesg: the first warning with the lines that follow it, such as its stack.
complaint_in_full() {
	local log first
	log=$(cat)
	first=$(kernel_complaints <<< "$log" | head -n 1)
	[[ -z $first ]] || grep -F -m 1 -A 60 -e "$first" <<< "$log"
}
