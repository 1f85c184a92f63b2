# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# Shared by everything under vm/ and by scripts that install or build: where things are cached, which mirror, how to fetch a
# package, which descriptors a program gets, and how to say what a machine cannot give.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${SIRDMA_CACHE:-$HOME/.cache/sirdma}
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# A program gets descriptors 0, 1 and 2 and no others. Some cannot live with more: with 3 to 9 taken, a pipe of a Debian
# maintainer script gets a number of two digits, for which dash has no syntax. What our caller left open is closed when this
# file is sourced. What a script of ours holds itself (a lock, the saved output) is closed for the program by
#   alone PROGRAM ARGS...              alone --keep FD PROGRAM ARGS...
# Descriptors that are closed on exec anyway stay: bash reads the script from one.
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
[[ ${MAKEFLAGS:-} != *jobserver* ]] || unset MAKEFLAGS MFLAGS	# make's job server was among them

say() { printf '[+] %s\n' "$*" >&2; }
die() { printf '[!] %s\n' "$*" >&2; exit 1; }
# Exit status 3 says that nothing is broken, but this machine cannot give what the step needs; the last line says what.
lacking() { printf '[!] %s\n' "$*" >&2; exit 3; }

# lacking_by LOG: a command failed. Say so by `lacking` when its log shows a cause that is the machine's, else return.
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
# first "apt-get update" apt knows no labels, but which addresses it would ask.
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

# exclusive NAME: one builder at a time per cached thing; the lock goes when the script ends.
exclusive() {
	mkdir -p "$CACHE"
	exec 9> "$CACHE/.lock-$1"
	flock 9
}

hash_of() { cat "$@" | sha256sum | cut -c1-12; }

# image_of SUITE: where the guest of a suite is cached; complete when .complete is there
image_of() { echo "$CACHE/image-$1-$(hash_of "$TOP/vm/packages" "$TOP/vm/build-image" "$TOP/vm/initramfs-init")"; }

# build_guest SUITE: build it once, print where it is
build_guest() {
	case $1 in
	sid) "$TOP/vm/build-sid" ;;
	*) "$TOP/vm/build-image" "$1" ;;
	esac
}
