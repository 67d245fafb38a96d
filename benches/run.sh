#!/bin/sh
# Our speed beside that of our peers: benches/run.sh VITALFEW [NAME...]; `make bench` calls it.
# BENCH_SECONDS (60) is the length of the recorded compile; the rest scales with it. BENCH_NO_REAL_TIME
# keeps the loops out of the real-time class: noisier, but kind to other users of the machine.
set -eu
[ $# -gt 0 ] || { echo "usage: benches/run.sh VITALFEW [overhead|process|lost|deep_stacks|ends|bytes|report|bottlenecks|continuous|continuous_stacks|instructions|pairs|causal|causal_cost|interference|targets|page|interference_cases|run_cases|run_examples|run_speed|check]..." >&2; exit 2; }
here=$(dirname "$0")
vitalfew=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- overhead process lost deep_stacks ends bytes report bottlenecks continuous continuous_stacks instructions pairs causal causal_cost interference targets page run_speed

echo "$("$vitalfew" --version), $(perf --version), Linux $(uname -r),"
echo "$(nproc) CPUs, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), load $(cut -d' ' -f1-3 /proc/loadavg), $(date -u +%Y-%m-%d)"
child=
trap '[ -z "$child" ] || kill "$child" 2>/dev/null; wait; exit 143' HUP INT TERM
for name; do
	# Twelve programs, for each its truth, our run and Coz's.
	case $name in causal) limit=3600 ;; *) limit=1200 ;; esac
	timeout --foreground -k 30 "$limit" python3 -B "$here/$name.py" "$vitalfew" &
	child=$!
	wait "$child" || { echo "$name failed" >&2; failed=1; }
done
exit ${failed:-0}
