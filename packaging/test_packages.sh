#!/bin/sh
# Installs each package on this machine, uses it, upgrades it under a running daemon, removes it and looks for what is left. As root:
# packaging/test_packages.sh DIRECTORY
set -eu
packages=$(realpath "$1")
work=$(mktemp -d)
# A database of its own, since that of the machine is dpkg's; the stand-in below is found by its scripts, too.
rpm() { command rpm --dbpath "$work/rpm" --define "_install_script_path $PATH" "$@"; }
end() {
	rm -f "$work/supervised"
	[ ! -e "$work/pid" ] || kill "$(cat "$work/pid")" 2>/dev/null || :
	[ ! -e "$work/made" ] || rmdir /run/systemd/system /run/systemd 2>/dev/null || :
	! dpkg -s vitalfew >/dev/null 2>&1 || dpkg -P vitalfew
	! rpm -q vitalfew >/dev/null 2>&1 || rpm -e vitalfew
	rm -rf "$work"
}
trap end EXIT
fail() {
	echo "test_packages.sh: $*" >&2
	exit 1
}
! command -v /usr/bin/vitalfew >/dev/null || fail "/usr/bin/vitalfew is there already"
! getent group vitalfew-test >/dev/null || groupdel vitalfew-test

files() { # not the pinned collectors of others
	{
		find /etc /usr /var -name '*vitalfew*'
		find /run /sys/fs/bpf -lname '/var/lib/vitalfew*'
	} 2>/dev/null | sort
}
files >"$work/before"

# Restarts the daemon whenever it ends, as the unit tells systemd to, where systemd does not run.
supervise() {
	touch "$work/supervised"
	while [ -e "$work/supervised" ]; do
		/usr/bin/vitalfew daemon run --db /var/lib/vitalfew --interval 1s 2>>"$work/daemon.log" &
		echo $! >"$work/pid"
		wait $! || :
	done
}
mkdir "$work/bin"
cat >"$work/bin/systemctl" <<STANDIN
#!/bin/sh
case \$1 in
reload) kill -HUP \$(cat "$work/pid") ;;
disable)
	rm -f "$work/supervised"
	kill \$(cat "$work/pid")
	while [ -e /proc/\$(cat "$work/pid") ]; do sleep 0.1; done
	;;
esac
STANDIN
chmod +x "$work/bin/systemctl"
[ -d /run/systemd/system ] || { mkdir -p /run/systemd/system && touch "$work/made"; }
status() { /usr/bin/vitalfew daemon status --db /var/lib/vitalfew --json 2>/dev/null; }
field() { status | grep -o "\"$1\": *[^,}]*" | head -n 1 | sed 's/.*: *//'; }
wait_for() { # CONDITION
	for _ in $(seq 100); do eval "$1" && return || sleep 0.2; done
	cat "$work/daemon.log" >&2
	fail "in 20 s not: $1"
}

use() { # what a new user does
	/usr/bin/vitalfew --version
	/usr/bin/vitalfew run --for 5s -- gzip -9c "$packages"/*.deb >/dev/null
	# Finds the library that it preloads.
	/usr/bin/vitalfew causal run -q --for 2s -o "$work/causal.json" -- gzip -9c "$packages"/*.deb >/dev/null
	man -l /usr/share/man/man1/vitalfew.1.gz >/dev/null 2>&1 || gzip -t /usr/share/man/man1/vitalfew.1.gz
	bash -n /usr/share/bash-completion/completions/vitalfew
	/usr/lib/vitalfew/grant-group vitalfew-test >/dev/null
	# Only a program that `setpriv` has started is without the rights of root: `env`.
	other() { setpriv --reuid 65534 --regid 65534 "$@"; }
	! other --clear-groups env /usr/bin/vitalfew-perf --version 2>/dev/null || fail "vitalfew-perf is for all users"
	chmod 777 "$work"
	other --groups "$(getent group vitalfew-test | cut -d: -f3)" \
		env VITALFEW_DB="$work/db" vitalfew-perf record -q -a --for 1s -o "$work/all.vf"
}

upgrade() { # COMMAND...
	supervise &
	wait_for 'status >/dev/null'
	before=$(cat "$work/pid")
	"$@"
	wait_for "[ \$(cat $work/pid) != $before ] && [ 0\$(field taken_over) -gt 0 ]"
	[ "$(field dropped) $(field unsampled_ns)" = "0 0" ] || fail "samples were lost: $(status)"
}

look() {
	wait_for '! pgrep -f "^/usr/bin/vitalfew daemon" >/dev/null'
	groupdel vitalfew-test
	files | diff "$work/before" - || fail "these files are left"
}

PATH=$work/bin:$PATH
dpkg -i "$packages"/*.deb
use
upgrade dpkg -i "$packages"/*.deb
dpkg -P vitalfew
look

rpm -i --nodeps "$packages"/*.rpm
use
upgrade rpm -U --nodeps --replacepkgs "$packages"/*.rpm
rpm -e vitalfew
rm -rf /var/lib/vitalfew
look

# The tarball's program needs nothing at all beside it.
mkdir "$work/root"
for tarball in "$packages"/*-linux.tar.xz; do
	tar -xJf "$tarball" -C "$work/root" --strip-components=1
	(cd "$packages" && sha256sum --quiet -c "${tarball%.tar.xz}.sha256")
	chroot "$work/root" /bin/vitalfew --version >/dev/null
done
echo "packages: installed, used, upgraded, removed"
