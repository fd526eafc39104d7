# make build            build the command `uzram` and the host uzram-host in target/release
# make run              build, and run `uzram fill` on the files below INPUT
# make libuzram         build the C library, shared and static, and its header in target/release/libuzram
# make python           build the Python package as a wheel in target/wheels; the first call gets maturin by pip
# make install          build, and install below PREFIX (/usr/local), optionally in DESTDIR; `make uninstall` removes the files
# make deb              build a Debian package in target/deb, and the files that `cargo deb -p uzram-cli --no-build` needs
# make setup test       install the packages that tests need, then run every test
# make ratchet          lower the maximum numbers of violations in `style` to the present numbers
# make long             run sanitizers, fuzzers (FUZZ_SECONDS each), tests on aarch64 (by qemu), larger random tests, loom at depth
#                       (at most LOOM_SECONDS per model), other projects' clients, and a soak test. Programs run at random limits
#                       for RANDOM_LIMITS_SECONDS (an hour)
# make setup-long       install the other packages that `make long` needs
# make clients          test with other projects' clients
# make soak             test a device and a pool under load for SOAK_SECONDS
# make package          build every package from its published files, which takes minutes
# make figures          write the figures of README and docs/results.md, and the chart, from bench/results
# make experiments      run the experiments of the documents that uzram implements, and report them (ARGS="--quick", ARGS="untar" ...)
# make bench            run every experiment, also with its rivals

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

# Directories of the installation. If BUILT is set, `make install` takes the command, the host and libuzram from that directory.
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
# This name must equal the name in crates/capi/link.sh.
SONAME = libuzram.so.$(firstword $(NUMBERS))$(if $(filter 0,$(firstword $(NUMBERS))),.$(word 2,$(NUMBERS)))
FROM = $(or $(BUILT),$(RELEASE))
# The command and the host are linked statically, so that they also run on systems without glibc.
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

# Packages that are not published are excluded, because the registry has other packages with these names. Files of earlier runs are
# removed, because cargo would reuse the packages of an earlier run, even if they have changed since.
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

# The tests of the engine and the tests of the front ends run at the same time, because many tests wait. The output of the front ends'
# tests follows that of the engine's tests. Tests that start make or cargo must not find this make's jobserver. `make test` must take
# less than 20 minutes on two processors, so the check for aarch64 and the models are parts of `make long`.
FRONT_ENDS = $(addprefix uzram-,cli serve)
UNSET_MAKE = unset MAKEFLAGS MFLAGS MAKELEVEL
# $(call later,NAME,COMMAND): runs the command with its output in a file, and then prints the file.
later = mkdir -p target; ($(2)) > target/$(1).log 2>&1; code=$$?; cat target/$(1).log; exit $$code
test: lint commit-subjects
	cargo test --workspace --locked --no-run
	@$(MAKE) --no-print-directory -j 2 engine-tests front-end-tests
# Both rules select targets of the whole workspace. If they selected packages, cargo would enable
# different features of the dependencies, and compile most crates again.
engine-tests:
	$(UNSET_MAKE); targets=$$(tools/test-targets.py except $(FRONT_ENDS)) && cargo test --workspace --locked --lib $$targets
	$(UNSET_MAKE); cargo test --workspace --locked --doc
front-end-tests:
	@$(UNSET_MAKE); $(call later,front-end-tests,targets=$$(tools/test-targets.py of $(FRONT_ENDS)) && cargo test --workspace --locked $$targets)

# Keeps an existing configuration file. All users can read the directories, whatever the umask is.
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

# Keeps the configuration file.
uninstall:
	rm -f "$(DESTDIR)$(BINDIR)/uzram" "$(DESTDIR)$(UNITDIR)/uzram-serve@.service" "$(DESTDIR)$(UNITDIR)/uzram-serve@.socket"
	rm -f "$(DESTDIR)$(SHAREDIR)/man/man1/uzram.1" "$(DESTDIR)$(SHAREDIR)/man/man1/"uzram-*.1
	rm -f "$(DESTDIR)$(SHAREDIR)/bash-completion/completions/uzram" "$(DESTDIR)$(SHAREDIR)/zsh/site-functions/_uzram"
	rm -f "$(DESTDIR)$(SHAREDIR)/fish/vendor_completions.d/uzram.fish"
	rm -f "$(DESTDIR)$(LIBDIR)/libuzram.so" "$(DESTDIR)$(LIBDIR)/$(SONAME)" "$(DESTDIR)$(LIBDIR)/$(SONAME)".*
	rm -f "$(DESTDIR)$(LIBDIR)/libuzram.a" "$(DESTDIR)$(LIBDIR)/pkgconfig/uzram.pc" "$(DESTDIR)$(INCLUDEDIR)/uzram.h"
	rm -rf "$(DESTDIR)$(LIBDIR)/uzram" "$(DESTDIR)$(SHAREDIR)/doc/uzram"
	$(if $(DESTDIR),,ldconfig || true)

