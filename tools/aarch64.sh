#!/usr/bin/env bash
# Runs cargo for aarch64 on a machine of another architecture: tools/aarch64.sh check ...,
# tools/aarch64.sh test ... (under qemu). Exits with 3 if no compiler for aarch64 is available.
# tools/aarch64.sh fetch downloads a compiler, and `fetch qemu` also the emulator. If rustup has the
# target's library (rustup target add aarch64-unknown-linux-gnu), rustup's compiler is used.
# Otherwise Debian's compiler is downloaded, with the libraries of both machines (126 MB). If the
# system's qemu is too old, a newer qemu is downloaded (63 MB). Downloads are unpacked below
# target/aarch64/tools, but not installed. `make setup` installs the C compiler for aarch64.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=aarch64-unknown-linux-gnu
RUST=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
QEMU=10 # Version 7.2 aborts if a child starts threads.
tools=$PWD/target/aarch64/tools
LIBRARIES=usr/lib/x86_64-linux-gnu

has_rustup_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$TARGET/lib" ]; }

has_rust() { has_rustup_target || [ -d "$tools/rust/usr/lib/rustlib/$TARGET/lib" ]; }

# Prints the path of a qemu that is new enough: the system's, or else the unpacked one.
qemu() {
  local path version
  for path in "$(command -v qemu-aarch64 || true)" "$tools/qemu/usr/bin/qemu-aarch64"; do
    [ -x "$path" ] || continue
    version=$(LD_LIBRARY_PATH=$tools/qemu/$LIBRARIES "$path" --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
    if [ "${version:-0}" -ge "$QEMU" ]; then echo "$path"; return; fi
  done
  return 1
}

# Runs a command of apt for both machines, with package lists and archives apart from the system's.
apt() {
  local command=$1; shift
  "$command" -qq -o Dir::State="$tools/apt" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$tools/apt" \
    -o Dir::Etc::sourcelist="$tools/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Debug::NoLocking=1 \
    -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o APT::Sandbox::User="$(id -un)" "$@"
}

# Downloads packages, and the dependencies that the system lacks.
download() { apt apt-get install --download-only --reinstall --no-install-recommends -y "$@"; }

lists() {
  . /etc/os-release
  if [ "${ID-}" != debian ] || [ "$(dpkg --print-architecture)" != amd64 ]; then
    echo "aarch64: rustup target add $TARGET, and qemu-user of $QEMU or later, are what it takes here"; return 1
  fi
  rm -rf "$tools/apt"
  mkdir -p "$tools/apt/lists/partial" "$tools/apt/archives/partial"
  # The system's own package sources, and the backports of its release.
  local signed="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" site suite
  apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' 'Component: main' | sort -u |
    while read -r site suite; do
      case $suite in
        "$VERSION_CODENAME") printf 'deb %s %s %s main\n' "$signed" "$site" "$suite" "$signed" "$site" "$suite-backports" ;;
        "$VERSION_CODENAME"-security) printf 'deb %s %s %s main\n' "$signed" "$site" "$suite" ;;
      esac
    done > "$tools/apt/sources.list"
  apt apt-get update || true # If a suite is missing, the script fails later, when it does not find a package.
}

# Unpacks the downloaded packages into a directory, which gets its final name when it is complete.
unpack() {
  local package
  rm -rf "$1" "$1.new"; mkdir "$1.new"
  for package in "$tools"/apt/archives/*.deb; do dpkg -x "$package" "$1.new"; done
  find "$1.new/usr/bin" -name 'qemu-*' ! -name qemu-aarch64 -delete
  rm -rf "$1.new/usr/share" "$tools/apt"
  mv "$1.new" "$1"
}

fetch_rust() {
  local name version
  lists
  for name in rustc-web rustc; do # Browsers are built with rustc-web, so each stable release has a new version of it.
    version=$(apt apt-cache policy $name | sed -n 's/^ *Candidate: //p')
    if dpkg --compare-versions "${version/(none)/}" ge "$RUST"; then
      download "$name" "libstd-${name/c/}-dev"
      (cd "$tools/apt/archives" && apt apt-get download "libstd-${name/c/}-dev:arm64")
      unpack "$tools/rust"
      return
    fi
  done
  echo "aarch64: there is no rustc of $RUST or later in Debian $VERSION_CODENAME"; return 1
}

fetch_qemu() {
  lists
  download -t "$VERSION_CODENAME-backports" qemu-user || download qemu-user
  unpack "$tools/qemu"
}

# Writes a script that runs an unpacked command with its unpacked libraries.
wrap() {
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$2/$LIBRARIES" "$3" > "$1"
  chmod +x "$1"
}

# Writes a script that replaces the C compiler. The script answers queries about the compiler, but
# compiles each source to an empty object.
empty_objects() {
  printf '%s\n' '#!/bin/sh' 'for last; do' '  case $last in -c) is_object=1 ;; esac' \
    '  [ "${before-}" != -o ] || output=$last' '  before=$last' 'done' \
    'if [ "${is_object-}" ] && [ "${output-}" ]; then : > "$output"; else exec aarch64-linux-gnu-gcc "$@"; fi' > "$1"
  chmod +x "$1"
}

mkdir -p "$tools"
if [ "$1" = fetch ]; then
  has_rust || fetch_rust
  [ "${2-}" != qemu ] || qemu >/dev/null || fetch_qemu
  exit
fi
if ! has_rust || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
  echo "aarch64: there is no compiler for it: 'make setup' gets one"; exit 3
fi
if ! has_rustup_target; then
  export RUSTC=$tools/rustc
  wrap "$RUSTC" "$tools/rust" "$tools/rust/usr/bin/rustc"
fi
if [ "$1" = test ]; then
  emulator=$(qemu) || { echo "aarch64: no qemu-aarch64 of $QEMU or later: 'tools/aarch64.sh fetch qemu' gets one"; exit 1; }
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$tools/run
  # A test program is killed after half an hour.
  wrap "$tools/run" "$tools/qemu" "timeout -k 9 1800 $emulator -L /usr/aarch64-linux-gnu -U LD_LIBRARY_PATH"
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_DIR=target/aarch64 CARGO_BUILD_TARGET=$TARGET
if [ "$1" = check ]; then
  # A check links nothing, so objects of the C codecs may be empty. A separate target directory
  # keeps these empty objects out of the tests.
  export CARGO_TARGET_DIR=target/aarch64/check CC_aarch64_unknown_linux_gnu=$tools/cc
  empty_objects "$tools/cc"
fi
exec cargo "$@"
