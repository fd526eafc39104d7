# make run              build, and run the main job on real files (INPUT="PATH ..." for others)
# make setup test       install what tests need, then pass every test
# make long             loom models, sanitizers, larger random runs
# make bench            every experiment, beside its rivals

INPUT ?= /usr/lib /usr/share
INPUT_LIMIT ?= 2G
PACKAGES = gcc libc6-dev python3 xz-utils
TARGET = x86_64-unknown-linux-gnu
SANITIZED = page slab zsmalloc zram

.PHONY: run setup test lint long loom asan tsan bench

run:
	cargo build --release --locked -p cli
	target/release/uzram fill --input-limit $(INPUT_LIMIT) $(INPUT)

setup:
	@missing=; for package in $(PACKAGES); do \
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then echo "setup: nothing is missing"; \
	elif [ "$$(id -u)" = 0 ]; then apt-get update && apt-get install -y --no-install-recommends $$missing; \
	else echo "setup: run this as root: apt-get install -y$$missing"; fi

test: lint
	cargo test --workspace --locked

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

long: loom asan tsan
	UZRAM_LONG=1 cargo test --release --workspace --locked

loom:
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
	  cargo test --release --locked -p zsmalloc --lib loom

# gcc and rustc disagree about the C codecs: only the Rust side is instrumented.
asan: export CFLAGS = -fno-sanitize=all
asan:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/asan \
	  cargo test --locked --target $(TARGET) $(SANITIZED:%=-p %) -p zcomp --tests

tsan: export TSAN_OPTIONS = suppressions=$(CURDIR)/tsan-suppressions.txt
tsan:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR=target/tsan \
	  cargo test --locked --target $(TARGET) $(SANITIZED:%=-p %) --tests -- threads stress

bench:
	cargo run --release --locked -p bench -- all
