# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# Functions that read the header of a scenario (tests/accept/NAME), for scripts/accept and for vm/accept.sh in the guest. The
# head of scripts/accept describes the fields.

# field NAME FIELD
field() { sed -n "s/^# $2: *//p" "tests/accept/$1"; }

# limit_of NAME: its time limit in seconds
limit_of() (
	set +u	# a parameter that is not set counts as 0
	seconds=$(field "$1" limit)
	echo "$((${seconds:-600}))"
)
