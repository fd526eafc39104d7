# make build            the command and the host of programs, in target/release
# make run              build, and run the main job on real files (INPUT="PATH ..." for others)
# make libuzram         the library for C, shared and static, with its header, in target/release/libuzram
# make python           the package for Python, as a wheel in target/wheels (gets maturin by pip, once)
# make install          build, and install below PREFIX (/usr/local), in DESTDIR if that is given; make uninstall removes that
# make deb              a Debian package, in target/deb, and the files from which `cargo deb -p uzram-cli --no-build` makes one
# make setup test       install the packages that tests need, then run every test
# make ratchet          lower the counts of faults in the tables of `style`, so that they do not grow again
# make long             sanitizers, fuzzing (FUZZ_SECONDS each), the tests on aarch64 (by qemu), larger random runs, loom at depth
#                       (LOOM_SECONDS a model at most), other projects' clients, and a soak. Programs run at random limits for
#                       RANDOM_LIMITS_SECONDS, an hour
# make setup-long       install the other packages that make long needs
# make clients          other projects' clients, of many sizes and depths
# make soak             a device and a pool under load for SOAK_SECONDS
# make package          build every package from its published files (minutes)
# make figures          write the figures of README and docs/results.md, and the picture, from bench/results
# make experiments      the experiments of the documents that uzram implements, with a report (ARGS="--quick", ARGS="untar" ...)
# make bench            every experiment, beside its rivals

INPUT ?= /usr/lib /usr/share
INPUT_LIMIT ?= 2G
PACKAGES = gcc g++ libc6-dev libsqlite3-dev pkg-config python3 python3-numpy python3-venv xz-utils \
  nbdkit libnbd-bin python3-libnbd qemu-utils fio fuse3 e2fsprogs mount \
  gcc-aarch64-linux-gnu libc6-dev-arm64-cross
LONG_PACKAGES = xfsprogs redis-server tcl golang-go musl-tools postgresql openjdk-17-jdk-headless maven
FSX = 0.3.2
TARGET = x86_64-unknown-linux-gnu
SANITIZED = $(addprefix uzram-,page slab zsmalloc zram serve)
PORTABLE = cli measure python
FUZZED = pool entries device codec nbd saved pager
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 3600
LOOM_SECONDS ?= 300

# Directories of the installation. BUILT, if given, is a directory with the command, the host and libuzram that were built before.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
BINDIR = $(PREFIX)/bin
LIBDIR = $(PREFIX)/lib
INCLUDEDIR = $(PREFIX)/include
SHAREDIR = $(PREFIX)/share
UNITDIR = $(LIBDIR)/systemd/system
RELEASE = $(or $(CARGO_TARGET_DIR),target)/release
DEB = $(or $(CARGO_TARGET_DIR),target)/deb
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
NUMBERS = $(subst ., ,$(VERSION))
# The same name as in crates/capi/link.sh.
SONAME = libuzram.so.$(firstword $(NUMBERS))$(if $(filter 0,$(firstword $(NUMBERS))),.$(word 2,$(NUMBERS)))
FROM = $(or $(BUILT),$(RELEASE))
# Linked statically, the command and the host also run on systems without glibc.
STATIC = cargo rustc --release --locked -p uzram-cli --bin $(1) -- -C target-feature=+crt-static
COMMANDS = $(if $(filter x86_64,$(shell uname -m)),$(call STATIC,uzram) && $(call STATIC,uzram-host),cargo build --release --locked -p uzram-cli)
LINK_LIBUZRAM = crates/capi/link.sh "$(FROM)/libuzram_capi.a" "$(FROM)/libuzram"

.PHONY: build install uninstall deb run libuzram python package setup setup-long test engine-tests front-end-tests ratchet lint commit-subjects check-aarch64 aarch64 long clients containers loom asan tsan fuzz soak figures experiments bench

build:
	$(COMMANDS)

run: build
	target/release/uzram fill --input-limit $(INPUT_LIMIT) $(INPUT)

libuzram:
	$(if $(BUILT),,cargo build --release --locked -p uzram-capi)
	$(LINK_LIBUZRAM)

python: target/python/bin/maturin
	target/python/bin/maturin build --release --locked --out target/wheels

target/python/bin/maturin:
	python3 -m venv target/python
	target/python/bin/pip install --quiet 'maturin>=1.9,<2'