# The function `abspath` of make does not support spaces.
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

# Checks that the workspace compiles for aarch64, where types of the C library differ, and code for
# x86-64 is absent. Only `make long` checks the crates in PORTABLE, because their many dependencies
# take long to compile.
check-aarch64:
	tools/aarch64.sh check --workspace --exclude bench --exclude style $(if $(UZRAM_LONG),,$(PORTABLE:%=--exclude uzram-%)) --locked || \
	  if [ $$? = 3 ]; then echo "check-aarch64: LEFT OUT"; else exit 1; fi

# Tests behaviour only, because the emulator has this machine's memory ordering and its page size of 4 KiB. Tests of a process's memory
# are skipped, because that memory includes the emulator's. Tests that fork are skipped, because a child may wait for a lock of the
# emulator for ever. a_killed_saver starts a program for aarch64, and every_refusal would take an hour, so they are skipped, too.
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

# These tests run one after the other, because each test needs the whole machine.
clients:
	target/tools/bin/fsx --version 2>/dev/null | grep -qx 'fsx $(FSX)' || \
	  cargo install fsx --version $(FSX) --locked --root target/tools
	cargo test --release --locked -p uzram-cli --test outside -- --ignored --test-threads=1

# Tests the claims of docs/containers.md, without a container engine.
containers: build
	tools/container.sh target/release/uzram target/release/uzram-host || [ $$? = 77 ]

# The loom models do not compress data, so the C codecs are not optimised.
loom:
	RUSTFLAGS="--cfg loom" CFLAGS=-O0 CARGO_TARGET_DIR=target/loom \
	  cargo test --profile loom --locked -p uzram-page -p uzram-slab -p uzram-zsmalloc -p uzram-zmem --lib loom

# Options of the sanitizer for zmem, which handles faults itself, on its own stacks. NOT_ZMEM skips tests that fail under a sanitizer:
# `mlock` has no effect, memory and time include the sanitizer's, and a child of `clone` waits for a
# lock of the sanitizer.
OWN_FAULTS = handle_segv=0:handle_sigbus=0:use_sigaltstack=0:detect_stack_use_after_return=0
NOT_ZMEM = --skip what_is_locked_in_part --skip what_is_locked_with_all --skip can_not_be_managed --skip memory_whose_pages \
  --skip the_resident_size --skip what_is_held_has --skip reclaim_passes_over --skip what_no_missing_thread --skip what_a_child_inherits

# Only the Rust code is instrumented, because the sanitizers of gcc and rustc do not work together. Tests of metadata and of exhausted
# mappings are skipped, because the sanitizer has memory and mappings of its own. A refused allocation returns null and does not abort.
asan: export CFLAGS = -fno-sanitize=all
asan: export ASAN_OPTIONS = allocator_may_return_null=1
asan: export LSAN_OPTIONS = suppressions=$(CURDIR)/lsan-suppressions.txt
asan:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg asan" CARGO_TARGET_DIR=target/asan \
	  cargo test --locked --target $(TARGET) $(SANITIZED:%=-p %) -p uzram-zcomp -p uzram-calls --tests -- \
	  --skip metadata_is_counted --skip memory_of_bad_clients --skip clients_that_take_no_replies --skip segments_that_are_not_taken_back
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg asan" CARGO_TARGET_DIR=target/asan \
	  ASAN_OPTIONS=$$ASAN_OPTIONS:$(OWN_FAULTS) cargo test --locked --target $(TARGET) -p uzram-zmem --tests -- $(NOT_ZMEM)

# Tests in a child are skipped, because the sanitizer can't start threads there. every_refusal is skipped, because it takes minutes.
tsan: export TSAN_OPTIONS = suppressions=$(CURDIR)/tsan-suppressions.txt:allocator_may_return_null=1
tsan:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR=target/tsan \
	  cargo test --locked --target $(TARGET) $(SANITIZED:%=-p %) --tests -- \
	  --skip a_child --skip a_fork --skip handlers_that --skip a_forgotten --skip a_stuck_store --skip segments_are_in --skip every_refusal --skip metadata_is_counted --skip memory_of_bad_clients --skip clients_that_take_no_replies \
	  --skip segments_that_are_not_taken_back

# Each run uses the corpus of earlier runs in fuzz/corpus, and adds to it.
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

# The soak test runs with all assertions enabled, as other tests do.
soak:
	SOAK_SECONDS=$(SOAK_SECONDS) cargo test --locked -p uzram-zram --test soak -- --ignored --nocapture

# The test bench/tests/figures.rs fails if a figure is out of date.
figures:
	python3 tools/figures

experiments:
	$(MAKE) build
	cargo run --release --locked -p bench -- experiments $(ARGS)

bench:
	cargo run --release --locked -p bench -- all
