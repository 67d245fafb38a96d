#!/bin/sh
# Fuzzes each reader of untrusted files for SECONDS seconds (60): fuzz/run.sh [SECONDS [TARGET...]]. It needs a nightly
# toolchain and cargo-fuzz (`cargo install cargo-fuzz`). What it finds interesting is kept in target/fuzz.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- tree counts coz store symbols jit unwind graph

# The tests' fixtures to begin with, as they are and decompressed.
seeds() {
	case $1 in
	tree) find crates/formats/tests/fixtures tests/profiles -type f ;;
	counts) find crates/formats/tests/fixtures fuzz/seeds/counts -type f ;;
	store) find tests -type f -name '*.vf' ;;
	symbols) find crates/symbols/tests/fixtures -type f ;;
	unwind) find crates/unwind/tests/fixtures -type f ;;
	graph) find crates/machine/tests/fixtures -type f ;;
	esac
}
for target; do
	corpus=target/fuzz/corpus/$target
	mkdir -p "$corpus" "target/fuzz/artifacts/$target"
	for seed in $(seeds "$target"); do
		case $seed in
		*.gz) gzip -dc "$seed" > "$corpus/$(basename "$seed" .gz)" ;;
		*) cp "$seed" "$corpus/" ;;
		esac
	done
	cargo +nightly fuzz run --target-dir target/fuzz/build "$target" "$corpus" -- -max_total_time="$seconds" -rss_limit_mb=1024 \
		-malloc_limit_mb=512 -timeout=20 -max_len=131072 -artifact_prefix="target/fuzz/artifacts/$target/"
done
rm -f /dev/shm/vitalfew-fuzz-*