# Packages that are not published are excluded, because the registry's packages with these names are others. Files of earlier runs
# are removed, because cargo would use packages again that it unpacked and built, even if they have changed since.
package: export CARGO_TARGET_DIR = target/packages
package:
	rm -rf target/packages "$${CARGO_HOME:-$$HOME/.cargo}"/registry/*/-*/uzram*
	cargo package --workspace --exclude bench --exclude style --exclude testkit --exclude uzram-python --locked --allow-dirty

setup:
	@missing=; for package in $(PACKAGES); do \
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then echo "setup: nothing is missing"; \
	elif [ "$$(id -u)" = 0 ]; then apt-get update && apt-get install -y --no-install-recommends $$missing; \
	else echo "setup: run this as root: apt-get install -y$$missing"; fi
	@tools/aarch64.sh fetch || echo "setup: no compiler for aarch64 could be had; make test leaves that check out"

setup-long: PACKAGES += $(LONG_PACKAGES)
setup-long: setup
	@tools/suites.sh fetch || echo "setup-long: no tests of other programs could be had; make long leaves them out"

# Many tests wait for a time or a process, so two jobs share the processors: the tests of the engine, and those of the front ends. The
# output of the second follows that of the first. Tests that start make or cargo must not find this make's jobserver. The check for
# aarch64 and the models are parts of `make long`, because all of this must take less than 20 minutes on two processors.
FRONT_ENDS = $(addprefix uzram-,cli serve)
UNSET_MAKE = unset MAKEFLAGS MFLAGS MAKELEVEL
# $(call later,NAME,COMMAND): runs the command with its output in a file, and prints the file after it.
later = mkdir -p target; ($(2)) > target/$(1).log 2>&1; code=$$?; cat target/$(1).log; exit $$code
test: lint commit-subjects
	cargo test --workspace --locked --no-run
	@$(MAKE) --no-print-directory -j 2 engine-tests front-end-tests
# Both select targets of the whole workspace, because a selection of packages has other features, and builds most of it again.
engine-tests:
	$(UNSET_MAKE); targets=$$(tools/test-targets.py except $(FRONT_ENDS)) && cargo test --workspace --locked --lib $$targets
	$(UNSET_MAKE); cargo test --workspace --locked --doc
front-end-tests:
	@$(UNSET_MAKE); $(call later,front-end-tests,targets=$$(tools/test-targets.py of $(FRONT_ENDS)) && cargo test --workspace --locked $$targets)

# An existing configuration file is kept. Directories are readable by all users, whatever the umask is.
INSTALL = umask 022; install
install:
	$(if $(BUILT),,cargo build --release --locked -p uzram-capi)
	$(if $(BUILT),,$(COMMANDS))
	$(if $(BUILT),,$(LINK_LIBUZRAM))
	$(INSTALL) -d "$(DESTDIR)$(BINDIR)" "$(DESTDIR)$(LIBDIR)/uzram" "$(DESTDIR)$(UNITDIR)" "$(DESTDIR)$(SYSCONFDIR)" \
	  "$(DESTDIR)$(LIBDIR)/pkgconfig" "$(DESTDIR)$(INCLUDEDIR)" "$(DESTDIR)$(SHAREDIR)/doc/uzram"
	$(INSTALL) -m 755 "$(FROM)/uzram" "$(DESTDIR)$(BINDIR)/uzram"
	$(INSTALL) -m 755 "$(FROM)/uzram-host" "$(DESTDIR)$(LIBDIR)/uzram/uzram-host"
	$(INSTALL) -m 644 "$(FROM)/libuzram/lib/libuzram.so.$(VERSION)" "$(FROM)/libuzram/lib/libuzram.a" "$(DESTDIR)$(LIBDIR)"
	ln -sf libuzram.so.$(VERSION) "$(DESTDIR)$(LIBDIR)/$(SONAME)"
	ln -sf $(SONAME) "$(DESTDIR)$(LIBDIR)/libuzram.so"
	$(INSTALL) -m 644 "$(FROM)/libuzram/include/uzram.h" "$(DESTDIR)$(INCLUDEDIR)/uzram.h"
	sed 's|^prefix=.*|prefix=$(PREFIX)|' "$(FROM)/libuzram/lib/pkgconfig/uzram.pc" | \
	  install -m 644 /dev/stdin "$(DESTDIR)$(LIBDIR)/pkgconfig/uzram.pc"
	umask 022; "$(DESTDIR)$(BINDIR)/uzram" generate "$(DESTDIR)$(SHAREDIR)"
	sed 's|@BINDIR@|$(BINDIR)|; s|@SYSCONFDIR@|$(SYSCONFDIR)|g' packaging/uzram-serve@.service.in | \
	  install -m 644 /dev/stdin "$(DESTDIR)$(UNITDIR)/uzram-serve@.service"
	$(INSTALL) -m 644 packaging/uzram-serve@.socket "$(DESTDIR)$(UNITDIR)/uzram-serve@.socket"
	$(INSTALL) -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT packaging/uzram.conf "$(DESTDIR)$(SHAREDIR)/doc/uzram"
	test -e "$(DESTDIR)$(SYSCONFDIR)/uzram.conf" || test -L "$(DESTDIR)$(SYSCONFDIR)/uzram.conf" || \
	  install -m 644 packaging/uzram.conf "$(DESTDIR)$(SYSCONFDIR)/uzram.conf"
	$(if $(DESTDIR),,ldconfig || echo "install: run ldconfig as root, so that programs find libuzram")

