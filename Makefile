# The only place that knows how things are built, tested and installed.
CARGO ?= cargo
PREFIX ?= /usr/local
VITALFEW = target/release/vitalfew
export REQUIRE_LIVE

.PHONY: all setup page demo test lint bench book install uninstall package deb rpm tarball test-packages clean

all: setup page
	$(CARGO) build --release --locked -p vitalfew -p runtime

# What building needs (as root it is installed; otherwise the command is printed).
setup:
	@packaging/setup.sh build

# The page, which cargo embeds if it is there. npm takes what the lock file says, and nothing runs scripts of packages.
page: web/dist/index.html
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund
web/dist/index.html: web/node_modules/.package-lock.json web/index.html web/vite.config.ts $(shell find web/src -type f)
	cd web && npm run --silent build

# Where does a compile of many small C files spend its time, and the machine meanwhile?
demo: setup page
	@packaging/setup.sh demo
	$(CARGO) build --profile demo --locked -p vitalfew -p runtime
	examples/demo.sh target/demo/vitalfew

test: setup page
	@packaging/setup.sh test
	$(CARGO) build --locked -p runtime
	$(CARGO) test --workspace --locked --no-fail-fast
	cd web && npm run --silent test && npm run --silent test:browser

lint: page
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@# Comments end at column 100, but for tables and what the answers of mcp quote.
	! LC_ALL=C.UTF-8 grep -rnP --include=*.rs '^(?=.{101}) *//' crates | grep -vE '//! \||mcp/parameters.rs'
	packaging/module_circles.py --test
	packaging/module_circles.py
	! command -v cargo-deny >/dev/null || $(CARGO) deny --log-level error check licenses bans sources
	cd web && npm run --silent check

# Packages hold one program that needs no library and runs on any distribution; what a debugger needs is apart.
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
PLATFORM = $(shell uname -m)-unknown-linux-gnu
PACKAGED ?= target/$(PLATFORM)/release
WITH_LTO = CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
target/$(PLATFORM)/release/vitalfew: setup page
	RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs" \
	CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_STRIP=none \
	$(WITH_LTO) \
		$(CARGO) build --release --locked --target $(PLATFORM) -p vitalfew
	$(WITH_LTO) \
		$(CARGO) build --release --locked -p runtime
	cp target/release/libvitalfew_runtime.so target/$(PLATFORM)/release/

package: $(PACKAGED)/vitalfew
	@packaging/setup.sh package
	rm -rf target/package target/package.debug
	packaging/stage.sh $(PACKAGED) target/package
	mkdir -p target/packages

deb: package
	$(CARGO) deb -q -p vitalfew --no-build --no-strip -o target/packages/

rpm: package
	$(CARGO) generate-rpm -p crates/cli -o target/packages/

tarball: package
	packaging/tarball.sh target/package target/packages vitalfew-$(VERSION)-$(shell uname -m)-linux

# Installs, upgrades and removes the packages on this machine, as root.
test-packages: deb rpm tarball
	packaging/test_packages.sh target/packages

# Our speed beside that of our peers, in one interleaved run.
bench: all
	@packaging/setup.sh bench
	$(CARGO) build --release --locked -p store --example week
	$(CARGO) build --release --locked -p vitalfew --example accuracy --example procedures
	benches/run.sh $(VITALFEW)

# The pages of docs/ as a site, target/book/index.html.
book:
	@command -v mdbook >/dev/null || { echo 'mdbook is missing: cargo install mdbook' >&2; exit 1; }
	mdbook build docs

# Where everything goes, below DESTDIR.
BIN = $(DESTDIR)$(PREFIX)/bin/vitalfew
LIBRARY = $(DESTDIR)$(PREFIX)/lib/vitalfew/libvitalfew_runtime.so
HEADER = $(DESTDIR)$(PREFIX)/include/vitalfew.h
MAN = $(DESTDIR)$(PREFIX)/share/man/man1
COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions/vitalfew \
	$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_vitalfew \
	$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/vitalfew.fish

# It builds nothing, so that root need not.
install:
	@test -x $(VITALFEW) || { echo 'nothing is built yet: run make, then make install' >&2; exit 1; }
	install -Dm755 $(VITALFEW) $(BIN)
	install -Dm755 $(dir $(VITALFEW))libvitalfew_runtime.so $(LIBRARY)
	install -Dm644 include/vitalfew.h $(HEADER)
	$(VITALFEW) generate man $(MAN)
	mkdir -p $(dir $(COMPLETIONS))
	set -e; set -- bash zsh fish; for file in $(COMPLETIONS); do \
		$(VITALFEW) generate completions $$1 > $$file; shift; done

# Databases stay; the daemon is stopped first by its user.
uninstall:
	rm -f $(BIN) $(LIBRARY) $(HEADER) $(COMPLETIONS) $(MAN)/vitalfew.1 $(MAN)/vitalfew-*.1
	test ! -d $(dir $(LIBRARY)) || rmdir $(dir $(LIBRARY))

clean:
	$(CARGO) clean
