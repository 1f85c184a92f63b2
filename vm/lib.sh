# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# Functions for everything under vm/ and for scripts that install or build: the cache, the mirror, fetching a package, the
# file descriptors that a program inherits, and how to report what a machine lacks.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${SIRDMA_CACHE:-$HOME/.cache/sirdma}
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# A program inherits descriptors 0, 1 and 2 and no others. Some programs fail with more: with 3 to 9 taken, a pipe of a Debian
# maintainer script gets a number of two digits, for which dash has no syntax. Sourcing this file closes what the caller left
# open. `alone` also closes, for one program, what the script itself has opened (a lock, the saved output):
#   alone PROGRAM ARGS...              alone --keep FD PROGRAM ARGS...
# Close-on-exec descriptors stay open: bash reads the script from one.
close_descriptors() {	# [FD to keep]
	local fd key value
	for fd in /proc/self/fd/*; do
		fd=${fd##*/}
		((fd > 2 && fd != ${1:--1})) || continue
		while read -r key value; do
			[[ $key != flags: ]] || (((value & 02000000) != 0)) || exec {fd}>&-
		done 2> /dev/null < "/proc/self/fdinfo/$fd" || true
	done
}
alone() (
	keep=
	[[ $1 != --keep ]] || { keep=$2; shift 2; }
	close_descriptors "$keep"
	exec "$@"
)
close_descriptors
[[ ${MAKEFLAGS:-} != *jobserver* ]] || unset MAKEFLAGS MFLAGS	# the pipe of make's job server is closed now

say() { printf '[+] %s\n' "$*" >&2; }
die() { printf '[!] %s\n' "$*" >&2; exit 1; }
# Exit status 3: nothing is broken, but this machine lacks what the step needs; the last line says what.
lacking() { printf '[!] %s\n' "$*" >&2; exit 3; }

# lacking_by LOG: after a command failed, call `lacking` if its log shows that the machine lacks network or space, else return.
lacking_by() {
	if grep -qE 'Temporary failure resolving|Could not (resolve|connect)|Unable to connect|Network is unreachable|Connection (failed|timed out)' "$1"; then
		lacking "no network: apt cannot reach $(debian_mirror)"
	elif grep -qE "No space left on device|not enough free space|have enough free space" "$1"; then
		lacking "no space: $(grep -hE 'No space left|enough free space' "$1" | head -n 1)"
	fi
}

# need_space DIR MB WHAT
need_space() {
	local free
	mkdir -p "$1"
	free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
	((free >= $2)) || lacking "no space: $3 takes $2 MB in $1, where $free MB are free"
}

# The Debian mirror this machine is configured for; nothing when it has none (then the tools' own default applies). Before the
# first "apt-get update" apt knows no labels, only the addresses that it would fetch from.
debian_mirror() {
	{
		apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p'
		apt-get --print-uris update | sed -n "s|^'\(.*/debian/*\)dists/.*|\1|p"
	} 2> /dev/null | awk 'NR == 1'
}

# Machines with an odd clock, a frozen mirror or a proxy say so in their apt configuration; private apt runs must obey it too.
apt_options() {
	apt-config dump --format '%f "%v";%n' Acquire::Check-Valid-Until Acquire::Check-Date \
		Acquire::http::Proxy Acquire::https::Proxy 2> /dev/null
}

# fetch_deb SUITE PACKAGE DIR: download one package of another suite without touching the machine's apt state.
fetch_deb() {
	local suite=$1 package=$2 dir=$3 state mirror
	state=$(mktemp -d)
	mirror=$(debian_mirror)
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	echo "deb [signed-by=$KEYRING] ${mirror:-http://deb.debian.org/debian} $suite main" > "$state/sources.list"
	: > "$state/status"
	local opts=(-qq -o "Dir::State::Lists=$state/lists" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache"
		-o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "APT::Sandbox::User=$(id -un)")
	(cd "$dir" && alone apt-get "${opts[@]}" update && alone apt-get "${opts[@]}" download "$package")
	rm -rf "$state"
}

# exclusive NAME: take the lock of one cached thing, so that one script at a time builds it; it is released when the script ends.
exclusive() {
	mkdir -p "$CACHE"
	exec 9> "$CACHE/.lock-$1"
	flock 9
}

hash_of() { cat "$@" | sha256sum | cut -c1-12; }

# image_of SUITE: the folder where the guest of a suite is cached; it is complete when .complete exists
image_of() { echo "$CACHE/image-$1-$(hash_of "$TOP/vm/packages" "$TOP/vm/build-image" "$TOP/vm/initramfs-init")"; }

# build_guest SUITE: build it once, print where it is
build_guest() {
	case $1 in
	sid) "$TOP/vm/build-sid" ;;
	*-hpc) "$TOP/vm/build-hpc" "${1%-hpc}" ;;
	*) "$TOP/vm/build-image" "$1" ;;
	esac
}
