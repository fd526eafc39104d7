#!/usr/bin/env bash
# Fetches programs' own tests, which `uzram run` has to leave as they are: tools/suites.sh fetch. They come with Debian's source
# packages, are unpacked below target/suites and installed nowhere; the programs themselves are among `make setup-long`'s packages.
# Libraries in Java come by Maven, as tools/suites.xml lists them.
set -euo pipefail
cd "$(dirname "$0")/.."
suites=$PWD/target/suites

# A command of apt with lists of its own: the system's sources, for source packages.
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

# The tests of the version that is installed, else of the newest.
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

# Libraries in Java, with the tests of one of them, by Maven.
libraries() {
  [ -d "$suites/java" ] && return
  rm -rf "$suites/java.new"
  mkdir -p "$suites/java.new"
  # Maven writes beside the file that it is given.
  cp tools/suites.xml "$suites/java.new/pom.xml"
  (cd "$suites/java.new" && mvn -q -B -Dmaven.repo.local="$suites/maven" \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory=lib)
  mv "$suites/java.new" "$suites/java"
}

case ${1-} in
fetch) fetch redis redis-server; fetch nodejs nodejs; libraries ;;
*) echo "suites: take: fetch" >&2; exit 2 ;;
esac
