#!/bin/sh
# Lays out what a package holds: packaging/stage.sh BUILT DIRECTORY [PREFIX], e.g. target/release target/package /usr.
set -eu
built=$1
prefix=${3:-/usr}
root=$2$prefix
here=$(dirname "$(realpath "$0")")/..
cd "$here"

put() { # MODE FILE DESTINATION
	install -Dm"$1" "$2" "$root/$3"
}
put 755 "$built/vitalfew" bin/vitalfew
put 755 "$built/libvitalfew_runtime.so" lib/vitalfew/libvitalfew_runtime.so
put 755 packaging/grant-group.sh lib/vitalfew/grant-group
put 644 include/vitalfew.h include/vitalfew.h
mkdir -p "$root/lib/systemd/system" "$root/share/man/man1"
sed "s#/usr/local/bin#$prefix/bin#" packaging/vitalfew.service >"$root/lib/systemd/system/vitalfew.service"

vitalfew=$root/bin/vitalfew
"$vitalfew" generate man "$root/share/man/man1"
gzip -9nf "$root"/share/man/man1/*.1
completion() { # SHELL DESTINATION
	mkdir -p "$(dirname "$root/share/$2")"
	"$vitalfew" generate completions "$1" >"$root/share/$2"
}
completion bash bash-completion/completions/vitalfew
completion zsh zsh/vendor-completions/_vitalfew
completion fish fish/vendor_completions.d/vitalfew.fish

doc=share/doc/vitalfew
for file in README.md CHANGELOG.md LICENSE LICENSE-APACHE LICENSE-MIT; do
	put 644 "$file" "$doc/$file"
done
for file in $(git ls-files docs 2>/dev/null || find docs -type f); do
	put 644 "$file" "$doc/$file"
done
packaging/licences.py | gzip -9n >"$root/$doc/THIRD-PARTY.gz"

# What a debugger needs is apart.
mkdir -p "$2.debug"
objcopy --only-keep-debug --compress-debug-sections "$vitalfew" "$2.debug/vitalfew.debug"
strip "$vitalfew" "$root/lib/vitalfew/libvitalfew_runtime.so"
objcopy --add-gnu-debuglink="$2.debug/vitalfew.debug" "$vitalfew"