# The configuration is kept.
uninstall:
	rm -f "$(DESTDIR)$(BINDIR)/uzram" "$(DESTDIR)$(UNITDIR)/uzram-serve@.service" "$(DESTDIR)$(UNITDIR)/uzram-serve@.socket"
	rm -f "$(DESTDIR)$(SHAREDIR)/man/man1/uzram.1" "$(DESTDIR)$(SHAREDIR)/man/man1/"uzram-*.1
	rm -f "$(DESTDIR)$(SHAREDIR)/bash-completion/completions/uzram" "$(DESTDIR)$(SHAREDIR)/zsh/site-functions/_uzram"
	rm -f "$(DESTDIR)$(SHAREDIR)/fish/vendor_completions.d/uzram.fish"
	rm -f "$(DESTDIR)$(LIBDIR)/libuzram.so" "$(DESTDIR)$(LIBDIR)/$(SONAME)" "$(DESTDIR)$(LIBDIR)/$(SONAME)".*
	rm -f "$(DESTDIR)$(LIBDIR)/libuzram.a" "$(DESTDIR)$(LIBDIR)/pkgconfig/uzram.pc" "$(DESTDIR)$(INCLUDEDIR)/uzram.h"
	rm -rf "$(DESTDIR)$(LIBDIR)/uzram" "$(DESTDIR)$(SHAREDIR)/doc/uzram"
	$(if $(DESTDIR),,ldconfig || true)

# `abspath` of make does not support spaces.
deb:
	$(if $(word 2,$(abspath $(DEB))),$(error deb: the path '$(DEB)' has spaces; set CARGO_TARGET_DIR to one without))
	rm -rf "$(DEB)/root"
	$(MAKE) install DESTDIR="$(abspath $(DEB)/root)" PREFIX=/usr SYSCONFDIR=/etc
	tools/deb.sh "$(DEB)/root" $(VERSION) "$(DEB)"

ratchet:
	UZRAM_RATCHET=lower cargo test -p style --locked

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --profile test --locked -- -D warnings

commit-subjects:
	tools/commit-subjects.py --self-test
	tools/commit-subjects.py

# Checks the types of the C library on another processor, and the code that is only for x86-64. The command and the crates that
# measure have no such code, but most of the dependencies, so only `make long` checks them.
check-aarch64:
	tools/aarch64.sh check --workspace --exclude bench --exclude style $(if $(UZRAM_LONG),,$(PORTABLE:%=--exclude uzram-%)) --locked || \
	  if [ $$? = 3 ]; then echo "check-aarch64: LEFT OUT"; else exit 1; fi

# Tests behaviour only, because the emulator has this machine's memory ordering and its page size of 4 KiB. Skipped are tests of a
# process's memory, which includes the emulator's, and the one that starts a program for aarch64 (the killed saver). Tests that fork
# are skipped because a child may be left with a lock of the emulator for ever. The refusals of every request would take an hour.
aarch64:
	UZRAM_LONG=1 $(MAKE) check-aarch64
	tools/aarch64.sh fetch qemu
	tools/aarch64.sh test --locked $(SANITIZED:%=-p %) -p uzram-zcomp -p uzram-calls --tests -- \
	  --skip metadata_is_counted --skip pools_go_with_their_objects --skip memory_of_bad_clients --skip clients_that_take_no_replies \
	  --skip a_killed_saver --skip what_is_left_is_known --skip child --skip handlers_that --skip fork --skip a_stuck_store_holds --skip every_refusal

long: asan tsan fuzz aarch64 package
	UZRAM_LONG=1 cargo test --release --workspace --locked
	UZRAM_LONG=1 LOOM_MAX_DURATION=$(LOOM_SECONDS) $(MAKE) loom
	UZRAM_LONG=1 $(MAKE) clients
	$(MAKE) containers
	$(MAKE) soak

