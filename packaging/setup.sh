#!/bin/sh
# Installs what a part of the Makefile needs and this machine lacks. Debian and Ubuntu; elsewhere,
# or without root, it prints what to install and stops.
set -eu
part=${1:-build}

# command or file : package
build="node:nodejs npm:npm clang:clang cc:gcc make:make pkg-config:pkg-config ld:binutils \
/usr/include/libelf.h:libelf-dev /usr/include/zlib.h:zlib1g-dev"
libraries=/usr/lib/$(uname -m)-linux-gnu
case $part in
build) wanted=$build ;;
demo) wanted="cc:gcc make:make" ;;
package) wanted="objcopy:binutils rpm:rpm setcap:libcap2-bin" ;;
test) wanted="chromium:chromium addr2line:binutils clang:clang gcov:gcc llvm-cov:llvm llvm-profdata:llvm g++:g++ javac:default-jdk-headless ruby:ruby python3:python3 /usr/lib/python3/dist-packages/pip:python3-pip taskset:util-linux mkfs.ext4:e2fsprogs \
redis-server:redis-server musl-gcc:musl-tools /usr/include/gc.h:libgc-dev /usr/include/boost/context/fiber.hpp:libboost-context-dev \
$libraries/libjemalloc.so.2:libjemalloc2 $libraries/libtcmalloc.so.4:libgoogle-perftools4 \
$libraries/libtcmalloc_minimal.so.4:libtcmalloc-minimal4 $libraries/libmimalloc.so.2:libmimalloc2.0" ;;
bench) wanted="go:golang-go cc:gcc perf:linux-perf python3:python3 chrt:util-linux sqlite3:sqlite3 pbzip2:pbzip2 uftrace:uftrace \
coz:coz-profiler memcached:memcached memcslap:libmemcached-tools /usr/include/leveldb/c.h:libleveldb-dev xz:xz-utils zstd:zstd valgrind:valgrind" ;;
*) echo "setup.sh: unknown part '$part'" >&2; exit 2 ;;
esac

# Its runtime libraries are a package of their own, by version.
clang_runtime() {
	clang=$(clang -dumpversion 2>/dev/null | cut -d. -f1)
	[ -z "$clang" ] || [ -e "$(clang -print-libgcc-file-name --rtlib=compiler-rt)" ] || echo "libclang-rt-$clang-dev"
}

missing=
for entry in $wanted; do
	thing=${entry%%:*}
	package=${entry##*:}
	case $thing in
	/*) [ -e "$thing" ] || missing="$missing $package" ;;
	*) command -v "$thing" >/dev/null || missing="$missing $package" ;;
	esac
done

[ "$part" != test ] || missing="$missing $(clang_runtime)"
missing=${missing% }

if [ -n "$missing" ]; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "installing:$missing"
		apt-get update -qq
		# shellcheck disable=SC2086
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
	else
		echo "missing:$missing" >&2
		echo "run: sudo apt-get install -y --no-install-recommends$missing" >&2
		exit 1
	fi
fi
# The page's tools want a newer Node.js than some distributions have; npm's own registry has it as a package.
if [ "$part" = build ] && ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'; then
	if [ "$(id -u)" = 0 ]; then
		echo "installing: node 22 (npm)"
		npm install -g --silent node@22
		hash -r
	else
		echo "Node.js is too old for the page: run sudo npm install -g node@22" >&2
		exit 1
	fi
fi
# In tests duckdb reads a recording without our code, and mcp, the protocol's own client, asks vitalfew mcp.
for module in duckdb mcp; do
	[ "$part" = test ] || break
	python3 -c "import $module" 2>/dev/null && continue
	echo "installing: $module (Python)"
	python3 -m pip install -q "$module" 2>/dev/null ||
		python3 -m pip install -q --break-system-packages "$module" || {
		echo "run: python3 -m pip install $module" >&2
		exit 1
	}
done
# The S3 server of the tests, whose many modules stay apart from the system's.
moto=$(dirname "$0")/../target/s3-server
if [ "$part" = test ] && ! PYTHONPATH=$moto python3 -c "import moto.server" 2>/dev/null; then
	echo "installing: moto (Python, in target/s3-server)"
	python3 -m pip install -q --no-warn-conflicts --target "$moto" "moto[server]==5.2.5" || {
		echo "run: python3 -m pip install --target $moto 'moto[server]==5.2.5'" >&2
		exit 1
	}
fi
if ! command -v cargo >/dev/null; then
	echo "missing: Rust 1.90 or later; install it by rustup (https://rustup.rs) and try again" >&2
	exit 1
fi
for tool in cargo-deb cargo-generate-rpm; do
	[ "$part" != package ] || command -v $tool >/dev/null || cargo install --locked $tool
done
