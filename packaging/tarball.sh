#!/bin/sh
# Packs what stage.sh laid out, to be unpacked anywhere: packaging/tarball.sh DIRECTORY OUTPUT NAME. The same input gives the same bytes.
set -eu
when=$(git log -1 --format=%ct 2>/dev/null || echo 0)
pack() { # DIRECTORY NAME
	tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$when" --transform "s#^\.#$2#" -cJf "$output/$2.tar.xz" .
}
mkdir -p "$2"
output=$(realpath "$2")
pack "$1/usr" "$3"
pack "$1.debug" "$3-debug"
cd "$output"
sha256sum "$3.tar.xz" "$3-debug.tar.xz" >"$3.sha256"
