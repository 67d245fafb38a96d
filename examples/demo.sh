#!/bin/sh
# Records a compile of a real C project (Zstandard, which vitalfew itself is built with), then the
# whole machine while it compiles again, and says where the time went. As a plain user the second
# part is left out: it needs rights that 'vitalfew doctor' names.
set -eu
vitalfew=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -name 'zstd-sys-*' | sort | tail -n 1)/zstd/lib
cat >"$work/Makefile" <<EOF
SOURCES := \$(wildcard $source/common/*.c $source/compress/*.c $source/decompress/*.c $source/dictBuilder/*.c)
OBJECTS := \$(notdir \$(SOURCES:.c=.o))
VPATH := $source/common:$source/compress:$source/decompress:$source/dictBuilder
CFLAGS := -O2 -DZSTD_DISABLE_ASM
all: \$(OBJECTS)
EOF

export VITALFEW_DB="$work/db"
echo "\$ vitalfew record -- make -j2      # compiles Zstandard"
"$vitalfew" record -- make -s -C "$work" -j2
echo
echo "\$ vitalfew report"
"$vitalfew" report --limit 12
echo
echo "\$ vitalfew report --by image"
"$vitalfew" report --by image --limit 6

if "$vitalfew" record -q -a --for 10ms 2>/dev/null; then
	rm -f "$work"/*.o
	echo
	echo "\$ vitalfew record -a --for 5s     # the whole machine, while it compiles again"
	make -s -C "$work" -j2 &
	"$vitalfew" record -a --for 5s
	wait
	echo
	echo "\$ vitalfew report --by process"
	"$vitalfew" report --by process --limit 8
fi