# The tests run one after the other, because each needs the whole machine.
clients:
	target/tools/bin/fsx --version 2>/dev/null | grep -qx 'fsx $(FSX)' || \
	  cargo install fsx --version $(FSX) --locked --root target/tools
	cargo test --release --locked -p uzram-cli --test outside -- --ignored --test-threads=1

# Tests the claims of docs/containers.md, without a container engine.
containers: build
	tools/container.sh target/release/uzram target/release/uzram-host || [ $$? = 77 ]

# The models do not compress data, so the C codecs are not optimised.
loom:
	RUSTFLAGS="--cfg loom" CFLAGS=-O0 CARGO_TARGET_DIR=target/loom \
	  cargo test --profile loom --locked -p uzram-page -p uzram-slab -p uzram-zsmalloc -p uzram-zmem --lib loom

# zmem handles faults itself, on stacks of its own. Under a sanitizer, `mlock` has no effect, and memory and time include the sanitizer's.
# A process that `clone` makes beside other threads waits for a lock of the sanitizer.
OWN_FAULTS = handle_segv=0:handle_sigbus=0:use_sigaltstack=0:detect_stack_use_after_return=0
NOT_ZMEM = --skip what_is_locked_in_part --skip what_is_locked_with_all --skip can_not_be_managed --skip memory_whose_pages \
  --skip the_resident_size --skip what_is_held_has --skip reclaim_passes_over --skip what_no_missing_thread --skip what_a_child_inherits

# Only the Rust code is instrumented, because gcc and rustc disagree about the C codecs. Skipped are tests of metadata and of exhausted
# mappings, because the sanitizer has memory and mappings of its own. A refused allocation returns an error, and does not abort.
asan: export CFLAGS = -fno-sanitize=all
asan: export ASAN_OPTIONS = allocator_may_return_null=1
asan: export LSAN_OPTIONS = suppressions=$(CURDIR)/lsan-suppressions.txt
asan:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg asan" CARGO_TARGET_DIR=target/asan \
	  cargo test --locked --target $(TARGET) $(SANITIZED:%=-p %) -p uzram-zcomp -p uzram-calls --tests -- \
	  --skip metadata_is_counted --skip memory_of_bad_clients --skip clients_that_take_no_replies --skip segments_that_are_not_taken_back
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg asan" CARGO_TARGET_DIR=target/asan \
	  ASAN_OPTIONS=$$ASAN_OPTIONS:$(OWN_FAULTS) cargo test --locked --target $(TARGET) -p uzram-zmem --tests -- $(NOT_ZMEM)

# Skipped are tests in a child, because the sanitizer can't start threads there, and the refusals of every request, which take minutes.
tsan: export TSAN_OPTIONS = suppressions=$(CURDIR)/tsan-suppressions.txt:allocator_may_return_null=1
tsan:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR=target/tsan \
	  cargo test --locked --target $(TARGET) $(SANITIZED:%=-p %) --tests -- \
	  --skip a_child --skip a_fork --skip handlers_that --skip a_forgotten --skip a_stuck_store --skip segments_are_in --skip every_refusal --skip metadata_is_counted --skip memory_of_bad_clients --skip clients_that_take_no_replies \
	  --skip segments_that_are_not_taken_back

# The corpus of earlier runs is kept and grown in fuzz/corpus.
fuzz: export CFLAGS = -fno-sanitize=all
fuzz: export LSAN_OPTIONS = suppressions=$(CURDIR)/lsan-suppressions.txt
fuzz: export RUSTC_BOOTSTRAP = 1
fuzz:
	@command -v c++ >/dev/null || { echo "fuzz: the fuzzer's runtime is C++: install g++"; exit 1; }
	cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --version 0.13.2 --locked
	for target in $(FUZZED); do \
	  cargo fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=20 -max_len=1024 -len_control=0 \
	    -print_final_stats=1 || exit 1; \
	done

# All assertions are enabled, as in all tests.
soak:
	SOAK_SECONDS=$(SOAK_SECONDS) cargo test --locked -p uzram-zram --test soak -- --ignored --nocapture

# `bench/tests/figures.rs` fails if a figure is out of date.
figures:
	python3 tools/figures

experiments:
	$(MAKE) build
	cargo run --release --locked -p bench -- experiments $(ARGS)

bench:
	cargo run --release --locked -p bench -- all
