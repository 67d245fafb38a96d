#!/bin/busybox sh
# Runs as init in the virtual machine that aarch64.py starts: measures the programs in /programs and prints what vitalfew says.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tracefs trace /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mkdir -p /sys/fs/cgroup /root
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
export HOME=/root PATH=/bin TERM=dumb

say() { echo "== $*"; }
# Through a pipe: as a terminal, the console would get colours and be asked for its size.
run() { say "$@"; { "$@" 2>&1; echo "== exit $?"; } | cat; }
# Records twice: the first recording makes the tables.
twice() {
	name=$1; shift
	vitalfew record -o /tmp/first.vf "$@" >/dev/null 2>&1
	run vitalfew record -o "/tmp/$name.vf" "$@"
	say "shares $name"
	vitalfew report --limit 12 --json "/tmp/$name.vf" 2>/dev/null
	say "exit $?"
}

say "kernel $(uname -rm), $(grep -m1 KernelPageSize /proc/self/smaps)"
. /job.sh
say "done"
poweroff -f
