#!/usr/bin/env bash
# Fetches test suites of other programs: tools/suites.sh fetch. Each suite must have the same
# results with and without `uzram run`. The suites come from Debian's source packages, and are
# unpacked below target/suites. `make setup-long` installs the programs. Maven downloads the Java
# libraries that tools/suites.xml lists.
set -euo pipefail
cd "$(dirname "$0")/.."
suites=$PWD/target/suites

# Runs a command of apt with separate lists of the source packages in the system's sources.
apt() {
  local command=$1; shift
  "$command" -qq -o Dir::State="$suites/apt" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$suites/apt" \
    -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$suites/apt/parts" -o Debug::NoLocking=1 \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

lists() {
  rm -rf "$suites/apt"
  mkdir -p "$suites/apt/lists/partial" "$suites/apt/archives/partial" "$suites/apt/parts"
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -e "$file" ] || continue
    sed -n 's/^deb /deb-src /p' "$file" > "$suites/apt/parts/$(basename "$file" .list).list"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -e "$file" ] || continue
    sed 's/^Types:.*/Types: deb-src/' "$file" > "$suites/apt/parts/$(basename "$file")"
  done
  apt apt-get update
}

# Fetches the tests of the installed version of a program, or else of its newest version.
fetch() {
  local source=$1 package=$2 version archive
  [ -d "$suites/$source" ] && return
  [ -d "$suites/apt" ] || lists
  version=$(dpkg-query -W -f '=${source:Version}' "$package" 2>/dev/null || true)
  local get="apt apt-get source --tar-only --download-only"
  (cd "$suites" && { $get "$source$version" || $get "$source"; })
  archive=$(ls -t "$suites/${source}_"*.orig.tar.* | head -1)
  rm -rf "$suites/$source.new"
  mkdir "$suites/$source.new"
  tar -xf "$archive" -C "$suites/$source.new" --strip-components=1
  mv "$suites/$source.new" "$suites/$source"
}

# Fetches Java libraries by Maven, with the tests of one library.
libraries() {
  [ -d "$suites/java" ] && return
  rm -rf "$suites/java.new"
  mkdir -p "$suites/java.new"
  # Maven writes into the directory of its project file.
  cp tools/suites.xml "$suites/java.new/pom.xml"
  (cd "$suites/java.new" && mvn -q -B -Dmaven.repo.local="$suites/maven" \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory=lib)
  mv "$suites/java.new" "$suites/java"
}

case ${1-} in
fetch) fetch redis redis-server; fetch nodejs nodejs; libraries ;;
*) echo "suites: take: fetch" >&2; exit 2 ;;
esac
