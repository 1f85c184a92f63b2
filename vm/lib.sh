# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# Shared by everything under vm/: where things are cached, which mirror, how to fetch a package.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${SIRDMA_CACHE:-$HOME/.cache/sirdma}
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf '[+] %s\n' "$*" >&2; }
die() { printf '[!] %s\n' "$*" >&2; exit 1; }

# The Debian mirror this machine is configured for; nothing when it has none (then the tools' own default applies).
debian_mirror() {
	apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk '$1 == "Debian" { print $2; exit }'
}

# Machines with an odd clock or a frozen mirror say so in their apt configuration; private apt runs must obey it too.
apt_date_options() {
	apt-config dump --format '%f "%v";%n' Acquire::Check-Valid-Until Acquire::Check-Date 2>/dev/null
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
	(cd "$dir" && apt-get "${opts[@]}" update && apt-get "${opts[@]}" download "$package")
	rm -rf "$state"
}

# exclusive NAME: one builder at a time per cached thing; the lock goes when the script ends.
exclusive() {
	mkdir -p "$CACHE"
	exec 9> "$CACHE/.lock-$1"
	flock 9
}

hash_of() { cat "$@" | sha256sum | cut -c1-12; }
