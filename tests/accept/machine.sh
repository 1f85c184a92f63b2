# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# For scenarios that need a machine on which nothing is installed, behind lib.sh: a minimal Debian tree (make, git,
# ca-certificates and what dpkg calls required) with namespaces of its own.
#
#   machine_make SUITE DIR       make one in DIR; the checkout is copied to /root/sirdma and, owned by the user, /home/user/sirdma
#   machine_run DIR NETWORK COMMAND...     run it as root in /root/sirdma, LANG set to a locale that is not installed; NETWORK
#                                is slirp (it reaches what this host reaches) or none
#   machine_free DIR...          remove them, for the scenario's EXIT trap
#   noise FILE                   print the lines of a log that a newcomer would take for an error

# The files of the checkout, or of an archive that was unpacked
checkout_files() { git ls-files -zco --exclude-standard 2> /dev/null || find . -path ./build -prune -o -type f -print0; }

machine_make() {
	local suite=$1 dir=$2 base mirror line options=()
	mirror=$(debian_mirror)
	while read -r line; do options+=("--aptopt=$line"); done < <(apt_options)
	base=$CACHE/minbase-$suite-$(printf '%s\n' "$(declare -f machine_make)" "$mirror" "${options[@]}" | sha256sum | cut -c1-12).tar
	if [[ ! -e $base ]]; then
		say "minimal $suite tree; this happens once"
		mkdir -p "$CACHE"
		alone mmdebstrap --mode=root --variant=minbase --format=tar --include=make,git,ca-certificates --keyring=/usr/share/keyrings \
			"${options[@]}" "$suite" "$base.part" ${mirror:+"$mirror"} > "$work/mmdebstrap" 2>&1 || { tail "$work/mmdebstrap"; return 1; }
		mv "$base.part" "$base"
	fi
	mkdir -p "$dir"
	tar -C "$dir" -xf "$base"
	printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n' > "$dir/etc/hosts"	# as Debian's installer does
	mkdir -p "$dir/root/sirdma" "$dir/home/user"
	checkout_files | tar --null -T - -c | tar -C "$dir/root/sirdma" -x
	cp -a "$dir/root/sirdma" "$dir/home/user/"
	echo 'user:x:1000:1000::/home/user:/bin/bash' >> "$dir/etc/passwd"
	echo 'user:x:1000:' >> "$dir/etc/group"
	chown -R 1000:1000 "$dir/home/user"
}

# The machine's first process: mounts, then the command. It changes its root by pivot_root, because user namespaces cannot
# be made in a chroot (user_namespaces(7)).
# shellcheck disable=SC2016
machine_init='
set -e
cd "$1"
shift
mount --bind . . && cd "$PWD"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/net dev/pts dev/shm
for node in null zero full random urandom tty net/tun; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin; ln -s fd/1 dev/stdout; ln -s fd/2 dev/stderr
mount -t tmpfs -o mode=755 tmpfs run
mkdir run/lock run/netns
pivot_root . mnt
cd /root/sirdma
umount -l /mnt
set +e
"$@"
exit $?
'

machine_run() {
	local dir=$1 network=$2 net=machine-$$ link status=0
	shift 2
	ip netns add "$net"
	ip -n "$net" link set lo up
	if [[ $network == slirp ]]; then	# slirp4netns ends when no process holds the other end of its input
		exec {link}> >(exec slirp4netns --configure --mtu=65520 --disable-host-loopback --exit-fd=0 --netns-type=path \
			"/run/netns/$net" tap0 > "$work/slirp" 2>&1)
		await 30 eval "ip -n $net address show tap0 | grep -q 'inet '" || { cat "$work/slirp"; return 1; }
		echo nameserver 10.0.2.3 > "$dir/etc/resolv.conf"	# slirp4netns forwards to this host's name server
	fi
	alone env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=en_US.UTF-8 TERM=dumb \
		nsenter --net="/run/netns/$net" unshare -mpiuf --propagation private --kill-child \
		bash -c "$machine_init" machine "$dir" "$@" < /dev/null || status=$?
	[[ $network != slirp ]] || exec {link}>&-
	ip netns delete "$net"
	return "$status"
}

machine_free() {	# DIR...
	rm -rf --one-file-system "$@"
	[[ ! -e /run/netns/machine-$$ ]] || ip netns delete "machine-$$"
}

# "0% loss" and "error 0" are not noise, so most words count only at the beginning of a line or before a colon.
noise() {
	grep -nE -e '(warning|error|fatal|cannot|unable)( [a-z]+)*:' -e '^(W|E): ' -e '^dpkg' -e '^make.*(\*\*\*|Error)' \
		-e 'debconf|Bad fd|not found|No such file|command not|denied|invalid|setlocale|Setting locale|deprecated|traceback|failed|left out' -e '^\[!\]' -i "$1" || true
}
