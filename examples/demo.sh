#!/bin/sh
# What is worth changing in a real program? First one that imports orders into SQLite (the source is that which vitalfew itself is built
# with), then threads that insert rows: what `run` finds in each, and what changing that gains.
set -eu
vitalfew=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
page=${DEMO_PAGE:-$PWD/vitalfew-demo.html}
# Not in /tmp, which may be memory: the importer is to wait for a disk.
mkdir -p "$PWD/target"
work=$(mktemp -d "$PWD/target/demo.XXXXXX")
trap 'rm -rf "$work"' EXIT

sqlite=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -name 'libsqlite3-sys-*' | sort | tail -n 1)/sqlite3
cp "$sqlite/sqlite3.c" "$sqlite/sqlite3.h" "$here/../include/vitalfew.h" "$here/import.c" "$work"
sed 's#\.\./include/##' "$here/../benches/inserts_sqlite.c" >"$work/inserts.c"
cd "$work"
echo "building SQLite, $work/import and $work/inserts"
cc -O2 -g -DSQLITE_OMIT_LOAD_EXTENSION -I. -c sqlite3.c
for program in import inserts; do
	cc -O2 -g -I. "$program.c" sqlite3.o -pthread -lm -o "$program"
done

export VITALFEW_DB="$work/db"
run() {
	echo
	echo "\$ $*"
	shift
	"$vitalfew" "$@"
}
try() {
	printf '%-44s' "$*"
	"$@"
}
run vitalfew run --for 30s -o import.json -- ./import 5000
echo
echo "Each order waits for the disk, and its customer is sought among all. With one transaction, with an index, with both:"
try ./import 5000
try ./import 5000 transaction
try ./import 5000 index
try ./import 5000 index transaction

run vitalfew run --for 45s -o inserts.json -- ./inserts 2 3
echo
echo "The lock is that of SQLite's memory statistics. Inserts a second with them, and without:"
for turn in 1 2 3; do
	try ./inserts 2 1
	try ./inserts 2 1 0
done

"$vitalfew" record -q -o import.vf -- ./import 5000 >/dev/null
"$vitalfew" html "$page" import.json inserts.json import.vf >/dev/null
echo
echo "All of it to look at: $page"
