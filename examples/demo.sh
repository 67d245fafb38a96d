#!/bin/sh
# What is worth changing in a real program? Threads that insert rows into SQLite (the source is that which vitalfew itself is built
# with): what functions are worth, what call sequences hold, what threads cost each other; then the change, measured.
set -eu
vitalfew=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
page=${DEMO_PAGE:-$PWD/vitalfew-demo.html}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sqlite=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -name 'libsqlite3-sys-*' | sort | tail -n 1)/sqlite3
cp "$sqlite/sqlite3.c" "$sqlite/sqlite3.h" "$here/../include/vitalfew.h" "$work"
sed 's#\.\./include/##' "$here/../benches/inserts_sqlite.c" >"$work/inserts.c"
cd "$work"
echo "building SQLite and $work/inserts"
cc -O2 -g -DSQLITE_OMIT_LOAD_EXTENSION -I. inserts.c sqlite3.c -pthread -lm -o inserts

export VITALFEW_DB="$work/db"
run() {
	echo
	echo "\$ $*"
	shift
	"$vitalfew" "$@"
}
run vitalfew run --for 45s -o run.json -- ./inserts 2 3
run vitalfew causal run --by function -- ./inserts 2 40
run vitalfew record -g -o inserts.vf -- ./inserts 2 5
run vitalfew bottlenecks inserts.vf --auto
run vitalfew interference run -- ./inserts 2 5

echo
echo "The lock is that of SQLite's memory statistics. Inserts a second with them, and without:"
for turn in 1 2 3; do
	./inserts 2 1
	./inserts 2 1 0
done

"$vitalfew" html "$page" inserts.vf >/dev/null
echo
echo "All of it to look at: $page"
